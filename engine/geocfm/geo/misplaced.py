"""Why points are not where the rasters are: coordinates exchanged, or another CRS than stated."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS

from geocfm.errors import UserError
from geocfm.geo.grid import Floats, Grid, crs_name, describe_place, reproject_points

ENOUGH = 0.5  # a suspicion is uttered if it puts at least this share of the points inside
DEGREES = CRS.from_epsg(4326)


def place_on_grid(points: Floats, crs: CRS, grid: Grid) -> tuple[Floats, NDArray[np.bool_]]:
    """World points (N, 2) as (column, row) of the grid, and which of them lie inside."""
    moved = reproject_points(points, crs, grid.crs)
    pixel = grid.to_pixel(moved[:, 0], moved[:, 1])
    in_rows_and_columns = (pixel >= 0) & (pixel < [grid.width, grid.height])  # inf and NaN fail
    return pixel, in_rows_and_columns[:, 0] & in_rows_and_columns[:, 1]


def none_inside_error(path: str, points: Floats, crs: CRS, grid: Grid) -> UserError:
    """Say that no occurrence lies inside the grid, and the likeliest reason."""
    wrong = f"No occurrence of '{path}' lies inside the grid"
    swapped = count_swapped(points, crs, grid)
    if swapped:
        return UserError(
            f"{wrong}, but with x and y exchanged {swapped} of {len(points)} do: latitude and "
            "longitude, or x and y, seem to be swapped.",
            "Exchange --x-column and --y-column of a CSV; for other files QGIS has the tool "
            "'Swap X and Y coordinates'.",
        )
    for other in (grid.crs, DEGREES):
        found = _count_inside(points, other, grid)
        if found:
            return UserError(
                f"{wrong} if read as {crs_name(crs)}, but as {crs_name(other)} {found} of "
                f"{len(points)} do.",
                f"If that is their CRS, give --occurrences-crs {crs_name(other)}.",
            )
    reason = doubt_unit(points, crs)
    if not reason:
        bounds = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
        reason = f"they lie at {describe_place(bounds, crs)}, the grid at {grid.place(crs)}."
    return UserError(
        f"{wrong}: {reason}",
        "Check the CRS of the occurrences (--occurrences-crs), the rasters and the grid's extent.",
    )


def count_swapped(points: Floats, crs: CRS, grid: Grid) -> int:
    """How many points lie inside with x and y exchanged; 0 if too few to suspect it."""
    return _count_inside(points[:, ::-1], crs, grid)


def doubt_unit(points: Floats, crs: CRS) -> str:
    """Say that coordinates cannot be in the unit of their CRS; empty if they can."""
    like_degrees = (np.abs(points) <= [360, 90]).all(axis=1)
    x, y = points[np.argmin(like_degrees)]
    shown = f"coordinates such as ({x:.7g}, {y:.7g})"
    if crs.is_geographic and not like_degrees.all():
        return f"{shown} cannot be the longitude and latitude of {crs_name(crs)}."
    if not crs.is_geographic and like_degrees.all():
        return f"{shown} look like degrees, but {crs_name(crs)} has none."
    return ""


def _count_inside(points: Floats, crs: CRS, grid: Grid) -> int:
    inside = place_on_grid(points, crs, grid)[1]
    return int(inside.sum()) if inside.sum() >= ENOUGH * len(inside) else 0
