"""Written results lie where they should, say what they are, and are never half written."""

import csv
import os

import numpy as np
import pyogrio.raw
import pytest
import rasterio
import shapely
from geocfm.errors import UserError
from geocfm.geo.grid import Grid, Window, reproject_points
from geocfm.geo.writing import (
    Band,
    atomic_path,
    open_raster_for_blocks,
    write_cog,
    write_points,
    write_polygons,
)
from rasterio.crs import CRS
from rasterio.transform import Affine

# Meekatharra's post office, as a place that three CRSs must agree on
PLACE = np.array([[118.4936, -26.5937]])
LONLAT = CRS.from_epsg(4326)


def around(code: int, cell: float, angle: float = 0) -> Grid:
    """A grid whose cell (row 200, column 300) has PLACE in its middle."""
    crs = CRS.from_epsg(code)
    x, y = reproject_points(PLACE, LONLAT, crs)[0]
    turn = Affine.translation(x, y) @ Affine.rotation(angle) @ Affine.scale(cell, -cell)
    return Grid(crs, turn @ Affine.translation(-300.5, -200.5), 700, 900)


GRIDS = {
    "projected": around(20350, 250),
    "degrees": around(4326, 0.0025),
    "rotated": around(32750, 250, 33),
}


def write_map(path, grid: Grid, scale: float = 1.0) -> None:
    working = path.with_name("working.tif")
    values = np.full((16, 16), 2, dtype="float32")
    values[8, 8] = 50
    with open_raster_for_blocks(working, grid) as raster:
        raster.write(values, 1, window=Window(192, 292, 16, 16).to_rasterio())
    write_cog(
        working,
        path,
        bands=[Band(1, "prospectivity", "relative density, 1 = regional mean", scale)],
        tags={"MEANING": "a < b & c", "SEED": "7"},
    )


@pytest.mark.parametrize("name", GRIDS)
def test_a_known_place_survives_the_cog(tmp_path, name):
    grid = GRIDS[name]
    write_map(tmp_path / "map.tif", grid)
    with rasterio.open(tmp_path / "map.tif") as raster:
        assert raster.crs == grid.crs
        assert Grid(raster.crs, raster.transform, raster.height, raster.width).aligned_with(grid)
        row, column = np.unravel_index(np.nanargmax(raster.read(1)), raster.shape)
        place = reproject_points(np.array([raster.xy(row, column)]), raster.crs, LONLAT)
    np.testing.assert_allclose(place, PLACE, atol=1e-6)  # 0.1 m


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("suffix", [".gpkg", ".geojson", ".csv"])
def test_a_known_place_survives_the_points(tmp_path, name, suffix):
    grid, path = GRIDS[name], tmp_path / f"points{suffix}"
    write_points(
        path,
        grid,
        [[300.5, 200.5], [0, 0]],
        {"draw": np.array([1, 2]), "log_density": np.array([0.5, np.nan])},
        layer="samples",
        description="draws",
        metadata={"SEED": "7"},
    )
    if suffix == ".csv":
        with open(path, newline="") as file:
            rows = list(csv.DictReader(file))
        found, crs = np.array([[float(rows[0]["x"]), float(rows[0]["y"])]]), grid.crs
        assert rows[0]["draw"] == "1"
    else:
        meta, _, geometry, values = pyogrio.raw.read(path)
        crs = CRS.from_user_input(meta["crs"])
        assert crs == grid.crs
        assert values[0].tolist() == [1, 2]
        assert values[1][0] == 0.5
        found = shapely.get_coordinates(shapely.from_wkb(geometry))[:1]
    np.testing.assert_allclose(reproject_points(found, crs, LONLAT), PLACE, atol=1e-6)


def test_geopackage_carries_its_description_and_metadata(tmp_path):
    path = tmp_path / "p.gpkg"
    write_points(
        path,
        GRIDS["projected"],
        np.zeros((0, 2)),
        {"draw": np.zeros(0, dtype="int64")},
        layer="samples",
        description="four draws",
        metadata={"SEED": "7"},
    )
    info = pyogrio.read_info(path, layer="samples")
    assert info["features"] == 0
    assert info["layer_metadata"]["SEED"] == "7"
    assert b"four draws" in path.read_bytes()


def test_cog_is_one_and_describes_itself(tmp_path):
    path = tmp_path / "deep" / "er" / "map.tif"
    path.parent.mkdir(parents=True)
    write_map(path, GRIDS["projected"], scale=0.5)
    with rasterio.open(path) as raster:
        assert raster.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert raster.tags(ns="IMAGE_STRUCTURE")["COMPRESSION"] == "DEFLATE"
        assert raster.block_shapes == [(512, 512)]
        assert raster.overviews(1) == [2]
        assert raster.tags()["MEANING"] == "a < b & c"
        assert raster.tags()["SEED"] == "7"
        assert raster.descriptions == ("prospectivity",)
        assert raster.units == ("relative density, 1 = regional mean",)
        assert np.isnan(raster.nodata)
        assert float(raster.tags(1)["STATISTICS_MAXIMUM"]) == 25
        values = raster.read(1)
        overview = raster.read(1, out_shape=(350, 450))
    assert values[200, 300] == 25
    assert values[195, 295] == 1
    assert np.isfinite(values).sum() == 256
    assert overview[98, 148] == 1
    assert overview[100, 150] == pytest.approx((25 + 3) / 4)  # averaged, no-data left out
    assert sorted(os.listdir(path.parent)) == ["map.tif", "working.tif"]


def test_a_map_without_any_value_is_still_written(tmp_path):
    with open_raster_for_blocks(tmp_path / "w.tif", GRIDS["degrees"]):
        pass
    write_cog(tmp_path / "w.tif", tmp_path / "map.tif", bands=[Band(1, "a", "b")], tags={})
    with rasterio.open(tmp_path / "map.tif") as raster:
        assert np.isnan(raster.read(1)).all()


def test_blocks_may_be_written_and_read_in_any_order(tmp_path):
    grid = GRIDS["projected"]
    with open_raster_for_blocks(tmp_path / "w.tif", grid, count=2) as raster:
        window = Window(520, 520, 50, 50)
        raster.write(np.ones((50, 50), "float32"), 2, window=window.to_rasterio())
        assert raster.read(2, window=window.to_rasterio()).sum() == 2500
        assert np.isnan(raster.read(1, window=window.to_rasterio())).all()
    assert (tmp_path / "w.tif").stat().st_size < 3e6  # 1 of 8 blocks is there


@pytest.mark.parametrize("length", [0, 4, 8, 200])
def test_what_a_killed_run_left_of_a_raster_is_replaced(tmp_path, length):
    path, corner = tmp_path / "raw.tif", Window(0, 0, 2, 2).to_rasterio()
    with open_raster_for_blocks(path, GRIDS["projected"]) as raster:
        raster.write(np.ones((2, 2), "float32"), 1, window=corner)
    path.write_bytes(path.read_bytes()[:length])
    with open_raster_for_blocks(path, GRIDS["projected"]) as raster:
        raster.write(np.full((2, 2), 7, "float32"), 1, window=corner)
    with rasterio.open(path) as raster:
        assert raster.read(1)[:2, :2].tolist() == [[7, 7], [7, 7]]


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "map.tif"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_path(path) as temporary:  # noqa: PT012
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".tif"
        temporary.write_text("half")
        temporary.with_name(temporary.name + ".aux.xml").write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["map.tif"]
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["map.tif"]


def test_a_failed_cog_leaves_the_old_one(tmp_path):
    write_map(tmp_path / "map.tif", GRIDS["projected"])
    before = (tmp_path / "map.tif").read_bytes()
    (tmp_path / "working.tif").write_bytes(b"broken")
    with pytest.raises(rasterio.errors.RasterioIOError):
        write_cog(tmp_path / "working.tif", tmp_path / "map.tif", bands=[Band(1, "", "")], tags={})
    assert (tmp_path / "map.tif").read_bytes() == before


def test_folders_are_made_and_impossible_places_explained(tmp_path):
    with atomic_path(tmp_path / "a" / "b" / "c.txt") as temporary:
        temporary.write_text("x")
    assert (tmp_path / "a" / "b" / "c.txt").read_text() == "x"
    with (
        pytest.raises(UserError, match="Nothing can be written"),
        atomic_path(tmp_path / "a" / "b" / "c.txt" / "d.txt"),
    ):
        pass
    with pytest.raises(UserError, match="is a folder"), atomic_path(tmp_path / "a"):
        pass
    with pytest.raises(UserError, match="Points cannot be written as"):
        write_points(
            tmp_path / "p.doc", GRIDS["degrees"], [], {}, layer="", description="", metadata={}
        )


def test_polygons_lie_where_they_should_and_know_what_is_missing(tmp_path):
    path, grid = tmp_path / "targets.gpkg", GRIDS["rotated"]
    ring = shapely.box(299, 199, 302, 202).difference(shapely.box(300, 200, 301, 201))
    pair = [shapely.box(0, 0, 1, 1), shapely.box(1, 1, 2, 2)]
    write_polygons(
        path,
        grid,
        [shapely.multipolygons([ring]), shapely.multipolygons(pair)],
        {
            "rank": np.array([1, 2], dtype=np.int32),
            "known": np.ma.masked_array(np.array([7, 0]), [False, True]),
            "km": np.ma.masked_array([0.0, 2.5], [True, False]),
            "layers": np.ma.masked_array(np.array(["Bouguer & ü", ""], dtype=object), [0, 1]),
        },
        layer="targets",
        description="where to look",
        metadata={"SEED": "7"},
    )
    meta, _, geometry, (rank, known, km, layers) = pyogrio.raw.read(path, layer="targets")
    assert CRS.from_user_input(meta["crs"]) == grid.crs
    assert meta["geometry_type"] == "MultiPolygon"
    assert rank.tolist() == [1, 2]
    assert known[0] == 7
    assert np.isnan(known[1])
    assert np.isnan(km[0])
    assert km[1] == 2.5
    assert layers.tolist() == ["Bouguer & ü", None]
    first, second = shapely.from_wkb(geometry)
    assert first.area == pytest.approx(8 * 250**2)
    assert second.area == pytest.approx(2 * 250**2)
    assert len(second.geoms) == 2
    hole = shapely.Polygon(first.geoms[0].interiors[0]).centroid
    place = reproject_points(np.array([(hole.x, hole.y)]), grid.crs, LONLAT)
    np.testing.assert_allclose(place, PLACE, atol=1e-6)
    info = pyogrio.read_info(path, layer="targets")
    assert info["layer_metadata"]["SEED"] == "7"
    assert b"where to look" in path.read_bytes()
    with pytest.raises(UserError, match=r"\.gpkg"):
        write_polygons(tmp_path / "t.shp", grid, [], {}, layer="t", description="", metadata={})
