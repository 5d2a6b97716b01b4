import json

import numpy as np
import pytest
from geocfm.errors import UserError
from geocfm.geo.crs import parse_crs
from geocfm.geo.grid import Grid, Window, reproject_points
from rasterio.crs import CRS
from rasterio.transform import Affine


def test_window_algebra():
    window = Window(2, 3, 10, 20)
    assert (window.row_stop, window.col_stop) == (12, 23)
    assert window.intersection(Window(-5, 20, 8, 100)) == Window(2, 20, 1, 3)
    assert window.intersection(Window(12, 3, 5, 5)) is None
    assert window.contains(Window(2, 3, 10, 20))
    assert not window.contains(Window(2, 3, 11, 20))
    assert Window(4, 5, 2, 3).slices_in(window) == (slice(2, 4), slice(2, 5))
    with pytest.raises(ValueError, match="does not lie in"):
        Window(0, 0, 2, 2).slices_in(window)
    assert window.to_rasterio().flatten() == (3, 2, 20, 10)


@pytest.mark.parametrize("name", ["utm", "degrees", "rotated"])
def test_pixel_and_world_agree_with_the_transform(name, request):
    grid = request.getfixturevalue(name)
    points = np.array([[0, 0], [0.5, 0.5], [3.25, 1.75], [-4, 9]])
    expected = [grid.transform @ tuple(point) for point in points]
    world = grid.to_world(points)
    np.testing.assert_allclose(world, expected, rtol=1e-14)
    np.testing.assert_allclose(grid.to_pixel(*world.T), points, atol=1e-6)


def test_subgrid_keeps_the_lattice(rotated):
    part = rotated.subgrid(Window(7, -3, 5, 4))
    assert (part.height, part.width) == (5, 4)
    np.testing.assert_allclose(part.to_world([[0, 0]]), rotated.to_world([[-3, 7]]))
    np.testing.assert_allclose(part.to_world([[4, 5]]), rotated.to_world([[1, 12]]))


def test_cell_size_of_a_rotated_grid_is_that_of_its_cells(rotated):
    assert rotated.cell_size == pytest.approx((100, 100))
    assert rotated.is_rotated


def test_unit_and_description(utm, degrees, rotated):
    assert utm.describe() == "6 rows x 8 columns of 100 m cells in EPSG:32750"
    assert degrees.unit == "degree"
    assert "rotated" in rotated.describe()
    feet = Grid(CRS.from_epsg(2227), Affine(30, 0, 0, 0, -40, 0), 1, 1)
    assert feet.describe() == "1 rows x 1 columns of 30 x 40 US ft cells in EPSG:2227"


def test_projected_areas_count_the_unit(utm):
    np.testing.assert_allclose(utm.cell_areas(utm.window()), 0.01)
    feet = Grid(CRS.from_epsg(2227), Affine(1000, 0, 0, 0, -1000, 0), 3, 3)
    np.testing.assert_allclose(feet.cell_areas(feet.window()), (1000 * 1200 / 3937) ** 2 / 1e6)


def test_one_degree_cells_add_up_to_the_earth():
    world = Grid(CRS.from_epsg(4326), Affine(1, 0, -180, 0, -1, 90), 180, 360)
    areas = np.broadcast_to(world.cell_areas(world.window()), (180, 360))
    assert areas.sum() == pytest.approx(510_065_621.7, rel=1e-4)  # WGS 84 ellipsoid, km2
    # a cell at the equator: 111.320 km wide, 110.574 km high
    assert areas[90, 0] == pytest.approx(111.320 * 110.574, rel=1e-3)


def test_degree_areas_depend_on_the_window_and_on_rotation(degrees):
    whole = degrees.cell_areas(degrees.window())
    np.testing.assert_allclose(degrees.cell_areas(Window(50, 9, 10, 5)), whole[50:60])
    quarter_turn = Grid(degrees.crs, Affine(0, 1, 0, 1, 0, 0), 2, 61)
    areas = np.broadcast_to(quarter_turn.cell_areas(quarter_turn.window()), (2, 61))
    assert areas[0, 60] == pytest.approx(areas[0, 0] * np.cos(np.radians(60.5)), rel=0.02)


def test_aligned_with(utm):
    assert utm.aligned_with(Grid(utm.crs, utm.transform, 6, 8))
    nudged = Affine(100, 0, 500_000.00001, 0, -100, 7_000_000)
    assert utm.aligned_with(Grid(utm.crs, nudged, 6, 8))
    moved = Affine(100, 0, 500_001, 0, -100, 7_000_000)
    assert not utm.aligned_with(Grid(utm.crs, moved, 6, 8))
    assert not utm.aligned_with(Grid(utm.crs, utm.transform, 6, 9))
    assert not utm.aligned_with(Grid(CRS.from_epsg(32751), utm.transform, 6, 8))


@pytest.mark.parametrize("name", ["utm", "degrees", "rotated"])
def test_dict_round_trip_through_json(name, request):
    grid = request.getfixturevalue(name)
    assert Grid.from_dict(json.loads(json.dumps(grid.to_dict()))) == grid


def test_covering_keeps_a_grid_whose_own_outline_it_is_given(utm, rotated):
    for grid in (utm, rotated):
        assert grid.covering(grid.outline(), grid.crs).aligned_with(grid)


def test_covering_stays_on_the_lattice_and_covers(rotated):
    outline = rotated.to_world([[-10.5, 3], [20, -4.25], [33.1, 70]])
    cover = rotated.covering(outline, rotated.crs)
    corner = rotated.to_pixel(*cover.to_world([[0, 0]]).T)[0]
    np.testing.assert_allclose(corner, [-11, -5], atol=1e-6)
    assert (cover.width, cover.height) == (45, 75)
    assert cover.cell_size == pytest.approx(rotated.cell_size)


def test_covering_follows_edges_that_bend_when_reprojected(utm):
    # Along a parallel the northing has its extreme at the central meridian, not at a corner.
    west, east, south, north = 115.0, 119.0, -28.0, -27.0
    box = np.array([(west, north), (east, north), (east, south), (west, south)])
    cover = utm.covering(box, CRS.from_epsg(4326))
    edge = np.stack([np.linspace(west, east, 999), np.full(999, south)], axis=1)
    pixel = cover.to_pixel(*reproject_points(edge, CRS.from_epsg(4326), utm.crs).T)
    assert (pixel >= 0).all()
    assert (pixel <= [cover.width, cover.height]).all()
    top = np.stack([np.linspace(west, east, 999), np.full(999, north)], axis=1)
    pixel = cover.to_pixel(*reproject_points(top, CRS.from_epsg(4326), utm.crs).T)
    assert 0 <= pixel[:, 1].min() < 1


def test_covering_refuses_what_has_no_place(utm):
    everywhere = [(-180, 90), (180, 90), (180, -90), (-180, -90)]
    half_a_world = "+proj=gnom +lat_0=-27 +lon_0=117 +datum=WGS84"
    for crs, words in [
        ("EPSG:3995", "would have [0-9,]+ rows"),
        (half_a_world, "cannot be expressed"),
    ]:
        grid = Grid(CRS.from_string(crs), utm.transform, 6, 8)
        with pytest.raises(UserError, match=words):
            grid.covering(everywhere, CRS.from_epsg(4326))


def test_points_without_a_place_do_not_spoil_the_others():
    half_a_world = CRS.from_string("+proj=gnom +lat_0=-27 +lon_0=117 +datum=WGS84")
    points = np.array([[117.0, -27.0], [-63.0, 27.0], [118.0, -26.0]])
    moved = reproject_points(points, CRS.from_epsg(4326), half_a_world)
    assert np.isfinite(moved).all(axis=1).tolist() == [True, False, True]
    np.testing.assert_allclose(moved[0], 0, atol=1e-6)


def test_parse_crs():
    assert parse_crs("20350") == parse_crs("EPSG:20350") == CRS.from_epsg(20350)
    with pytest.raises(UserError, match="not a coordinate reference system"):
        parse_crs("MGA zone 50")
