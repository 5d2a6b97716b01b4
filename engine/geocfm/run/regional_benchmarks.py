"""Benchmarks of regional maps: against a known truth, and of methods by cross-validation."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray

from geocfm.benchmark_job import FoldsJob, MosaicJob
from geocfm.data.preflight import Preflight, inspect_region
from geocfm.data.region import Region
from geocfm.data.split import Split
from geocfm.evaluation.baselines import BASELINES, Effort
from geocfm.evaluation.benchmark.mosaics import MosaicScore, held_out_cells, score_map
from geocfm.evaluation.benchmark.tables import Cell, Group, Row, Table
from geocfm.evaluation.capture import REPORTED_SHARES
from geocfm.evaluation.comparison import Difference, paired_difference
from geocfm.evaluation.evaluate import Evaluation
from geocfm.evaluation.region_baselines import BaselineDensities, RegionImages
from geocfm.events import Reporter
from geocfm.geo.grid import Grid, Window
from geocfm.geo.writing import open_raster_for_blocks
from geocfm.inference.parts import Parts
from geocfm.inference.regional_map import RawMap, write_raw_map
from geocfm.inference.windowed_map import BlendedWindows
from geocfm.job import MapJob, SynthJob, TrainJob, baseline_names
from geocfm.model.checkpoint import ModelCard, load_card
from geocfm.model.device import choose_device
from geocfm.model.settings import Settings, change_settings
from geocfm.results import TRUTH, results_of
from geocfm.run.folds import cross_validate, evaluate_out_of_fold, folds_of, out_of_fold
from geocfm.run.learn import choose_settings, make_card, open_region
from geocfm.run.workplace import Workplace
from geocfm.training.members import with_start
from geocfm.training.resume import Snapshot

SHARES = REPORTED_SHARES[1:]  # of the area: 5, 10 and 20 %
FLOW, FLOW_TITLE = "geocfm", "GeoCFM"
GROUNDS = {"window": "windows with occurrences", "region": "all training tiles"}
VARIANTS: dict[str, list[str]] = {
    f"{said} searched, {'with' if process else 'without'} process": [
        f"training.ground={ground}",
        f"network.process={str(process).lower()}",
    ]
    for ground, said in GROUNDS.items()
    for process in (False, True)
}
"""Settings by title: the ground that counts as searched, and what the network begins with."""
TRUTHS = {"intensity": "the truth", "bayes": "what can be known"}  # rasters of a synthetic region


def run_mosaic(job: MosaicJob, place: Workplace, reporter: Reporter) -> None:
    """Make the region, train on it, and hold the map against its truth."""
    from geocfm.run import run_job  # which knows this job too

    region = job.out / "region"
    run_job(SynthJob(size=job.size, bodies=job.bodies, seed=job.seed, out=region), reporter)
    layers = [str(region / f"{name}.tif") for name in ("magnetics", "geochemistry")]
    found: dict[str, list[MosaicScore]] = {name: [] for name in TRUTHS}
    truths = {name: _read(region / TRUTH / f"{name}.tif") for name in TRUTHS}
    for number, (title, settings) in enumerate(variants(job.variants).items()):
        model = job.out / f"model{number or ''}.safetensors"
        mapped = model.with_suffix(".tif")
        trained = TrainJob(
            raster=layers,
            occurrences=region / "occurrences.gpkg",
            minutes=job.minutes,
            iterations=job.iterations,
            window=job.window,
            seed=job.seed,
            settings=settings,
            skip_report=True,
            out=model,
        )
        run_job(trained, reporter)
        start = time.monotonic()
        run_job(MapJob(checkpoint=model, raster=layers, out=mapped), reporter)
        seconds = time.monotonic() - start
        card = load_card(model)
        grid = Grid.from_dict(card.grid.model_dump())
        held_out = held_out_cells(grid, Split.from_card(card.split))
        further = grid.subgrid(Window(1, 1, grid.height - 1, grid.width - 1))
        beside = mapped.with_name("further.tif")
        given = MapJob(
            checkpoint=model,
            raster=layers,
            like=_empty_raster(job.out / "further_grid.tif", further),
            overwrite=True,
            out=beside,
        )
        run_job(given, reporter)
        stem = card.settings.network.stem
        for name, truth in truths.items():
            found[name].append(
                score_map(title, seconds, _read(mapped), truth, held_out, _read(beside), stem)
            )
    tables = [
        _mosaic_table(f"The map against {TRUTHS[name]}", scores) for name, scores in found.items()
    ]
    content = {name: [asdict(score) for score in scores] for name, scores in found.items()}
    _write(job, place, tables, content, reporter)


def variants(asked: str) -> dict[str, list[str]]:
    """Settings of GeoCFM by title: as the preset has them, or those of all variants."""
    if asked == "default":
        return {FLOW_TITLE: []}
    return {f"{FLOW_TITLE}, {title}": settings for title, settings in VARIANTS.items()}


def _empty_raster(path: Path, grid: Grid) -> Path:
    """A raster of nothing, for its grid."""
    with open_raster_for_blocks(path, grid):
        return path


def _read(path: Path) -> NDArray[np.float64]:
    with rasterio.open(path) as source:
        return source.read(1).astype(np.float64)


def _mosaic_table(title: str, scores: list[MosaicScore]) -> Table:
    headings = (
        *("model", "KL ↓", "KL, held-out tiles ↓", "rank correlation ↑"),
        *("capture area ↑", "capture area, held-out ↑"),
        *("lattice ↓", "one cell further ↓", "seconds of the map"),
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
                        *(score.lattice, score.shifted),
                    )
                ),
                Cell(f"{score.seconds:.0f}"),
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
        evaluations, best = {}, {}
        for number, (title, changes) in enumerate(variants(job.variants).items()):
            changed = with_start(
                change_settings(settings, dict(text.split("=") for text in changes)),
                len(region.points),
            )
            folder = place.folder / f"{FLOW}{number or ''}"
            own = cross_validate(
                *(region, changed, job.folds, job.ensemble, job.seed),
                *(partial(_card, job, changed, found, place), device, folder, reporter),
            )
            evaluations[title] = evaluate_out_of_fold(own.raw, region)
            best[title] = list(own.best_iterations)
        for name in baseline_names(job.baselines):
            baseline = BASELINES[name]
            maps = []
            splits = folds_of(region, job.folds)
            for number, split in enumerate(splits):
                fold = region.with_split(split)
                folder = place.folder / name / f"fold-{number + 1}"
                effort = Effort(settings, job.seed, device, reporter, folder / "network")
                reporter.note(f"{baseline.title}, fold {number + 1} of {job.folds}.")
                described = _card(job, settings, found, place, fold, Snapshot({}, 0, {}))
                maps.append(_baseline_map(name, fold, described, effort))
            raw = out_of_fold(place.folder / name / "folds.tif", region, splits, maps)
            evaluations[baseline.title] = evaluate_out_of_fold(raw, region)
        table, content = _folds_table(region, evaluations, job.folds)
    content["geocfm_best_iterations"] = best
    _write(job, place, [table], content, reporter)


def _card(
    job: FoldsJob,
    settings: Settings,
    found: Preflight,
    place: Workplace,
    fold: Region,
    snapshot: Snapshot,
) -> ModelCard:
    return make_card(fold, settings, job, found, snapshot, place.provenance)


def _baseline_map(name: str, fold: Region, card: ModelCard, effort: Effort) -> RawMap:
    assert effort.folder is not None
    folder = effort.folder.parent
    parts = Parts(folder / "strips")
    baseline = BASELINES[name]()
    images = RegionImages(fold, card, effort.seed, effort.reporter, baseline.title)
    baseline.fit(images, effort)
    stage = effort.reporter.stage(f"Mapping {baseline.title}")
    source = BlendedWindows(BaselineDensities(baseline, fold))
    return write_raw_map(folder / "raw.tif", source, None, parts, stage)


def _folds_table(
    region: Region, evaluations: dict[str, Evaluation], folds: int
) -> tuple[Table, dict[str, Any]]:
    """Capture by all methods, and GeoCFM's lead with intervals by tile."""
    tiles = region.split.tile_of_points(region.points)
    known = np.logical_and.reduce([np.isfinite(e.densities) for e in evaluations.values()])
    first, own = next(iter(evaluations.items()))
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
            "first_less_this": {str(key): lead.to_dict() for key, lead in leads.items()},
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
        f"In parentheses the lead of {first} over the method, with its 95 % interval by tiles.",
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
