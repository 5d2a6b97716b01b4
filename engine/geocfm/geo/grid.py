"""The one reference grid of a job, and rectangles of its cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import rasterio.windows
import shapely
from numpy.typing import ArrayLike, NDArray
from rasterio._err import CPLE_BaseError
from rasterio.crs import CRS
from rasterio.transform import Affine
from rasterio.warp import transform as warp_points

from geocfm.errors import UserError
from geocfm.geo.crs import crs_name, read_crs

Floats = NDArray[np.float64]

ALIGNED_CELLS = 1e-6  # two grids are the same if no corner differs by more, in cells
EDGE_CELLS = 1e-3  # an outline this near to a cell edge is taken to lie on it
MOST_CELLS = 10**12  # of a grid; more comes of a wrong unit, extent or CRS
FARTHEST = 1e12  # units of a CRS; on Earth there is nothing beyond
SMALLEST_CELL = 1e-9  # units of a CRS
OUTLINE_POINTS = 2000  # points along an outline before it is reprojected

DAMAGED = "The model's file is damaged or was changed; train again or take another copy."

WGS84_A_KM = 6378.137
WGS84_E2 = 0.00669437999014

UNIT_SYMBOLS = {
    "metre": "m",
    "meter": "m",
    "kilometre": "km",
    "foot": "ft",
    "us survey foot": "US ft",
}


@dataclass(frozen=True)
class Window:
    """A rectangle of cells, (row, col) of its first one; it may reach past the grid."""

    row: int
    col: int
    height: int
    width: int

    @property
    def row_stop(self) -> int:
        """The row after the last one."""
        return self.row + self.height

    @property
    def col_stop(self) -> int:
        """The column after the last one."""
        return self.col + self.width

    @property
    def cells(self) -> int:
        """How many there are."""
        return self.height * self.width

    def grown(self, cells: int) -> Window:
        """Give this window with so many cells more on each side."""
        return Window(
            self.row - cells, self.col - cells, self.height + 2 * cells, self.width + 2 * cells
        )

    def intersection(self, other: Window) -> Window | None:
        """Give the cells in both windows, None if there are none."""
        row, col = max(self.row, other.row), max(self.col, other.col)
        height = min(self.row_stop, other.row_stop) - row
        width = min(self.col_stop, other.col_stop) - col
        return Window(row, col, height, width) if height > 0 and width > 0 else None

    def contains(self, other: Window) -> bool:
        """Tell whether every cell of `other` is one of this window's."""
        return (
            self.row <= other.row
            and self.col <= other.col
            and self.row_stop >= other.row_stop
            and self.col_stop >= other.col_stop
        )

    def slices_in(self, outer: Window) -> tuple[slice, slice]:
        """Where this window lies in an array that holds `outer`, which must contain it."""
        if not outer.contains(self):
            raise ValueError(f"{self} does not lie in {outer}")
        row, col = self.row - outer.row, self.col - outer.col
        return slice(row, row + self.height), slice(col, col + self.width)

    def to_rasterio(self) -> rasterio.windows.Window:
        """Give the same rectangle as rasterio's type, which counts columns first."""
        return rasterio.windows.Window(self.col, self.row, self.width, self.height)


def bounding_window(windows: Iterable[Window]) -> Window:
    """Give the smallest window that contains all of these; there must be one at least."""
    edges = np.array([(w.row, w.col, w.row_stop, w.col_stop) for w in windows])
    row, col = edges[:, :2].min(axis=0).tolist()
    row_stop, col_stop = edges[:, 2:].max(axis=0).tolist()
    return Window(row, col, row_stop - row, col_stop - col)


@dataclass(frozen=True)
class Grid:
    """Cells in the world; (row i, column j) covers [j, j+1) x [i, i+1) in pixel coordinates."""

    crs: CRS
    transform: Affine
    height: int
    width: int

    def window(self) -> Window:
        """Give the whole grid as a window."""
        return Window(0, 0, self.height, self.width)

    def subgrid(self, window: Window) -> Grid:
        """Give the grid of a window's cells, also of those beyond this grid."""
        t = self.transform
        moved = t.c + t.a * window.col + t.b * window.row, t.f + t.d * window.col + t.e * window.row
        transform = Affine(t.a, t.b, moved[0], t.d, t.e, moved[1])
        return Grid(self.crs, transform, window.height, window.width)

    def divided(self, parts: int) -> Grid:
        """Give the grid whose cells are this one's, divided into parts x parts."""
        t = self.transform
        a, b, d, e = (number / parts for number in (t.a, t.b, t.d, t.e))
        transform = Affine(a, b, t.c, d, e, t.f)
        return Grid(self.crs, transform, self.height * parts, self.width * parts)

    def to_pixel(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """World coordinates in the grid's CRS to (column, row). Returns (N, 2)."""
        t = self.transform
        dx = np.atleast_1d(np.asarray(x, dtype=np.float64)) - t.c
        dy = np.atleast_1d(np.asarray(y, dtype=np.float64)) - t.f
        determinant = t.a * t.e - t.b * t.d
        with np.errstate(invalid="ignore"):  # a point without a place in this CRS is inf
            columns = (t.e * dx - t.b * dy) / determinant
            rows = (t.a * dy - t.d * dx) / determinant
        return np.stack([columns, rows], axis=1)

    def to_world(self, points: ArrayLike) -> Floats:
        """(column, row) to world (x, y) in the grid's CRS. points: (N, 2). Returns (N, 2)."""
        t = self.transform
        pixel = np.asarray(points, dtype=np.float64).reshape(-1, 2)
        columns, rows = pixel[:, 0], pixel[:, 1]
        x = t.a * columns + t.b * rows + t.c
        y = t.d * columns + t.e * rows + t.f
        return np.stack([x, y], axis=1)

    def outline(self) -> Floats:
        """Give the four corners in the grid's CRS. Returns (4, 2)."""
        return self.to_world([(0, 0), (self.width, 0), (self.width, self.height), (0, self.height)])

    @property
    def cell_size(self) -> tuple[float, float]:
        """Width and height of a cell in the CRS's unit, along the grid's own axes."""
        t = self.transform
        return math.hypot(t.a, t.d), math.hypot(t.b, t.e)

    @property
    def unit(self) -> str:
        """The unit of the CRS, as it is written after a number: m, degree, ft."""
        name = str(self.crs.units_factor[0])
        return UNIT_SYMBOLS.get(name.lower(), name)

    def length(self, *lengths: float) -> str:
        """Write one length, or the two of a cell, with the unit: 500 m, 1.5 x 2 degrees."""
        numbers = describe_cell((lengths[0], lengths[-1]))
        return f"{numbers} {self.unit}{'s' * (self.unit == 'degree' and numbers != '1')}"

    @property
    def is_rotated(self) -> bool:
        """Whether columns and rows run otherwise than along the CRS's axes."""
        return bool(self.transform.b or self.transform.d)

    def cell_areas(self, window: Window) -> Floats:
        """Areas of the window's cells in km2, broadcastable to (height, width).

        Degrees use the ellipsoid (WGS 84) at each cell's centre. Projected cells count as the
        projection draws them.
        """
        t = self.transform
        determinant = abs(t.a * t.e - t.b * t.d)
        factor = float(self.crs.units_factor[1])
        if not self.crs.is_geographic:
            return np.full((1, 1), determinant * factor**2 / 1e6)
        rows = np.arange(window.row, window.row_stop)[:, None] + 0.5
        columns = np.arange(window.col, window.col_stop)[None, :] + 0.5
        latitude = t.e * rows + t.f
        if t.d:
            latitude = latitude + t.d * columns
        sine = np.sin(latitude * factor)
        cosine = np.clip(np.cos(latitude * factor), 0.0, None)
        # radii of curvature along the meridian times across it
        curvature = WGS84_A_KM**2 * (1 - WGS84_E2) / (1 - WGS84_E2 * sine**2) ** 2
        areas: Floats = determinant * factor**2 * curvature * cosine
        return areas

    def with_turns(self, points: Floats, together: bool = False) -> Floats:
        """World points (N, 2) with longitudes moved by whole turns to be nearest to the grid.

        together: all by as many turns, for a line that must not be torn.
        """
        turn = full_turn(self.crs)
        if turn is None:
            return points
        middle = self.to_world([(self.width / 2, self.height / 2)])[0, 0]
        moved = points.copy()
        with np.errstate(invalid="ignore"):  # inf has no place
            x = points[:, 0].mean() if together else points[:, 0]
            moved[:, 0] -= turn * np.round((x - middle) / turn)
        return moved

    def aligned_with(self, other: Grid) -> bool:
        """Tell whether both grids have the same cells."""
        if (self.height, self.width) != (other.height, other.width) or self.crs != other.crs:
            return False
        corners = other.outline()
        offset = self.to_pixel(corners[:, 0], corners[:, 1]) - self.to_pixel(*self.outline().T)
        return bool(np.abs(offset).max() <= ALIGNED_CELLS)

    def describe(self) -> str:
        """Say what the grid is, as a part of a sentence."""
        turned = ", rotated" if self.is_rotated else ""
        return (
            f"{self.height} rows x {self.width} columns of {describe_cell(self.cell_size)} "
            f"{self.unit} cells in {crs_name(self.crs)}{turned}"
        )

    def place(self, crs: CRS) -> str:
        """Say where the grid lies, in a CRS if it has a place there, as a part of a sentence."""
        corners = reproject_points(self.outline(), self.crs, crs)
        if not np.isfinite(corners).all():
            corners, crs = self.outline(), self.crs
        bounds = (*corners.min(axis=0).tolist(), *corners.max(axis=0).tolist())
        return describe_place(bounds, crs)

    def to_dict(self) -> dict[str, Any]:
        """Give plain values for JSON."""
        return {
            "crs": self.crs.to_wkt(),
            "transform": list(self.transform)[:6],
            "height": self.height,
            "width": self.width,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Grid:
        """Rebuild a grid from `to_dict`."""
        try:
            crs = read_crs(values["crs"])
        except UserError as error:
            raise UserError("The CRS of the model's grid cannot be read.", DAMAGED) from error
        transform = Affine(*(float(number) for number in values["transform"]))
        if not has_place(transform):
            raise UserError("The place of the model's grid cannot be right.", DAMAGED)
        return cls(crs, transform, int(values["height"]), int(values["width"]))

    def covering(self, outline_xy: ArrayLike, crs: CRS) -> Grid:
        """Give the grid on this lattice that covers a polygon; its outline (N, 2) is in `crs`."""
        outline = densify(np.asarray(outline_xy, dtype=np.float64))
        points = unrolled(reproject_points(outline, crs, self.crs), self.crs)
        if not np.isfinite(points).all():
            raise UserError(
                f"The area cannot be expressed in {crs_name(self.crs)}.",
                "Choose a CRS that is made for this part of the world.",
            )
        pixel = self.to_pixel(points[:, 0], points[:, 1])
        columns, rows = np.ptp(pixel, axis=0).tolist()
        refuse_countless(
            rows,
            columns,
            "Check the extent, and that every raster has its right CRS; the cells are "
            f"{self.length(*self.cell_size)} in {crs_name(self.crs)}.",
        )
        first = np.floor(pixel.min(axis=0) + EDGE_CELLS).astype(int)
        stop = np.maximum(np.ceil(pixel.max(axis=0) - EDGE_CELLS).astype(int), first + 1)
        col, row = int(first[0]), int(first[1])
        return self.subgrid(Window(row, col, int(stop[1]) - row, int(stop[0]) - col))


def has_place(transform: Affine) -> bool:
    """Whether cells have a place and a size on Earth, with which one can reckon."""
    a, b, c, d, e, f = transform[:6]
    if not all(abs(number) <= FARTHEST for number in (a, b, c, d, e, f)):  # NaN is not
        return False
    return min(math.hypot(a, d), math.hypot(b, e)) >= SMALLEST_CELL and a * e != b * d


def densify(outline: Floats) -> Floats:
    """Add points along a closed outline, so that its edges bend as they should when reprojected."""
    ring = shapely.LinearRing(outline)
    dense: Floats = shapely.get_coordinates(
        shapely.segmentize(ring, max(ring.length / OUTLINE_POINTS, 1e-12))
    )
    return dense


def reproject_points(points: Floats, source: CRS, target: CRS) -> Floats:
    """World points (N, 2) from one CRS to another; those that have no place there become inf."""
    if source == target or len(points) == 0:
        return points
    try:
        x, y = warp_points(source, target, points[:, 0], points[:, 1])
    except CPLE_BaseError:  # PROJ may refuse all points for the sake of one
        if len(points) == 1:
            return np.full((1, 2), np.inf)
        halves = np.array_split(points, 2)
        return np.concatenate([reproject_points(half, source, target) for half in halves])
    return np.stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)], axis=1)


def full_turn(crs: CRS) -> float | None:
    """A whole turn around the earth in the CRS's unit; None where x is no longitude."""
    return 2 * math.pi / float(crs.units_factor[1]) if crs.is_geographic else None


def unrolled(ring: Floats, crs: CRS) -> Floats:
    """A closed line (N, 2) without the jump of its longitudes from 180 to -180.

    One around a pole, which has no end to be joined to its beginning, stays as it is.
    """
    turn = full_turn(crs)
    if turn is None or not np.isfinite(ring).all():
        return ring
    x = np.unwrap(ring[:, 0], period=turn)
    closed = abs((x[-1] - x[0]) - (ring[-1, 0] - ring[0, 0])) < turn / 2
    return np.stack([x, ring[:, 1]], axis=1) if closed else ring


def refuse_countless(rows: float, columns: float, remedy: str) -> None:
    """Refuse a grid of more cells than any data has."""
    if rows * columns > MOST_CELLS:
        raise UserError(f"The grid would have {rows:,.0f} rows x {columns:,.0f} columns.", remedy)


def describe_place(bounds: tuple[float, float, float, float], crs: CRS) -> str:
    """Write where something lies; bounds are (xmin, ymin, xmax, ymax)."""
    left, bottom, right, top = (f"{number:.7g}" for number in bounds)
    return f"x {left} to {right}, y {bottom} to {top} ({crs_name(crs)})"


def describe_cell(size: tuple[float, float]) -> str:
    """Write a cell's size without its unit: 500, or 500 x 400."""
    width, height = (f"{length:.6g}" for length in size)
    return width if width == height else f"{width} x {height}"
