"""Longitudes of 0 to 360 degrees, of -180 to 180, and grids across the antimeridian."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from geocfm.errors import UserError
from geocfm.geo.area import read_area
from geocfm.geo.grid import Grid, Window, reproject_points
from geocfm.geo.occurrences import read_occurrences
from geocfm.geo.rasters import Layer, Stack
from rasterio.crs import CRS
from rasterio.transform import Affine
from small_data import write_shapes

DEGREES = CRS.from_epsg(4326)


def across(left: float, width: float, step: float = 0.5, crs: CRS = DEGREES) -> Grid:
    """Cells between 20 degrees south and 10 degrees south."""
    return Grid(crs, Affine(step, 0, left, 0, -step, -10), round(10 / step), round(width / step))


EVERYWHERE = {
    "0 to 360": across(0, 360),
    "-180 to 180": across(-180, 360),
    "across 180": across(170, 20),
    "across -180": across(-190, 20),
    "west, above 180": across(185, 12),
    "west, below 0": across(-175, 12),
}
UTM = Grid(CRS.from_epsg(32701), Affine(5e3, 0, -1e5, 0, -5e3, 8_700_000), 120, 240)  # across 180


def field(x: Any, y: Any) -> Any:
    """The same at the same place, however its longitude is counted."""
    return 10 * np.cos(np.radians(x)) + 5 * np.sin(2 * np.radians(x)) + 0.2 * np.asarray(y)


def cell_centres(grid: Grid) -> np.ndarray:
    row, col = np.mgrid[: grid.height, : grid.width] + 0.5
    return grid.to_world(np.stack([col.ravel(), row.ravel()], axis=1))


def field_on(grid: Grid) -> np.ndarray:
    x, y = reproject_points(cell_centres(grid), grid.crs, DEGREES).T
    return field(x, y).reshape(grid.height, grid.width)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("source", EVERYWHERE)
@pytest.mark.parametrize("step", [0.5, 0.7])
def test_a_raster_lies_where_its_longitudes_say(
    make_raster: Callable[..., str], source: str, target: str, step: float
) -> None:
    """0.7 degrees are no part of a turn."""
    from_grid, grid = EVERYWHERE[source], EVERYWHERE[target]
    if step != 0.5:
        from_grid = across(from_grid.transform.c, from_grid.width * 0.5, step)
    path = make_raster("a.tif", field_on(from_grid).astype("float32"), from_grid, nodata=np.nan)
    with Stack([Layer("a", path, 1)], grid) as stack:
        found = stack.read(grid.window())[0]
    expected = field_on(grid)
    x = cell_centres(grid)[:, 0].reshape(expected.shape) - from_grid.transform.c
    met = (x % 360) < from_grid.width * from_grid.transform.a
    there = np.isfinite(found)
    np.testing.assert_allclose(found[there], expected[there], atol=0.02 if step == 0.5 else 0.3)
    if step == 0.5:
        np.testing.assert_array_equal(there, met)
    assert there.sum() > 0.4 * met.sum()


@pytest.mark.parametrize("source", EVERYWHERE)
def test_a_projected_grid_across_the_antimeridian(
    make_raster: Callable[..., str], source: str
) -> None:
    from_grid = EVERYWHERE[source]
    path = make_raster("a.tif", field_on(from_grid).astype("float32"), from_grid, nodata=np.nan)
    with Stack([Layer("a", path, 1)], UTM) as stack:
        found = stack.read(UTM.window())[0]
        part = stack.read(Window(40, 30, 20, 60))[0]
    expected = field_on(UTM)
    x, y = reproject_points(cell_centres(UTM), UTM.crs, DEGREES).T
    inside = (((x - from_grid.transform.c) % 360) < from_grid.width * 0.5) & (y < -10) & (y > -20)
    there = np.isfinite(found)
    np.testing.assert_allclose(found[there], expected[there], atol=0.05)
    assert there.sum() > 0.95 * inside.sum() > 0
    np.testing.assert_allclose(part, found[40:60, 30:90], atol=1e-3)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("turn", [-360, 0, 360])
def test_points_lie_where_their_longitudes_say(tmp_path: Path, target: str, turn: float) -> None:
    grid = EVERYWHERE[target]
    pixels = np.array([[0.5, 3.5], [5.25, 10.5], [grid.width - 0.5, 19.75]])
    world = grid.to_world(pixels) + np.array([turn, 0])
    path = tmp_path / "a.csv"
    path.write_text("lon,lat\n" + "".join(f"{x!r},{y!r}\n" for x, y in world.tolist()))
    found = read_occurrences(path, grid)
    np.testing.assert_allclose(found.points, pixels, atol=1e-9)
    assert found.warnings == ()


def test_no_signs_are_changed_at_the_antimeridian(tmp_path: Path) -> None:
    grid = across(176, 3.5)  # to 179.5, and the points lie just beyond the antimeridian
    path = tmp_path / "a.csv"
    path.write_text("lon,lat\n" + "-179.2,-15\n" * 4)
    with pytest.raises(UserError) as caught:
        read_occurrences(path, grid)
    assert "with the sign" not in str(caught.value)


@pytest.mark.parametrize("target", EVERYWHERE)
@pytest.mark.parametrize("drawn", ["parts", "above 180", "below -180", "utm"])
def test_an_area_lies_where_its_longitudes_say(tmp_path: Path, target: str, drawn: str) -> None:
    grid = EVERYWHERE[target]
    shapes = {
        "parts": shapely.union(shapely.box(178, -16, 180, -12), shapely.box(-180, -16, -173, -12)),
        "above 180": shapely.box(178, -16, 187, -12),
        "below -180": shapely.box(-182, -16, -173, -12),
        "utm": None,
    }
    shape, crs = shapes[drawn], DEGREES
    if shape is None:
        ring = shapely.get_coordinates(shapely.segmentize(shapes["above 180"], 0.1))
        crs = UTM.crs
        shape = shapely.Polygon(reproject_points(ring, DEGREES, crs))
    path = write_shapes(tmp_path / "a.gpkg", [shape], crs)
    mask = read_area(path, grid).mask(grid.window())
    x, y = cell_centres(grid).T
    inside = ((x - 178) % 360 < 9) & (y < -12) & (y > -16)
    np.testing.assert_array_equal(mask.ravel(), inside)


def test_a_collection_counts_as_its_parts(tmp_path: Path) -> None:
    grid = EVERYWHERE["0 to 360"]
    collection = shapely.GeometryCollection
    nested = collection([shapely.Point(12, -13), collection([shapely.Point(14, -14)])])
    mixed = collection([shapely.Point(20, -12), shapely.box(30, -14, 32, -12)])
    path = write_shapes(tmp_path / "a.gpkg", [nested, mixed, shapely.Point(40, -12)], DEGREES)
    found = read_occurrences(path, grid)
    world = grid.to_world(found.points)
    np.testing.assert_allclose(world, [(12, -13), (14, -14), (20, -12), (31, -13), (40, -12)])
    assert len(set(found.ids.tolist())) == 3
    assert found.counts.read == 5
    (said,) = found.warnings
    assert said == "1 occurrence is a line or polygon; it counts as a point at its centre."
