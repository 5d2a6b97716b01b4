"""An area of interest on the grid: which cells lie inside the user's polygons."""

from __future__ import annotations

import math
import os
from functools import partial

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.features import rasterize
from rasterio.transform import Affine
from shapely.geometry.base import BaseGeometry

from geocfm.errors import UserError
from geocfm.geo.grid import (
    OUTLINE_POINTS,
    Floats,
    Grid,
    Window,
    full_turn,
    reproject_points,
    unrolled,
)
from geocfm.geo.misplaced import doubt_unit
from geocfm.geo.vectors import read_features
from geocfm.layer_spec import gdal_name

TURNS = (-1, 0, 1)  # around the earth


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
    path = gdal_name(path)
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
    moved = reproject_points(world, crs, grid.crs)
    if not np.isfinite(moved).all():
        reason = doubt_unit(world, crs)
        raise UserError(
            f"The area in '{path}' reaches beyond where the grid's CRS is defined"
            f"{': ' + reason if reason else '.'}",
            "Give it its right CRS in QGIS, or draw it around the region of the rasters only.",
        )
    area = Area(_on_grid(shapely.set_coordinates(dense, moved), grid), grid)
    if area.polygons.area < 1:
        raise UserError(
            f"The area in '{path}' is smaller than a cell of the grid "
            f"({grid.length(*grid.cell_size)}).",
            "Draw it larger.",
        )
    return area


def _on_grid(polygons: BaseGeometry, grid: Grid) -> BaseGeometry:
    """Polygons in the grid's CRS in its pixel coordinates.

    Along longitudes each ring is joined where it jumps from 180 to -180, and the whole is met again
    after each turn around the earth, for 0 to 360 degrees and -180 to 180 mean the same.
    """
    turn = full_turn(grid.crs)

    def pixels(world: Floats, turns: int = 0) -> Floats:
        return grid.to_pixel(world[:, 0] + turns * (turn or 0), world[:, 1])

    if turn is None:
        return shapely.transform(polygons, pixels)
    parts = [_joined(part, grid.crs) for part in shapely.get_parts(polygons)]
    extent = shapely.box(0, 0, grid.width, grid.height)
    copies = (shapely.transform(part, partial(pixels, turns=n)) for part in parts for n in TURNS)
    met = [copy for copy in copies if copy.intersects(extent)]
    return shapely.union_all(met or [shapely.transform(polygons, pixels)])


def _joined(polygon: BaseGeometry, crs: CRS) -> BaseGeometry:
    rings = [shapely.get_coordinates(ring) for ring in (polygon.exterior, *polygon.interiors)]
    outer, *holes = (unrolled(ring, crs) for ring in rings)
    turn = full_turn(crs) or 0
    middle = np.ptp(outer[:, 0]) / 2 + outer[:, 0].min()
    holes = [hole - [turn * np.round((hole[0, 0] - middle) / turn), 0] for hole in holes]
    return shapely.make_valid(shapely.Polygon(outer, holes))
