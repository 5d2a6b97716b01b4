"""Targets on the grid: their outlines, means of other rasters and known occurrences inside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.features import shapes
from rasterio.transform import Affine
from scipy.ndimage import find_objects
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from geocfm.events import Stage
from geocfm.geo.grid import Floats, Grid, Window
from geocfm.geo.rasters import Stack
from geocfm.inference.connected import ConnectedParts, Numbers

Targeted = NDArray[np.uint8]
"""For each cell the number of its target, from 1, or 0: one byte a cell."""

MOST_AT_ONCE = 255  # targets that a byte can tell apart


@dataclass(frozen=True)
class DrawnTarget:
    """A target on the grid. outline: a multipolygon in (column, row)."""

    outline: BaseGeometry
    means: Mapping[str, float | None]  # of other rasters by name; None where they have no data
    known_inside: int


def draw_targets(
    parts: ConnectedParts,
    wanted: Numbers,
    grid: Grid,
    known: Floats,
    beside: Stack | None,
    stage: Stage,
) -> list[DrawnTarget]:
    """The areas whose first pieces are ``wanted``, (N,), in that order.

    known: points (M, 2) as (column, row), also beyond the grid.
    """
    found: list[DrawnTarget] = []
    part_of_piece = parts.parts()
    for start in range(0, len(wanted), MOST_AT_ONCE):
        stage(start, len(wanted))
        chosen = wanted[start : start + MOST_AT_ONCE]
        number_of_part = np.zeros(parts.pieces, dtype=np.uint8)
        number_of_part[chosen] = np.arange(1, len(chosen) + 1)
        found += _draw(parts, number_of_part[part_of_piece], len(chosen), grid, known, beside)
    stage(len(wanted), len(wanted))
    return found


def _draw(
    parts: ConnectedParts,
    number_of_piece: NDArray[np.uint8],
    count: int,
    grid: Grid,
    known: Floats,
    beside: Stack | None,
) -> list[DrawnTarget]:
    targeted = np.zeros((grid.height, grid.width), dtype=np.uint8)
    means = Means([layer.name for layer in beside.layers] if beside else [], count)
    for strip in parts.strips():
        numbers = np.concatenate([[np.uint8(0)], number_of_piece[strip.pieces]])
        if not numbers.any():
            continue
        targeted[strip.rows] = numbers[parts.labels(strip)]
        if beside is not None:
            window = Window(strip.rows.start, 0, strip.rows.stop - strip.rows.start, grid.width)
            means.add(targeted[strip.rows], beside.read(window), grid.cell_areas(window))
    columns, rows = np.floor(known).astype(np.int64).T
    on_map = (columns >= 0) & (columns < grid.width) & (rows >= 0) & (rows < grid.height)
    inside = np.bincount(targeted[rows[on_map], columns[on_map]], minlength=count + 1)
    return [
        DrawnTarget(_outline(targeted, number, box), means.of(number), int(inside[number]))
        for number, box in enumerate(find_objects(targeted, max_label=count), 1)
    ]


def _outline(targeted: Targeted, number: int, box: tuple[slice, slice]) -> BaseGeometry:
    """The outline of a target, whose cells lie in the box.

    Cells that touch at a corner are polygons of their own: one ring around both would cross itself.
    """
    cells = (targeted[box] == number).view(np.uint8)
    place = Affine.translation(box[1].start, box[0].start)
    found = [shape(outline) for outline, _ in shapes(cells, cells, 4, place)]
    # older versions of GDAL let a ring touch itself where a hole meets the outside at a corner
    mended = [polygon if polygon.is_valid else shapely.make_valid(polygon) for polygon in found]
    return shapely.multipolygons(shapely.get_parts(mended))


class Means:
    """Means of rasters inside targets, weighted by area, gathered strip by strip."""

    def __init__(self, names: list[str], count: int) -> None:
        self._names = names
        self._sums = np.zeros((len(names), count + 1))
        self._km2 = np.zeros((len(names), count + 1))

    def add(self, targeted: Targeted, values: NDArray[np.float32], km2: Floats) -> None:
        """A strip: the cells' targets, (height, width), the rasters there, and areas."""
        areas = np.broadcast_to(km2, targeted.shape)
        size = self._sums.shape[1]
        for index, raster in enumerate(values):
            used = (targeted > 0) & np.isfinite(raster)
            numbers, weights = targeted[used], areas[used]
            self._sums[index] += np.bincount(numbers, raster[used] * weights, size)
            self._km2[index] += np.bincount(numbers, weights, size)

    def of(self, number: int) -> dict[str, float | None]:
        """The means in a target by name, None where a raster has no data."""
        pairs = zip(self._names, self._sums[:, number], self._km2[:, number], strict=True)
        return {name: float(total / area) if area else None for name, total, area in pairs}
