"""Distances against PROJ's azimuthal equidistant projection, and against plain geometry."""

from __future__ import annotations

import math

import numpy as np
import pytest
from geocfm.geo.distance import NearestPlace, cell_reach_km
from geocfm.geo.grid import Grid, reproject_points
from rasterio.crs import CRS
from rasterio.transform import Affine
from small_data import DEGREES, ROTATED, UTM


def geodesic_km(grid: Grid, place: np.ndarray, points: np.ndarray) -> np.ndarray:
    """From one place to points, both (column, row) of a grid in degrees."""
    longitude, latitude = grid.to_world(place[None])[0]
    around = CRS.from_proj4(f"+proj=aeqd +lat_0={latitude} +lon_0={longitude} +datum=WGS84")
    metres = reproject_points(grid.to_world(points), CRS.from_epsg(4326), around)
    return np.hypot(*metres.T) / 1000


@pytest.mark.parametrize(
    ("grid", "tolerance"),
    [
        (DEGREES, 1e-4),
        (Grid(CRS.from_epsg(4326), Affine(0.001, 0, 118, 0, -0.001, -26), 90, 90), 1e-6),
        (Grid(CRS.from_epsg(4326), Affine(0.5, 0, 175, 0, -0.5, 30), 120, 40), 2e-3),  # 1,000s km
    ],
    ids=["north", "small", "over the date line"],
)
def test_degrees_are_measured_on_the_ellipsoid(grid: Grid, tolerance: float) -> None:
    generator = np.random.default_rng(1)
    size = [grid.width, grid.height]
    places, points = generator.random((5, 2)) * size, generator.random((200, 2)) * size
    expected = np.min([geodesic_km(grid, place, points) for place in places], axis=0)
    found = NearestPlace(grid, places).km(points)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("grid", [UTM, ROTATED], ids=["upright", "rotated"])
def test_projected_distances_are_as_drawn(grid: Grid) -> None:
    found = NearestPlace(grid, [(10, 10), (90, 100)]).km([(13, 14), (10, 10), (90, 110.5)])
    np.testing.assert_allclose(found, [0.5, 0, 1.05], atol=1e-9)


def test_feet_are_no_metres() -> None:
    grid = Grid(CRS.from_epsg(2225), Affine(1000, 0, 6e6, 0, -1000, 2e6), 10, 10)
    found = NearestPlace(grid, [(0, 0)]).km([(3, 4)])
    assert found[0] == pytest.approx(5000 * 1200 / 3937 / 1000)


@pytest.mark.parametrize("grid", [UTM, DEGREES], ids=["metres", "degrees"])
def test_what_is_farther_than_asked_for_is_infinitely_far(grid: Grid) -> None:
    points = np.random.default_rng(2).random((300, 2)) * [grid.width, grid.height]
    nearest = NearestPlace(grid, [(50, 60)])
    every = nearest.km(points)
    bound = float(np.median(every))
    near = nearest.km(points, within=bound)
    np.testing.assert_array_equal(np.isfinite(near), every < bound)
    np.testing.assert_array_equal(near[np.isfinite(near)], every[every < bound])


def test_the_reach_of_a_cell_is_its_half_diagonal() -> None:
    assert cell_reach_km(UTM) == pytest.approx(0.1 / math.sqrt(2))
    assert cell_reach_km(ROTATED) == pytest.approx(0.1 / math.sqrt(2))
    south = np.array([50.5, DEGREES.height - 0.5])  # where the cells are largest
    corners = south + np.array([[0.5, 0.5], [0.5, -0.5]])
    expected = geodesic_km(DEGREES, south, corners).max()
    assert cell_reach_km(DEGREES) == pytest.approx(expected, rel=1e-4)
