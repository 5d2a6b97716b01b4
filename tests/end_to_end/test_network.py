"""Files that name addresses, programs or bytes of others: nothing of that is fetched or run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geocfm import network
from geocfm.geo.grid import Grid
from listener import Listener, listening
from rasterio.crs import CRS
from rasterio.transform import Affine
from small_data import SmallRegion, run_geocfm, write_raster
from test_bad_checkpoints import card

Refused = Callable[..., str]
Written = Callable[[Path, str], str]

UNBIDDEN = ("which is not asked unbidden", "--allow-network")
NO_CRS = ("is not a coordinate reference system", "files and addresses are not read")

VIRTUAL = """<VRTDataset rasterXSize="100" rasterYSize="120"><SRS>EPSG:32750</SRS>
<GeoTransform>500000,100,0,7000000,0,-100</GeoTransform>{band}</VRTDataset>"""
SIMPLE = """<VRTRasterBand dataType="Float32" band="1"><SimpleSource>
<SourceFilename relativeToVRT="0">{source}</SourceFilename><SourceBand>1</SourceBand>
<SourceProperties RasterXSize="100" RasterYSize="120" DataType="Float32"/>
<SrcRect xOff="0" yOff="0" xSize="100" ySize="120"/>
<DstRect xOff="0" yOff="0" xSize="100" ySize="120"/></SimpleSource></VRTRasterBand>"""
TILED = """<GDAL_WMS><Service name="TiledWMS"><ServerUrl>{address}/?</ServerUrl>
<TiledGroupName>mag</TiledGroupName></Service></GDAL_WMS>"""
COVERAGE = """<WCS_GDAL><ServiceURL>{address}/?</ServiceURL><CoverageName>a</CoverageName>
</WCS_GDAL>"""
POINT = '{"type": "Point", "coordinates": [500100, 6999000]}'
LINKED = """{"type": "FeatureCollection", "crs": {"type": "link", "properties":
{"href": "%s/crs", "type": "ogcwkt"}}, "features": [
{"type": "Feature", "properties": {}, "geometry": %s}]}"""
GML = """<?xml version="1.0"?><wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs"
xmlns:gml="http://www.opengis.net/gml" xmlns:a="http://a"
xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
xsi:schemaLocation="http://a {address}/a.xsd?request=DescribeFeatureType&amp;service=WFS">
<gml:featureMember><a:p gml:id="p.1"><a:g><gml:Point srsName="{address}/crs"><gml:pos>1 2</gml:pos>
</gml:Point></a:g></a:p></gml:featureMember></wfs:FeatureCollection>"""
OTHER_SOURCE = """<OGRVRTDataSource><OGRVRTLayer name="x"><SrcDataSource>{source}</SrcDataSource>
</OGRVRTLayer></OGRVRTDataSource>"""


def virtual(source: str) -> str:
    return VIRTUAL.format(band=SIMPLE.format(source=source))


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as found:
        yield found


@pytest.fixture
def check(small_region: SmallRegion) -> Callable[..., list[object]]:
    """``check`` of the small region with other files or options in place of its own."""

    def arguments(raster: object = None, occurrences: object = None, *more: object) -> list[object]:
        points = small_region.occurrences if occurrences is None else occurrences
        rasters = small_region.raster("ridge") if raster is None else raster
        return ["check", "--raster", rasters, "--occurrences", points, *more]

    return arguments


NAMES = (
    *("/vsicurl/{address}/a.tif", "/vsicurl_streaming/{address}/a.tif", "{address}/a.tif"),
    *("/vsizip//vsicurl/{address}/a.zip/a.tif", "/vsizip/{{/vsicurl/{address}/a.zip}}/a.tif"),
    *("/vsigzip//vsicurl/{address}/a.tif.gz", "/vsisubfile/0_9,/vsicurl/{address}/a.tif"),
    *("/vsicurl?url={address}/a.tif", "vrt:///vsicurl/{address}/a.tif"),
    *("/vsicurl?proxy={address}&url=http%3A%2F%2Fexample.invalid%2Fa.tif", "zip+{address}/a.zip"),
    *('NETCDF:"{address}/a.nc":mag', 'ZARR:"/vsicurl/{address}/a.zarr"'),
    *("WCS:{address}/?coverage=mag", "/vsis3/bucket/a.tif", "/vsigs/bucket/a.tif"),
    *("/vsiaz/bucket/a.tif", "/vsiadls/bucket/a.tif", "/vsioss/bucket/a.tif"),
    *("/vsiswift/bucket/a.tif", "/vsihdfs/hdfs:/bucket/a.tif", "s3://bucket/a.tif"),
    "/vsiwebhdfs/{address}/webhdfs/v1/a.tif",
)
STORES = {  # where GDAL would look for buckets
    "AWS_S3_ENDPOINT": "{host}",
    "AWS_HTTPS": "NO",
    "AWS_NO_SIGN_REQUEST": "YES",
    "AWS_VIRTUAL_HOSTING": "FALSE",
    "CPL_GS_ENDPOINT": "{address}/",
    "GS_NO_SIGN_REQUEST": "YES",
    "SWIFT_STORAGE_URL": "{address}/v1",
    "SWIFT_AUTH_TOKEN": "x",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_name_on_the_network_is_not_asked(
    name: str,
    check: Any,
    refused: Refused,
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = listener.address.removeprefix("http://")
    for key, value in STORES.items():
        monkeypatch.setenv(key, value.format(address=listener.address, host=host))
    name = name.format(address=listener.address)
    refused(check(name), *UNBIDDEN)
    refused(check(None, name), *UNBIDDEN)
    assert listener.asked == []


@pytest.mark.parametrize("option", ["--like", "--effort", "--aoi"])
def test_no_option_asks_the_network(
    option: str, check: Any, refused: Refused, geocfm: Callable[..., Any], listener: Listener
) -> None:
    name = f"/vsicurl/{listener.address}/a.tif"
    refused(check(None, None, option, name), *UNBIDDEN)
    assert listener.asked == []
    geocfm(*check(None, None, option, name, "--allow-network"))
    assert listener.asked, "so that it would be seen"


# written into a file of that name: what it holds, and what is said of it
RASTERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "vsicurl.vrt": (virtual("/vsicurl/{address}/a.tif"), UNBIDDEN),
    "plain.vrt": (virtual("{address}/a.tif"), UNBIDDEN),
    "netcdf.vrt": (virtual("NETCDF:&quot;{address}/a.nc&quot;:mag"), UNBIDDEN),
    "tiled.xml": (TILED, ("is a web map service",)),
    "coverage.wcs": (COVERAGE, UNBIDDEN),
}


@pytest.mark.parametrize("name", RASTERS)
@pytest.mark.parametrize("depth", [0, 2])
def test_a_raster_that_names_an_address_does_not_ask_for_it(
    name: str,
    depth: int,
    check: Any,
    refused: Refused,
    geocfm: Callable[..., Any],
    listener: Listener,
    tmp_path: Path,
) -> None:
    text, words = RASTERS[name]

    def write(folder: str) -> Path:  # GDAL remembers what it could not open
        path = tmp_path / folder / name
        path.parent.mkdir()
        path.write_text(text.format(address=listener.address))
        for level in range(depth):
            outer = path.with_name(f"{level}.vrt")
            outer.write_text(virtual(str(path)))
            path = outer
        return path

    refused(check(write("unbidden")), *(UNBIDDEN if depth else words))
    assert listener.asked == []
    result = geocfm(*check(write("bidden"), None, "--allow-network"))
    assert result.exit_code == 2, result.output
    assert listener.asked, "so that it would be seen"


def test_a_virtual_raster_given_as_text_does_not_ask(
    check: Any, refused: Refused, listener: Listener
) -> None:
    refused(check(virtual(f"/vsicurl/{listener.address}/a.tif").replace("\n", " ")), *UNBIDDEN)
    assert listener.asked == []


VECTORS: dict[str, tuple[str, tuple[str, ...]]] = {
    "linked.geojson": (LINKED.replace("%s", "{address}", 1), UNBIDDEN),
    "linked.txt.dat": (LINKED.replace("%s", "{address}", 1), UNBIDDEN),
    "source.vrt": (OTHER_SOURCE.format(source="/vsicurl/{address}/a.geojson"), UNBIDDEN),
    "service.xml": ("<OGRWFSDataSource><URL>{address}/wfs</URL></OGRWFSDataSource>", UNBIDDEN),
}


@pytest.mark.parametrize("name", VECTORS)
def test_a_vector_file_that_names_an_address_does_not_ask_for_it(
    name: str,
    check: Any,
    refused: Refused,
    geocfm: Callable[..., Any],
    listener: Listener,
    tmp_path: Path,
) -> None:
    text, words = VECTORS[name]
    path = tmp_path / name
    path.write_text(text.replace("{address}", listener.address).replace("%s", POINT))
    refused(check(None, path), *words)
    refused(check(None, None, "--aoi", path), *words)
    assert listener.asked == []
    result = geocfm(*check(None, path, "--allow-network"))
    assert result.exit_code == 2, result.output
    assert listener.asked, "so that it would be seen"


PIPELINE = json.dumps(
    {
        "type": "gdal_streamed_alg",
        "command_line": "gdal vector pipeline ! read /vsicurl/{address}/a.geojson ! edit",
    }
)


@pytest.mark.parametrize(("name", "text"), [("schema.gml", GML), ("pipeline.gdalg.json", PIPELINE)])
def test_what_is_never_asked_for(
    name: str, text: str, small_region: SmallRegion, listener: Listener, tmp_path: Path
) -> None:
    """In a process of its own: drivers are chosen when GDAL loads."""
    path = tmp_path / name
    path.write_text(text.replace("{address}", listener.address))
    done = run_geocfm(
        *("check", "--raster", small_region.raster("ridge"), "--occurrences", path),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr == ""
    assert listener.asked == []


def test_a_crs_is_no_address_and_no_file(
    check: Any, refused: Refused, listener: Listener, tmp_path: Path
) -> None:
    file = tmp_path / "EPSG"
    file.write_text("EPSG:32750")
    for crs in (f"{listener.address}/crs", f"/vsicurl/{listener.address}/crs", str(file)):
        for option in ("--occurrences-crs", "--crs"):
            refused(check(None, None, option, crs), *NO_CRS)
            refused(check(None, None, option, crs, "--allow-network"), *NO_CRS)
        refused(check(None, None, "--raster-crs", f"ridge={crs}"), *NO_CRS)
    assert listener.asked == []


def test_grids_of_proj_are_not_fetched(
    listener: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process of its own: PROJ remembers whether it may."""
    america = Grid(CRS.from_epsg(26914), Affine(1000, 0, 480_000, 0, -1000, 4_450_000), 50, 50)
    raster = write_raster(tmp_path / "a.tif", np.ones((50, 50), np.float32), america)
    monkeypatch.setenv("PROJ_NETWORK", "ON")
    monkeypatch.setenv("PROJ_NETWORK_ENDPOINT", listener.address)
    monkeypatch.setenv("PROJ_USER_WRITABLE_DIRECTORY", str(tmp_path))
    points = tmp_path / "points.csv"
    points.write_text("longitude,latitude\n-99,40\n-99.001,40.001\n")
    given = ("check", "--raster", raster, "--occurrences", points, "--occurrences-crs", "EPSG:4267")
    done = run_geocfm(*given)
    assert done.stderr == ""
    assert listener.asked == []
    run_geocfm(*given, "--allow-network")
    assert listener.asked, "so that it would be seen"


def test_the_users_proxies_are_theirs_again_when_the_network_is_allowed(
    check: Any,
    geocfm: Callable[..., Any],
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "/vsicurl/http://example.invalid/a.tif"
    monkeypatch.setitem(network._users, "http_proxy", listener.address)
    assert geocfm(*check(name)).exit_code == 2
    assert listener.asked == []
    assert geocfm(*check(name, None, "--allow-network")).exit_code == 2
    assert any(b"example.invalid" in line for line in listener.asked)


def test_hosts_without_a_proxy_are_not_asked_either(
    check: Any,
    refused: Refused,
    listener: Listener,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    path = tmp_path / "coverage.wcs"
    path.write_text(COVERAGE.format(address=listener.address))
    refused(check(path), *UNBIDDEN)
    assert listener.asked == []


@pytest.mark.parametrize("place", ["crs", "aoi"])
def test_the_card_of_a_model_is_not_followed_to_the_network(
    place: str,
    geocfm: Callable[..., Any],
    refused: Refused,
    small_region: SmallRegion,
    trained: Any,
    listener: Listener,
    tmp_path: Path,
) -> None:
    address = f"/vsicurl/{listener.address}/a.geojson"
    change = {
        "crs": card("grid", "crs", value=f"{listener.address}/crs"),
        "aoi": card("provenance", "job", "aoi", value=address),
    }[place]
    model = tmp_path / "model.safetensors"
    model.write_bytes(change(trained.checkpoint.read_bytes()))
    given = ("--checkpoint", model, *small_region.raster_options)
    points = ("--occurrences", small_region.occurrences)
    if place == "crs":
        for command in (("map",), ("evaluate", *points)):
            out = tmp_path / "map.tif" if command == ("map",) else tmp_path / "evaluation"
            refused([*command, *given, "--out", out], "The CRS of the model's grid cannot be read")
    else:
        result = geocfm(
            *("evaluate", *given, *points, "--skip-importance", "--baselines", "none"),
            *("--out", tmp_path / "evaluation"),
        )
        assert result.exit_code == 0, result.output
        assert "which is not asked unbidden" in " ".join(result.output.split())
    assert geocfm("info", model).exit_code == 0
    assert listener.asked == []


def test_a_job_file_does_not_allow_itself_the_network(
    geocfm: Callable[..., Any],
    refused: Refused,
    small_region: SmallRegion,
    listener: Listener,
    tmp_path: Path,
) -> None:
    virtual_raster = tmp_path / "a.vrt"
    virtual_raster.write_text(virtual(f"/vsicurl/{listener.address}/a.tif"))
    job = {
        "command": "check",
        "raster": [str(small_region.raster("ridge"))],
        "occurrences": str(small_region.occurrences),
    }
    address = f"/vsicurl/{listener.address}/a.tif"
    changes: tuple[dict[str, object], ...] = (
        *({"raster": [address]}, {"raster": [str(virtual_raster)]}, {"occurrences": address}),
        *({"aoi": address}, {"like": address}, {"effort": address}),
        *({"occurrences_crs": f"{listener.address}/crs"}, {"crs": f"{listener.address}/crs"}),
    )
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": [{**job, **change} for change in changes]}))
    for more in ([], ["--dry-run"]):
        result = geocfm("run", path, *more)
        assert result.exit_code == 2, result.output
        assert listener.asked == []
    path.write_text(json.dumps({"jobs": [{**job, "raster": [address]}]}))
    geocfm("run", path, "--dry-run", "--allow-network")
    assert listener.asked, "so that it would be seen"
    path.write_text(json.dumps({"jobs": [{**job, "allow_network": True}]}))
    refused(["run", path], "allow_network", "geocfm run --allow-network")


PROGRAM = """<VRTRasterBand dataType="Float32" band="1" subClass="VRTDerivedRasterBand">
<PixelFunctionType>run</PixelFunctionType><PixelFunctionLanguage>Python</PixelFunctionLanguage>
<PixelFunctionCode><![CDATA[
open({path!r}, "w").close()
def run(ins, out, *args, **kwargs):
    out[:] = 1
]]></PixelFunctionCode></VRTRasterBand>"""
RAW = """<VRTRasterBand dataType="Byte" band="1" subClass="VRTRawRasterBand">
<SourceFilename relativetoVRT="{relative}">{source}</SourceFilename><ImageOffset>0</ImageOffset>
<PixelOffset>1</PixelOffset><LineOffset>100</LineOffset></VRTRasterBand>"""


@pytest.mark.parametrize("nested", [False, True])
def test_a_program_in_a_virtual_raster_is_not_run(
    nested: bool,
    check: Any,
    refused: Refused,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GDAL_VRT_ENABLE_PYTHON", "YES")
    trace = tmp_path / "it_ran"
    path = tmp_path / "program.vrt"
    path.write_text(VIRTUAL.format(band=PROGRAM.format(path=str(trace))))
    if nested:
        outer = tmp_path / "outer.vrt"
        outer.write_text(virtual(str(path)))
        path = outer
    refused(check(path), "holds a program in Python, which GeoCFM does not run")
    assert not trace.exists()
    assert os.environ["GDAL_VRT_ENABLE_PYTHON"] == "NO"  # where no sentence of ours comes first


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("relative", [0, 1])
def test_raw_bytes_of_any_file_are_no_raster(
    nested: bool,
    relative: int,
    check: Any,
    refused: Refused,
    tmp_path: Path,
) -> None:
    (tmp_path / "secret").write_bytes(b"password" * 2000)
    folder = tmp_path / "given"
    folder.mkdir()
    source = "../secret" if relative else str(tmp_path / "secret")
    path = folder / "raw.vrt"
    path.write_text(VIRTUAL.format(band=RAW.format(relative=relative, source=source)))
    if nested:
        outer = tmp_path / "outer.vrt"
        outer.write_text(virtual(str(path)))
        path = outer
    refused(check(path), "reads the bytes of", "secret', which need not be a raster")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "raw.vrt").write_text(VIRTUAL.format(band=RAW.format(relative=1, source="link")))
    refused(check(path), "reads the bytes of", "which need not be a raster")
    text = VIRTUAL.format(band=RAW.format(relative=0, source=tmp_path / "secret"))
    refused(check(text.replace("\n", " ")), "reads the bytes of")


def test_raw_bytes_beside_a_virtual_raster_are(
    geocfm: Callable[..., Any], check: Any, tmp_path: Path
) -> None:
    (tmp_path / "raw").write_bytes(bytes(range(120)) * 100)
    path = tmp_path / "raw.vrt"
    path.write_text(VIRTUAL.format(band=RAW.format(relative=1, source="raw")))
    result = geocfm(*check(path))
    assert result.exit_code == 0, result.output
