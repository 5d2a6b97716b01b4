"""Rasters that cannot serve: each is named, with what is wrong and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.geo.grid import Window
from geocfm.run import learn
from small_data import LAYERS, TINY, UTM, SmallRegion, layer_values, write_raster

Refused = Callable[..., str]
Geocfm = Callable[..., Any]
Write = Callable[[Path], object]

NOISE = layer_values()["noise"]
ELSEWHERE = UTM.subgrid(Window(0, 4000, UTM.height, UTM.width))
CUT = {"compress": "deflate", "tiled": True, "blockxsize": 16, "blockysize": 16}


def given(region: SmallRegion, *rasters: object) -> list[object]:
    """`check` of the good layers and of these."""
    options = [text for raster in rasters for text in ("--raster", raster)]
    occurrences = ("--occurrences", region.occurrences, "--window", 32, "--tile", 40)
    return ["check", *region.raster_options, *options, *occurrences]


def raster(values: Any = NOISE, grid: Any = UTM, **profile: Any) -> Write:
    return lambda path: write_raster(path, values, grid, **profile)


def cut(share: float, **profile: Any) -> Write:
    """A raster of which only the first part was copied."""

    def write(path: Path) -> None:
        whole = write_raster(path, NOISE, UTM, **profile).read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])

    return write


def overwritten(path: Path) -> None:
    """A raster with a hole of zeros in its compressed data."""
    content = bytearray(write_raster(path, NOISE, UTM, compress="lzw").read_bytes())
    third = len(content) // 3
    content[third : 2 * third] = bytes(third)
    path.write_bytes(content)


def without(key: str) -> Write:
    def write(path: Path) -> None:
        profile = {"crs": UTM.crs, "transform": UTM.transform, "dtype": "float32", "count": 1}
        del profile[key]
        size = {"height": UTM.height, "width": UTM.width}
        with rasterio.open(path, "w", driver="GTiff", **size, **profile) as target:
            target.write(NOISE, 1)

    return write


BAD: dict[str, tuple[Write, tuple[str, ...]]] = {
    "missing": (lambda path: None, ("does not exist", "spelling")),
    "folder": (Path.mkdir, ("is a folder", "bad.tif/*.tif'")),
    "empty": (Path.touch, ("is empty", "export it again")),
    "text": (
        lambda path: path.write_text("easting northing nT"),
        ("not a raster that GDAL can read", "If QGIS opens it"),
    ),
    "cut in the header": (cut(0.001), ("not a raster that GDAL can read", "copy it again")),
    "cut in the data": (cut(0.5), ("cannot be read to its end", "damaged or incomplete")),
    "cut in compressed data": (cut(0.7, **CUT), ("cannot be read to its end", "copy it")),
    "overwritten": (overwritten, ("cannot be read to its end", "damaged")),
    "no CRS": (without("crs"), ("no coordinate reference system", "Assign Projection")),
    "no place": (without("transform"), ("does not say where it lies", "Georeference")),
    "complex": (
        raster(NOISE.astype("complex64"), nodata=None),
        ("Band 1 of", "complex numbers", "amplitude"),
    ),
    "elsewhere": (
        raster(grid=ELSEWHERE),
        ("'bad'", "does not overlap the grid", "at x 900000 to 910000", "at x 500000 to 510000"),
    ),
    "all no-data": (
        raster(np.full_like(NOISE, -9999)),
        ("Layer bad has no data on the grid", "leave it out"),
    ),
    "all NaN": (
        raster(np.full_like(NOISE, np.nan), nodata=None),
        ("Layer bad has no data on the grid", "leave it out"),
    ),
    "all infinite": (
        raster(np.full_like(NOISE, np.inf)),
        ("Layer bad has 12000 infinite values", "Layer bad has no data on the grid"),
    ),
}
SAID_BY_LAYER = ("all no-data", "all NaN", "all infinite")


@pytest.mark.parametrize("kind", BAD)
def test_a_raster_that_cannot_serve(
    kind: str, refused: Refused, small_region: SmallRegion, tmp_path: Path, recwarn: Any
) -> None:
    write, words = BAD[kind]
    path = tmp_path / "bad.tif"
    write(path)
    said = refused(given(small_region, path), *words)
    assert kind in SAID_BY_LAYER or str(path) in said


def test_what_is_no_raster_at_all(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    region = small_region
    refused(given(region, trained.checkpoint), "is a model, not a raster", "--checkpoint")
    refused(given(region, region.occurrences), "not a raster that GDAL can read")
    refused(given(region, f"{region.raster('slope')}:2"), "has no band 2", "1 to 1")
    refused(given(region, tmp_path / "*.asc"), "No raster matches", "pattern")
    refused(given(region, region.raster("slope")), "Two layers have the name 'slope'")


def test_a_constant_layer_and_infinite_values_are_told_and_borne(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    values = NOISE.copy()
    values[:3], values[3, :7] = np.inf, -np.inf
    spiky = write_raster(tmp_path / "spiky.tif", values, UTM)
    flat = write_raster(tmp_path / "flat.tif", np.full_like(NOISE, 4.5), UTM)
    result = geocfm(*given(small_region, spiky, flat))
    said = " ".join(result.output.split())
    assert result.exit_code == 0, said
    assert "Layer spiky has 307 infinite values; they count as no-data." in said
    assert "Layer flat has the same value everywhere: it teaches nothing" in said
    assert "Training is possible" in said


def breaks_off(result: Any, raster: Path, out: Path) -> None:
    """The job ended at a damaged raster: it is named, and there is no result, not even a part."""
    said = " ".join(result.output.split())
    assert result.exit_code == 2, said
    assert f"The raster '{raster}' cannot be read to its end" in said
    shown = {path for path in out.parent.iterdir() if not path.name.startswith(".")}
    assert shown <= {raster, out}
    assert not out.exists() or not any(out.iterdir())


@pytest.mark.parametrize("command", ["train", "map", "sample", "evaluate"])
def test_a_raster_cut_off_in_its_data_stops_every_command(
    command: str, geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    path = tmp_path / "noise.tif"
    cut(0.7, **CUT)(path)
    rasters = ["--raster", small_region.raster("ridge"), "--raster", small_region.raster("slope")]
    rasters += ["--raster", path]
    occurrences = ("--occurrences", small_region.occurrences)
    model = ("--checkpoint", trained.checkpoint)
    names = {"train": "m.safetensors", "map": "m.tif", "sample": "s.gpkg", "evaluate": "e"}
    out = tmp_path / names[command]
    options: dict[str, tuple[object, ...]] = {
        "train": (*occurrences, *TINY, "--iterations", 2),
        "map": (*model, "--steps", 1),
        "sample": (*model, "--steps", 1),
        "evaluate": (*model, *occurrences, "--steps", 1),
    }
    breaks_off(geocfm(command, *rasters, *options[command], "--out", out), path, out)


def test_a_raster_that_breaks_off_during_training_is_named(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cells were read once; the windows of a large region are read anew in every step."""
    path = write_raster(tmp_path / "more.tif", NOISE, UTM, **CUT)
    monkeypatch.setattr("geocfm.data.scan.CACHE_BYTES", 0)
    monkeypatch.setattr("geocfm.geo.layers.CACHE_MB", 0)
    new_network = learn.new_network

    def cut_the_raster(*arguments: Any) -> Any:
        path.write_bytes(path.read_bytes()[:5000])
        return new_network(*arguments)

    monkeypatch.setattr(learn, "new_network", cut_the_raster)
    out = tmp_path / "m.safetensors"
    options = ("--raster", path, "--occurrences", small_region.occurrences, *TINY)
    train = ("train", *small_region.raster_options, *options, "--iterations", 2, "--out", out)
    breaks_off(geocfm(*train), path, out)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--resolution", "1e-9"), ("12,000,000,000,000 rows", "--resolution", "EPSG:32750")),
        (("--resolution", "1e6"), ("larger than the whole area", "unit of EPSG:32750")),
        (("--resolution", "5000"), ("only 3 rows x 2 columns", "choose smaller cells")),
        (("--extent", "-1e12,-1e12,1e12,1e12"), ("20,000,000,000 rows", "extent")),
        (("--extent", "0,0,9000,9000"), ("inside the grid", "the grid at x 0 to 9000")),
        (("--like", "gone.tif"), ("'gone.tif' does not exist",)),
        (("--crs", "EPSG:99999"), ("'EPSG:99999' is not a coordinate reference system",)),
        (("--crs", "the local grid"), ("'the local grid' is not a coordinate", "EPSG:4326")),
    ],
)
def test_a_grid_that_cannot_be(
    options: tuple[str, ...],
    words: tuple[str, ...],
    refused: Refused,
    small_region: SmallRegion,
    capfd: pytest.CaptureFixture[str],
) -> None:
    refused([*given(small_region), *options], *words)
    assert capfd.readouterr() == ("", "")  # GDAL and PROJ keep their own words to themselves


def test_layers_without_any_data_give_no_map(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    empty = write_raster(tmp_path / "empty.tif", np.full_like(NOISE, -9999), UTM)
    rasters = [text for name in LAYERS for text in ("--raster", f"{name}={empty}")]
    out = tmp_path / "map.tif"
    result = geocfm("map", "--checkpoint", trained.checkpoint, *rasters, "--steps", 1, "--out", out)
    assert result.exit_code == 2
    assert "No cell of the region has data" in " ".join(result.output.split())
    assert not out.exists()
