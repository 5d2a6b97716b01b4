"""Distances on the ground in km, between points of a grid in whatever CRS."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from geocfm.geo.grid import WGS84_A_KM, WGS84_E2, Floats, Grid

EARTH_KM = 6371.0088  # mean radius; only bends straight lines through the Earth onto its surface
PROBES = 33  # cells along each side of the grid that are measured


class NearestPlace:
    """The distance from any point of the grid to the nearest of some places, (N, 2) as points.

    Degrees use the ellipsoid (WGS 84). Projected distances count as the projection draws them, as
    areas do.
    """

    def __init__(self, grid: Grid, places: ArrayLike) -> None:
        self._grid = grid
        self._tree = cKDTree(_cartesian_km(grid, places))

    def km(self, points: ArrayLike, within: float = math.inf) -> Floats:
        """Distances (N,) of points (N, 2); infinite where no place is nearer than ``within``."""
        straight, curved = within, self._grid.crs.is_geographic
        if curved and math.isfinite(within):
            angle = min(within / (2 * EARTH_KM), math.pi / 2)
            straight = 2 * EARTH_KM * math.sin(angle)
        found: Floats = self._tree.query(
            _cartesian_km(self._grid, points), distance_upper_bound=straight
        )[0]
        if not curved:
            return found
        near = np.isfinite(found)
        half = np.clip(found[near] / (2 * EARTH_KM), 0.0, 1.0)
        found[near] = 2 * EARTH_KM * np.arcsin(half)
        return found


def cell_reach_km(grid: Grid) -> float:
    """How far the farthest corner of a cell is from its centre, in the grid's largest cell."""
    rows = np.linspace(0, grid.height - 1, PROBES)
    columns = np.linspace(0, grid.width - 1, PROBES)
    centres = np.stack(np.meshgrid(columns, rows), axis=-1).reshape(-1, 2) + 0.5
    middle = _cartesian_km(grid, centres)
    steps = ((-0.5, -0.5), (-0.5, 0.5), (0.5, -0.5), (0.5, 0.5))
    corners = (_cartesian_km(grid, centres + step) for step in steps)
    return max(float(np.linalg.norm(corner - middle, axis=1).max()) for corner in corners)


def _cartesian_km(grid: Grid, points: ArrayLike) -> Floats:
    """Points (N, 2) as (column, row) where straight lines can be measured, in km.

    In the plane of the projection, (N, 2); of degrees, in space with the Earth's centre at 0,
    (N, 3).
    """
    factor = float(grid.crs.units_factor[1])  # to metres, or to radians
    world = grid.to_world(points) * factor
    if not grid.crs.is_geographic:
        return world / 1000
    longitude, latitude = world.T
    normal = WGS84_A_KM / np.sqrt(1 - WGS84_E2 * np.sin(latitude) ** 2)
    from_axis = normal * np.cos(latitude)
    up = normal * (1 - WGS84_E2) * np.sin(latitude)
    return np.stack([from_axis * np.cos(longitude), from_axis * np.sin(longitude), up], axis=1)
