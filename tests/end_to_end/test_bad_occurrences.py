"""Occurrences that cannot serve, and those that can though they look odd."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import pytest
import shapely
from geocfm.geo.grid import reproject_points
from numpy.typing import NDArray
from rasterio.crs import CRS
from small_data import UTM, SmallRegion, ridge_points, run_geocfm, write_shapes

Refused = Callable[..., str]
Geocfm = Callable[..., Any]

METRES = UTM.to_world(ridge_points())
DEGREES = reproject_points(METRES, UTM.crs, CRS.from_epsg(4326))
FAR = DEGREES + np.array([20, 30])


def given(region: SmallRegion, occurrences: object, *options: object) -> list[object]:
    return [
        *("check", *region.raster_options, "--occurrences", occurrences),
        *("--window", 32, "--tile", 40, *options),
    ]


def table(header: str, xy: NDArray[np.float64], separator: str = ",", point: str = ".") -> str:
    rows = (f"{x}{separator}{y}\n".replace(".", point) for x, y in xy.tolist())
    return f"{header}\n{''.join(rows)}"


BAD_TABLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "empty": ("", (), ("is empty",)),
    "only a header": ("lon,lat\n", (), ("There are no occurrences in", "another file")),
    "text in a coordinate": (
        "site,lon,lat\nA,117.1,-27.2\nB,117E,-27.2\n",
        (),
        ("Line 3 of", "'117E' in the coordinate column 'lon'", "decimal numbers such as"),
    ),
    "degrees and minutes": (
        "lon,lat\n117° 3' E,-27.2\n",
        (),
        ("Line 2 of", "'117° 3' E'", "not degrees and minutes"),
    ),
    "no coordinate columns": (
        "site,grade\nA,3\n",
        (),
        ("No coordinate columns", "--x-column", "the columns are: site, grade"),
    ),
    "no such column": (
        table("east_m,north_m", METRES),
        ("--x-column", "eastm", "--y-column", "north_m"),
        ("has no column 'eastm'", "Did you mean 'east_m'?"),
    ),
    "only one column": (
        table("a,b", METRES),
        ("--x-column", "a"),
        ("Only one coordinate column", "--y-column"),
    ),
    "no CRS": (
        table("x,y", METRES),
        (),
        ("do not say in which coordinate system", "--occurrences-crs"),
    ),
    "no such CRS": (
        table("x,y", METRES),
        ("--occurrences-crs", "EPSG:99999"),
        ("'EPSG:99999' is not a coordinate reference system", "EPSG code"),
    ),
    "latitude and longitude swapped": (
        table("lon,lat", DEGREES[:, ::-1]),
        (),
        ("with x and y exchanged 60 of 60 do", "swapped", "Exchange --x-column and --y-column"),
    ),
    "x and y swapped": (
        table("y,x", METRES),
        ("--occurrences-crs", "EPSG:32750"),
        ("with x and y exchanged 60 of 60 do", "swapped"),
    ),
    "metres called degrees": (
        table("lon,lat", METRES),
        (),
        ("as EPSG:4326, but as EPSG:32750 60 of 60 do", "--occurrences-crs EPSG:32750"),
    ),
    "degrees called metres": (
        table("x,y", DEGREES),
        ("--occurrences-crs", "32750"),
        ("as EPSG:32750, but as EPSG:4326 60 of 60 do", "--occurrences-crs EPSG:4326"),
    ),
    "a neighbouring zone": (
        table("x,y", METRES),
        ("--occurrences-crs", "EPSG:32751"),
        ("as EPSG:32751, but as EPSG:32750 60 of 60 do",),
    ),
    "no latitude": (
        table("lon,lat", np.array([(40.0, 120.0), (41.0, 121.0)])),
        (),
        ("(40, 120) cannot be the longitude and latitude of EPSG:4326",),
    ),
    "far away": (
        table("lon,lat", FAR),
        (),
        ("lies inside the grid: they lie at x 137", "the grid at x 117", "Check the CRS"),
    ),
    "without locations": ("lon,lat,site\n,,A\n,,B\n", (), ("has a location", "fill in")),
    "one": (table("lon,lat", DEGREES[:1]), (), ("At least 3 are needed", "add occurrences")),
    "two": (table("lon,lat", DEGREES[:2]), (), ("At least 3 are needed", "add occurrences")),
    "two inside": (
        table("lon,lat", np.concatenate([DEGREES[:2], FAR])),
        (),
        ("2 are used (60 outside the grid)", "check the filter, the CRS"),
    ),
    "not text": ("PK\3\4\0\0\0", (), ("is not text", "Save it as CSV")),
}


@pytest.mark.parametrize("kind", BAD_TABLES)
def test_a_table_that_cannot_serve(
    kind: str,
    refused: Refused,
    small_region: SmallRegion,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    text, options, words = BAD_TABLES[kind]
    path = tmp_path / "points.csv"
    path.write_text(text, encoding="utf-8")
    refused(given(small_region, path, *options), *words)
    assert capfd.readouterr() == ("", "")  # GDAL and PROJ keep their own words to themselves


def test_the_sentence_is_all_there_is_to_read(small_region: SmallRegion, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(table("x,y", METRES), encoding="utf-8")
    done = run_geocfm(*given(small_region, path, "--occurrences-crs", "EPSG:99999"))
    assert done.returncode == 2
    assert (done.stdout + done.stderr).splitlines() == [
        "'EPSG:99999' is not a coordinate reference system.",
        "Write it as an EPSG code, for example EPSG:4326 or EPSG:20350.",
    ]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "latin-1"])
def test_tables_of_other_habits_are_read(
    encoding: str, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    """Semicolons, decimal commas, and the encodings of spreadsheets."""
    path = tmp_path / "points.csv"
    text = table("Länge;lat", DEGREES, ";", ",")
    path.write_bytes(text.encode(encoding))
    result = geocfm(*given(small_region, path, "--x-column", "länge", "--y-column", "lat"))
    assert "in which coordinate system" in result.output  # the columns were found
    result = geocfm(
        *given(small_region, path, "--x-column", "länge", "--y-column", "lat"),
        *("--occurrences-crs", "EPSG:4326"),
    )
    assert result.exit_code == 0, result.output
    assert "Of 60 occurrences 60 are used" in result.output


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("metal ~ gold", ("no field 'metal'", "The fields are: commodity")),
        ("comodity ~ gold", ("no field 'comodity'", "Did you mean 'commodity'?")),
        ("commodity ~ tin", ("No occurrence matches", "Gold (40), Gold; Copper (20)")),
        ("commodity like gold", ("is not understood", '"commodity ~ gold, copper"')),
        ("commodity ~", ("is not understood",)),
        ("~ gold", ("is not understood",)),
        ("", ("is not understood",)),
    ],
)
def test_a_filter_that_filters_nothing(
    where: str, words: tuple[str, ...], refused: Refused, small_region: SmallRegion
) -> None:
    refused(given(small_region, small_region.occurrences, "--where", where), *words)


def shapefile(folder: Path, *without: str) -> Path:
    path = folder / "points.shp"
    pyogrio.raw.write(
        path,
        shapely.to_wkb(shapely.points(METRES)),
        [np.arange(len(METRES))],
        ["number"],
        geometry_type="Point",
        crs="EPSG:32750",
    )
    for suffix in without:
        path.with_suffix(suffix).unlink()
    return path


def halved(path: Path) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


BAD_FILES: dict[str, tuple[Callable[[Path], object], tuple[object, ...], tuple[str, ...]]] = {
    "missing": (lambda folder: folder / "gone.shp", (), ("gone.shp' does not exist",)),
    "a folder": (lambda folder: folder, (), ("is a folder", "name of a file")),
    "no .shx": (lambda folder: shapefile(folder, ".shx"), (), ("lacks its .shx file", "copy all")),
    "no .prj": (
        lambda folder: shapefile(folder, ".prj"),
        (),
        ("do not say in which coordinate system", "--occurrences-crs"),
    ),
    "no .dbf to filter by": (
        lambda folder: shapefile(folder, ".dbf"),
        ("--where", "number > 3"),
        ("no fields to filter by", ".dbf"),
    ),
    "half a shapefile": (
        lambda folder: halved(shapefile(folder)),
        (),
        ("points.shp' is incomplete",),
    ),
    "half a GeoPackage": (
        lambda folder: halved(write_shapes(folder / "a.gpkg", shapely.points(METRES), UTM.crs)),
        (),
        ("a.gpkg' is not a vector file that can be read", "copy it again"),
    ),
    "swapped": (
        lambda folder: write_shapes(folder / "a.gpkg", shapely.points(METRES[:, ::-1]), UTM.crs),
        (),
        ("a.gpkg' lies inside the grid, but with x and y exchanged 60 of 60 do", "Swap X and Y"),
    ),
    "no such layer": (
        lambda folder: write_shapes(folder / "a.gpkg", shapely.points(METRES), UTM.crs),
        ("--layer", "mines"),
        ("has no layer 'mines'", "Its layers are: a"),
    ),
    "another CRS asked for": (
        lambda folder: write_shapes(folder / "a.gpkg", shapely.points(METRES), UTM.crs),
        ("--occurrences-crs", "EPSG:4326"),
        ("if read as EPSG:4326, but as EPSG:32750 60 of 60 do",),
    ),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_vector_file_that_cannot_serve(
    kind: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    make, options, words = BAD_FILES[kind]
    refused(given(small_region, make(tmp_path), *options), *words)


def test_a_raster_holds_no_occurrences(refused: Refused, small_region: SmallRegion) -> None:
    refused(given(small_region, small_region.raster("slope")), "is not a vector file")


def test_what_is_odd_but_can_serve_is_told(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    leases = write_shapes(
        tmp_path / "leases.gpkg", shapely.buffer(shapely.points(DEGREES), 1e-4), UTM.crs
    )
    result = geocfm(*given(small_region, leases, "--occurrences-crs", "EPSG:4326"))
    said = " ".join(result.output.split())
    assert result.exit_code == 0, said
    assert "read as EPSG:4326, as asked, though their file says EPSG:32750" in said
    assert "60 occurrences are lines or polygons; each counts as a point at its centre" in said
    some = tmp_path / "some.csv"
    some.write_text(table("lon,lat", np.concatenate([DEGREES, DEGREES[:5, ::-1]])))
    result = geocfm(*given(small_region, some))
    said = " ".join(result.output.split())
    assert result.exit_code == 0, said
    assert "5 of the occurrences outside the grid would lie inside with x and y exchanged" in said


def test_evaluation_tells_what_is_odd_too(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    leases = write_shapes(
        tmp_path / "leases.gpkg", shapely.buffer(shapely.points(METRES), 10), UTM.crs
    )
    result = geocfm(
        *("evaluate", "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--occurrences", leases, "--steps", 1, "--out", tmp_path / "evaluation"),
    )
    assert result.exit_code == 0, result.output
    assert "60 occurrences are lines or polygons" in " ".join(result.output.split())


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_no_work_is_begun_without_occurrences(
    command: str, refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    path = tmp_path / "points.csv"
    path.write_text(table("lon,lat", FAR), encoding="utf-8")
    options = {"train": ("--iterations", 2), "evaluate": ("--checkpoint", trained.checkpoint)}
    arguments = (command, *small_region.raster_options, "--occurrences", path, *options[command])
    said = refused([*arguments, "--out", tmp_path / "m.safetensors"], "lies inside the grid")
    assert "Mapping" not in said
