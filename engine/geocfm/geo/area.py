"""An area of interest on the grid: which cells lie inside the user's polygons."""

from __future__ import annotations

import math
import os

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.features import rasterize
from rasterio.transform import Affine
from shapely.geometry.base import BaseGeometry

from geocfm.errors import UserError
from geocfm.geo.grid import OUTLINE_POINTS, Grid, Window
from geocfm.geo.misplaced import doubt_unit, place_on_grid
from geocfm.geo.vectors import read_features


class Area:
    """Polygons in the grid's pixel coordinates."""

    def __init__(self, polygons: BaseGeometry, grid: Grid) -> None:
        self.polygons = polygons
        self.grid = grid
        left, top, right, bottom = polygons.bounds
        row, col = math.floor(top), math.floor(left)
        reach = Window(row, col, math.ceil(bottom) - row, math.ceil(right) - col)
        overlap = reach.intersection(grid.window())
        if overlap is None:
            raise UserError(
                "The area of interest does not overlap the grid.",
                "Check its coordinate reference system, or draw it where the rasters are: at "
                f"{grid.place(grid.crs)}.",
            )
        self.bounds = overlap

    def mask(self, window: Window) -> NDArray[np.bool_]:
        """Tell which cells of a window have their centre inside. Returns (height, width)."""
        shape = (window.height, window.width)
        if window.intersection(self.bounds) is None:
            return np.zeros(shape, dtype=bool)
        place = Affine(1, 0, window.col, 0, 1, window.row)
        burnt = rasterize([(self.polygons, 1)], out_shape=shape, transform=place, dtype="uint8")
        inside: NDArray[np.bool_] = burnt.astype(bool)
        return inside


def read_area(path: str | os.PathLike[str], grid: Grid, layer: str | None = None) -> Area:
    """Read the polygons of a vector file, in whatever CRS, as an area of the grid."""
    path = os.fspath(path)
    features = read_features(path, layer, "Polygon", attributes=False)
    drawn = features.geometries[~shapely.is_missing(features.geometries)]
    parts = shapely.get_parts(shapely.get_parts(shapely.make_valid(drawn)))
    kinds = shapely.get_type_id(parts)
    polygons = shapely.union_all(parts[kinds == shapely.GeometryType.POLYGON])
    if polygons.is_empty:
        raise UserError(
            f"There are no polygons in '{path}'.",
            "Draw the area of interest as a polygon, or name its layer with --aoi-layer.",
        )
    crs = features.crs
    if crs is None:
        raise UserError(
            f"The area in '{path}' does not say in which coordinate system it is.",
            "Give it a CRS in QGIS (Set Layer CRS, then export it).",
        )
    left, bottom, right, top = polygons.bounds
    dense = shapely.segmentize(polygons, max(right - left, top - bottom) * 4 / OUTLINE_POINTS)
    world = shapely.get_coordinates(dense)
    pixel, _ = place_on_grid(world, crs, grid)
    if not np.isfinite(pixel).all():
        reason = doubt_unit(world, crs)
        raise UserError(
            f"The area in '{path}' reaches beyond where the grid's CRS is defined"
            f"{': ' + reason if reason else '.'}",
            "Give it its right CRS in QGIS, or draw it around the region of the rasters only.",
        )
    area = Area(shapely.set_coordinates(dense, pixel), grid)
    if area.polygons.area < 1:
        raise UserError(
            f"The area in '{path}' is smaller than a cell of the grid "
            f"({grid.length(*grid.cell_size)}).",
            "Draw it larger.",
        )
    return area
