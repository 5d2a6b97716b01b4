"""Map and sample: a checkpoint applied to layers that fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import rasterio
import torch

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.area import Area, read_area
from geocfm.geo.grid import Grid, Window
from geocfm.geo.rasters import Layer, Stack, grid_like, layer_grid
from geocfm.geo.writing import Band, open_raster_for_blocks, write_cog, write_points
from geocfm.inference.experience_map import OUTSIDE, ExperienceMap, OutsideTally
from geocfm.inference.layer_likeness import doubts_about_layers
from geocfm.inference.model_map import map_source
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_draws import DrawnMap, draw_region
from geocfm.inference.regional_map import (
    DENSITY,
    INFORMATION,
    MEANING,
    MONTE_CARLO,
    UNIT,
    VARIATION,
    RawMap,
    write_raw_map,
)
from geocfm.job import ApplyingJob, MapJob, RegionJob, SampleJob
from geocfm.layer_spec import gdal_name
from geocfm.model.checkpoint import ModelCard, load_checkpoint
from geocfm.model.device import choose_device
from geocfm.model.experience import Experience
from geocfm.results import sidecar
from geocfm.run.inputs import given_layers
from geocfm.run.learned_area import LearnedArea, learned_area
from geocfm.run.needs import (
    draws_disk_bytes,
    ensure_drawing_fits,
    ensure_mapping_fits,
    map_disk_bytes,
)
from geocfm.run.provenance import TAG, Provenance
from geocfm.run.room import ensure_room
from geocfm.run.workplace import Workplace

REPETITIONS = 4  # of a map from draws, that tell its Monte-Carlo error
UNCERTAINTY = {  # bands: their units and what they mean
    VARIATION: (
        "1",
        "standard deviation of the density among the members of the ensemble, over its mean.",
    ),
    INFORMATION: (
        "nats",
        "mutual information between member and place, per expected occurrence: 0 where all members "
        "agree.",
    ),
    OUTSIDE: ("1", "1 where the layers together are unlike all that the model has seen, else 0."),
}
MONTE_CARLO_ERROR = {
    MONTE_CARLO: (
        "1",
        "relative standard error of the density that comes of the number of draws alone. It is no "
        "uncertainty about geology: more draws make it smaller.",
    )
}
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
    experience: Experience | None
    learned: LearnedArea  # of an evaluation, whose layers have no data outside it

    @property
    def grid(self) -> Grid:
        """The region's grid."""
        return self.predictor.layers.grid

    @property
    def shown(self) -> Window:
        """The part of it that is mapped, which is that around the area if there is one."""
        return self.grid.window() if self.area is None else self.area.bounds


@dataclass(frozen=True)
class FoundRegion:
    """The model's layers, names of others that were given, and where the model is applied."""

    layers: list[Layer]
    unused: list[str]
    training_grid: Grid
    grid: Grid
    area: Area | None
    learned: LearnedArea = field(default_factory=LearnedArea)


def find_region(job: ApplyingJob, card: ModelCard) -> FoundRegion:
    """Match the layers by name, and find the grid that they will be aligned on."""
    layers, unused = match_layers(card, given_layers(job))
    training_grid = Grid.from_dict(card.grid.model_dump())
    if not isinstance(job, RegionJob):  # an evaluation is about the model's own tiles
        learned = learned_area(card, training_grid)
        return FoundRegion(layers, unused, training_grid, training_grid, None, learned)
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
    if found.learned.doubt:
        reporter.warn(found.learned.doubt)
    with Stack(found.layers, found.grid, found.learned.area) as stack:
        shown = found.grid if found.area is None else found.grid.subgrid(found.area.bounds)
        reporter.note(f"The region has {shown.describe()}.")
        predictor = Predictor(checkpoint, stack, sampling, device)
        warn_of_layers(predictor, found.area, reporter)
        yield Application(
            *(card, found.training_grid, stack, predictor, found.area, device),
            *(checkpoint.experience, found.learned),
        )
        for sentence in predictor.warnings():
            reporter.warn(sentence)


def warn_of_layers(predictor: Predictor, area: Area | None, reporter: Reporter) -> None:
    """Say which layers are not what the model learned from, as far as some cells tell."""
    zero_is_nodata = predictor.card.settings.windows.zero_is_nodata
    for sentence in doubts_about_layers(
        predictor.layers, predictor.card.layers, area, zero_is_nodata=zero_is_nodata
    ):
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
        return grid_like(gdal_name(like), layers)
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
    """Relative density over the region, as a Cloud Optimized GeoTIFF, and its uncertainty."""
    with applying(job, reporter) as work:
        if job.uncertainty and work.experience is None and not work.card.others:
            raise UserError(
                "This model is one network and does not know what it has seen, so it cannot tell "
                "its uncertainty.",
                "Train it again, with --ensemble 3 for the disagreement of three networks.",
            )
        repetitions = REPETITIONS if job.monte_carlo_error else 1
        raw = raw_map(work, job.seed, place, reporter, job.temperature, repetitions)
        tags = _tags(work.card, place.provenance)
        write_cog(
            raw.path,
            place.folder / "map.tif",
            bands=[Band(1, DENSITY, UNIT, 1 / raw.mean)],
            tags=tags,
        )
        beside = {}
        if job.uncertainty:
            beside["uncertainty.tif"] = job.uncertainty
            _write_uncertainty(work, raw, place, tags, reporter)
        if job.monte_carlo_error:
            beside["monte_carlo.tif"] = job.monte_carlo_error
            _write_bands(raw.path, raw.bands, MONTE_CARLO_ERROR, place, "monte_carlo.tif", tags)
    for name, path in beside.items():
        place.deliver(name, path)
    place.deliver("map.tif", job.out)
    reporter.note(f"{raw.area_km2:,.0f} km2 mapped.")
    reporter.report("map", {"area_km2": raw.area_km2})
    reporter.wrote("prospectivity", job.out, f"prospectivity map ({UNIT})")
    if job.uncertainty:
        reporter.wrote("uncertainty", job.uncertainty, "how the members of the ensemble disagree")
    if job.monte_carlo_error:
        reporter.wrote(
            "monte-carlo", job.monte_carlo_error, "error of the map that comes of its draws alone"
        )


def _write_uncertainty(
    work: Application,
    raw: RawMap,
    place: Workplace,
    tags: dict[str, str],
    reporter: Reporter,
) -> None:
    """How members disagree, and where the layers are unlike what the model has seen."""
    told = [band for band in raw.bands if band in UNCERTAINTY]
    if work.experience is None:
        _write_bands(raw.path, raw.bands, UNCERTAINTY, place, "uncertainty.tif", tags)
        return
    if not told:
        reporter.note(
            "The model is one network, so nobody can disagree with it: the uncertainty only tells "
            "where the layers lie outside what it has seen. Train with --ensemble 3 for more."
        )
    predictor, area = work.predictor, work.area
    shown = work.shown
    seen = ExperienceMap(
        work.experience, predictor.encoder, work.stack, predictor.window_size, area
    )
    tally = OutsideTally(work.grid)
    stage = reporter.stage("Looking for what is unlike all seen before")
    path, done = place.folder / "uncertainty_raw.tif", 0
    grid = work.grid.subgrid(shown)
    with (
        rasterio.open(raw.path) as source,
        open_raster_for_blocks(path, grid, count=len(told) + 1) as raster,
    ):
        for block in seen.blocks():
            tally.add(block)
            at = block.window
            place_in = Window(at.row - shown.row, at.col - shown.col, at.height, at.width)
            outside = (block.dissimilarity > 1).astype(np.float32)
            outside[np.isnan(block.dissimilarity)] = np.nan
            bands = [
                source.read(raw.bands.index(band) + 1, window=place_in.to_rasterio())
                for band in told
            ]
            raster.write(np.stack([*bands, outside]), window=place_in.to_rasterio())
            done += at.height * at.width
            stage(done, shown.height * shown.width)
    reporter.note(tally.sentence())
    _write_bands(path, [*told, OUTSIDE], UNCERTAINTY, place, "uncertainty.tif", tags)


def _write_bands(
    path: Path,
    there: Sequence[str],
    meanings: Mapping[str, tuple[str, str]],
    place: Workplace,
    name: str,
    tags: dict[str, str],
) -> None:
    """Those bands of a raster that have a meaning here, as a result in the work folder."""
    chosen = [
        Band(there.index(band) + 1, band, unit)
        for band, (unit, _) in meanings.items()
        if band in there
    ]
    said = " ".join(f"{band.name}: {meanings[band.name][1]}" for band in chosen)
    write_cog(path, place.folder / name, bands=chosen, tags={**tags, "GEOCFM_MEANING": said})


def raw_map(
    work: Application,
    seed: int,
    place: Workplace,
    reporter: Reporter,
    temperature: float = 1.0,
    repetitions: int = 1,
) -> RawMap:
    """The model's map in the work folder, before its scale is known."""
    if repetitions > 1 and work.card.settings.is_local:
        raise UserError(
            "This model's map has no Monte-Carlo error: it is one pass of the network, without any "
            "draws.",
            "Leave out --monte-carlo-error; --uncertainty tells where an ensemble disagrees.",
        )
    members = 1 + len(work.card.others)
    tile = ensure_mapping_fits(work.card, work.grid, work.device, members * repetitions)
    shown = work.shown
    if not place.continued:  # else a part of it is there already
        cells = shown.height * shown.width * members * repetitions
        ensure_room(place.folder.parent, map_disk_bytes(cells), "The map")
    source = map_source(work.predictor, work.area, seed, tile, repetitions)
    return write_raw_map(
        place.folder / "raw.tif",
        source,
        work.area,
        Parts(place.folder / MAP_PARTS),
        reporter.stage("Mapping"),
        temperature,
    )


def run_sample(job: SampleJob, place: Workplace, reporter: Reporter) -> None:
    """Draws of plausible occurrences, as points."""
    with applying(job, reporter) as work:
        points = job.points or work.card.settings.sampling.points
        tile = ensure_drawing_fits(work.card, work.grid, points, job.draws, work.device)
        if not place.continued:
            ensure_room(place.folder.parent, draws_disk_bytes(points * job.draws), "The result")
        drawn = draw_region(
            work.predictor,
            DrawnMap(raw_map(work, job.seed, place, reporter), work.area),
            points,
            job.draws,
            job.seed,
            tile,
            Parts(place.folder / MAP_PARTS),
            reporter,
        )
        description = (
            "Plausible occurrences drawn from the learned density. draw: number of the independent "
            "draw; log_relative_density: natural logarithm of the map's relative density in the "
            "point's cell (0 = regional mean)."
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
