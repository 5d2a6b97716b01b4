"""Targets: the connected areas where a map is highest, ranked and measured.

The map is read in strips, twice: for the level above which cells belong to targets, and for the
areas that they make. Of these only bits are kept; the wanted ones are outlined from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.distance import NearestPlace, cell_reach_km
from geocfm.geo.grid import Floats, Window
from geocfm.geo.rasters import Stack
from geocfm.inference.connected import ConnectedParts, Numbers
from geocfm.inference.superlevel import MapStrip, MapTotals, measure_map, read_strips
from geocfm.inference.target_outlines import DrawnTarget, draw_targets

FEWEST_CELLS = 4  # of a target, where no least area is asked for
CELLS_AT_ONCE = 2_000_000  # of a strip; about 60 bytes each are in use at a time
OUTLINE_STEP = 1 / 8  # cells between the points of an outline that distances are taken from
MOST_OUTLINE_POINTS = 1_000_000
RANKED_DIGITS = 12  # of the share of mass; what differs by less ranks by place, from the north


@dataclass(frozen=True)
class TargetRules:
    """What makes a target."""

    number: int  # at most so many
    area_share: float  # the level is the one above which this share of the area lies
    threshold: float | None  # the level in relative density; outweighs the share
    minimum_km2: float | None  # None: FEWEST_CELLS cells
    exclude_km: float | None  # around known occurrences
    smooth: float  # cells


@dataclass(frozen=True)
class Target:
    """A connected area of high density. outline: polygons in (column, row) of the map's grid."""

    rank: int
    outline: BaseGeometry
    area_km2: float
    mass_share: float  # of the predicted mass of the whole map
    lift: float  # its mean density over the map's
    peak: float  # its highest density over the map's mean
    means: Mapping[str, float | None]  # of other rasters by name; None where they have no data
    nearest_known_km: float | None
    known_inside: int | None


@dataclass(frozen=True)
class Targets:
    """Targets by rank, what they were chosen from, and by which level."""

    targets: list[Target]
    level: float  # relative density
    mapped_km2: float
    left_out: int  # areas that were large enough, but more than were asked for
    too_small: int


@dataclass(frozen=True)
class Areas:
    """Connected areas, one entry each, (N,). part: the number of the first piece of each."""

    part: Numbers
    cells: Floats  # how many
    km2: Floats
    mass: Floats
    peak: Floats

    def __getitem__(self, chosen: Numbers | NDArray[np.bool_]) -> Areas:
        return Areas(
            self.part[chosen],
            self.cells[chosen],
            self.km2[chosen],
            self.mass[chosen],
            self.peak[chosen],
        )


def find_targets(
    density: Stack,
    rules: TargetRules,
    known: Floats | None,
    beside: Stack | None,
    reporter: Reporter,
    cells_at_once: int = CELLS_AT_ONCE,
) -> Targets:
    """The targets of a map, which is the one layer of ``density``.

    known: occurrences (N, 2) as (column, row), also beyond the map. beside: rasters whose means
    inside the targets are wanted, on the map's grid.
    """
    grid = density.grid
    totals = measure_map(density, rules.smooth, cells_at_once, reporter.stage("Reading the map"))
    if rules.threshold is not None:
        level = rules.threshold * totals.mean
    else:
        level = totals.level_of(rules.area_share)
    nearest = None if known is None else NearestPlace(grid, known)
    # with the cell's own reach, so that no corner of a target is nearer
    reach_km = None if rules.exclude_km is None else rules.exclude_km + cell_reach_km(grid)
    stage = reporter.stage("Finding targets")
    parts = ConnectedParts(grid.width)
    pieces = []
    for strip in read_strips(density, rules.smooth, cells_at_once):
        stage(strip.window.row, grid.height)
        cells = strip.smoothed >= level
        if nearest is not None and reach_km is not None:
            _leave_out(cells, strip.window, nearest, reach_km)
        pieces.append(_measure(strip, cells, parts))
    stage(grid.height, grid.height)
    areas = _joined(pieces, parts)
    if not len(areas.part):
        raise _none_above(rules, totals, level)
    large = _large_enough(areas, rules)
    order = np.argsort(-np.round(large.mass / totals.mass, RANKED_DIGITS), kind="stable")
    best = large[order[: rules.number]]

    stage = reporter.stage("Outlining targets")
    places = np.zeros((0, 2)) if known is None else known
    drawn = draw_targets(parts, best.part, grid, places, beside, stage)
    targets = [
        Target(
            rank=index + 1,
            outline=shown.outline,
            area_km2=float(best.km2[index]),
            mass_share=float(best.mass[index] / totals.mass),
            lift=float(best.mass[index] / best.km2[index] / totals.mean),
            peak=float(best.peak[index] / totals.mean),
            means=shown.means,
            nearest_known_km=None if nearest is None else _distance(shown, nearest),
            known_inside=None if known is None else shown.known_inside,
        )
        for index, shown in enumerate(drawn)
    ]
    return Targets(
        targets,
        level / totals.mean,
        totals.area_km2,
        left_out=len(large.part) - len(targets),
        too_small=len(areas.part) - len(large.part),
    )


# The areas that cells above the level make.


def _leave_out(
    cells: NDArray[np.bool_], window: Window, nearest: NearestPlace, reach_km: float
) -> None:
    """Take the cells of a window out whose centres lie within reach of a known occurrence."""
    rows, columns = np.nonzero(cells)
    centres = np.stack([columns + window.col, rows + window.row], axis=1) + 0.5
    near = np.isfinite(nearest.km(centres, within=reach_km))
    cells[rows[near], columns[near]] = False


def _measure(strip: MapStrip, cells: NDArray[np.bool_], parts: ConnectedParts) -> Areas:
    """The pieces of areas that lie in a strip."""
    labels, count = parts.add(cells)
    density, km2 = strip.density[cells].astype(np.float64), strip.km2[cells]
    each = Areas(labels[cells].astype(np.int64) - 1, np.ones(len(km2)), km2, density * km2, density)
    return _together(each, each.part, np.arange(count))


def _joined(pieces: list[Areas], parts: ConnectedParts) -> Areas:
    """Whole areas from their pieces in strips, in the order of their first cells."""
    part_of_piece = parts.parts()
    part, place = np.unique(part_of_piece, return_inverse=True)
    cells, km2, mass, peak = (
        np.concatenate([getattr(found, name) for found in pieces])
        for name in ("cells", "km2", "mass", "peak")
    )
    return _together(Areas(part_of_piece, cells, km2, mass, peak), place, part)


def _together(found: Areas, place: Numbers, part: Numbers) -> Areas:
    """Areas put together by the places, (N,), that they have among the parts."""
    count = len(part)
    peak = np.zeros(count)
    np.maximum.at(peak, place, found.peak)
    return Areas(
        part,
        cells=_sums(place, found.cells, count),
        km2=_sums(place, found.km2, count),
        mass=_sums(place, found.mass, count),
        peak=peak,
    )


def _sums(place: Numbers, values: Floats, count: int) -> Floats:
    return np.bincount(place, values, count).astype(np.float64, copy=False)


def _none_above(rules: TargetRules, totals: MapTotals, level: float) -> UserError:
    smoothed = " after smoothing" if rules.smooth else ""
    if totals.highest_smoothed < level:
        return UserError(
            f"No cell of the map has a relative density of {level / totals.mean:.4g} or more"
            f"{smoothed}; the highest is {totals.highest_smoothed / totals.mean:.4g}.",
            "Give a lower --threshold, or --area-share instead.",
        )
    return UserError(
        f"All cells with a relative density of {level / totals.mean:.4g} or more lie within "
        f"{rules.exclude_km:g} km of known occurrences.",
        "Give a smaller --exclude, or a larger --area-share (a lower --threshold).",
    )


def _large_enough(areas: Areas, rules: TargetRules) -> Areas:
    if rules.minimum_km2 is None:
        fitting, least = areas.cells >= FEWEST_CELLS, f"{FEWEST_CELLS} cells"
    else:
        fitting, least = areas.km2 >= rules.minimum_km2, in_km2(rules.minimum_km2)
    if not fitting.any():
        largest = int(np.argmax(areas.km2))
        raise UserError(
            f"None of the {len(areas.part):,} connected areas of high density has {least} or more; "
            f"the largest has {in_km2(areas.km2[largest])} ({areas.cells[largest]:,.0f} cells).",
            "Give a smaller --minimum-area, a larger --area-share (a lower --threshold), or more "
            "--smooth.",
        )
    return areas[fitting]


# How it is told.


def _distance(target: DrawnTarget, nearest: NearestPlace) -> float:
    """From the target to the nearest known occurrence in km, 0 if one lies inside."""
    if target.known_inside:
        return 0.0
    step = max(OUTLINE_STEP, target.outline.length / MOST_OUTLINE_POINTS)
    points = shapely.get_coordinates(shapely.segmentize(target.outline, step))
    return float(nearest.km(points).min())


def in_km2(area: float) -> str:
    """An area for people."""
    return f"{area:,.0f} km2" if area >= 100 else f"{area:.3g} km2"
