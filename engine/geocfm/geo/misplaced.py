"""Why points are not where the rasters are: exchanged, without a sign, or in another CRS."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rasterio.crs import CRS

from geocfm.errors import UserError
from geocfm.geo.crs import crs_name, crs_option
from geocfm.geo.grid import Floats, Grid, describe_place, reproject_points

ENOUGH = 0.5  # a suspicion is uttered if it puts at least this share of the points inside
DEGREES = CRS.from_epsg(4326)

ANTIMERIDIAN = 170  # degrees; from here on the same place has a neighbour of the other sign

EXCHANGED = "with x and y exchanged"
FLIPS = {
    "with the sign of y changed": (1, -1),
    "with the sign of x changed": (-1, 1),
    "with both signs changed": (-1, -1),
}


def place_on_grid(points: Floats, crs: CRS, grid: Grid) -> tuple[Floats, NDArray[np.bool_]]:
    """World points (N, 2) as (column, row) of the grid, and which of them lie inside.

    Longitudes of 0 to 360 and of -180 to 180 mean the same.
    """
    moved = grid.with_turns(reproject_points(points, crs, grid.crs))
    pixel = grid.to_pixel(moved[:, 0], moved[:, 1])
    in_rows_and_columns = (pixel >= 0) & (pixel < [grid.width, grid.height])  # inf and NaN fail
    return pixel, in_rows_and_columns[:, 0] & in_rows_and_columns[:, 1]


def none_inside_error(path: str, points: Floats, crs: CRS, grid: Grid) -> UserError:
    """Say that no occurrence lies inside the grid, and the likeliest reason."""
    wrong = f"No occurrence of '{path}' lies inside the grid"
    mistake, found = suspect(points, crs, grid)
    if mistake == EXCHANGED:
        return UserError(
            f"{wrong}, but with x and y exchanged {found} of {len(points)} do: latitude and "
            "longitude, or x and y, seem to be swapped.",
            "Exchange --x-column and --y-column of a CSV; for other files QGIS has the tool "
            "'Swap X and Y coordinates'.",
        )
    if mistake:
        return UserError(
            f"{wrong}, but {mistake} {found} of {len(points)} do.",
            "South of the equator latitude is below 0, west of Greenwich longitude: mend the signs "
            "in the file.",
        )
    for other in (grid.crs, DEGREES):
        found = _count_inside(points, other, grid)
        if found:
            return UserError(
                f"{wrong} if read as {crs_name(crs)}, but as {crs_name(other)} {found} of "
                f"{len(points)} do.",
                _remedy(other),
            )
    reason = doubt_unit(points, crs)
    if not reason:
        bounds = (*points.min(axis=0).tolist(), *points.max(axis=0).tolist())
        reason = f"they lie at {describe_place(bounds, crs)}, the grid at {grid.place(crs)}."
    return UserError(
        f"{wrong}: {reason}",
        "Check the CRS of the occurrences (--occurrences-crs), the rasters and the grid's extent.",
    )


def suspect(points: Floats, crs: CRS, grid: Grid) -> tuple[str, int]:
    """Which mistake in the coordinates would explain the most, and how many would lie inside.

    Both are empty if too few would lie inside to suspect it.
    """
    mended = {EXCHANGED: points[:, ::-1]}
    far = _far(points, crs)
    flips = {words: signs for words, signs in FLIPS.items() if signs[0] > 0 or not far}
    mended.update({words: points * np.array(signs) for words, signs in flips.items()})
    counts = {words: _count_inside(moved, crs, grid) for words, moved in mended.items()}
    likeliest = max(counts, key=lambda words: counts[words])
    return (likeliest, counts[likeliest]) if counts[likeliest] else ("", 0)


def no_crs_error(path: str, points: Floats, grid: Grid) -> UserError:
    """Say that occurrences have no CRS, and which one would put them inside the grid."""
    wrong = f"The occurrences in '{path}' do not say in which coordinate system they are"
    for crs in (grid.crs, DEGREES):
        found = _count_inside(points, crs, grid)
        if found:
            return UserError(
                f"{wrong}; as {crs_name(crs)} {found} of {len(points)} lie inside the grid.",
                _remedy(crs),
            )
    if len(points) and not _like_degrees(points).all():
        example = "EPSG:20350; they are too large for longitude and latitude"
    else:
        example = "EPSG:4326 for longitude and latitude"
    return UserError(f"{wrong}.", f"Give it, for example --occurrences-crs {example}.")


def _remedy(crs: CRS) -> str:
    """How to say that occurrences are in a CRS."""
    text = crs_option(crs)
    if text is None:
        return "If that is their CRS, give it to them in QGIS (Set Layer CRS), and export them."
    return f"If that is their CRS, give --occurrences-crs {text}."


def doubt_unit(points: Floats, crs: CRS) -> str:
    """Say that coordinates cannot be in the unit of their CRS; empty if they can."""
    like_degrees = _like_degrees(points)
    x, y = points[np.argmin(like_degrees)]
    shown = f"coordinates such as ({x:.7g}, {y:.7g})"
    if crs.is_geographic and not like_degrees.all():
        return f"{shown} cannot be the longitude and latitude of {crs_name(crs)}."
    if not crs.is_geographic and like_degrees.all():
        return f"{shown} look like degrees, but {crs_name(crs)} has none."
    return ""


def _far(points: Floats, crs: CRS) -> bool:
    """Whether points lie near the antimeridian, where the other sign leads across it."""
    return bool(
        crs.is_geographic and len(points) and np.median(np.abs(points[:, 0])) >= ANTIMERIDIAN
    )


def _like_degrees(points: Floats) -> NDArray[np.bool_]:
    small = np.abs(points) <= [360, 90]
    return small[:, 0] & small[:, 1]


def _count_inside(points: Floats, crs: CRS, grid: Grid) -> int:
    inside = place_on_grid(points, crs, grid)[1]
    return int(inside.sum()) if inside.sum() >= ENOUGH * len(inside) else 0
