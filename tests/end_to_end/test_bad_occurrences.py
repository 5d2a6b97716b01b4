"""Occurrences that cannot serve, and those that can though they look odd."""

from __future__ import annotations

import os
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
from small_data import ALONE, UTM, SmallRegion, ridge_points, run_geocfm, write_shapes

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
    "only separators": (",,\n,,\n", (), ("No coordinate columns", "must name the columns")),
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
        (
            "do not say in which coordinate system they are; as EPSG:32750 60 of 60 lie inside",
            "--occurrences-crs EPSG:32750",
        ),
    ),
    "no CRS, in degrees": (
        table("x,y", DEGREES),
        (),
        ("as EPSG:4326 60 of 60 lie inside the grid", "give --occurrences-crs EPSG:4326"),
    ),
    "no CRS, and elsewhere": (
        table("x,y", METRES + 1e5),
        (),
        ("do not say in which", "EPSG:20350; they are too large for longitude and latitude"),
    ),
    "a CRS of heights": (
        table("x,y", METRES),
        ("--occurrences-crs", "EPSG:5711"),
        ("EPSG:5711 is not a map projection or longitude and latitude", "such as EPSG:20350"),
    ),
    "a layer of a table": (
        table("lon,lat", DEGREES),
        ("--layer", "gold"),
        ("--layer gold means nothing for", "a table has no layers", "Leave it out"),
    ),
    "thousands": (
        'x,y\n"502,345.2","6,990,000"\n',
        ("--occurrences-crs", "EPSG:32750"),
        ("'502,345.2' in the coordinate column 'x'", "separators of thousands"),
    ),
    "spaces": (
        table("lon lat", DEGREES, " "),
        (),
        ("No coordinate columns", "separated by comma, semicolon, tab or |"),
    ),
    "no minus before latitudes": (
        table("lon,lat", DEGREES * [1, -1]),
        (),
        ("with the sign of y changed 60 of 60 do", "South of the equator latitude is below 0"),
    ),
    "a minus before longitudes": (
        table("lon,lat", DEGREES * [-1, 1]),
        (),
        ("with the sign of x changed 60 of 60 do",),
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
    "one": (
        table("lon,lat", DEGREES[:1]),
        (),
        ("Of 1 occurrence 1 is used. At least 3 are needed", "add occurrences"),
    ),
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


def rows(count: int, comment: str = "old shaft") -> list[str]:
    return [f"{comment},{x},{y},{n}\n" for n, (x, y) in enumerate(DEGREES[:count].tolist())]


def with_marks(*numbers: int) -> str:
    """A table in which some rows begin with a quotation mark that is never closed."""
    lines = ["comment,lon,lat,n\n", *rows(60)]
    return "".join(f'"{line}' if n in numbers else line for n, line in enumerate(lines, start=1))


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        (with_marks(2), 2, "the end of the file"),
        (with_marks(2, 3), 2, "line 3"),
        (with_marks(2, 32), 2, "line 32"),
        (with_marks(61), 61, "the end of the file"),
        (with_marks(1), 1, "the end of the file"),
        (with_marks(31).replace(",40\n", ',40"\n'), 31, "line 42"),
        (with_marks(31).replace(",30\n", ',30"\n'), 31, "line 32"),
        ("lon,lat\n" + "".join(f'"{x},{y}\n' for x, y in DEGREES[:9].tolist()), 2, "line 3"),
    ],
)
def test_a_quotation_mark_without_its_partner_loses_no_rows(
    text: str, first: int, last: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    path = tmp_path / "points.csv"
    path.write_text(text, encoding="utf-8")
    refused(
        given(small_region, path),
        f"Line {first} of '{path}': a quoted value runs on to {last}.",
        "Perhaps a quotation mark lacks its partner.",
    )


COMMENTS = ("two\nlines", "two, or\n\nthree", "so he said:\r\n1, 2\nand left", "ok\x85", "\n")


@pytest.mark.parametrize("comment", COMMENTS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_comments_of_several_lines_are_read(
    place: int, comment: str, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    lines = [["lon", "lat"], *([str(x), str(y)] for x, y in DEGREES.tolist())]
    for line in lines[1:]:
        line.insert(place, f'"{comment}"')
    lines[0].insert(place, '"remarks\n(free)"')
    path = tmp_path / "points.csv"
    path.write_bytes("".join(",".join(line) + "\n" for line in lines).encode("latin-1"))
    result = geocfm(*given(small_region, path))
    assert result.exit_code == 0, result.output
    assert "Of 60 occurrences 60 are used." in result.output


def test_what_spreadsheets_add_is_understood(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    """The line that tells Excel the separator, and words for coordinates that are not known."""
    unknown = "".join(f"{word};-27,1\n" for word in ("N/A", "NA", "null", "-", "nan", ""))
    path = tmp_path / "points.csv"
    path.write_text(f"sep=;\n{table('lon;lat', DEGREES, ';', ',')}{unknown}", encoding="utf-8-sig")
    result = geocfm(*given(small_region, path, "--layer", "points"))
    assert result.exit_code == 0, result.output
    assert "Of 66 occurrences 60 are used (6 without a location)." in result.output
    path.write_text("sep=;\n")
    assert "is empty" in " ".join(geocfm(*given(small_region, path)).output.split())


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
        (
            "commodity != Silver AND commodity = Copper",
            ("joins two conditions", "Give a second --where instead of AND", "a|b ~ x, y"),
        ),
        ("commodity = 'Gold' or commodity='Copper'", ("joins two conditions",)),
        ("commodity != Tin and commodity like 'G%'", ("joins two conditions",)),
        ('commodity != "sand and gravel = aggregate, or x"; AND n > 3', ("joins two",)),
    ],
)
def test_a_filter_that_filters_nothing(
    where: str, words: tuple[str, ...], refused: Refused, small_region: SmallRegion
) -> None:
    refused(given(small_region, small_region.occurrences, "--where", where), *words)


@pytest.mark.parametrize(
    "where", ["commodity != sand and gravel", 'commodity != "sand and gravel > 5 mm"']
)
def test_words_that_join_may_be_part_of_a_value(
    where: str, geocfm: Geocfm, small_region: SmallRegion
) -> None:
    result = geocfm(*given(small_region, small_region.occurrences, "--where", where))
    assert "Of 60 occurrences 60 are used." in result.output


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
        ("do not say in which coordinate system", "give --occurrences-crs EPSG:32750"),
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
    "columns of a GeoPackage": (
        lambda folder: write_shapes(folder / "a.gpkg", shapely.points(METRES), UTM.crs),
        ("--x-column", "lon", "--y-column", "lat"),
        ("--x-column and --y-column are for tables (.csv, .tsv, .txt)", "Leave them out"),
    ),
    "one column of a shapefile": (
        shapefile,
        ("--x-column", "lon"),
        ("are for tables", "points.shp' knows where its features lie"),
    ),
    "as QGIS names a layer": (
        lambda folder: (
            f"{write_shapes(folder / 'a.gpkg', shapely.points(METRES), UTM.crs)}|layername=a"
        ),
        (),
        ("QGIS's own addition", "Write it as --occurrences", "a.gpkg --layer a."),
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


def test_a_vector_file_that_may_not_be_opened(
    refused: Refused, small_region: SmallRegion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, allowed = shapefile(tmp_path), os.access  # for root no file is locked
    monkeypatch.setattr(os, "access", lambda name, *a: name != str(path) and allowed(name, *a))
    refused(given(small_region, path), "points.shp' cannot be read.", "that you may open it")


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
        *("--occurrences", leases, *ALONE, "--steps", 1, "--out", tmp_path / "evaluation"),
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
