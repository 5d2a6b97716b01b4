"""Areas of interest that cannot serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import shapely
from rasterio.crs import CRS
from small_data import UTM, SmallRegion, write_shapes

Refused = Callable[..., str]
Make = Callable[[Path], object]

BOX = shapely.box(502_000, 6_992_000, 505_000, 6_996_000)
SWAPPED = shapely.transform(BOX, lambda xy: xy[:, ::-1])


def shapes(*drawn: Any, crs: CRS = UTM.crs) -> Make:
    return lambda folder: write_shapes(folder / "area.gpkg", drawn, crs)


def without_crs(folder: Path) -> Path:
    path = folder / "area.csv"
    path.write_text(f'WKT\n"{BOX.wkt}"\n')
    return path


def table(folder: Path) -> Path:
    path = folder / "area.csv"
    path.write_text("lon,lat\n117,-27\n")
    return path


BAD: dict[str, tuple[Make, tuple[str, ...], tuple[str, ...]]] = {
    "missing": (lambda folder: folder / "gone.gpkg", (), ("gone.gpkg' does not exist",)),
    "elsewhere": (
        shapes(shapely.transform(BOX, lambda xy: xy + 100_000)),
        (),
        ("does not overlap the grid", "x 500000 to 510000, y 6988000 to 7000000 (EPSG:32750)"),
    ),
    "swapped": (shapes(SWAPPED), (), ("does not overlap the grid",)),
    "nothing drawn": (shapes(shapely.Polygon()), (), ("There are no polygons", "as a polygon")),
    "points": (shapes(shapely.Point(503_000, 6_993_000)), (), ("There are no polygons",)),
    "a table": (table, (), ("There are no polygons",)),
    "no CRS": (without_crs, (), ("does not say in which coordinate system", "Set Layer CRS")),
    "metres called degrees": (
        shapes(BOX, crs=CRS.from_epsg(4326)),
        (),
        ("cannot be the longitude and latitude of EPSG:4326", "its right CRS"),
    ),
    "smaller than a cell": (
        shapes(shapely.box(502_010, 6_992_010, 502_020, 6_992_020)),
        (),
        ("smaller than a cell of the grid (100 m)", "larger"),
    ),
    "as QGIS names a layer": (
        lambda folder: f"{shapes(BOX)(folder)}|layername=area",
        (),
        ("Write it as --aoi", "area.gpkg --aoi-layer area."),
    ),
    "no such layer": (shapes(BOX), ("--aoi-layer", "lease"), ("has no layer 'lease'", "area")),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("command", ["map", "sample"])
def test_an_area_that_cannot_serve(
    kind: str,
    command: str,
    refused: Refused,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
) -> None:
    make, options, words = BAD[kind]
    arguments = [
        *(command, "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--aoi", make(tmp_path), *options),
        *("--out", tmp_path / {"map": "map.tif", "sample": "points.gpkg"}[command]),
    ]
    refused(arguments, *words)


def test_an_area_is_no_raster(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    arguments = ["map", "--checkpoint", trained.checkpoint, *small_region.raster_options]
    out = ("--out", tmp_path / "map.tif")
    refused([*arguments, "--aoi", small_region.raster("slope"), *out], "not a vector file")
    refused([*arguments, "--like", small_region.occurrences, *out], "not a raster")
    refused([*arguments, "--like", tmp_path / "gone.tif", *out], "gone.tif' does not exist")
