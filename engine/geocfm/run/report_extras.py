"""What a report tells of a map beyond its worth: the best targets, and where members disagree."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from geocfm.errors import UserError
from geocfm.evaluation.report.content import MapPicture, TargetRow
from geocfm.events import Reporter
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid
from geocfm.geo.rasters import Layer, Stack
from geocfm.inference.occlusion import TargetCells, describe_effects, layers_that_matter
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import VARIATION, RawMap
from geocfm.inference.targets import Target, TargetRules, find_targets

REPORTED_TARGETS = 10
AREA_SHARE = 0.05  # of the map, that targets lie in
UNCERTAINTY = "uncertainty"  # what its mean inside a target is called
DISAGREEMENT = (
    "Standard deviation of the density among the members of the ensemble, over its mean: where it "
    "is high, another choice of occurrences or another start of the training gives another map. "
    "Where the density is far below its mean, the picture fades away."
)


@dataclass(frozen=True)
class MapExtras:
    """The best targets of a map, their outlines by rank, and pictures of its uncertainty."""

    targets: tuple[TargetRow, ...]
    outlines: dict[int, BaseGeometry]  # in (column, row) of the map's grid
    uncertainty: tuple[MapPicture, ...]


def map_extras(
    raw: RawMap,
    grid: Grid,
    known: NDArray[np.float64],
    predictor: Predictor,
    reporter: Reporter,
) -> MapExtras:
    """known: occurrences (N, 2) as (column, row)."""
    targets = _targets(raw, grid, known, reporter)
    return MapExtras(
        _rows(targets, grid, predictor, reporter),
        {target.rank: target.outline for target in targets},
        _uncertainty(raw, grid),
    )


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
    png = band_picture(raw.path, band, grid, 1 / raw.mean, VARIATION)
    return (MapPicture("Where the members of the ensemble disagree", DISAGREEMENT, png),)
