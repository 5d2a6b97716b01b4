"""The paper's ablations: what steps, budget and positives do to GeoCFM, and the train-test gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geocfm.evaluation.benchmark import paper, step_times
from geocfm.evaluation.benchmark.bench import ABLATIONS, FLOW, Bench, Part
from geocfm.evaluation.benchmark.flow_method import FlowMethod
from geocfm.evaluation.benchmark.kde_map import kde_map
from geocfm.evaluation.benchmark.methods import ORACLES, Method, title_of
from geocfm.evaluation.benchmark.paper import METRIC, Metric
from geocfm.evaluation.benchmark.protocol import write_json
from geocfm.evaluation.benchmark.recipe import RECIPES, run_recipes
from geocfm.evaluation.benchmark.result_files import MethodResult, Value, plain
from geocfm.evaluation.benchmark.scoring import draw_seed, draw_values
from geocfm.evaluation.benchmark.step_times import FULL_UNET, UNET, draw_times
from geocfm.evaluation.benchmark.synthetic import (
    TRAINED,
    missing_notes,
    record,
    run_methods,
    write_text,
)
from geocfm.evaluation.benchmark.tables import (
    NOTHING,
    Cell,
    Estimate,
    Group,
    Row,
    Table,
    counted,
    over_images,
    over_seeds,
)

SOLVERS = ("euler", "midpoint", "heun")
STEPS = (1, 2, 3, 4, 5, 10, 30, 50)
STEP_METRICS = ("cd", "sinkhorn", "f5", "kde_nll")
STEP_DRAWS = 5  # of 24 settings; the spread over images is far larger than that over draws
STABILITY = Metric("stability", "stability", lower_is_better=False, digits=3)
SHARES = (100, 75, 50)  # percent of the positives
SEEDS = 3
POSITIVE_METRICS = ("cd", "sinkhorn", "kde_nll", "f5")

RECIPE = "recipe"  # the kind that is ours, not the paper's

Values = dict[str, list[Value]]


@dataclass(frozen=True)
class Found:
    """What an ablation came to.

    choices: of the ablation, beyond the benchmark's settings.
    made: how each part and each method in the table was come by, whichever run made it.
    """

    table: Table
    values: dict[str, Any]
    choices: dict[str, Any]
    made: dict[str, Any]


def run_ablation(bench: Bench, kind: str, recipes: Sequence[str] = ()) -> None:
    """Measure what is not there yet; write and print the table. recipes: for that ablation."""
    folder = bench.folder / ABLATIONS
    if kind == RECIPE:
        found = recipe(bench, folder / kind, recipes)
    else:
        found = ABLATION[kind](bench, folder / kind)
        found = replace(found, table=found.table.of_images(bench.settings.size))
    write_text(folder / f"{kind}.md", found.table.markdown())
    content = {
        **record(bench),
        "ablation": kind,
        "choices": found.choices,
        "values": found.values,
        "made": found.made,
        "table": found.table.content(),
    }
    write_json(folder / f"{kind}.json", content)
    bench.reporter.report("table", found.table.content())
    bench.reporter.wrote("table", folder / f"{kind}.md", found.table.title)
    bench.reporter.wrote("benchmark", folder / f"{kind}.json", "all values, settings and times")


def steps(bench: Bench, parts: Path) -> Found:
    """Table "runtime": solvers and steps, their time as a multiple of a UNet-Seg pass."""
    network, _ = bench.flow()
    sampling = bench.settings.settings.sampling
    chosen = [
        sampling.model_copy(update={"solver": solver, "steps": count})
        for solver in SOLVERS
        for count in STEPS
    ]
    timing = bench.part(parts / "times.json", partial(draw_times, bench, network, chosen), FLOW)
    times, scored = timing.values, dict[str, Part]()
    notes: list[str] = []
    number = min(STEP_DRAWS, bench.settings.draws)
    for each in chosen:
        method = FlowMethod(network, each, bench.device)
        name = f"{each.solver}-{each.steps}"
        title = f"{each.solver.capitalize()}, {counted(each.steps, 'step')}"
        measure = partial(_flow_scores, bench, method, title, STEP_METRICS, number)
        scored[name] = bench.part(parts / f"{name}.json", measure, FLOW)
        notes += _missing(title, scored[name].values, STEP_METRICS)
    groups = []
    for solver in SOLVERS:
        rows = [_step_row(solver, k, times, scored[f"{solver}-{k}"].values) for k in STEPS]
        groups.append(Group(f"{solver}", tuple(rows)))
    oracles = run_methods(bench, ORACLES)
    segmentation = bench.result(UNET)
    groups.append(Group("one pass of a network", _unet_rows(times, segmentation)))
    groups.append(Group("oracles", _oracle_rows(oracles, STEP_METRICS, before=3)))
    headings = (
        *("steps", "ms", "UNet-Seg passes", "own passes"),
        *(METRIC[m].heading for m in STEP_METRICS),
    )
    notes = [
        f"Milliseconds for one image: its features, and a draw of {sampling.points} points; median "
        "of interleaved repetitions. UNet-Seg passes: of the paper's UNet of the same width, at "
        f"the image's resolution ({times[FULL_UNET]:.1f} ms); own passes: of the flow's own UNet, "
        f"which UNet-Seg has in Table 1 as well ({times[UNET]:.1f} ms). The paper's passes: its "
        f"milliseconds by its {paper.UNET_PASS_MS} for UNet-Seg.",
        f"Steps shorten towards t = 1 (lateness {sampling.lateness:g}); the default is "
        f"{sampling.solver}, {counted(sampling.steps, 'step')}.",
        _scored(bench, number),
        *notes,
    ]
    if number != bench.settings.draws:
        notes.append(f"UNet-Seg and the oracles: {bench.settings.draws} draws, as in Table 1.")
    if segmentation is None:
        notes.insert(1, "UNet-Seg is scored here once the folder holds its result.")
    title = 'Steps of the solver (paper, Table "runtime")'
    others = oracles if segmentation is None else {**oracles, UNET: segmentation}
    return Found(
        Table(title, headings, tuple(groups), tuple(notes)),
        {"milliseconds": times, "scores": {name: part.values for name, part in scored.items()}},
        {"draws": number, "timed_points": sampling.points, "timings": step_times.REPETITIONS},
        _made({"times": timing, **scored}, others),
    )


def _step_row(solver: str, count: int, times: dict[str, float], scores: Values) -> Row:
    reported = paper.STEPS.get((solver, count), {})
    name = f"{solver}-{count}"
    passes = f"{reported['ms'] / paper.UNET_PASS_MS:.2f}" if reported else ""
    cells = [
        Cell(f"{times[name]:.1f}", f"{reported['ms']:.1f}" if reported else ""),
        Cell(f"{times[name] / times[FULL_UNET]:.2f}", passes),
        Cell(f"{times[name] / times[UNET]:.2f}"),
    ]
    return Row(f"K = {count}", (*cells, *_step_cells(scores, reported)))


def _unet_rows(times: dict[str, float], result: MethodResult | None) -> tuple[Row, ...]:
    """The paper's UNet-Seg is timed alone; the one of Table 1 has the flow's own encoder."""
    nothing: Values = {key: [] for key in STEP_METRICS}
    rows = []
    for name, title, scores, reported in (
        (FULL_UNET, "UNet-Seg at the image's resolution", nothing, paper.UNET_PASS),
        (UNET, title_of(UNET), nothing if result is None else result.values, {}),
    ):
        beside = (f"{paper.UNET_PASS_MS:.1f}", "1.00") if reported else ("", "")
        cells = (
            Cell(f"{times[name]:.1f}", beside[0]),
            Cell(f"{times[name] / times[FULL_UNET]:.2f}", beside[1]),
            Cell(f"{times[name] / times[UNET]:.2f}"),
        )
        rows.append(Row(title, (*cells, *_step_cells(scores, reported))))
    return tuple(rows)


def _step_cells(scores: Values, reported: Mapping[str, float]) -> list[Cell]:
    cells = []
    for key in STEP_METRICS:
        digits = METRIC[key].digits
        beside = f"{reported[key]:.{digits}f}" if key in reported else ""
        cells.append(Cell(over_images(scores[key]).text(digits), beside))
    return cells


def budget(bench: Bench, parts: Path) -> Found:
    """Table "budget": KDE-NLL and stability of the density by the points of a draw."""
    network, _ = bench.flow()
    flow = FlowMethod(network, bench.settings.settings.sampling, bench.device)
    methods: dict[str, Method] = {FLOW: flow}
    methods |= {key: bench.fitted(key).method for key in ORACLES}
    columns = (METRIC["kde_nll"], STABILITY)
    measured: dict[str, Part] = {}
    groups, missing = [], []
    for key, method in methods.items():
        measure = partial(_budget_values, bench, method, title_of(key))
        network_used = FLOW if key == FLOW else None
        measured[key] = bench.part(parts / f"{key}.json", measure, network_used)
        rows = []
        for count, reported in paper.BUDGET.items():
            ours = measured[key].values[str(count)]
            beside = [f"{reported[0]:.2f}", f"{reported[1]:.3f}"] if key == FLOW else ["", ""]
            cells = [
                Cell(over_images(ours[column.key]).text(column.digits), text)
                for column, text in zip(columns, beside, strict=True)
            ]
            rows.append(Row(f"N = {count}", tuple(cells)))
            known = columns if bench.settings.draws > 1 else columns[:1]
            missing += missing_notes(f"{title_of(key)}, N = {count}", ours, known)
        groups.append(Group(title_of(key), tuple(rows)))
    notes = (
        "Stability: mean Pearson correlation between the density maps (KDE by Scott's rule) of "
        "independent draws. The paper's NLL at N = 500 differs from its Table 1 (8.95): read its "
        "column as a trend.",
        _scored(bench),
        *missing,
    )
    headings = ("points of a draw", *(column.heading for column in columns))
    title = 'Sampling budget (paper, Table "budget")'
    return Found(
        Table(title, headings, tuple(groups), notes),
        {key: part.values for key, part in measured.items()},
        {"draws": bench.settings.draws, "points": list(paper.BUDGET)},
        _made(measured),
    )


def _budget_values(bench: Bench, method: Method, title: str) -> dict[str, Values]:
    """Budgets are the first points of the same draws, so that they compare."""
    number, most = bench.settings.draws, max(paper.BUDGET)
    found: dict[int, dict[str, list[float]]] = {
        count: {"kde_nll": [], "stability": []} for count in paper.BUDGET
    }
    stage = bench.reporter.stage(f"Drawing with every budget, {title}")
    for done, (truth, seed) in enumerate(zip(bench.test_images, bench.test_seeds, strict=True)):
        image = truth.image()
        view = method.look(image, truth, seed)
        drawn = view.draws(most, number, draw_seed(bench.settings.seed, seed))
        size = max(image.footprint.shape)
        for count, values in found.items():
            some = drawn[:, :count]
            scores = draw_values(some, image.points, size, bench.device, ("kde_nll",))
            values["kde_nll"].append(scores["kde_nll"])
            values["stability"].append(_stability(some, size))
        stage(done + 1, len(bench.test_images))
    return {
        str(count): {key: plain(row) for key, row in values.items()}
        for count, values in found.items()
    }


def _stability(draws: NDArray[np.float64], size: int) -> float:
    """Mean Pearson r between the density maps of draws (D, N, 2)."""
    if len(draws) < 2:
        return float("nan")
    maps = np.stack([kde_map(points, size).ravel() for points in draws])
    above = np.triu_indices(len(maps), 1)
    return float(np.asarray(np.corrcoef(maps))[above].mean())


def positives(bench: Bench, parts: Path) -> Found:
    """Table "positive subset": retrained with a share of the positives, over seeds."""
    first = bench.settings.seed
    found: dict[str, Part] = {}
    missing: list[str] = []
    bench.reporter.note(
        f"{len(SHARES) * SEEDS} models are trained for "
        f"{counted(bench.settings.minutes, 'minute')} each, but for those that are there already."
    )
    for share in SHARES:
        for seed in range(first, first + SEEDS):
            name, title = f"{share}-seed-{seed}", f"{share} % of positives, seed {seed}"
            measure = partial(_retrained, bench, share, seed, title)
            network = bench.flow_name(seed, share / 100)
            found[name] = bench.part(parts / f"{name}.json", measure, network)
            missing += _missing(title, found[name].values, POSITIVE_METRICS)
    rows, iterations = [], []
    for share in SHARES:
        cells = []
        trained = [found[f"{share}-seed-{seed}"] for seed in range(first, first + SEEDS)]
        iterations.append(f"{_iterations(trained)} with {share} %")
        for key in POSITIVE_METRICS:
            means = [over_images(part.values[key]).mean for part in trained]
            digits = _positive_digits(key)
            reported = Estimate(*paper.POSITIVES[share][key], count=1)
            cells.append(Cell(over_seeds(means).text(digits), reported.text(digits)))
        rows.append(Row(f"{share} %", tuple(cells)))
    oracles = run_methods(bench, ORACLES)
    headings = ("positives", *(METRIC[key].heading for key in POSITIVE_METRICS))
    notes = (
        f"Mean ± standard deviation over {SEEDS} seeds, each trained for "
        f"{counted(bench.settings.minutes, 'minute')}; of the oracles, which learn nothing, the "
        "mean over the images and its standard error.",
        f"As the clock ends a training, they had different numbers of iterations: "
        f"{', '.join(iterations)} of the positives.",
        _scored(bench),
        *missing,
    )
    title = 'Share of the positives (paper, Table "positive subset")'
    groups = (
        Group("GeoCFM", tuple(rows)),
        Group("oracles", _oracle_rows(oracles, POSITIVE_METRICS, digits=_positive_digits)),
    )
    return Found(
        Table(title, headings, groups, notes),
        {name: part.values for name, part in found.items()},
        {"draws": bench.settings.draws, "percent_of_positives": list(SHARES), "seeds": SEEDS},
        _made(found, oracles),
    )


def _iterations(parts: Sequence[Part]) -> str:
    """Those of the trainings: 169 to 266, or 200 if all had as many."""
    counts = [part.made["training"]["iterations"] for part in parts]
    least, most = min(counts), max(counts)
    return f"{least}" if least == most else f"{least} to {most}"


def _positive_digits(key: str) -> int:
    """As the paper has them in this table."""
    return METRIC[key].digits + (key == "sinkhorn")


def _retrained(bench: Bench, share: int, seed: int, title: str) -> Values:
    network, _ = bench.flow(seed, share / 100)
    method = FlowMethod(network, bench.settings.settings.sampling, bench.device)
    return _flow_scores(bench, method, title, POSITIVE_METRICS, bench.settings.draws)


def gap(bench: Bench, parts: Path) -> Found:
    """Table "train-test gap": Chamfer distance on images of the training, and of the test."""
    results = run_methods(bench, [*paper.GAP, *ORACLES])
    rows = {key: _gap_row(result) for key, result in results.items()}
    groups = (
        Group("", tuple(rows[key] for key in paper.GAP)),
        Group("oracles", tuple(rows[key] for key in ORACLES)),
    )
    missing = [
        note
        for result in results.values()
        for note in _missing(result.title, result.values, ("cd",))
    ]
    notes = (_learned(bench, results), _scored(bench), *missing)
    headings = ("method", "train CD [px] ↓", "test CD [px] ↓", "gap")
    return Found(
        Table('Train-test gap (paper, Table "train-test gap")', headings, groups, notes),
        {
            key: {"train_cd": result.train_cd, "test_cd": result.values["cd"]}
            for key, result in results.items()
        },
        {"draws": bench.settings.draws, "training_images": bench.learned_count},
        _made({}, results),
    )


def _gap_row(result: MethodResult) -> Row:
    """Oracles have no training images."""
    reported = paper.GAP.get(result.key)
    train, test = over_images(result.train_cd), over_images(result.values["cd"])
    difference = test.mean - train.mean
    ours = (
        train.text(2),
        test.text(2),
        f"{difference:+.2f}" if math.isfinite(difference) else NOTHING,
    )
    if reported is None:
        return Row(result.title, tuple(Cell(text) for text in ours))
    beside = (f"{reported[0]:.2f}", f"{reported[1]:.2f}", f"{reported[1] - reported[0]:+.2f}")
    return Row(result.title, tuple(Cell(*both) for both in zip(ours, beside, strict=True)))


def _learned(bench: Bench, results: Mapping[str, MethodResult]) -> str:
    """Which training images these are, and when networks saw them."""
    batch, count = bench.settings.settings.training.batch, bench.learned_count
    needed = -(-count // batch)
    trained = [
        (result.title, int(result.method["iterations"]))
        for key, result in results.items()
        if key in TRAINED
    ]
    done = " and ".join(f"{iterations} ({title})" for title, iterations in trained)
    few = "".join(
        f"; {title} ended before and saw the first {min(count, batch * iterations)} of them only"
        for title, iterations in trained
        if iterations < needed
    )
    return (
        f"The training images are the first {count} of the training. Methods that look at cells "
        f"learned from all of them; networks, for which new images are made without end, see each "
        f"once, at steps 1 to {needed} of {done}{few}."
    )


def recipe(bench: Bench, parts: Path, keys: Sequence[str]) -> Found:
    """Not in the paper: what each change to its recipe is worth in the same minutes."""
    table, results = run_recipes(bench, parts, keys)
    values = {key: result.values for key, result in results.items()}
    changes = {key: {**RECIPES[key].changes, "from_ours": RECIPES[key].ours} for key in results}
    return Found(table, values, {"recipes": changes}, _made({}, results))


ABLATION: dict[str, Callable[[Bench, Path], Found]] = {
    "steps": steps,
    "budget": budget,
    "positives": positives,
    "gap": gap,
}


def _made(
    parts: Mapping[str, Part], results: Mapping[str, MethodResult] | None = None
) -> dict[str, Any]:
    """How parts were come by, and the methods beside them: each by its own run."""
    beside = {
        key: {
            "seconds": result.fit_seconds + result.score_seconds,
            "fit_seconds": result.fit_seconds,
            "method": {k: v for k, v in result.method.items() if k != "capture_curve"},
            "versions": result.versions,
            "machine": result.machine,
        }
        for key, result in (results or {}).items()
    }
    return {**{name: part.made for name, part in parts.items()}, **beside}


def _flow_scores(
    bench: Bench, method: FlowMethod, title: str, metrics: Sequence[str], draws: int
) -> Values:
    """Metrics of draws alone, image by image."""
    found: dict[str, list[float]] = {key: [] for key in metrics}
    stage = bench.reporter.stage(f"Scoring {title}")
    for done, (truth, seed) in enumerate(zip(bench.test_images, bench.test_seeds, strict=True)):
        image = truth.image()
        view = method.look(image, truth, seed)
        drawn = view.draws(len(image.points), draws, draw_seed(bench.settings.seed, seed))
        size = max(image.footprint.shape)
        for key, value in draw_values(drawn, image.points, size, bench.device, metrics).items():
            found[key].append(value)
        stage(done + 1, len(bench.test_images))
    return {key: plain(values) for key, values in found.items()}


def _oracle_rows(
    results: Mapping[str, MethodResult],
    metrics: Sequence[str],
    before: int = 0,
    digits: Callable[[str], int] = lambda key: METRIC[key].digits,
) -> tuple[Row, ...]:
    """What happened and what can be known, after so many columns that mean nothing for them."""
    return tuple(
        Row(
            result.title,
            (
                *[Cell(NOTHING)] * before,
                *(Cell(over_images(result.values[key]).text(digits(key))) for key in metrics),
            ),
        )
        for result in results.values()
    )


def _missing(row: str, values: Values, metrics: Sequence[str]) -> list[str]:
    return missing_notes(row, values, [METRIC[key] for key in metrics])


def _scored(bench: Bench, draws: int | None = None) -> str:
    settings = bench.settings
    return (
        f"{counted(settings.images, 'test image')} of {settings.size} px, "
        f"{counted(draws or settings.draws, 'draw')} each; preset {settings.preset}, seed "
        f"{settings.seed}, {counted(settings.minutes, 'minute')} of training."
    )
