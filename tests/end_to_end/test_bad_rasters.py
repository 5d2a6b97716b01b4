"""Rasters that cannot serve: each is named, with what is wrong and how to mend it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import rasterio.errors
from geocfm.geo.grid import Grid, Window
from geocfm.run import learn
from rasterio.transform import Affine
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
    assert "scanline" not in said
    assert "TIFF" not in said.replace("GeoTIFF", "")  # the library's words mean nothing to anyone


def test_what_is_no_raster_at_all(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    region = small_region
    refused(given(region, trained.checkpoint), "is a model, not a raster", "--checkpoint")
    refused(given(region, region.occurrences), "not a raster that GDAL can read")
    refused(given(region, f"{region.raster('slope')}:2"), "has no band 2", "It has one, 1.")
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


def codes(count: int, dtype: str) -> Any:
    """Bands of whole numbers, as a geological map has them."""
    return (np.indices(NOISE.shape)[0] * count // NOISE.shape[0] + 11).astype(dtype)


def warnings_of(result: Any, name: str) -> list[str]:
    said = " ".join(result.output.split())
    assert result.exit_code == 0, said
    assert "Training is possible" in said
    return [part.split("Layer ")[0] for part in said.split(f"Layer {name} ")[1:]]


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16"])
@pytest.mark.parametrize("resolution", [100, 130, 70])
def test_codes_that_are_read_as_a_measurement_are_told(
    dtype: str, resolution: int, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    """Also where averaging or interpolating has mixed some of them."""
    path = write_raster(tmp_path / "geol.tif", codes(6, dtype), UTM, nodata=None)
    arguments = [*given(small_region, path), "--resolution", resolution]
    (warning,) = warnings_of(geocfm(*arguments), "geol")
    assert "holds 6 different whole numbers: if they are codes, give --classes geol." in warning
    assert not warnings_of(geocfm(*arguments, "--classes", "geol"), "geol")


@pytest.mark.parametrize("count", [2, 200])
def test_a_colour_table_suffices_to_ask_for_classes(
    count: int, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    path = write_raster(tmp_path / "geol.tif", codes(count, "uint8"), UTM, nodata=None)
    arguments = given(small_region, path)
    assert not warnings_of(geocfm(*arguments), "geol")
    with rasterio.open(path, "r+") as target:
        target.write_colormap(1, {value: (value, 80, 90, 255) for value in range(256)})
    (warning,) = warnings_of(geocfm(*arguments), "geol")
    assert "has a table of colours" in warning
    assert "give --classes geol." in warning


@pytest.mark.parametrize(
    "values",
    [
        codes(6, "float32"),
        codes(2, "uint8"),
        (50 * NOISE + 500).clip(0, 1000).astype("uint16"),
        (np.indices(NOISE.shape).sum(axis=0) + 1).astype("int16"),
    ],
    ids=["floats", "a mask", "counts", "heights"],
)
def test_measurements_are_not_taken_for_codes(
    values: Any, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    path = write_raster(tmp_path / "layer.tif", values, UTM, nodata=None)
    for resolution in (100, 130):
        result = geocfm(*given(small_region, path), "--resolution", resolution)
        assert not warnings_of(result, "layer")


FILLERS = (-9999, -99999, -32768, 999999, 1e20, 3.4e38, -3.4028235e38)


@pytest.mark.parametrize("filler", FILLERS)
@pytest.mark.parametrize("resolution", [100, 130])
def test_a_no_data_value_that_is_not_declared_is_told(
    filler: float, resolution: int, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    values = np.where(np.indices(NOISE.shape)[0] < 30, np.float32(filler), NOISE.clip(-9, 9))
    path = write_raster(tmp_path / "mag.tif", values, UTM, nodata=None)
    arguments = [*given(small_region, path), "--resolution", resolution]
    (warning,) = warnings_of(geocfm(*arguments), "mag")
    assert f"has values of {filler:g}, far from all others" in warning
    assert "Set it in the file (QGIS: Export, No data values)" in warning
    write_raster(path, values, UTM, nodata=float(np.float32(filler)))
    assert not warnings_of(geocfm(*arguments), "mag")


def test_depths_that_reach_a_usual_filler_are_no_filler(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    depths = np.linspace(-9999, 2000, NOISE.size, dtype="float32").reshape(NOISE.shape)
    path = write_raster(tmp_path / "depth.tif", depths, UTM, nodata=None)
    assert not warnings_of(geocfm(*given(small_region, path)), "depth")


def test_layers_that_do_not_vary_teach_nothing(
    refused: Refused, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    occurrences = ("--occurrences", small_region.occurrences, "--window", 32, "--tile", 40)
    flat = write_raster(tmp_path / "flat.tif", np.full_like(NOISE, 4.5), UTM)
    rock = write_raster(tmp_path / "rock.tif", np.full(NOISE.shape, 3, "uint8"), UTM, nodata=None)
    both = ("--raster", flat, "--raster", rock, "--classes", "rock")
    refused(
        ["check", *both, *occurrences],
        "No layer varies on the grid, so there is nothing to learn from",
        "add a layer",
    )
    here = np.where(np.indices(NOISE.shape)[1] < 60, np.float32(1), np.float32(-9999))
    mask = write_raster(tmp_path / "mask.tif", here, UTM)
    result = geocfm("check", *both, "--raster", mask, *occurrences)  # where it has data tells
    assert result.exit_code == 0, result.output


def test_a_raster_that_may_not_be_opened(
    refused: Refused, small_region: SmallRegion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_raster(tmp_path / "locked.tif", NOISE, UTM)
    opened, allowed = rasterio.open, os.access

    def deny(name: Any, *arguments: Any, **options: Any) -> Any:
        if str(name) == str(path):
            raise rasterio.errors.RasterioIOError("Permission denied")
        return opened(name, *arguments, **options)

    # for root no file is locked
    monkeypatch.setattr(rasterio, "open", deny)
    monkeypatch.setattr(os, "access", lambda name, *a: name != str(path) and allowed(name, *a))
    refused(given(small_region, path), "locked.tif' cannot be read.", "Check that you may open it")


TILES = """<GDAL_WMS><Service name="TMS">
<ServerUrl>http://127.0.0.1:9/${z}/${x}/${y}.png</ServerUrl></Service>
<DataWindow><UpperLeftX>-20037508</UpperLeftX><UpperLeftY>20037508</UpperLeftY>
<LowerRightX>20037508</LowerRightX><LowerRightY>-20037508</LowerRightY><TileLevel>4</TileLevel>
<TileCountX>1</TileCountX><TileCountY>1</TileCountY><YOrigin>top</YOrigin></DataWindow>
<Projection>EPSG:3857</Projection><BandsCount>3</BandsCount></GDAL_WMS>"""


def test_a_web_map_is_a_picture(
    refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    path = tmp_path / "tiles.xml"
    path.write_text(TILES)
    for source in (
        path,
        "type=xyz&url=https://tile.example.org/{z}/{x}/{y}.png&zmax=19",
        "crs=EPSG:3857&format=image/png&layers=magnetics&url=https://example.org/wms",
        "WMTS:https://example.org/wmts,layer=mag",
        "mag=WMS:https://example.org/wms?service=WMS",
    ):
        words = ("is a web map service, which gives pictures", "Download the grid as a GeoTIFF")
        refused(given(small_region, source), *words)


def test_a_file_that_a_pattern_caught_is_told_with_the_pattern(
    refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    write_raster(tmp_path / "a.tif", NOISE, UTM)
    (tmp_path / "Thumbs.db").write_bytes(b"pictures")
    refused(
        given(small_region, f"{tmp_path}/*"),
        "Thumbs.db' is not a raster",
        f"It was matched by '{tmp_path}/*'; narrow it, for example to '{tmp_path}/*.tif'.",
    )
    said = refused(given(small_region, tmp_path / "Thumbs.db"), "is not a raster")
    assert "matched" not in said


def breaks_off(result: Any, raster: Path, out: Path) -> None:
    """The job ended at a damaged raster: it is named, and there is no result, not even a part."""
    said = " ".join(result.output.split())
    assert result.exit_code == 2, said
    assert f"The raster '{raster}' cannot be read to its end" in said
    shown = {path for path in out.parent.iterdir() if not path.name.startswith(".")}
    assert shown <= {raster, out}
    assert not out.exists() or all(path.name.startswith(".") for path in out.iterdir())


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
    ensemble_of = learn.ensemble_of

    def cut_the_raster(*arguments: Any) -> Any:
        ensemble = ensemble_of(*arguments)
        path.write_bytes(path.read_bytes()[:5000])
        return ensemble

    monkeypatch.setattr(learn, "ensemble_of", cut_the_raster)
    out = tmp_path / "m.safetensors"
    options = ("--raster", path, "--occurrences", small_region.occurrences, *TINY)
    train = ("train", *small_region.raster_options, *options, "--iterations", 2, "--out", out)
    result = geocfm(*train)
    said = " ".join(result.output.split())
    assert result.exit_code == 2, said
    assert f"Inputs were changed while the job was at work: {path} has changed" in said
    assert not out.exists()


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
        (("--crs", "EPSG:4978"), ("EPSG:4978 is not a map projection or longitude", "EPSG:20350")),
        (("--crs", "EPSG:5711"), ("EPSG:5711 is not a map projection or longitude and latitude",)),
        (("--crs", "EPSG:4326", "--resolution", "100"), ("A cell of 100 degrees is larger",)),
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


def test_a_region_of_countless_cells_gives_no_map(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    """`map` has the model's cells, so it does not speak of choosing others."""
    wide = Grid(UTM.crs, UTM.transform @ Affine.scale(1e6), *NOISE.shape)
    path = write_raster(tmp_path / "ridge.tif", NOISE, wide)
    rasters = ["--raster", path]
    rasters += [text for name in LAYERS[1:] for text in ("--raster", small_region.raster(name))]
    arguments = ["map", "--checkpoint", trained.checkpoint, *rasters, "--out", tmp_path / "m.tif"]
    said = refused(arguments, "120,000,000 rows", "Check the extent", "100 m in EPSG:32750")
    assert "--resolution" not in said


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
