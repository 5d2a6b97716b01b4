"""How one layer gets onto the grid: where it lies, and by which resampling it is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import shapely
from rasterio.transform import Affine

from geocfm.errors import UserError
from geocfm.geo.crs import crs_name
from geocfm.geo.grid import (
    EDGE_CELLS,
    Floats,
    Grid,
    Window,
    densify,
    describe_cell,
    full_turn,
    reproject_points,
    unrolled,
)
from geocfm.geo.layers import Layer

SAME_SIZE = 1e-3  # cells whose lengths differ by less than 0.1 % count as equally large
TURNED = 0.05  # cells that cross at a steeper slope than this count as turned to each other
MOST_PARTS = 8  # a cell is divided into at most this many parts along each side
PROBES = 17  # points along each side of the grid that are looked up in the source

DEEDS = {
    "average": "averaged onto the grid",
    "bilinear": "interpolated onto the grid",
    "nearest": "put onto the grid by the nearest cell",
}


@dataclass(frozen=True)
class Alignment:
    """What is done to a layer, also in words; cell sizes are in the source's own unit."""

    layer: Layer
    source_crs: str
    source_cell: tuple[float, float]
    resampling: str
    sentence: str


@dataclass(frozen=True)
class Unrolled:
    """A raster as it is met along the longitudes of a grid: once, or again after a whole turn.

    columns: where each copy begins in the grid of them all.
    """

    grid: Grid
    columns: tuple[int, ...] = (0,)


def unroll(source: Grid, grid: Grid) -> Unrolled:
    """A source in longitudes, moved by whole turns to where the grid is.

    0 to 360 degrees and -180 to 180 mean the same. Where the grid meets it twice, on both sides of
    its seam, it is there twice, if a turn is a whole number of its cells.
    """
    turn, t = full_turn(source.crs), source.transform
    seen = reproject_points(densify(grid.outline()), grid.crs, source.crs)
    if turn is None or source.is_rotated or t.a <= 0 or not np.isfinite(seen).all():
        return Unrolled(source)
    low, high = float(seen[:, 0].min()), float(seen[:, 0].max())
    left, right = t.c, t.c + t.a * source.width
    edge = t.a * EDGE_CELLS
    first = math.floor((low - right + edge) / turn) + 1
    turns = list(range(first, math.ceil((high - left - edge) / turn)))
    if turns in ([], [0]):
        return Unrolled(source)
    columns = turn / t.a
    if len(turns) > 1 and abs(columns - round(columns)) > EDGE_CELLS:
        overlaps = [min(high, right + n * turn) - max(low, left + n * turn) for n in turns]
        turns = [turns[int(np.argmax(overlaps))]]
    copies = tuple(round(columns) * number for number in range(len(turns)))
    moved = Affine(t.a, t.b, t.c + turns[0] * turn, t.d, t.e, t.f)
    whole = Grid(source.crs, moved, source.height, source.width + copies[-1])
    return Unrolled(whole, copies)


@dataclass(frozen=True)
class Placement:
    """How a layer is read: the window of the grid it can reach, and into how many parts a cell is
    divided along each side before it is averaged.

    GDAL averages over the upright box between two opposite corners of a cell as seen in the source.
    Where source and grid are turned by 45 degrees that box is a line, so such cells are read in
    small parts and averaged here.
    """

    alignment: Alignment
    reach: Window
    parts: int


def align(layer: Layer, source: Grid, grid: Grid) -> Placement:
    """Choose how a layer is read onto the grid."""
    reach, middle = _overlap(layer, source, grid)
    jacobian = _jacobian(source, grid, middle)
    ratio = source_cells_per_cell(source, grid, middle)
    parts = 1
    on_grid = shares_lattice(source, grid)
    if on_grid or layer.categorical:
        resampling = "nearest"
    elif ratio > 1 + SAME_SIZE:
        resampling = "average"
        if _is_turned(jacobian):
            parts = min(MOST_PARTS, math.ceil(ratio))
    else:
        resampling = "bilinear"
    deed = "already on the grid" if on_grid else DEEDS[resampling]
    if (layer.scale, layer.offset) != (1, 0) and not layer.categorical:
        deed += f", values as its file scales them (x {layer.scale:g} + {layer.offset:g})"
    name = crs_name(source.crs)
    sentence = (
        f"{layer.name}: {name}, {describe_cell(source.cell_size)} {source.unit} cells, {deed}"
    )
    alignment = Alignment(layer, name, source.cell_size, resampling, sentence)
    return Placement(alignment, reach, parts)


def shares_lattice(source: Grid, grid: Grid) -> bool:
    """Tell whether the source's cells are cells of the grid, extended as far as need be."""
    if source.crs != grid.crs:
        return False
    corners = grid.to_pixel(*source.outline().T)
    whole = np.round(corners[0])
    size = np.array([source.width, source.height])
    expected = whole + np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * size
    return bool(np.abs(corners - expected).max() <= EDGE_CELLS)


def source_cells_per_cell(source: Grid, grid: Grid, middle: Floats) -> float:
    """How many source cells lie along one cell of the grid, measured around the cell `middle`."""
    ratio = math.sqrt(abs(float(np.linalg.det(_jacobian(source, grid, middle)))))
    return ratio if math.isfinite(ratio) else 1.0


def _jacobian(source: Grid, grid: Grid, middle: Floats) -> Floats:
    """How far in the source, (column, row), a step of one cell of the grid leads. Rows: x, y."""
    points = middle + np.array([(-0.5, 0), (0.5, 0), (0, -0.5), (0, 0.5)])
    left, right, top, bottom = _to_source(points, source, grid)
    return np.stack([right - left, bottom - top])


def _is_turned(jacobian: Floats) -> bool:
    along = abs(jacobian[0, 0]) + abs(jacobian[1, 1])
    across = abs(jacobian[0, 1]) + abs(jacobian[1, 0])
    return bool(min(along, across) > TURNED * max(along, across))


def _to_source(points: Floats, source: Grid, grid: Grid) -> Floats:
    world = source.with_turns(reproject_points(grid.to_world(points), grid.crs, source.crs))
    return source.to_pixel(world[:, 0], world[:, 1])


def _overlap(layer: Layer, source: Grid, grid: Grid) -> tuple[Window, Floats]:
    """The window of the grid that the source can reach, and a point in it, (column, row).

    Looked at from both sides, for either can fail: the outline of a world raster has no place in
    a UTM zone, and a small raster falls between the probes of a large grid.
    """
    extent = shapely.box(0, 0, grid.width, grid.height)
    regions = []
    outline = reproject_points(densify(source.outline()), source.crs, grid.crs)
    outline = grid.with_turns(unrolled(outline, grid.crs), together=True)
    if np.isfinite(outline).all():
        footprint = shapely.make_valid(shapely.Polygon(grid.to_pixel(*outline.T)))
        regions.append(footprint.intersection(extent))
    columns, rows = np.linspace(0, grid.width, PROBES), np.linspace(0, grid.height, PROBES)
    probes = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2)
    pixel = _to_source(probes, source, grid)
    with np.errstate(invalid="ignore"):
        hits = probes[((pixel > 0) & (pixel < [source.width, source.height])).all(axis=1)]
    if len(hits):
        step = np.array([columns[1], rows[1]])
        low, high = hits.min(axis=0) - step, hits.max(axis=0) + step
        regions.append(shapely.box(*low, *high).intersection(extent))
    region = shapely.union_all(regions)
    if region.area == 0:
        raise UserError(
            f"The layer '{layer.name}' ({layer.path}) does not overlap the grid: it lies at "
            f"{source.place(source.crs)}, the grid at {grid.place(source.crs)}.",
            "Check its coordinate reference system and the grid's extent, or leave the layer out.",
        )
    left, top, right, bottom = region.bounds
    row, col = math.floor(top), math.floor(left)
    reach = Window(row, col, math.ceil(bottom) - row, math.ceil(right) - col)
    if len(hits):
        middle = hits[np.argmin(((hits - hits.mean(axis=0)) ** 2).sum(axis=1))]
    else:
        middle = np.asarray(shapely.get_coordinates(region.representative_point())[0])
    return reach, middle
