"""Benchmarks of regional maps: ways to combine windows, and methods by cross-validation."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray

from geocfm.benchmark_job import FoldsJob, MosaicJob
from geocfm.data.preflight import inspect_region
from geocfm.data.region import Region
from geocfm.data.split import Split
from geocfm.evaluation.baselines import BASELINES, Effort
from geocfm.evaluation.benchmark.mosaics import (
    MosaicScore,
    held_out_cells,
    mosaic_maps,
    score_map,
)
from geocfm.evaluation.benchmark.tables import NOTHING, Cell, Group, Row, Table
from geocfm.evaluation.capture import REPORTED_SHARES
from geocfm.evaluation.comparison import Difference, paired_difference
from geocfm.evaluation.evaluate import Evaluation
from geocfm.evaluation.region_baselines import BaselineDensities, RegionImages
from geocfm.events import Reporter
from geocfm.inference.parts import Parts
from geocfm.inference.regional_map import RawMap, write_raw_map
from geocfm.job import MapJob, SynthJob, TrainJob, baseline_names
from geocfm.model.checkpoint import ModelCard
from geocfm.model.device import choose_device
from geocfm.results import TRUTH, results_of
from geocfm.run.apply import applying
from geocfm.run.folds import Way, cross_validate, evaluate_out_of_fold, folds_of, out_of_fold
from geocfm.run.learn import choose_settings, make_card, open_region
from geocfm.run.workplace import Workplace
from geocfm.training.resume import Snapshot

SHARES = REPORTED_SHARES[1:]  # of the area: 5, 10 and 20 %
FLOW, FLOW_TITLE = "geocfm", "GeoCFM"
OTHER_WAYS = {
    Way("average", "head"): "windows by average",
    Way("consistent", "head"): "windows by consistent",
    Way("head", "head"): "windows by head",
    Way("auto", "kde"): "densities from draws (kde)",
}
TRUTHS = {"intensity": "the truth", "bayes": "what can be known"}  # rasters of a synthetic region


def run_mosaic(job: MosaicJob, place: Workplace, reporter: Reporter) -> None:
    """Make the region, train on it, and hold every way of combining windows against its truth."""
    from geocfm.run import run_job  # which knows this job too

    region = job.out / "region"
    run_job(SynthJob(size=job.size, bodies=job.bodies, seed=job.seed, out=region), reporter)
    layers = [str(region / f"{name}.tif") for name in ("magnetics", "geochemistry")]
    model = job.out / "model.safetensors"
    trained = TrainJob(
        raster=layers,
        occurrences=region / "occurrences.gpkg",
        minutes=job.minutes,
        iterations=job.iterations,
        window=job.window,
        seed=job.seed,
        out=model,
    )
    run_job(trained, reporter)
    applied = MapJob(checkpoint=model, raster=layers, seed=job.seed, out=job.out / "map.tif")
    densities = [job.density] if job.density != "all" else ["head", "kde", "exact"]
    found: dict[str, list[MosaicScore]] = {name: [] for name in TRUTHS}
    with applying(applied, reporter) as work:
        truths = {name: _read(region / TRUTH / f"{name}.tif") for name in TRUTHS}
        held_out = held_out_cells(work.predictor, Split.from_card(work.card.split))
        for shown in mosaic_maps(work.predictor, densities, place.folder / "maps", reporter):
            for name, truth in truths.items():
                found[name].append(score_map(shown, truth, held_out))
    tables = [
        _mosaic_table(f"Windows side by side, against {TRUTHS[name]}", scores)
        for name, scores in found.items()
    ]
    content = {name: [asdict(score) for score in scores] for name, scores in found.items()}
    _write(job, place, tables, content, reporter)


def _read(path: Path) -> NDArray[np.float64]:
    with rasterio.open(path) as source:
        return source.read(1).astype(np.float64)


def _mosaic_table(title: str, scores: list[MosaicScore]) -> Table:
    headings = (
        *("how", "KL ↓", "KL, held-out tiles ↓", "rank correlation ↑"),
        *("capture area ↑", "capture area, held-out ↑", "seconds"),
    )
    rows = tuple(
        Row(
            score.title,
            (
                *(
                    Cell(f"{value:.3f}")
                    for value in (
                        *(score.kl, score.kl_held_out, score.rank),
                        *(score.capture, score.capture_held_out),
                    )
                ),
                Cell(NOTHING if score.seconds is None else f"{score.seconds:.0f}"),
            ),
        )
        for score in scores
    )
    return Table(title, headings, (Group("", rows),))


def run_folds(job: FoldsJob, place: Workplace, reporter: Reporter) -> None:
    """Every method learns from the same tiles and is judged on the same others, fold by fold."""
    device = choose_device(job.device)
    settings = choose_settings(job, accelerated=device.type == "cuda")
    with open_region(job, settings, device, reporter) as region:
        found = inspect_region(region)

        def card(fold: Region, snapshot: Snapshot) -> ModelCard:
            return make_card(fold, settings, job, found, snapshot, place.provenance)

        ways = OTHER_WAYS if job.ways == "all" else {}
        own = cross_validate(
            *(region, settings, job.folds, job.ensemble, job.seed),
            *(card, device, place.folder / FLOW, reporter, list(ways)),
        )
        evaluations = {FLOW_TITLE: evaluate_out_of_fold(own.raw, region)}
        for way, raw in own.others.items():
            evaluations[f"{FLOW_TITLE}, {ways[way]}"] = evaluate_out_of_fold(raw, region)
        for name in baseline_names(job.baselines):
            baseline = BASELINES[name]
            maps = []
            splits = folds_of(region, job.folds)
            for number, split in enumerate(splits):
                fold = region.with_split(split)
                folder = place.folder / name / f"fold-{number + 1}"
                effort = Effort(settings, job.seed, device, reporter, folder / "network")
                reporter.note(f"{baseline.title}, fold {number + 1} of {job.folds}.")
                maps.append(_baseline_map(name, fold, card(fold, Snapshot({}, 0, {})), effort))
            raw = out_of_fold(place.folder / name / "folds.tif", region, splits, maps)
            evaluations[baseline.title] = evaluate_out_of_fold(raw, region)
        table, content = _folds_table(region, evaluations, job.folds)
    content["geocfm_best_iterations"] = list(own.best_iterations)
    _write(job, place, [table], content, reporter)


def _baseline_map(name: str, fold: Region, card: ModelCard, effort: Effort) -> RawMap:
    assert effort.folder is not None
    folder = effort.folder.parent
    parts = Parts(folder / "strips")
    baseline = BASELINES[name]()
    images = RegionImages(fold, card, effort.seed, effort.reporter, baseline.title)
    baseline.fit(images, effort)
    stage = effort.reporter.stage(f"Mapping {baseline.title}")
    return write_raw_map(folder / "raw.tif", BaselineDensities(baseline, fold), None, parts, stage)


def _folds_table(
    region: Region, evaluations: dict[str, Evaluation], folds: int
) -> tuple[Table, dict[str, Any]]:
    """Capture by all methods, and GeoCFM's lead with intervals by tile."""
    tiles = region.split.tile_of_points(region.points)
    known = np.logical_and.reduce([np.isfinite(e.densities) for e in evaluations.values()])
    own = evaluations[FLOW_TITLE]
    rows, content = [], {}
    for title, evaluation in evaluations.items():
        leads = {
            key: paired_difference(
                _credit(own, key, known) - _credit(evaluation, key, known), tiles[known]
            )
            for key in ("area", *SHARES)
        }
        values = {key: float(_credit(evaluation, key, known).mean()) for key in leads}
        cells = [
            Cell(f"{values[key]:.3f}{'' if evaluation is own else _said(leads[key])}")
            for key in leads
        ]
        rows.append(Row(title, tuple(cells)))
        content[title] = {
            "captured": {str(key): value for key, value in values.items()},
            "geocfm_less_this": {str(key): lead.to_dict() for key, lead in leads.items()},
        }
    rows.append(Row("chance", tuple(Cell(f"{value:.3f}") for value in (0.5, *SHARES))))
    headings = (
        "method",
        "capture area ↑",
        *(f"in {100 * share:.0f} % of the area ↑" for share in SHARES),
    )
    notes = (
        f"{int(known.sum())} occurrences on {len(np.unique(tiles[known]))} of "
        f"{region.split.roles.size} tiles, {folds} folds; every tile is mapped by methods that "
        "have not seen it.",
        "In parentheses GeoCFM's lead over the method, with its 95 % interval by tiles.",
        "GeoCFM: densities by its density head, windows side by side by count, if it has both.",
    )
    title = "Cross-validation by tiles"
    return Table(title, headings, (Group("", tuple(rows)),), notes), content


def _credit(
    evaluation: Evaluation, key: str | float, known: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """What each occurrence adds to the area under the curve, or to the capture in a share."""
    densities = evaluation.densities[known]
    if isinstance(key, str):
        return evaluation.test.outranked(densities)
    return evaluation.test.credit(densities, key)


def _said(lead: Difference) -> str:
    return f" ({lead.difference:+.3f}: {lead.low:+.3f} to {lead.high:+.3f})"


def _write(
    job: MosaicJob | FoldsJob,
    place: Workplace,
    tables: list[Table],
    content: dict[str, Any],
    reporter: Reporter,
) -> None:
    figures, table = results_of(job)
    said = {**content, "provenance": place.provenance.model_dump(mode="json")}
    (place.folder / figures.name).write_text(json.dumps(said, indent=1), encoding="utf-8")
    markdown = "\n".join(one.markdown() for one in tables)
    (place.folder / table.name).write_text(markdown, encoding="utf-8")
    for path in (table, figures):
        place.deliver(path.name, path)
    for one in tables:
        reporter.report("table", one.content())
    reporter.wrote("benchmark", figures, "all figures")
    reporter.wrote("table", table, "the table as Markdown")
