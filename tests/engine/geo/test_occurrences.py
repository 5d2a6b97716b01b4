import json
from pathlib import Path

import numpy as np
import pyogrio.raw
import pytest
import shapely
from geocfm.errors import UserError
from geocfm.geo.grid import Grid, reproject_points
from geocfm.geo.occurrences import OccurrenceCounts, read_occurrences
from rasterio.crs import CRS
from rasterio.transform import Affine

GRID = Grid(CRS.from_epsg(32750), Affine(100, 0, 500_000, 0, -100, 7_000_000), 60, 80)
PIXELS = np.array([[0.25, 0.75], [10.5, 20.125], [79.9, 59.9]])
LONLAT = reproject_points(GRID.to_world(PIXELS), GRID.crs, CRS.from_epsg(4326))


def write(path: Path, shapes: list, crs: str | None, layer: str | None = None, **columns) -> Path:
    pyogrio.raw.write(
        path,
        shapely.to_wkb(np.array(shapes, dtype=object)),
        [np.array(values) for values in columns.values()],
        list(columns),
        layer=layer,
        geometry_type="Unknown" if path.suffix != ".shp" else shapes[0].geom_type,
        crs=crs,
        append=path.exists(),
    )
    return path


def points(xy: np.ndarray) -> list:
    return list(shapely.points(xy))


@pytest.mark.parametrize("suffix", [".shp", ".gpkg", ".geojson"])
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32750"])
def test_formats_and_crs(tmp_path, suffix, crs):
    xy = LONLAT if crs == "EPSG:4326" else GRID.to_world(PIXELS)
    path = write(tmp_path / f"a{suffix}", points(xy), crs, number=[1, 2, 3])
    found = read_occurrences(path, GRID)
    np.testing.assert_allclose(found.points, PIXELS, atol=1e-4)  # GeoJSON keeps 7 decimals: 1 cm
    assert found.counts == OccurrenceCounts(3, 0, 0, 0, 0, 3)
    assert found.source == str(path)
    assert found.ids.dtype == np.int64
    assert len(set(found.ids.tolist())) == 3


def test_rotated_grid(tmp_path):
    turn = Affine.translation(500_000, 7_000_000) @ Affine.rotation(30) @ Affine.scale(100, -100)
    grid = Grid(GRID.crs, turn, 60, 80)
    path = write(tmp_path / "a.gpkg", points(grid.to_world(PIXELS)), "EPSG:32750", n=[1, 2, 3])
    np.testing.assert_allclose(read_occurrences(path, grid).points, PIXELS, atol=1e-6)


def test_layers_of_a_geopackage(tmp_path):
    path = tmp_path / "a.gpkg"

    def add(layer: str, shape: shapely.Geometry, kind: str) -> None:
        pyogrio.raw.write(
            path,
            shapely.to_wkb(np.array([shape])),
            [np.array([1])],
            ["n"],
            layer=layer,
            geometry_type=kind,
            crs="EPSG:32750",
            append=path.exists(),
        )

    x, y = GRID.to_world(PIXELS[:1])[0]
    add("leases", shapely.box(x, y - 500, x + 500, y), "Polygon")
    add("mines", shapely.Point(x, y), "Point")
    np.testing.assert_allclose(read_occurrences(path, GRID).points, PIXELS[:1], atol=1e-6)
    centre = GRID.to_pixel(x + 250, y - 250)
    np.testing.assert_allclose(
        read_occurrences(path, GRID, layer="leases").points, centre, atol=1e-6
    )
    add("prospects", shapely.Point(x, y), "Point")
    with pytest.raises(UserError, match="several layers") as caught:
        read_occurrences(path, GRID)
    assert "leases, mines, prospects" in caught.value.hint
    with pytest.raises(UserError, match="no layer 'mine'") as caught:
        read_occurrences(path, GRID, layer="mine")
    assert "Did you mean 'mines'" in caught.value.hint


def test_a_file_without_layers_holds_none(tmp_path):
    path = tmp_path / "a.kml"
    path.write_text('<kml xmlns="http://www.opengis.net/kml/2.2"><Document></Document></kml>')
    with pytest.raises(UserError, match="holds no layer"):
        read_occurrences(path, GRID)


def test_a_long_value_of_a_table_is_read(tmp_path):
    outline = "1 2," * 50_000
    world = GRID.to_world(PIXELS).tolist()
    path = tmp_path / "a.csv"
    path.write_text("x,y,outline\n" + "".join(f'{x!r},{y!r},"{outline}"\n' for x, y in world))
    assert len(read_occurrences(path, GRID, crs="EPSG:32750").points) == 3


def test_every_geometry_and_every_loss_is_counted(tmp_path):
    x, y = GRID.to_world([[5, 5]])[0]
    shapes = [
        shapely.MultiPoint([(x, y, 12.0), (x + 1, y, 13.0), (x + 1000, y, 14.0)]),  # 2 in one cell
        shapely.box(x - 100, y - 300, x + 100, y - 100),  # centroid (x, y - 200)
        shapely.LineString([(x, y - 400), (x + 200, y - 400)]),
        None,
        shapely.Point(x - 1e6, y),
        shapely.Point(x, y),  # filtered out
        shapely.Point(),
    ]
    metal = ["gold", "gold", "Gold", "gold", "gold", "tin", "gold"]
    path = write(tmp_path / "a.gpkg", shapes, "EPSG:32750", metal=metal)
    found = read_occurrences(path, GRID, where=["metal = gold"], deduplicate=True)
    assert found.counts == OccurrenceCounts(
        read=9,
        without_geometry=2,
        filtered_out=1,
        outside=1,
        duplicates=1,
        used=4,
        sharing_a_cell=1,
    )
    np.testing.assert_allclose(found.points, [[5, 5], [15, 5], [5, 7], [6, 9]], atol=1e-6)
    assert found.ids.tolist() == [1, 1, 2, 3]
    assert found.where == ("metal = gold",)
    assert read_occurrences(path, GRID).counts == OccurrenceCounts(9, 2, 0, 1, 0, 6, 2)


def test_filters_are_joined_and_explain_themselves(tmp_path):
    path = write(
        tmp_path / "a.shp",
        points(LONLAT),
        "EPSG:4326",
        metal=["gold", "tin", "gold"],
        grade=[1.0, 2.0, 3.0],
    )
    found = read_occurrences(path, GRID, where=["METAL ~ gold", "grade > 2"])
    np.testing.assert_allclose(found.points, PIXELS[2:], atol=1e-4)
    with pytest.raises(UserError, match="No occurrence matches") as caught:
        read_occurrences(path, GRID, where=["metal ~ silver"])
    assert "gold (2), tin (1)" in caught.value.hint
    with pytest.raises(UserError, match="no field 'metl'"):
        read_occurrences(path, GRID, where=["metl ~ gold"])


WORLD = GRID.to_world(PIXELS)


@pytest.mark.parametrize(
    ("xy", "crs", "words"),
    [
        (LONLAT + 20, "EPSG:4326", r"lie at x 137\S* to \S*, y -7\S* to .*, the grid at x 117"),
        (WORLD + 1e5, "EPSG:32750", r"lie at x 600025 .*, the grid at x 500000 to 508000"),
        (LONLAT[:, ::-1], "EPSG:4326", "with x and y exchanged 3 of 3 do"),
        (WORLD[:, ::-1], "EPSG:32750", "with x and y exchanged 3 of 3 do"),
        (WORLD, "EPSG:4326", "if read as EPSG:4326, but as EPSG:32750 3 of 3 do"),
        (WORLD, "EPSG:32751", "if read as EPSG:32751, but as EPSG:32750 3 of 3 do"),
        (LONLAT, "EPSG:32750", "if read as EPSG:32750, but as EPSG:4326 3 of 3 do"),
        (WORLD + 1e5, "EPSG:4326", "cannot be the longitude and latitude of EPSG:4326"),
        (LONLAT + 20, "EPSG:32750", "look like degrees, but EPSG:32750 has none"),
    ],
)
def test_that_none_lies_inside_is_explained(tmp_path, xy, crs, words):
    path = write(tmp_path / "a.gpkg", points(xy), crs, n=[1, 2, 3])
    with pytest.raises(
        UserError, match=f"No occurrence of .*a.gpkg' lies inside the grid.*{words}"
    ):
        read_occurrences(path, GRID)


def test_nothing_is_suspected_without_reason(tmp_path):
    """One of three would lie inside with x and y exchanged: an accident."""
    xy = np.concatenate([WORLD[:1, ::-1], WORLD[1:] + 1e5])
    path = write(tmp_path / "a.gpkg", points(xy), "EPSG:32750", n=[1, 2, 3])
    with pytest.raises(UserError, match="lies inside the grid: they lie at"):
        read_occurrences(path, GRID)
    path = write(tmp_path / "b.gpkg", points(np.concatenate([WORLD, xy])), "EPSG:32750", n=[1] * 6)
    assert read_occurrences(path, GRID).warnings == ()


def test_some_swapped_rows_are_suspected(tmp_path):
    xy = np.concatenate([WORLD, WORLD[:2, ::-1], WORLD[:1] + 1e5])
    path = write(tmp_path / "a.gpkg", points(xy), "EPSG:32750", n=[1] * 6)
    found = read_occurrences(path, GRID)
    assert found.counts.outside == 3
    (warning,) = found.warnings
    assert warning.startswith("2 of the occurrences outside the grid would lie inside with x and y")


def test_without_occurrences_there_is_nothing_to_read(tmp_path):
    empty = tmp_path / "empty.geojson"
    empty.write_text(json.dumps({"type": "FeatureCollection", "features": []}))
    with pytest.raises(UserError, match=r"no occurrences in .*empty.geojson"):
        read_occurrences(empty, GRID)
    path = write(tmp_path / "a.gpkg", [None, shapely.Point()], "EPSG:4326", n=[1, 2])
    with pytest.raises(UserError, match=r"No occurrence of .*a.gpkg' has a location"):
        read_occurrences(path, GRID)


def test_the_crs_that_is_asked_for_outweighs_the_files(tmp_path):
    path = write(tmp_path / "a.gpkg", points(LONLAT), "EPSG:32750", n=[1, 2, 3])
    found = read_occurrences(path, GRID, crs="EPSG:4326")
    np.testing.assert_allclose(found.points, PIXELS, atol=1e-4)
    assert found.warnings == (
        "The occurrences are read as EPSG:4326, as asked, though their file says EPSG:32750.",
    )
    path = write(tmp_path / "b.gpkg", points(LONLAT), "EPSG:4326", n=[1, 2, 3])
    assert read_occurrences(path, GRID, crs="4326").warnings == ()


def test_lines_and_polygons_are_told(tmp_path):
    shapes = [*shapely.buffer(points(WORLD[:2]), 50), *points(WORLD[2:])]
    path = write(tmp_path / "a.gpkg", shapes, "EPSG:32750", n=[1, 2, 3])
    (warning,) = read_occurrences(path, GRID).warnings
    assert "2 occurrences are lines or polygons" in warning
    assert read_occurrences(path, GRID, where=["n = 3"]).warnings == ()


def test_a_missing_crs_must_be_given(tmp_path):
    with pytest.warns(UserWarning, match="crs"):
        path = write(tmp_path / "a.shp", points(LONLAT), None, n=[1, 2, 3])
    with pytest.raises(UserError, match="in which coordinate system"):
        read_occurrences(path, GRID)
    np.testing.assert_allclose(read_occurrences(path, GRID, crs="4326").points, PIXELS, atol=1e-4)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("names", ["Longitude Latitude", "LONG LAT", "lng lat", "Lon_DD Lat_DD"])
def test_tables_in_degrees(tmp_path, delimiter, names):
    x, y = names.split()
    rows = [["name", y, x], *([f'"Gold, {i}"', str(b), str(a)] for i, (a, b) in enumerate(LONLAT))]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(delimiter.join(row) for row in rows), encoding="utf-8-sig")
    found = read_occurrences(path, GRID, where=["name ~ 1, 2"])
    np.testing.assert_allclose(found.points, PIXELS[1:], atol=1e-6)
    assert found.ids.tolist() == [2, 3]
    assert found.counts == OccurrenceCounts(3, 0, 1, 0, 0, 2)


def test_tables_in_a_given_crs(tmp_path):
    world = GRID.to_world(PIXELS)
    path = tmp_path / "a.csv"
    rows = "".join(f"{x};{y};Coté\n".replace(".", ",") for x, y in world)
    path.write_bytes(f"Easting;Northing;site\n{rows};;leer\n".encode("latin-1"))
    with pytest.raises(UserError, match="in which coordinate system"):
        read_occurrences(path, GRID)
    found = read_occurrences(path, GRID, crs="EPSG:32750", where=["site != leer"])
    np.testing.assert_allclose(found.points, PIXELS, atol=1e-6)
    assert found.counts == OccurrenceCounts(4, 1, 0, 0, 0, 3)
    path.write_text("a,b,c\n" + "".join(f"q,{y},{x}\n" for x, y in world))
    found = read_occurrences(path, GRID, x_column="C", y_column="b", crs="EPSG:32750")
    np.testing.assert_allclose(found.points, PIXELS, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("lon,lat\n117,-27\n117E,-27\n", {}, "Line 3 .*'117E' in the coordinate column 'lon'"),
        ("a,b\n1,2\n", {}, "No coordinate columns"),
        ("a,b\n1,2\n", {"x_column": "a"}, "Only one coordinate column"),
        ("a,b\n1,2\n", {"x_column": "a", "y_column": "z"}, "no column 'z'"),
        ("", {}, "is empty"),
        (" \n\n", {}, "is empty"),
        ("lon,lat\n", {}, "There are no occurrences"),
        ("lon,lat\n,\n ,\n", {}, "There are no occurrences"),
        ("lon,lat\n,-27\n117,\n", {}, "has a location"),
        ('lon,lat\n117,"-27,5"\n', {}, "Line 2 .*'-27,5' in the coordinate column 'lat'"),
        ('lon,lat\n117,"' + 200_000 * "x", {}, "Line 2 .* runs on to the end of the file"),
        ("PK\3\4\0\0", {}, "is not text"),
    ],
)
def test_table_mistakes(tmp_path, text, options, words):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=words):
        read_occurrences(path, GRID, **options)


@pytest.mark.parametrize("name", ["gone.csv", "gone.shp"])
def test_missing_file(tmp_path, name):
    with pytest.raises(UserError, match="does not exist"):
        read_occurrences(tmp_path / name, GRID)


def test_unreadable_file(tmp_path):
    path = tmp_path / "a.gpkg"
    path.write_bytes(b"no database")
    with pytest.raises(UserError, match="not a vector file"):
        read_occurrences(path, GRID)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_of_tables(tmp_path, encoding):
    rows = "".join(f"{x};{y};Coté\n".replace(".", ",") for x, y in LONLAT)
    path = tmp_path / "a.csv"
    path.write_bytes(f"lon;lat;Gîte\n{rows}".encode(encoding))
    found = read_occurrences(path, GRID, where=["Gîte = Coté"])
    np.testing.assert_allclose(found.points, PIXELS, atol=1e-6)


def test_incomplete_shapefiles(tmp_path):
    path = write(tmp_path / "a.shp", points(LONLAT), "EPSG:4326", n=[1, 2, 3])
    path.with_suffix(".dbf").unlink()
    assert read_occurrences(path, GRID).counts.used == 3
    with pytest.raises(UserError, match=r"no fields to filter by.*dbf"):
        read_occurrences(path, GRID, where=["n = 1"])
    whole = path.read_bytes()
    for length in (0, 27, 50, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match=r"a.shp' is incomplete"):
            read_occurrences(path, GRID)
    path.write_bytes(whole)
    path.with_suffix(".shx").unlink()
    with pytest.raises(UserError, match=r"lacks its .shx file"):
        read_occurrences(path, GRID)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        read_occurrences(tmp_path, GRID)
