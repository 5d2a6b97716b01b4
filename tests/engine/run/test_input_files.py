"""Whatever lies behind an input and changes what is read makes a job another; looking does not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyogrio
import pytest
import rasterio
import shapely
from geocfm.geo.files_behind import raster_files
from geocfm.job import MapJob, TargetsJob, TrainJob
from geocfm.run import input_files
from geocfm.run.provenance import trace
from rasterio.enums import Resampling
from rasterio.errors import NotGeoreferencedWarning
from small_data import UTM, write_raster, write_shapes

VALUES = np.ones((12, 10), dtype=np.float32)
GRID = UTM.subgrid(UTM.window().__class__(0, 0, 12, 10))
OLD = 1_000_000_000  # seconds: so that a change shows whatever the clock of the disk is worth
STATISTICS = '<MDI key="STATISTICS_MEAN">1</MDI>'
NOTES = '<PAMDataset><PAMRasterBand band="1">{}<Metadata>{}</Metadata></PAMRasterBand></PAMDataset>'
SOURCE = '<SourceFilename relativeToVRT="{}">{}</SourceFilename><SourceBand>1</SourceBand>'


def raster(path: Path) -> Path:
    write_raster(path, VALUES, GRID)
    os.utime(path, (OLD, OLD))
    return path


def vrt(path: Path, source: str, beside: int = 1) -> Path:
    a, b, c, d, e, f = GRID.transform[:6]
    path.write_text(
        '<VRTDataset rasterXSize="10" rasterYSize="12"><SRS>EPSG:32750</SRS>'
        f"<GeoTransform>{c},{a},{b},{f},{d},{e}</GeoTransform>"
        '<VRTRasterBand dataType="Float32" band="1"><SimpleSource>'
        f"{SOURCE.format(beside, source)}</SimpleSource></VRTRasterBand></VRTDataset>"
    )
    return path


def mapping(raster: object, **more: Path) -> MapJob:
    model = Path(str(more.pop("folder"))) / "model.safetensors"
    model.write_bytes(b"")
    os.utime(model, (OLD, OLD))
    return MapJob(checkpoint=model, raster=[str(raster)], out=Path("map.tif"), **more)


def touch(path: Path) -> Path:
    path.write_bytes(path.read_bytes() + b"\n")
    return path


def world_file(folder: Path) -> tuple[str, Path]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        with rasterio.open(
            folder / "r.tif", "w", driver="GTiff", width=10, height=12, count=1, dtype="uint8"
        ) as new:
            new.write(VALUES.astype(np.uint8), 1)
    (folder / "r.tfw").write_text("100\n0\n0\n-100\n500000\n7000000\n")
    return str(folder / "r.tif"), folder / "r.tfw"


def mask(folder: Path) -> tuple[str, Path]:
    path = raster(folder / "r.tif")
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK="NO"), rasterio.open(path, "r+") as opened:
        opened.write_mask(VALUES > 0)
    return str(path), folder / "r.tif.msk"


def overviews(folder: Path) -> tuple[str, Path]:
    path = raster(folder / "r.tif")
    with rasterio.Env(TIFF_USE_OVR="YES"), rasterio.open(path, "r+") as opened:
        opened.build_overviews([2], Resampling.nearest)
    return str(path), folder / "r.tif.ovr"


def source_of_a_source(folder: Path) -> tuple[str, Path]:
    source = raster(folder / "r.tif")
    (folder / "within").mkdir()
    vrt(folder / "within" / "inner.vrt", "../r.tif")
    return str(vrt(folder / "outer.vrt", "within/inner.vrt")), source


def source_with_notes(folder: Path) -> tuple[str, Path]:
    raster(folder / "r.tif")
    notes = folder / "r.tif.aux.xml"
    notes.write_text(NOTES.format("<NoDataValue>1</NoDataValue>", ""))
    return str(vrt(folder / "outer.vrt", "r.tif")), notes


def archive(folder: Path) -> tuple[str, Path]:
    path = folder / "a.zip"
    with zipfile.ZipFile(path, "w") as new:
        new.write(raster(folder / "r.tif"), "in/r.tif")
    (folder / "r.tif").unlink()
    return f"/vsizip/{path}/in/r.tif", path


def source_in_an_archive(folder: Path) -> tuple[str, Path]:
    name, path = archive(folder)
    return str(vrt(folder / "outer.vrt", name, beside=0)), path


def data_set_of_a_file(folder: Path) -> tuple[str, Path]:
    path = raster(folder / "r.tif")
    return f"GTIFF_DIR:1:{path}", path


def text_of_a_vrt(folder: Path) -> tuple[str, Path]:
    path = raster(folder / "r.tif")
    return f"vrt://{path}?bands=1", path


MADE = [world_file, mask, overviews, source_of_a_source, source_with_notes, archive]
MADE += [source_in_an_archive, data_set_of_a_file, text_of_a_vrt]


def spoil(path: Path) -> None:
    """Another content of the same length at another time; of notes, another value."""
    if path.name.endswith(".aux.xml"):
        path.write_text(path.read_text().replace(">1<", ">2<"))
    os.utime(path, (OLD + 60, OLD + 60))


@pytest.mark.parametrize("make", MADE)
@pytest.mark.parametrize("field", ["raster", "like", "map"])
def test_a_file_behind_a_raster_counts(
    make: Callable[[Path], tuple[str, Path]], field: str, tmp_path: Path
) -> None:
    name, behind = make(tmp_path)
    os.utime(behind, (OLD, OLD))
    if field == "raster":
        job = mapping(name, folder=tmp_path)
    elif field == "like":
        plain = raster(tmp_path / "plain.tif")
        job = mapping(plain, folder=tmp_path, like=Path(name))
    else:
        job = TargetsJob(map=Path(name), out=Path("targets.gpkg"))
    before = trace(job)
    assert trace(job).differences(before) == []
    spoil(behind)
    assert trace(job).differences(before) == [f"{behind.as_posix()} has changed"]


def test_effort_is_told_by_what_lies_behind_it(tmp_path: Path) -> None:
    path = raster(tmp_path / "plain.tif")
    points = write_shapes(tmp_path / "p.gpkg", [shapely.Point(500_100, 6_999_900)], GRID.crs)
    name, behind = source_of_a_source(tmp_path)
    job = TrainJob(raster=[str(path)], occurrences=points, effort=name, out=Path("m.safetensors"))
    before = trace(job)
    spoil(behind)
    assert trace(job).differences(before) == [f"{behind.as_posix()} has changed"]


@pytest.mark.parametrize("name", ["r.tif.ovr", "r.tif.msk"])
def test_a_file_that_comes_beside_a_raster_or_goes_counts(name: str, tmp_path: Path) -> None:
    path = raster(tmp_path / "r.tif")
    job = mapping(path, folder=tmp_path)
    before = trace(job)
    shutil.copy(path, tmp_path / name)
    after = trace(job)
    assert after.differences(before) == [f"{(tmp_path / name).as_posix()} is new"]
    assert before.differences(after) == [f"{(tmp_path / name).as_posix()} is gone"]


@pytest.mark.parametrize(
    ("there", "comes"),
    [
        (None, NOTES.format("<Histograms><HistItem/></Histograms>", STATISTICS)),
        (None, NOTES.format("<Description>magnetics</Description>", STATISTICS)),
        (
            NOTES.format("<NoDataValue>1</NoDataValue>", ""),
            NOTES.format("<Histograms/><NoDataValue>1</NoDataValue>", STATISTICS),
        ),
    ],
    ids=["no notes before", "the name of the band", "notes before"],
)
def test_statistics_that_qgis_keeps_beside_a_raster_do_not_count(
    there: str | None, comes: str, tmp_path: Path
) -> None:
    path, notes = raster(tmp_path / "r.tif"), tmp_path / "r.tif.aux.xml"
    if there:
        notes.write_text(there)
    job = mapping(path, folder=tmp_path)
    before = trace(job)
    notes.write_text(comes)
    (tmp_path / "r.qml").write_text("<qgis/>")
    (tmp_path / "r.qmd").write_text("<qgis/>")
    assert trace(job).differences(before) == []
    notes.write_text(NOTES.format("<NoDataValue>7</NoDataValue>", STATISTICS))
    assert len(trace(job).differences(before)) == 1


def test_statistics_that_gdal_itself_writes_do_not_count(tmp_path: Path) -> None:
    path = raster(tmp_path / "r.tif")
    job = mapping(path, folder=tmp_path)
    before = trace(job)
    with rasterio.open(path) as opened:
        opened.stats(indexes=1)
    assert (tmp_path / "r.tif.aux.xml").exists()
    assert trace(job).differences(before) == []


def shapefile(folder: Path) -> Path:
    points = write_shapes(
        folder / "p.gpkg", [shapely.box(500_000, 6_999_000, 501_000, 7e6)], GRID.crs
    )
    meta, _, geometry, _ = pyogrio.raw.read(points)
    path = folder / "p.shp"
    pyogrio.raw.write(
        path, geometry, [np.array([1])], ["id"], geometry_type="Polygon", crs=meta["crs"]
    )
    points.unlink()
    return path


@pytest.mark.parametrize("suffix", [".shp", ".dbf", ".shx", ".prj", ".cpg"])
@pytest.mark.parametrize("field", ["aoi", "occurrences"])
def test_every_file_of_a_shapefile_counts(suffix: str, field: str, tmp_path: Path) -> None:
    path = shapefile(tmp_path)
    (tmp_path / "p.qix").write_text("an index of places")
    plain = raster(tmp_path / "r.tif")
    if field == "aoi":
        job: MapJob | TrainJob = mapping(plain, folder=tmp_path, aoi=path)
    else:
        job = TrainJob(raster=[str(plain)], occurrences=path, out=Path("m.safetensors"))
    before = trace(job)
    os.utime(tmp_path / "p.qix", (OLD, OLD))
    assert trace(job).differences(before) == []
    os.utime(path.with_suffix(suffix), (OLD, OLD))
    changed = path.with_suffix(suffix).as_posix()
    assert trace(job).differences(before) == [f"{changed} has changed"]


def geodatabase(folder: Path) -> Path:
    """A folder of files: the engine goes by its files, whatever is in them."""
    path = folder / "p.gdb"
    path.mkdir()
    (path / "a00000001.gdbtable").write_bytes(b"table")
    (path / "deeper").mkdir()
    (path / "deeper" / "more").write_bytes(b"x")
    return path


def test_a_file_geodatabase_is_told_by_the_files_in_it(tmp_path: Path) -> None:
    path = geodatabase(tmp_path)
    job = mapping(raster(tmp_path / "r.tif"), folder=tmp_path, aoi=path)
    before = trace(job)
    (path / "_gdb.MACHINE.1.sr.lock").write_text("")  # somebody looks at it
    assert trace(job).differences(before) == []
    for file in (path / "a00000001.gdbtable", path / "deeper" / "more"):
        touch(file)
        after = trace(job)
        assert after.differences(before) == [f"{path.as_posix()} has changed"]
        before = after
    (path / "a00000002.gdbtable").write_bytes(b"")
    assert trace(job).differences(before) == [f"{path.as_posix()} has changed"]


def test_of_a_plain_folder_only_the_files_in_it_count(tmp_path: Path) -> None:
    """Somebody may give the folder above all others by mistake."""
    path = tmp_path / "shapes"
    (path / "deeper").mkdir(parents=True)
    for file in (path / "p.shp", path / "deeper" / "more"):
        file.write_bytes(b"x")
    job = mapping(raster(tmp_path / "r.tif"), folder=tmp_path, aoi=path)
    before = trace(job)
    touch(path / "deeper" / "more")
    assert trace(job).differences(before) == []
    touch(path / "p.shp")
    assert trace(job).differences(before) == [f"{path.as_posix()} has changed"]


@pytest.mark.parametrize(
    ("name", "companion"),
    [("p.csv", "p.csvt"), ("p.geojson", "p.geojson"), ("p.tab", "p.dat"), ("p.mif", "p.mid")],
)
def test_other_vectors_are_told_by_their_files(name: str, companion: str, tmp_path: Path) -> None:
    for file in {name, companion}:
        (tmp_path / file).write_text("text")
    job = mapping(raster(tmp_path / "r.tif"), folder=tmp_path, aoi=tmp_path / name)
    before = trace(job)
    changed = touch(tmp_path / companion)
    assert trace(job).differences(before) == [f"{changed.as_posix()} has changed"]


def test_the_source_of_a_virtual_vector_and_an_archive_count(tmp_path: Path) -> None:
    source = shapefile(tmp_path)
    virtual = tmp_path / "v.vrt"
    virtual.write_text(
        '<OGRVRTDataSource><OGRVRTLayer name="p">'
        '<SrcDataSource relativeToVRT="1">p.shp</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>'
    )
    packed = tmp_path / "p.zip"
    with zipfile.ZipFile(packed, "w") as new:
        new.write(source, "p.shp")
    plain = raster(tmp_path / "r.tif")
    for aoi, changed in (
        (virtual, source.with_suffix(".dbf")),
        (Path(f"/vsizip/{packed}/p.shp"), packed),
        (Path(f"/vsizip/{{{packed}}}/p.shp"), packed),
    ):
        job = mapping(plain, folder=tmp_path, aoi=aoi)
        before = trace(job)
        touch(changed)
        assert trace(job).differences(before) == [f"{changed.as_posix()} has changed"]


@pytest.mark.parametrize("largest", [2**28, 0], ids=["small", "large"])
def test_changes_of_a_geopackage_that_wait_in_its_journal_count(
    largest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_files, "LARGEST_HASHED", largest)
    points = write_shapes(tmp_path / "p.gpkg", [shapely.Point(500_100, 6_999_900)], GRID.crs)
    job = mapping(raster(tmp_path / "r.tif"), folder=tmp_path, aoi=points)
    database = sqlite3.connect(points)
    database.execute("PRAGMA journal_mode=WAL")
    os.utime(points, (OLD, OLD))
    before = trace(job)
    database.execute("CREATE TABLE note (text)")
    database.commit()
    os.utime(points, (OLD, OLD))  # nothing of it is in the file itself
    assert trace(job).differences(before) == [f"{points.as_posix()} has changed"]
    database.close()


def test_rasters_that_name_themselves_or_each_other_come_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    first = vrt(tmp_path / "d" / "one.vrt", "../d/two.vrt")
    second = vrt(tmp_path / "d" / "two.vrt", "../d/one.vrt")
    found = {os.path.realpath(path) for path in raster_files(str(first))}
    assert found == {str(first), str(second)}


def test_a_raster_of_an_archive_that_names_itself_comes_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    text = vrt(tmp_path / "d" / "one.vrt", "../d/one.vrt")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as new:
        new.write(text, "d/one.vrt")
    assert raster_files(f"/vsizip/{tmp_path}/a.zip/d/one.vrt") == [f"{tmp_path}/a.zip"]


def test_very_many_files_are_one_entry_which_each_of_them_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_files, "MOST_NAMED", 0)
    name, behind = source_of_a_source(tmp_path)
    job = mapping(name, folder=tmp_path)
    before = trace(job)
    assert [entry.files for entry in before.inputs] == [3, 1]
    assert trace(job).differences(before) == []
    spoil(behind)
    assert trace(job).differences(before) == [f"{Path(name).as_posix()} has changed"]


def test_several_bands_of_a_file_name_what_lies_behind_it_once(tmp_path: Path) -> None:
    path = tmp_path / "r.tif"
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        width=10,
        height=12,
        count=3,
        dtype="float32",
        crs=GRID.crs,
        transform=GRID.transform,
    ) as new:
        new.write(np.stack([VALUES] * 3))
    shutil.copy(path, tmp_path / "r.tif.ovr")
    names = [Path(entry.path).name for entry in trace(mapping(path, folder=tmp_path)).inputs]
    assert names == ["r.tif", "r.tif.ovr", "r.tif", "r.tif", "model.safetensors"]
