"""Map, sample and evaluate: a checkpoint applied to layers that fit it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from geocfm.data.split import Split
from geocfm.errors import UserError
from geocfm.evaluation.evaluate import Evaluation, evaluate_map
from geocfm.evaluation.plots import plot_capture, plot_map
from geocfm.events import Reporter
from geocfm.geo.area import Area, read_area
from geocfm.geo.grid import Grid
from geocfm.geo.rasters import Layer, Stack, find_layers, raster_grid
from geocfm.geo.writing import (
    atomic_path,
    ensure_points_writable,
    ensure_writable,
    write_cog,
    write_points,
)
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_draws import draw_region
from geocfm.inference.regional_map import MEANING, UNIT, write_raw_map
from geocfm.job import ApplyingJob, EvaluateJob, MapJob, RegionJob, SampleJob
from geocfm.model.checkpoint import ModelCard, load_checkpoint
from geocfm.model.device import choose_device
from geocfm.run.inputs import open_occurrences
from geocfm.versions import software_versions

REPORTED_SHARE = 0.1


@dataclass(frozen=True)
class _Application:
    """A checkpoint at work: its predictor on the region's grid."""

    card: ModelCard
    training_grid: Grid
    predictor: Predictor
    area: Area | None

    @property
    def grid(self) -> Grid:
        """The region's grid."""
        return self.predictor.layers.grid


@contextmanager
def _apply(job: ApplyingJob, reporter: Reporter) -> Iterator[_Application]:
    """Load the model, match its layers by name, and align them on the region's grid."""
    device = choose_device(job.device)
    checkpoint = load_checkpoint(job.checkpoint, device)
    card = checkpoint.card
    layers = match_layers(card, job.raster)
    training_grid = Grid.from_dict(card.grid.model_dump())
    placed = job if isinstance(job, RegionJob) else None
    grid = _region_grid(training_grid, layers[0], placed.like if placed else None)
    area = read_area(placed.aoi, grid, placed.aoi_layer) if placed and placed.aoi else None
    changes = {"solver": job.solver, "steps": job.steps}
    sampling = card.settings.sampling.model_copy(
        update={key: value for key, value in changes.items() if value is not None}
    )
    with Stack(layers, grid) as stack:
        shown = grid if area is None else grid.subgrid(area.bounds)
        reporter.note(f"The region has {shown.describe()}.")
        predictor = Predictor(checkpoint, stack, sampling, device)
        yield _Application(card, training_grid, predictor, area)
        for sentence in predictor.warnings():
            reporter.warn(sentence)


def match_layers(card: ModelCard, specs: list[str]) -> list[Layer]:
    """The given layers in the model's order; what is missing is said by name."""
    classes = [layer.name for layer in card.layers if layer.categorical]
    given = {layer.name: layer for layer in find_layers(specs)}
    wanted = [layer.name for layer in card.layers]
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    if missing:
        unused = f" Given but unknown to it: {', '.join(extra)}." if extra else ""
        raise UserError(
            f"The model needs layers that were not given: {', '.join(missing)}.{unused}",
            "Give each as --raster NAME=path, with the name the model knows.",
        )
    return [
        Layer(name, given[name].path, given[name].band, name in classes, given[name].units)
        for name in wanted
    ]


def _region_grid(training_grid: Grid, first: Layer, like: Path | None) -> Grid:
    """The model's own lattice over the first layer, or the grid of another raster."""
    if like is not None:
        return raster_grid(str(like))
    source = raster_grid(first.path)
    return training_grid.covering(source.outline(), source.crs)


def _tags(job: ApplyingJob, card: ModelCard) -> dict[str, str]:
    """Where a product comes from, in its own metadata."""
    return {
        "GEOCFM_MEANING": MEANING,
        "GEOCFM_JOB": job.model_dump_json(),
        "GEOCFM_MODEL": json.dumps(
            {
                "layers": [layer.name for layer in card.layers],
                "created": card.created,
                "occurrences": card.occurrences.model_dump(),
                "seed": card.seed,
            }
        ),
        "GEOCFM_VERSIONS": json.dumps(software_versions()),
    }


def run_map(job: MapJob, reporter: Reporter) -> None:
    """Relative density over the region, as a Cloud Optimized GeoTIFF."""
    ensure_writable(job.out)
    with _apply(job, reporter) as work, _scratch_folder(job.out.parent) as scratch:
        raw = write_raw_map(
            scratch / "raw.tif",
            work.predictor,
            work.area,
            job.combine,
            job.seed,
            reporter,
        )
        write_cog(
            raw.path,
            job.out,
            band_name="relative density",
            unit=UNIT,
            tags=_tags(job, work.card),
            scale=1 / raw.mean,
        )
    reporter.note(f"{raw.area_km2:,.0f} km2 mapped from {raw.windows} windows.")
    reporter.report("map", {"area_km2": raw.area_km2, "windows": raw.windows})
    reporter.wrote("prospectivity", job.out, f"prospectivity map ({UNIT})")


def run_sample(job: SampleJob, reporter: Reporter) -> None:
    """Draws of plausible occurrences, as points."""
    ensure_points_writable(job.out)
    with _apply(job, reporter) as work:
        points = job.points or work.card.settings.sampling.points
        drawn = draw_region(
            work.predictor, work.area, points, job.draws, job.combine, job.seed, reporter
        )
        description = (
            "Plausible occurrences drawn from the learned density. draw: number of the independent "
            "draw; log_relative_density: natural logarithm of the relative density at the point "
            "(0 = regional mean; the map shows the same density, smoothed)."
        )
        write_points(
            job.out,
            work.grid,
            drawn.points,
            {"draw": drawn.draw, "log_relative_density": drawn.log_relative_density},
            layer="samples",
            description=description,
            metadata=_tags(job, work.card),
        )
    reporter.wrote("samples", job.out, f"{job.draws} draws of {points} points")


def run_evaluate(job: EvaluateJob, reporter: Reporter) -> None:
    """Capture curves on held-out and training tiles, as JSON and pictures."""
    with _apply(job, reporter) as work, _scratch_folder(job.out) as scratch:
        grid = work.grid
        where = job.where or list(work.card.occurrences.where)
        if where and not job.where:
            reporter.note(f"Occurrences are filtered as in training: {' and '.join(where)}.")
        occurrences = open_occurrences(job, grid, where)
        split = Split.from_card(work.card.split)
        raw = write_raw_map(
            scratch / "raw.tif", work.predictor, None, job.combine, job.seed, reporter
        )
        evaluation = evaluate_map(raw, grid, occurrences.points, split, work.training_grid)
        content = {
            **evaluation.to_dict(),
            "job": job.model_dump(mode="json"),
            "versions": software_versions(),
        }
        with atomic_path(job.out / "evaluation.json") as temporary:
            temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
        plot_capture(job.out / "capture.png", evaluation.test, evaluation.train)
        plot_map(
            job.out / "map.png",
            raw.path,
            1 / raw.mean,
            grid,
            occurrences.points,
            split.on_grid(grid, work.training_grid),
            "Prospectivity and known occurrences",
        )
    _tell(evaluation, reporter)
    reporter.report("evaluation", evaluation.to_dict())
    reporter.wrote("evaluation", job.out / "evaluation.json", "all figures")
    reporter.wrote("picture", job.out / "capture.png", "capture curve, held-out and training tiles")
    reporter.wrote("picture", job.out / "map.png", "the map with the known occurrences")


def _tell(evaluation: Evaluation, reporter: Reporter) -> None:
    test, train = evaluation.test, evaluation.train
    if test.count:
        reporter.note(
            f"Held-out tiles: the most prospective {100 * REPORTED_SHARE:.0f} % of the area holds "
            f"{100 * test.captured(REPORTED_SHARE):.0f} % of the {test.count} occurrences "
            f"(chance: {100 * REPORTED_SHARE:.0f} %); area under the curve "
            f"{test.under_curve():.2f} (chance: 0.50)."
        )
    else:
        reporter.warn("No occurrence lies on the held-out tiles, so the model cannot be judged.")
    if train.count:
        reporter.note(
            f"Training tiles, for comparison: {100 * train.captured(REPORTED_SHARE):.0f} % of "
            f"{train.count} occurrences, area {train.under_curve():.2f}."
        )


@contextmanager
def _scratch_folder(beside: Path) -> Iterator[Path]:
    """A temporary folder on the disk the result goes to, removed at the end."""
    try:
        beside.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".geocfm-", dir=beside)
    except OSError as error:
        raise UserError(
            f"Nothing can be written to {beside} ({error.strerror}).", "Choose another folder."
        ) from None
    with folder as path:
        yield Path(path)
