from pathlib import Path

import numpy as np
import pyogrio.raw
import pytest
import shapely
from geocfm.errors import UserError
from geocfm.geo.area import read_area
from geocfm.geo.grid import Grid, Window, reproject_points
from rasterio.crs import CRS
from rasterio.transform import Affine


def write(path: Path, shapes: list, crs: str) -> Path:
    wkb = shapely.to_wkb(np.array(shapes, dtype=object))
    pyogrio.raw.write(path, wkb, [], [], geometry_type="Unknown", crs=crs)
    return path


def centres(window: Window) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.mgrid[window.row : window.row_stop, window.col : window.col_stop] + 0.5
    return columns, rows


def in_world(polygon: shapely.Polygon, grid: Grid, crs: CRS) -> shapely.Polygon:
    dense = shapely.segmentize(polygon, 0.5)
    return shapely.transform(dense, lambda xy: reproject_points(grid.to_world(xy), grid.crs, crs))


SHAPE = shapely.Polygon(
    [(10.2, 5.1), (40.7, 12.3), (33.3, 44.4), (8.6, 30.9)], [[(20, 20), (26.3, 20), (22, 27.7)]]
)


@pytest.mark.parametrize("name", ["degrees", "rotated"])
@pytest.mark.parametrize("code", [4326, 32750, 32751])
def test_mask_holds_the_centres_inside(tmp_path, request, name, code):
    grid = request.getfixturevalue(name)
    crs = CRS.from_epsg(code)
    area = read_area(write(tmp_path / "a.gpkg", [in_world(SHAPE, grid, crs)], f"EPSG:{code}"), grid)
    assert area.bounds == Window(5, 8, 40, 33)
    for window in (grid.window(), Window(-3, 11, 25, 90), area.bounds):
        columns, rows = centres(window)
        expected = shapely.contains_xy(SHAPE, columns, rows)
        # the reprojected edges are off by thousandths of a cell: leave out centres that near
        clear = shapely.distance(SHAPE.boundary, shapely.points(columns, rows)) > 0.01
        mask = area.mask(window)
        assert mask.shape == (window.height, window.width)
        assert expected.any()
        np.testing.assert_array_equal(mask[clear], expected[clear])
    assert not area.mask(Window(60, 60, 5, 5)).any()


def test_edges_bend_with_the_projection(tmp_path):
    # a box in degrees, 6 degrees wide with corners only: its southern edge is curved in UTM
    utm = CRS.from_epsg(32750)
    grid = Grid(utm, Affine(1000, 0, 150_000, 0, -1000, 6_850_000), 400, 700)
    path = write(tmp_path / "a.geojson", [shapely.box(114, -31, 120, -29)], "EPSG:4326")
    area = read_area(path, grid)
    columns, rows = centres(grid.window())
    world = grid.to_world(np.stack([columns.ravel(), rows.ravel()], axis=1))
    lonlat = reproject_points(world, utm, CRS.from_epsg(4326))
    inside = (np.abs(lonlat - [117, -30]) < [3, 1]).all(axis=1).reshape(columns.shape)
    assert (area.mask(grid.window()) != inside).sum() <= 2


def test_several_polygons_and_clipping(tmp_path, utm):
    left, top = utm.to_world([[0, 0]])[0]
    boxes = [
        shapely.box(left - 900, top - 200, left + 200, top),
        shapely.box(left + 600, top - 900, left + 800, top - 500),
    ]
    area = read_area(write(tmp_path / "a.gpkg", [*boxes, None], "EPSG:32750"), utm)
    assert area.bounds == utm.window()
    expected = np.zeros((6, 8), dtype=bool)
    expected[:2, :2] = expected[5, 6:] = True
    np.testing.assert_array_equal(area.mask(utm.window()), expected)


def test_mistakes(tmp_path, utm):
    x, y = utm.to_world([[3, 3]])[0]
    with pytest.raises(UserError, match="no polygons"):
        read_area(write(tmp_path / "a.gpkg", [shapely.Point(x, y)], "EPSG:32750"), utm)
    far = shapely.box(x + 1e5, y, x + 2e5, y + 100)
    with pytest.raises(UserError, match="does not overlap"):
        read_area(write(tmp_path / "b.gpkg", [far], "EPSG:32750"), utm)
    with pytest.raises(UserError, match="does not exist"):
        read_area(tmp_path / "gone.gpkg", utm)
    with pytest.raises(UserError, match=r"Write it as --aoi .*/b\.gpkg --aoi-layer b\."):
        read_area(f"{tmp_path}/b.gpkg|layername=b|geometrytype=Polygon", utm)
    small = shapely.box(x + 20, y - 30, x + 30, y - 20)
    with pytest.raises(UserError, match=r"smaller than a cell of the grid \(100 m\)"):
        read_area(write(tmp_path / "c.gpkg", [small], "EPSG:32750"), utm)
    metres = shapely.box(x, y - 200, x + 200, y)
    with pytest.raises(UserError, match="cannot be the longitude and latitude of EPSG:4326"):
        read_area(write(tmp_path / "d.gpkg", [metres], "EPSG:4326"), utm)
