"""What a report tells of a map beyond its worth: targets, and where not to trust it too much."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rasterio.transform import Affine
from shapely.geometry.base import BaseGeometry

from geocfm.errors import UserError
from geocfm.evaluation.report.content import MapPicture, TargetRow
from geocfm.events import Reporter
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid
from geocfm.geo.rasters import Layer, Stack
from geocfm.geo.writing import open_raster_for_blocks
from geocfm.inference.experience_map import ExperienceMap, OutsideTally
from geocfm.inference.occlusion import TargetCells, describe_effects, layers_that_matter
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import VARIATION, RawMap
from geocfm.inference.targets import Target, TargetRules, find_targets
from geocfm.model.experience import Experience

REPORTED_TARGETS = 10
AREA_SHARE = 0.05  # of the map, that targets lie in
UNCERTAINTY = "uncertainty"  # what its mean inside a target is called
DISAGREEMENT = (
    "Standard deviation of the density among the members of the ensemble, over its mean: where it "
    "is high, another choice of occurrences or another start of the training gives another map. "
    "Where the density is far below its mean, the picture fades away."
)
MOST_JUDGED = 1_000_000  # cells that are held against the model's experience: a few seconds
UNLIKE = (
    "How unlike all that the model has seen the layers are together: above 1 a place lies outside "
    "its experience, and its density is a guess."
)


@dataclass(frozen=True)
class MapExtras:
    """The best targets of a map, pictures of its uncertainty, and what is a guess."""

    targets: tuple[TargetRow, ...]
    outlines: dict[int, BaseGeometry]  # of the targets by rank, in (column, row) of the grid
    uncertainty: tuple[MapPicture, ...]
    outside_share: float | None  # of the area; None for a model that does not know what it has seen


def map_extras(
    raw: RawMap,
    grid: Grid,
    known: NDArray[np.float64],
    predictor: Predictor,
    experience: Experience | None,
    reporter: Reporter,
) -> MapExtras:
    """known: occurrences (N, 2) as (column, row)."""
    targets = _targets(raw, grid, known, reporter)
    rows = _rows(targets, grid, predictor, reporter)
    outlines = {target.rank: target.outline for target in targets}
    pictures = _uncertainty(raw, grid)
    if experience is None:
        return MapExtras(rows, outlines, pictures, None)
    beside = raw.path.with_name("experience.tif")
    share, unlike = _outside(predictor, experience, beside, reporter)
    return MapExtras(rows, outlines, pictures + unlike, share)


def effects_of_layers(
    predictor: Predictor, targets: list[Target], grid: Grid, reporter: Reporter
) -> dict[int, str]:
    """By rank, in words, the layers that raise the density in each target."""
    areas = [Area(target.outline, grid) for target in targets]
    places = [TargetCells(area.bounds, area.mask(area.bounds)) for area in areas]
    stage = reporter.stage("Asking which layers matter")
    effects = layers_that_matter(predictor, places, progress=stage)
    return {
        target.rank: describe_effects(own) for target, own in zip(targets, effects, strict=True)
    }


def _targets(
    raw: RawMap, grid: Grid, known: NDArray[np.float64], reporter: Reporter
) -> list[Target]:
    rules = TargetRules(
        number=REPORTED_TARGETS,
        area_share=AREA_SHARE,
        threshold=None,
        minimum_km2=None,
        exclude_km=None,
        smooth=1.0,
    )
    with Stack([Layer("map", str(raw.path), 1)], grid) as density:
        try:
            if VARIATION in raw.bands:
                layer = Layer(UNCERTAINTY, str(raw.path), raw.bands.index(VARIATION) + 1)
                with Stack([layer], grid) as beside:
                    found = find_targets(density, rules, known, beside, reporter)
            else:
                found = find_targets(density, rules, known, None, reporter)
        except UserError:  # a map without any high place
            return []
    return list(found.targets)


def _rows(
    targets: list[Target], grid: Grid, predictor: Predictor, reporter: Reporter
) -> tuple[TargetRow, ...]:
    if not targets:
        return ()
    layers = effects_of_layers(predictor, targets, grid, reporter)
    centres = [centre_of(target.outline, grid) for target in targets]
    return tuple(
        TargetRow(
            rank=target.rank,
            x=x,
            y=y,
            area_km2=target.area_km2,
            mass_share=target.mass_share,
            lift=target.lift,
            uncertainty=target.means.get(UNCERTAINTY),
            nearest_known_km=target.nearest_known_km,
            known_inside=target.known_inside or 0,
            layers=layers.get(target.rank, ""),
        )
        for target, (x, y) in zip(targets, centres, strict=True)
    )


def centre_of(outline: BaseGeometry, grid: Grid) -> tuple[float, float]:
    """World coordinates of the cell at an outline's centre, with as many digits as cells need.

    Of an outline that bends around its centre: of a cell inside.
    """
    centre = outline.centroid
    if not outline.contains(centre):
        centre = outline.representative_point()
    ((x, y),) = grid.to_world([(math.floor(centre.x) + 0.5, math.floor(centre.y) + 0.5)]).tolist()
    digits = max(0, 1 - math.floor(math.log10(min(grid.cell_size))))
    return round(x, digits), round(y, digits)


def _uncertainty(raw: RawMap, grid: Grid) -> tuple[MapPicture, ...]:
    if VARIATION not in raw.bands:
        return ()
    from geocfm.evaluation.map_pictures import band_picture  # matplotlib takes half a second

    band = raw.bands.index(VARIATION) + 1
    png = band_picture(raw.path, band, grid, VARIATION, raw.mean)
    return (MapPicture("Where the members of the ensemble disagree", DISAGREEMENT, png),)


def _outside(
    predictor: Predictor, experience: Experience, path: Path, reporter: Reporter
) -> tuple[float, tuple[MapPicture, ...]]:
    """The share of the area outside the model's experience, and a picture if there is any.

    Of a large grid some rows and columns stand for all. path: a raster for the picture.
    """
    grid = predictor.layers.grid
    every = max(1, math.ceil(math.sqrt(grid.height * grid.width / MOST_JUDGED)))
    judged = ExperienceMap(
        experience, predictor.encoder, predictor.layers, predictor.window_size, every=every
    )
    tally, stage, done = OutsideTally(grid), reporter.stage("Looking for what is unlike all"), 0
    shape = (-(-grid.height // every), -(-grid.width // every))
    found = np.full(shape, np.nan, dtype=np.float32)
    for block in judged.blocks():
        stage(done, grid.height * grid.width)
        tally.add(block)
        at = block.window
        rows, columns = (
            np.arange(-(-first // every) * every, stop, every)
            for first, stop in ((at.row, at.row_stop), (at.col, at.col_stop))
        )
        here = np.ix_(rows - at.row, columns - at.col)
        found[np.ix_(rows // every, columns // every)] = block.dissimilarity[here]
        done += at.height * at.width
    stage(done, done)
    if not tally.share:
        return 0.0, ()
    from geocfm.evaluation.map_pictures import band_picture  # matplotlib takes half a second

    coarse = Grid(grid.crs, grid.transform @ Affine.scale(every), *shape)
    with open_raster_for_blocks(path, coarse) as raster:
        raster.write(found, 1)
    png = band_picture(path, 1, grid, "dissimilarity")
    return tally.share, (MapPicture("Where the model has never been", UNLIKE, png),)
