"""Benchmarks of regional maps: against a known truth, and of methods by cross-validation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
import torch
from numpy.typing import NDArray

from geocfm.benchmark_job import FoldsJob, MosaicJob
from geocfm.data.preflight import Preflight, inspect_region
from geocfm.data.region import Region
from geocfm.data.split import Split
from geocfm.data.windows import plan_windows
from geocfm.errors import UserError
from geocfm.evaluation.baselines import BASELINES, Effort
from geocfm.evaluation.benchmark.fold_scores import (
    KEYS,
    SHARES,
    FoldScores,
    common,
    lead,
    means,
)
from geocfm.evaluation.benchmark.mosaics import MosaicScore, held_out_cells, score_map
from geocfm.evaluation.benchmark.tables import Cell, Group, Row, Table
from geocfm.evaluation.region_baselines import BaselineDensities, RegionImages
from geocfm.events import Reporter
from geocfm.geo.grid import Grid, Window
from geocfm.geo.writing import open_raster_for_blocks
from geocfm.inference.parts import Arrays, Parts
from geocfm.inference.regional_map import RawMap, write_raw_map
from geocfm.inference.windowed_map import BlendedWindows
from geocfm.job import MapJob, SynthJob, TrainJob, baseline_names
from geocfm.model.checkpoint import ModelCard, load_card
from geocfm.model.device import choose_device
from geocfm.model.settings import Settings, change_settings
from geocfm.results import TRUTH, results_of
from geocfm.run.folds import cross_validate, evaluate_out_of_fold, folds_of, out_of_fold
from geocfm.run.learn import choose_settings, find_data, make_card, open_region
from geocfm.run.workplace import Workplace
from geocfm.training.members import with_start
from geocfm.training.resume import Snapshot

FLOW, FLOW_TITLE = "geocfm", "GeoCFM"
GROUNDS = {"window": "windows with occurrences", "region": "all training tiles"}
STARTS = {"even": "nothing", "process": "a process", "stack": "a stack"}
VARIANTS: dict[str, list[str]] = {
    f"{said} searched, from {begins}": [
        f"training.ground={ground}",
        f"network.start={start}",
    ]
    for ground, said in GROUNDS.items()
    for start, begins in STARTS.items()
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
    studies = _studies(job)
    _ensure_shared_tiles(studies)
    found = {}
    for number, (title, study) in enumerate(studies.items()):
        if title:
            reporter.note(f"{title}: occurrences where {' and '.join(study.where)}.")
        found[title] = _study(study, f"study-{number + 1}", place, reporter)
    content = {"studies": {title: _said_of(study) for title, study in found.items()}}
    _write(job, place, _folds_tables(found, job.folds), content, reporter)


def _studies(job: FoldsJob) -> dict[str, FoldsJob]:
    """A job for each value of the column, by value; without a column the job itself."""
    words = [word for part in (job.values or "").split(",") if (word := part.strip())]
    if not words and job.column is None and job.values is None:
        return {"": job}
    if not words or job.column is None:
        raise UserError(
            "A column and words in it belong together, and one of them is missing.",
            "Give both, such as commodities and gold,copper, or neither.",
        )
    return {
        word: job.model_copy(update={"where": [*job.where, f"{job.column} ~ {word}"]})
        for word in words
    }


def _ensure_shared_tiles(studies: dict[str, FoldsJob]) -> None:
    """Refuse studies whose tiles, chosen by their own occurrences, are not the same."""
    sides = {}
    for title, job in studies.items():
        found, settings = find_data(job), choose_settings(job, accelerated=False)
        plan = plan_windows(found.grid, len(found.occurrences.points), settings.windows)
        sides[title] = plan.tile
    if len(set(sides.values())) > 1:
        told = ", ".join(f"{title} {side}" for title, side in sides.items())
        raise UserError(
            f"Studies that are judged together need tiles of one size, and theirs differ: {told} "
            "cells.",
            f"Give one for all: --tile {max(sides.values())}.",
        )


Maps = Callable[[Path], dict[str, RawMap]]
"""Makes maps out of fold, by title, in a folder."""


def _study(job: FoldsJob, home: str, place: Workplace, reporter: Reporter) -> dict[str, FoldScores]:
    """All methods on one kind of occurrence; those that an interrupted run has finished are kept.

    home: its folder in the work folder. By title; scores of occurrences that every method's map has
    data at.
    """
    device = choose_device(job.device)
    settings = choose_settings(job, accelerated=device.type == "cuda")
    kept = Parts(place.folder / home / "scores")
    scores: dict[str, FoldScores] = {}
    with open_region(job, settings, device, reporter) as region:
        found = inspect_region(region)
        methods: dict[str, Maps] = {}
        for number, (title, changes) in enumerate(variants(job.variants).items()):
            changed = change_settings(settings, dict(text.split("=") for text in changes))
            changed = with_start(changed, len(region.points))
            card = partial(_card, job, changed, found, place)
            given = title, job, region, changed, card, device, reporter
            methods[f"{FLOW}{number or ''}"] = partial(_flow_maps, *given)
        card = partial(_card, job, settings, found, place)
        for name in baseline_names(job.baselines):
            methods[name] = partial(
                _baseline_maps, name, job, region, settings, card, device, reporter
            )
        for key, maps in methods.items():
            done = kept.load(key)
            if done is None:
                done = _scored(maps, place.folder / home / key, region)
                kept.save(key, **done)
                place.discard_part(f"{home}/{key}")
            for title in dict.fromkeys(one.rpartition("/")[0] for one in done):
                own = {what: done[f"{title}/{what}"] for what in ("values", "tiles", "seconds")}
                scores[title] = FoldScores.from_arrays(own)
    return common(scores)


def _scored(maps: Maps, folder: Path, region: Region) -> Arrays:
    """Scores of a method's maps, by title and what they are, to be kept on disk."""
    begun = time.monotonic()
    made = maps(folder)
    seconds = time.monotonic() - begun
    tiles = region.split.tile_of_points(region.points)
    found: Arrays = {}
    for title, raw in made.items():
        scores = FoldScores.of(evaluate_out_of_fold(raw, region), tiles, seconds)
        found |= {f"{title}/{what}": values for what, values in scores.to_arrays().items()}
    return found


def _flow_maps(
    title: str,
    job: FoldsJob,
    region: Region,
    settings: Settings,
    card: Callable[[Region, Snapshot], ModelCard],
    device: torch.device,
    reporter: Reporter,
    folder: Path,
) -> dict[str, RawMap]:
    """GeoCFM's, and those of what its networks begin with."""
    validated = cross_validate(
        *(region, settings, job.folds, job.ensemble, job.seed),
        *(card, device, folder, reporter),
        with_parts=True,
    )
    return {title: validated.raw, **validated.parts}


def _baseline_maps(
    name: str,
    job: FoldsJob,
    region: Region,
    settings: Settings,
    card: Callable[[Region, Snapshot], ModelCard],
    device: torch.device,
    reporter: Reporter,
    folder: Path,
) -> dict[str, RawMap]:
    """A baseline's."""
    title, maps = BASELINES[name].title, []
    splits = folds_of(region, job.folds)
    for number, split in enumerate(splits):
        fold = region.with_split(split)
        reporter.note(f"{title}, fold {number + 1} of {job.folds}.")
        network = folder / f"fold-{number + 1}" / "network"
        effort = Effort(settings, job.seed, device, reporter, network)
        maps.append(_baseline_map(name, fold, card(fold, Snapshot({}, 0, {})), effort))
    return {title: out_of_fold(folder / "folds.tif", region, splits, maps)}


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


def _folds_tables(studies: dict[str, dict[str, FoldScores]], folds: int) -> list[Table]:
    """Every study by itself, and all of them together."""
    tables = [_folds_table(title, {title: study}, folds) for title, study in studies.items()]
    if len(studies) > 1:
        tables.append(_folds_table(f"all {len(studies)} together", studies, folds))
    return tables


def _folds_table(title: str, studies: dict[str, dict[str, FoldScores]], folds: int) -> Table:
    """Scores of all methods, the mean over the studies, and the first one's leads."""
    methods = {
        name: [study[name] for study in studies.values()] for name in next(iter(studies.values()))
    }
    first, own = next(iter(methods.items()))
    rows = []
    for name, scored in methods.items():
        ahead = lead(own, scored)
        cells = []
        for number, value in enumerate(means(scored)):
            said = ""
            if scored is not own:
                low, high = ahead.low[number], ahead.high[number]
                said = f" ({ahead.mean[number]:+.3f}: {low:+.3f} to {high:+.3f})"
            cells.append(Cell(f"{value:.3f}{said}"))
        seconds = sum(one.seconds for one in scored)
        rows.append(Row(name, (*cells, Cell(f"{seconds:.0f}"))))
    chance = (0.5, *SHARES, 0.0)
    rows.append(Row("chance", (*(Cell(f"{value:.3f}") for value in chance), Cell("0"))))
    headings = (
        *("method", "capture area ↑"),
        *(f"in {100 * share:.0f} % of the area ↑" for share in SHARES),
        *("nats over an even density ↑", "seconds"),
    )
    counts = [len(study[first].tiles) for study in studies.values()]
    tiles = np.unique(np.concatenate([study[first].tiles for study in studies.values()]))
    notes = (
        f"{sum(counts)} occurrences on {len(tiles)} tiles, {folds} folds; every tile is mapped by "
        "methods that have not seen it.",
        f"In parentheses the lead of {first} over the method, with its 95 % interval by tiles"
        f"{' that all share' if len(studies) > 1 else ''}.",
    )
    about = f": {title}" if title else ""
    return Table(f"Cross-validation by tiles{about}", headings, (Group("", tuple(rows)),), notes)


def _said_of(study: dict[str, FoldScores]) -> dict[str, Any]:
    """The same as figures."""
    first = next(iter(study.values()))
    found = {}
    for name, scored in study.items():
        ahead = lead([first], [scored])
        found[name] = {
            "occurrences": len(scored.tiles),
            "seconds": scored.seconds,
            "scores": dict(zip(KEYS, means([scored]).tolist(), strict=True)),
            "first_less_this": {
                key: {"difference": mean, "low": low, "high": high}
                for key, mean, low, high in zip(
                    *(KEYS, ahead.mean.tolist(), ahead.low.tolist(), ahead.high.tolist()),
                    strict=True,
                )
            },
        }
    return found


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
