"""Map and sample: a checkpoint applied to layers that fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.area import Area, read_area
from geocfm.geo.grid import Grid
from geocfm.geo.rasters import Layer, Stack, grid_like, layer_grid
from geocfm.geo.writing import write_cog, write_points
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_draws import draw_region
from geocfm.inference.regional_map import MEANING, UNIT, FlowDensities, RawMap, write_raw_map
from geocfm.job import ApplyingJob, MapJob, RegionJob, SampleJob
from geocfm.model.checkpoint import ModelCard, load_checkpoint
from geocfm.model.device import choose_device
from geocfm.results import sidecar
from geocfm.run.inputs import given_layers
from geocfm.run.needs import (
    draws_disk_bytes,
    ensure_drawing_fits,
    ensure_mapping_fits,
    map_disk_bytes,
)
from geocfm.run.provenance import TAG, Provenance
from geocfm.run.room import ensure_room
from geocfm.run.workplace import Workplace

MAP_PARTS = "strips"  # folder of the finished parts of a map, in the work folder


@dataclass(frozen=True)
class Application:
    """A checkpoint at work: its predictor on the region's grid."""

    card: ModelCard
    training_grid: Grid
    stack: Stack
    predictor: Predictor
    area: Area | None
    device: torch.device

    @property
    def grid(self) -> Grid:
        """The region's grid."""
        return self.predictor.layers.grid


@dataclass(frozen=True)
class FoundRegion:
    """The model's layers, names of others that were given, and where the model is applied."""

    layers: list[Layer]
    unused: list[str]
    training_grid: Grid
    grid: Grid
    area: Area | None


def find_region(job: ApplyingJob, card: ModelCard) -> FoundRegion:
    """Match the layers by name, and find the grid that they will be aligned on."""
    layers, unused = match_layers(card, given_layers(job))
    training_grid = Grid.from_dict(card.grid.model_dump())
    if not isinstance(job, RegionJob):  # an evaluation is about the model's own tiles
        return FoundRegion(layers, unused, training_grid, training_grid, None)
    grid = _region_grid(training_grid, layers, job.like)
    area = read_area(job.aoi, grid, job.aoi_layer) if job.aoi else None
    return FoundRegion(layers, unused, training_grid, grid, area)


@contextmanager
def applying(job: ApplyingJob, reporter: Reporter) -> Iterator[Application]:
    """Load the model, match its layers by name, and align them on the region's grid."""
    device = choose_device(job.device)
    checkpoint = load_checkpoint(job.checkpoint, device)
    card = checkpoint.card
    found = find_region(job, card)
    if found.unused:
        names = ", ".join(found.unused)
        reporter.warn(f"Layers that the model does not know are not used: {names}.")
    changes = {"solver": job.solver, "steps": job.steps}
    sampling = card.settings.sampling.model_copy(
        update={key: value for key, value in changes.items() if value is not None}
    )
    with Stack(found.layers, found.grid) as stack:
        shown = found.grid if found.area is None else found.grid.subgrid(found.area.bounds)
        reporter.note(f"The region has {shown.describe()}.")
        predictor = Predictor(checkpoint, stack, sampling, device)
        yield Application(card, found.training_grid, stack, predictor, found.area, device)
        for sentence in predictor.warnings():
            reporter.warn(sentence)


def match_layers(card: ModelCard, layers: list[Layer]) -> tuple[list[Layer], list[str]]:
    """The layers in the model's order, and names it does not know; what is missing is said."""
    classes = [layer.name for layer in card.layers if layer.categorical]
    given = {layer.name: layer for layer in layers}
    wanted = [layer.name for layer in card.layers]
    missing = [name for name in wanted if name not in given]
    extra = [name for name in given if name not in wanted]
    if missing:
        unused = f" Given but unknown to it: {', '.join(extra)}." if extra else ""
        raise UserError(
            f"The model needs layers that were not given: {', '.join(missing)}.{unused}",
            "Give each as --raster NAME=path, with the name the model knows.",
        )
    return [replace(given[name], categorical=name in classes) for name in wanted], extra


def _region_grid(training_grid: Grid, layers: list[Layer], like: Path | None) -> Grid:
    """The model's own lattice over the first layer, or the grid of another raster."""
    if like is not None:
        return grid_like(str(like), layers)
    source = layer_grid(layers[0])
    return training_grid.covering(source.outline(), source.crs)


def _tags(card: ModelCard, provenance: Provenance) -> dict[str, str]:
    """Where a product comes from, in its own metadata."""
    return {
        "GEOCFM_MEANING": MEANING,
        "GEOCFM_MODEL": json.dumps(
            {
                "layers": [layer.name for layer in card.layers],
                "created": card.created,
                "occurrences": card.occurrences.model_dump(),
                "seed": card.seed,
            }
        ),
        TAG: provenance.model_dump_json(),
    }


def run_map(job: MapJob, place: Workplace, reporter: Reporter) -> None:
    """Relative density over the region, as a Cloud Optimized GeoTIFF."""
    with applying(job, reporter) as work:
        raw = raw_map(work, work.area, job, place, reporter)
        write_cog(
            raw.path,
            place.folder / "map.tif",
            band_name="relative density",
            unit=UNIT,
            tags=_tags(work.card, place.provenance),
            scale=1 / raw.mean,
        )
        place.deliver("map.tif", job.out)
    reporter.note(f"{raw.area_km2:,.0f} km2 mapped from {raw.windows} windows.")
    reporter.report("map", {"area_km2": raw.area_km2, "windows": raw.windows})
    reporter.wrote("prospectivity", job.out, f"prospectivity map ({UNIT})")


def raw_map(
    work: Application,
    area: Area | None,
    job: ApplyingJob,
    place: Workplace,
    reporter: Reporter,
) -> RawMap:
    """The model's map in the work folder, before its scale is known."""
    ensure_mapping_fits(work.card, work.grid, work.device)
    shown = work.grid.window() if area is None else area.bounds
    if not place.continued:  # else a part of it is there already
        ensure_room(place.folder.parent, map_disk_bytes(shown.height * shown.width), "The map")
    parts = Parts(place.folder / MAP_PARTS)
    path = place.folder / "raw.tif"
    densities = FlowDensities(work.predictor, area, job.combine, job.seed)
    return write_raw_map(path, densities, area, parts, reporter.stage("Mapping"))


def run_sample(job: SampleJob, place: Workplace, reporter: Reporter) -> None:
    """Draws of plausible occurrences, as points."""
    with applying(job, reporter) as work:
        points = job.points or work.card.settings.sampling.points
        shown = work.grid.window() if work.area is None else work.area.bounds
        ensure_drawing_fits(work.card, work.grid, shown, points, job.draws, work.device)
        if not place.continued:
            ensure_room(place.folder.parent, draws_disk_bytes(points * job.draws), "The result")
        drawn = draw_region(
            work.predictor,
            work.area,
            points,
            job.draws,
            job.combine,
            job.seed,
            Parts(place.folder / "draws"),
            reporter,
        )
        description = (
            "Plausible occurrences drawn from the learned density. draw: number of the independent "
            "draw; log_relative_density: natural logarithm of the relative density at the point "
            "(0 = regional mean; the map shows the same density, smoothed)."
        )
        name = f"points{job.out.suffix}"
        write_points(
            place.folder / name,
            work.grid,
            drawn.points,
            {"draw": drawn.draw, "log_relative_density": drawn.log_relative_density},
            layer="samples",
            description=description,
            metadata=_tags(work.card, place.provenance),
        )
    described = sidecar(job.out)
    if described is not None:
        content = place.provenance.model_dump_json(indent=1)
        (place.folder / "provenance.json").write_text(content, encoding="utf-8")
        place.deliver("provenance.json", described)
    place.deliver(name, job.out)
    reporter.wrote(
        "samples",
        job.out,
        f"{job.draws} {'draw' if job.draws == 1 else 'draws'} of {points} points",
    )
