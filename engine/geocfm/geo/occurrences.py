"""Known occurrences as points on the grid, and an account of those that were left out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.crs import CRS

from geocfm.errors import UserError
from geocfm.geo.area import Area
from geocfm.geo.crs import crs_name, parse_crs
from geocfm.geo.grid import Floats, Grid
from geocfm.geo.misplaced import no_crs_error, none_inside_error, place_on_grid, suspect
from geocfm.geo.tables import SUFFIXES, is_table, read_table
from geocfm.geo.vectors import Features, read_features
from geocfm.geo.where import no_match_error, parse_where
from geocfm.layer_spec import gdal_name


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
    warnings: tuple[str, ...] = ()

    def inside(self, area: Area) -> Occurrences:
        """Keep those whose cell belongs to the area; the others count as outside."""
        centres = np.floor(self.points) + 0.5
        kept = shapely.contains_xy(area.polygons, centres)
        left_out = int(len(kept) - kept.sum())
        counts = replace(
            self.counts,
            outside=self.counts.outside + left_out,
            used=self.counts.used - left_out,
            sharing_a_cell=int(kept.sum()) - len(_first_of_each_cell(self.points[kept])),
        )
        return replace(self, points=self.points[kept], ids=self.ids[kept], counts=counts)


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
    """Read occurrences onto the grid; all of `where` must hold; `crs` outweighs the file's own.

    deduplicate keeps the first point of each cell. That none is left inside the grid is an error.
    """
    path = gdal_name(path)
    conditions = [parse_where(text) for text in where]
    _refuse_idle_options(path, layer, x_column, y_column)
    if is_table(path):
        features = read_table(path, x_column, y_column)
    else:
        features = read_features(path, layer, "Point", attributes=bool(conditions))
    source_crs = parse_crs(crs) if crs else features.crs
    if source_crs is None:
        raise no_crs_error(path, _points(features)[0], grid)
    if not len(features.ids):
        raise UserError(
            f"There are no occurrences in '{path}'.", "Choose another file or layer (--layer)."
        )
    wanted = np.ones(len(features.ids), dtype=bool)
    for condition in conditions:
        wanted &= condition.matches(features.fields)
    if not wanted.any():
        raise no_match_error(conditions, features.fields)

    world, owners = _points(features)
    without_geometry = len(features.ids) - len(np.unique(owners))
    kept = wanted[owners]
    filtered_out = int(len(kept) - kept.sum())
    points, owners = world[kept], owners[kept]

    if not len(points):
        raise UserError(
            f"No occurrence of '{path}' has a location{' and matches the filter' * bool(where)}.",
            "Choose a layer of points (--layer), or fill in the coordinates.",
        )

    pixel, inside = place_on_grid(points, source_crs, grid)
    if not inside.any():
        raise none_inside_error(path, points, source_crs, grid)
    warnings = _doubts(
        features.geometries[wanted],
        source_crs,
        None if is_table(path) else features.crs,  # a table's is a guess from column names
        suspect(points[~inside], source_crs, grid),
    )
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
    return Occurrences(
        pixel[first], features.ids[owners[first]], counts, path, tuple(where), warnings
    )


def _refuse_idle_options(
    path: str, layer: str | None, x_column: str | None, y_column: str | None
) -> None:
    """An option that does nothing would leave the user in the belief that it did."""
    if not is_table(path) and (x_column is not None or y_column is not None):
        raise UserError(
            f"--x-column and --y-column are for tables ({', '.join(SUFFIXES)}); '{path}' knows "
            "where its features lie.",
            "Leave them out, or give the table.",
        )
    # GDAL calls the one layer of a table by the name of its file
    if is_table(path) and layer not in (None, PurePath(path).stem):
        raise UserError(
            f"--layer {layer} means nothing for '{path}': a table has no layers.", "Leave it out."
        )


def _doubts(
    shapes: NDArray[np.object_], crs: CRS, stated: CRS | None, suspicion: tuple[str, int]
) -> tuple[str, ...]:
    """What may be wrong with occurrences that can be used nevertheless."""
    found = []
    if stated is not None and stated != crs:
        found.append(
            f"The occurrences are read as {crs_name(crs)}, as asked, though their file says "
            f"{crs_name(stated)}."
        )
    extended = int((shapely.get_dimensions(_separate(shapes)[0]) > 0).sum())
    if extended:
        found.append(
            "1 occurrence is a line or polygon; it counts as a point at its centre."
            if extended == 1
            else f"{extended} occurrences are lines or polygons; each counts as a point at its "
            "centre."
        )
    mistake, count = suspicion
    if mistake:
        found.append(f"{count} of the occurrences outside the grid would lie inside {mistake}.")
    return tuple(found)


def _points(features: Features) -> tuple[Floats, NDArray[np.int64]]:
    """World points (N, 2) in the order of the features, and the index of the feature of each."""
    shapes, whose = _separate(features.geometries)
    kinds = shapely.get_type_id(shapes)
    pointlike = (kinds == shapely.GeometryType.POINT) | (kinds == shapely.GeometryType.MULTIPOINT)
    shapes = np.where(pointlike, shapes, shapely.centroid(shapes))
    points, owners = shapely.get_coordinates(shapes, return_index=True)
    finite = np.isfinite(points).all(axis=1)
    return points[finite], whose[owners[finite]].astype(np.int64)


def _separate(shapes: NDArray[np.object_]) -> tuple[NDArray[np.object_], NDArray[np.int64]]:
    """Shapes with the parts of collections by themselves, and the feature of each, in order."""
    whose = np.arange(len(shapes))
    while (mixed := shapely.get_type_id(shapes) == shapely.GeometryType.GEOMETRYCOLLECTION).any():
        parts, owners = shapely.get_parts(shapes[mixed], return_index=True)
        whose = np.concatenate([whose[~mixed], whose[mixed][owners]])
        order = np.argsort(whose, kind="stable")
        shapes, whose = np.concatenate([shapes[~mixed], parts])[order], whose[order]
    return shapes, whose


def _first_of_each_cell(pixel: Floats) -> NDArray[np.int64]:
    _, first = np.unique(np.floor(pixel), axis=0, return_index=True)
    order: NDArray[np.int64] = np.sort(first)
    return order
