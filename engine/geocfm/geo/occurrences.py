"""Known occurrences as points on the grid, and an account of those that were left out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.geo.grid import Floats, Grid, parse_crs, reproject_points
from geocfm.geo.tables import is_table, read_table
from geocfm.geo.vectors import Features, read_features
from geocfm.geo.where import no_match_error, parse_where


@dataclass(frozen=True)
class OccurrenceCounts:
    """What became of each point: read is the sum of the next five.

    A multipoint counts by its points, a feature without geometry as one. Each is counted where it
    is lost first, in the order of the fields.
    """

    read: int
    without_geometry: int
    filtered_out: int
    outside: int
    duplicates: int
    used: int
    sharing_a_cell: int = 0  # of all inside, those in a cell that already had one


@dataclass(frozen=True)
class Occurrences:
    """Occurrences inside the grid. points: (N, 2) as (column, row); ids: (N,) of the features."""

    points: Floats
    ids: NDArray[np.int64]
    counts: OccurrenceCounts
    source: str
    where: tuple[str, ...]


def read_occurrences(
    path: str | os.PathLike[str],
    grid: Grid,
    *,
    where: Sequence[str] = (),
    layer: str | None = None,
    x_column: str | None = None,
    y_column: str | None = None,
    crs: str | None = None,
    deduplicate: bool = False,
) -> Occurrences:
    """Read occurrences onto the grid; all of `where` must hold; `crs` serves files without one.

    deduplicate keeps the first point of each cell.
    """
    path = os.fspath(path)
    conditions = [parse_where(text) for text in where]
    if is_table(path):
        features = read_table(path, x_column, y_column)
    else:
        features = read_features(path, layer, "Point", attributes=bool(conditions))
    source_crs = (
        parse_crs(crs) if crs and (features.crs is None or is_table(path)) else features.crs
    )
    if source_crs is None:
        raise UserError(
            f"The occurrences in '{path}' do not say in which coordinate system they are.",
            "Give it, for example --occurrences-crs EPSG:4326 for longitude and latitude.",
        )
    wanted = np.ones(len(features.ids), dtype=bool)
    for condition in conditions:
        wanted &= condition.matches(features.fields)
    if len(wanted) and not wanted.any():
        raise no_match_error(conditions, features.fields)

    world, owners = _points(features)
    without_geometry = len(features.ids) - len(np.unique(owners))
    kept = wanted[owners]
    filtered_out = int(len(kept) - kept.sum())
    points, owners = world[kept], owners[kept]

    moved = reproject_points(points, source_crs, grid.crs)
    pixel = grid.to_pixel(moved[:, 0], moved[:, 1])
    in_rows_and_columns = (pixel >= 0) & (pixel < [grid.width, grid.height])  # inf and NaN fail
    inside = in_rows_and_columns[:, 0] & in_rows_and_columns[:, 1]
    pixel, owners = pixel[inside], owners[inside]

    firsts = _first_of_each_cell(pixel)
    sharing = len(pixel) - len(firsts)
    first = firsts if deduplicate else np.arange(len(pixel))
    counts = OccurrenceCounts(
        read=without_geometry + len(world),
        without_geometry=without_geometry,
        filtered_out=filtered_out,
        outside=int(len(inside) - inside.sum()),
        duplicates=len(pixel) - len(first),
        used=len(first),
        sharing_a_cell=sharing,
    )
    return Occurrences(pixel[first], features.ids[owners[first]], counts, path, tuple(where))


def _points(features: Features) -> tuple[Floats, NDArray[np.int64]]:
    """World points (N, 2) in the order of the features, and the index of the feature of each."""
    shapes = features.geometries
    kinds = shapely.get_type_id(shapes)
    pointlike = (kinds == shapely.GeometryType.POINT) | (kinds == shapely.GeometryType.MULTIPOINT)
    shapes = np.where(pointlike, shapes, shapely.centroid(shapes))
    points, owners = shapely.get_coordinates(shapes, return_index=True)
    finite = np.isfinite(points).all(axis=1)
    return points[finite], owners[finite].astype(np.int64)


def _first_of_each_cell(pixel: Floats) -> NDArray[np.int64]:
    _, first = np.unique(np.floor(pixel), axis=0, return_index=True)
    order: NDArray[np.int64] = np.sort(first)
    return order
