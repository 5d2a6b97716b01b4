"""The synthetic benchmark: every method fitted, scored and tabled, each result in its file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geocfm.data.synthetic_settings import REFERENCE_SIZE
from geocfm.evaluation.benchmark.bench import FIGURES, METHODS_FOLDER, Bench
from geocfm.evaluation.benchmark.figures import draw_figures
from geocfm.evaluation.benchmark.methods import GROUPS, HEAD, METHODS, ORACLES, title_of
from geocfm.evaluation.benchmark.paper import METRICS, SYNTHETIC, Metric
from geocfm.evaluation.benchmark.protocol import write_json
from geocfm.evaluation.benchmark.result_files import (
    MethodResult,
    Value,
    load_pictures,
    load_result,
    plain,
    save_result,
)
from geocfm.evaluation.benchmark.scoring import (
    CURVE_AREAS,
    chamfer_of,
    metric_choices,
    score_method,
)
from geocfm.evaluation.benchmark.tables import (
    Cell,
    Estimate,
    Group,
    Row,
    Table,
    best_of,
    counted,
    over_images,
    without_value,
)
from geocfm.geo.writing import atomic_path
from geocfm.versions import software_versions

TRAINED = ("unet-seg", "unet-density", "geocfm")  # by gradient steps, all for the same minutes
LAST = (*TRAINED, HEAD)  # the head after the flow, whose network it is of
WORTH_SAYING = 0.01  # of the seconds of fitting, spent waiting for data
CALIBRATED = ("uniform", "global-kde")  # rows that learn nothing: they tell of the generator


def run_synthetic(bench: Bench, keys: Sequence[str]) -> None:
    """Fit and score what is not there yet; write and print the table."""
    run_methods(bench, keys)
    results = results_there(bench)
    table = main_table(list(results.values())).of_images(bench.settings.size)
    folder = bench.folder
    write_text(folder / "table.md", table.markdown())
    content = {
        **record(bench),
        "table": table.content(),
        "paper": SYNTHETIC,
        "methods": {key: result.model_dump(mode="json") for key, result in results.items()},
    }
    pictures = {key: load_pictures(folder / METHODS_FOLDER, key) for key in results}
    shown = {key: picture for key, picture in pictures.items() if picture is not None}
    for path, said in draw_figures(folder / FIGURES, bench.test_images, results, shown):
        bench.reporter.wrote("figure", path, said)
    write_json(folder / "synthetic.json", content)
    bench.reporter.report("table", table.content())
    bench.reporter.wrote("table", folder / "table.md", "the paper's Table 1 with our numbers")
    bench.reporter.wrote("benchmark", folder / "synthetic.json", "all values, settings and times")


def run_methods(bench: Bench, keys: Sequence[str]) -> dict[str, MethodResult]:
    """The results of methods, taken from their files or made now."""
    there = {key: bench.result(key) for key in keys}
    missing = [key for key in keys if there[key] is None]
    _announce(bench, missing, len(keys) - len(missing))
    for key in sorted(missing, key=lambda key: (key in LAST, METHODS.index(key))):
        there[key] = _run_method(bench, key)
    return {key: result for key, result in there.items() if result is not None}


def results_there(bench: Bench) -> dict[str, MethodResult]:
    """Every result of these settings in the folder, whichever run made it, in the table's order."""
    folder = bench.folder / METHODS_FOLDER
    there = {key: load_result(folder, key, bench.settings) for key in METHODS}
    found = {key: result for key, result in there.items() if result is not None}
    for key, result in found.items():
        if bench.outdated(result):
            bench.reporter.note(
                f"{result.title} is left out: it was scored with another network than the one that "
                f"is there now. Score it again with --methods {key}."
            )
    return {key: result for key, result in found.items() if not bench.outdated(result)}


def _announce(bench: Bench, missing: Sequence[str], there: int) -> None:
    if there:
        bench.reporter.note(f"{there} of the methods are there already, from an earlier run.")
    trained = [key for key in TRAINED if key in missing]
    if trained:
        names = ", ".join(map(title_of, trained))
        bench.reporter.note(
            f"{names}: {counted(bench.settings.minutes, 'minute')} of training each, unless their "
            "weights are there."
        )


def _run_method(bench: Bench, key: str) -> MethodResult:
    """Fit, score and write one method."""
    settings, reporter, title = bench.settings, bench.reporter, title_of(key)
    fitted = bench.fitted(key)
    start = time.monotonic()
    scores = score_method(
        fitted.method,
        bench.test_images,
        bench.test_seeds,
        settings.draws,
        settings.seed,
        bench.device,
        reporter.stage(f"Scoring {title}"),
    )
    learned: list[float] = []
    if key not in ORACLES:
        learned = chamfer_of(
            fitted.method,
            bench.learned_images(),
            bench.learned_count,
            settings.draws,
            settings.seed,
            bench.device,
            reporter.stage(f"Training images with {title}"),
        )
    result = MethodResult(
        key=key,
        title=title,
        settings=settings,
        versions=software_versions(),
        machine=bench.machine(),
        method={**fitted.facts, "capture_curve": _curve(scores.curve)},
        fit_seconds=fitted.seconds,
        score_seconds=time.monotonic() - start,
        image_seeds=bench.test_seeds,
        points=scores.points,
        values={metric: plain(values) for metric, values in scores.values.items()},
        train_cd=plain(learned),
    )
    save_result(bench.folder / METHODS_FOLDER, result, scores.pictures)
    reporter.note(f"{title}: {_in_short(result)}")
    return result


def _curve(captured: NDArray[np.float64]) -> dict[str, list[Value]]:
    """The mean capture curve over the test images, for the records and the figure."""
    return {
        "area_share": plain(CURVE_AREAS.round(6)),
        "captured_share": plain(captured.round(6)),
    }


def _in_short(result: MethodResult) -> str:
    shown = [m for m in METRICS if m.key in ("cd", "f5", "nll")]
    parts = [f"{m.title} {over_images(result.values[m.key]).text(m.digits)}" for m in shown]
    return f"{', '.join(parts)} ({result.fit_seconds + result.score_seconds:.0f} s)"


def main_table(results: Sequence[MethodResult]) -> Table:
    """The paper's Table 1: its rows and groups, ours after them; oracles are never the best."""
    found = {result.key: result for result in results}
    rivals = [key for key in METHODS if key in found and key not in ORACLES]
    best = {metric.key: _best(metric, rivals, found) for metric in METRICS}
    groups = []
    for name, keys in GROUPS.items():
        rows = [_row(found[key], best) for key in keys if key in found]
        if rows:
            groups.append(Group(name, tuple(rows)))
    return Table(
        "Synthetic benchmark (paper, Table 1)",
        ("method", *(metric.heading for metric in METRICS)),
        tuple(groups),
        tuple(_notes(found)),
    )


def _best(metric: Metric, rivals: Sequence[str], found: dict[str, MethodResult]) -> str | None:
    estimates = [over_images(found[key].values[metric.key]) for key in rivals]
    place = best_of(estimates, lower_is_better=metric.lower_is_better)
    return None if place is None else rivals[place]


def _row(result: MethodResult, best: dict[str, str | None]) -> Row:
    cells = []
    for metric in METRICS:
        reported = SYNTHETIC.get(result.key, {}).get(metric.key)
        paper = Estimate(*reported, count=1).text(metric.digits) if reported else ""
        ours = over_images(result.values[metric.key]).text(metric.digits)
        cells.append(Cell(ours, paper, best=best[metric.key] == result.key))
    return Row(result.title, tuple(cells))


def _notes(found: dict[str, MethodResult]) -> list[str]:
    settings = next(iter(found.values())).settings
    notes = [
        f"Mean ± standard error over {settings.images} test images of {settings.size} px, each the "
        f"mean over {settings.draws} draws of as many points as were observed. Best of the methods "
        "in bold.",
        f"Preset {settings.preset}, seed {settings.seed}, {counted(settings.minutes, 'minute')} of "
        "training for each network; NLL in nats per point and px².",
    ]
    if settings.size == REFERENCE_SIZE:
        notes += [_calibration(found[key]) for key in CALIBRATED if key in found]
    if "geocfm" in found:
        values, sampling = found["geocfm"].values, settings.settings.sampling
        pooled, inside = over_images(values["top5_kde"]), over_images(values["mass"])
        whole = over_images(values["integral"])
        notes.append(
            f"GeoCFM: Top-5 % by a KDE of its pooled draws {pooled.text(3)}; of its flow "
            f"{inside.mean:.4f} lies inside the image, and its exact density sums to "
            f"{whole.mean:.4f} there. It is drawn by {sampling.solver}, {sampling.steps} steps."
        )
    if "bayes" in found:
        error = over_images(found["bayes"].values["nll_monte_carlo_error"]).mean
        notes.append(
            f"Bayes: {settings.bayes_redraws} redraws of the latents, Monte-Carlo error of one "
            f"image's NLL {error:.4f} on average. It bounds exact NLL and Top-5 % in "
            "expectation; CD and F@5 can be beaten by a sharper density."
        )
    for result in found.values():
        notes += missing_notes(result.title, result.values, METRICS)
    spent = "; ".join(_fitting(result) for result in found.values() if result.fit_seconds)
    return [*notes, f"Fitting took: {spent}."] if spent else notes


def _fitting(result: MethodResult) -> str:
    """GeoCFM 600 s, 740 iterations; and what it waited for data, if that is worth a word."""
    said = f"{result.title} {result.fit_seconds:.0f} s"
    if "iterations" in result.method:
        said += f", {result.method['iterations']} iterations"
    waited = result.method.get("seconds_waiting_for_data", 0.0) / result.fit_seconds
    return f"{said}, {waited:.0%} of it waiting for data" if waited > WORTH_SAYING else said


def missing_notes(
    row: str, values: Mapping[str, Sequence[Value]], metrics: Sequence[Metric]
) -> list[str]:
    """What to say of a row some of whose images have no value: its mean is over the others."""
    counts = [(metric, without_value(values[metric.key])) for metric in metrics]
    return [
        f"{row}: {count} {'image' if count == 1 else 'images'} without a value of {metric.title}."
        for metric, count in counts
        if count
    ]


def _calibration(result: MethodResult) -> str:
    parts = [
        f"{m.title} {over_images(result.values[m.key]).text(m.digits)} "
        f"({SYNTHETIC[result.key][m.key][0]:.{m.digits}f})"
        for m in METRICS
        if m.key in ("cd", "f5", "kde_nll")
    ]
    return f"Calibration of the generator, {result.title}: {', '.join(parts)}."


def record(bench: Bench) -> dict[str, Any]:
    """What every result of a benchmark says of how it was made."""
    return {
        "settings": bench.settings.model_dump(mode="json"),
        "seed": bench.settings.seed,
        "versions": software_versions(),
        "machine": bench.machine(),
        "metrics": metric_choices(),
        "written": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def write_text(path: Path, text: str) -> None:
    """A text file, in place when it is complete."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
