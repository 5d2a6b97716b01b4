"""Values that no honest file or command has: each ends in a sentence, at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import SmallRegion
from test_network import SIMPLE

Refused = Callable[..., str]

MODEL = Path(__file__).resolve().parents[2] / "resources/checkpoints/murchison_gold.safetensors"
PLACED = """<VRTDataset rasterXSize="100" rasterYSize="120"><SRS>EPSG:32750</SRS>
<GeoTransform>{place}</GeoTransform>{band}</VRTDataset>"""
NOWHERE = "does not say where it lies"
PLACES = {
    "an origin that is no number": "nan,100,0,7000000,0,-100",
    "a size that is no number": "500000,nan,0,7000000,0,-100",
    "a turn that is no number": "500000,100,nan,7000000,0,-100",
    "cells without end": "500000,inf,0,7000000,0,-100",
    "cells beyond the Earth": "500000,1e300,0,7000000,0,-1e300",
    "cells of nothing": "500000,1e-300,0,7000000,0,-1e-300",
    "an origin beyond the Earth": "1e300,100,0,1e300,0,-100",
}


@pytest.mark.parametrize("kind", PLACES)
def test_a_raster_must_have_a_place(
    kind: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    path = tmp_path / "placed.vrt"
    band = SIMPLE.format(source=small_region.raster("ridge"))
    path.write_text(PLACED.format(place=PLACES[kind], band=band))
    own = ("--raster", small_region.raster("ridge"))
    points = ("--occurrences", small_region.occurrences)
    for rasters in (
        ("--raster", path),
        (*own, "--raster", f"second={path}"),
        (*own, "--like", path),
        (*own, "--effort", path),
    ):
        refused(["check", *rasters, *points], f"'{path}' {NOWHERE}")
    refused(["targets", "--map", path, "--out", tmp_path / "targets.gpkg"], NOWHERE)


def test_a_map_of_more_cells_than_can_be_read_or_held(refused: Refused, tmp_path: Path) -> None:
    for width, height in ((10**6, 10**6), (2 * 10**9, 2 * 10**9), (2 * 10**9, 20)):
        path = tmp_path / "vast.vrt"
        path.write_text(
            f'<VRTDataset rasterXSize="{width}" rasterYSize="{height}"><SRS>EPSG:32750</SRS>'
            "<GeoTransform>500000,1,0,7000000,0,-1</GeoTransform>"
            '<VRTRasterBand dataType="Float32" band="1"/></VRTDataset>'
        )
        refused(["targets", "--map", path, "--out", tmp_path / "targets.gpkg"], "Cut the map")


@pytest.mark.parametrize("suffix", [".tif", ".gpkg", ".csv", ".safetensors", ".toml"])
def test_links_that_lead_to_themselves(
    suffix: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    one.symlink_to(other)
    other.symlink_to(one)
    own = ("--raster", small_region.raster("ridge"))
    points = ("--occurrences", small_region.occurrences)
    folder = tmp_path / "folder"
    folder.symlink_to(folder)
    commands: dict[str, list[list[object]]] = {
        ".tif": [
            ["check", "--raster", one, *points],
            ["check", *own, *points, "--like", one],
            ["map", "--checkpoint", MODEL, *own, "--out", one],
            ["map", "--checkpoint", MODEL, *own, "--out", folder / "map.tif"],
            ["targets", "--map", one, "--out", tmp_path / "targets.gpkg"],
        ],
        ".gpkg": [
            ["check", *own, "--occurrences", one],
            ["check", *own, *points, "--aoi", one],
            ["targets", "--map", small_region.raster("ridge"), "--out", one],
        ],
        ".csv": [["check", *own, "--occurrences", one]],
        ".safetensors": [["info", one], ["train", *own, *points, "--out", one]],
        ".toml": [["run", one], ["synth", "--size", 64, "--bodies", 2, "--out", folder]],
    }
    for command in commands[suffix]:
        refused(command)


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "~" * 100_000,
        f"a{' ' * 100_000}b",
        f"{' ' * 100_000}=",
        f"commodity = a{' and b like' * 10_000}",
        f"commodity = 1{' and b' * 20_000}",
        f"{'(' * 50_000}commodity = 1{')' * 50_000}",
        f"commodity ~ {'x' * 100_000}",
        f"{'|'.join(['gold'] * 30_000)} = 1",
    ],
    ids=lambda text: text.strip()[:16],
)
def test_a_filter_without_end(text: str, refused: Refused, small_region: SmallRegion) -> None:
    own = ("--raster", small_region.raster("ridge"), "--occurrences", small_region.occurrences)
    assert len(refused(["check", *own, "--where", text])) < 1000


@pytest.mark.parametrize(
    "option",
    ["--layer", "--crs", "--classes", "--x-column", "--set", "--raster-crs", "--aoi", "--raster"],
)
def test_a_sentence_does_not_repeat_what_has_no_end(
    option: str, refused: Refused, small_region: SmallRegion
) -> None:
    own = ("--raster", small_region.raster("ridge"), "--occurrences", small_region.occurrences)
    value = "x" * 100_000 + ("=1" if option in ("--set", "--raster-crs") else "")
    more = ("--y-column", "y") if option == "--x-column" else ()
    assert len(refused(["check", *own, option, value, *more])) < 8000


def test_results_are_files_of_this_computer(
    refused: Refused, small_region: SmallRegion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = ("--raster", small_region.raster("ridge"))
    points = ("--occurrences", small_region.occurrences)
    said = "results are written into folders of this computer"
    apply: tuple[Any, ...] = ("--checkpoint", MODEL, *own)
    for place in (
        "/vsimem",
        "/vsizip/a.zip",
        "/vsistdout",
        "/vsicurl/http://127.0.0.1:9",
        "s3://a",
    ):
        refused(["map", *apply, "--out", f"{place}/a.tif"], said)
        refused(["map", *apply, "--out", "a.tif", "--uncertainty", f"{place}/b.tif"], said)
        refused(["sample", *apply, "--out", f"{place}/a.gpkg"], said)
        refused(["targets", "--map", own[1], "--out", f"{place}/a.gpkg"], said)
        refused(["evaluate", *apply, *points, "--out", f"{place}/a"], said)
        refused(["train", *own, *points, "--out", f"{place}/a.safetensors"], said)
        refused(["synth", "--out", f"{place}/a"], said)
        refused(["benchmark", "memory", "--out", f"{place}/a"], said)
        job = ["job", "check", *own, *points, "--to", f"{place}/a.toml"]
        refused(job, "into folders of this computer")
