"""Raster layers of QGIS as the engine gets them."""

import os
import shutil
import struct
import threading
import time

import pytest
from osgeo import gdal
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsRasterDataProvider,
    QgsRasterLayer,
    QgsRasterRange,
    QgsRectangle,
)

from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.jobs.area import area_of_interest
from geocfm_qgis.jobs.raster_export import MARGIN_CELLS
from geocfm_qgis.jobs.rasters import raster_input, reference_path

RASTER = str(resources_folder() / "sample" / "rasters" / "dist_fault.tif")
NO_DATA = -9999.0
CELL_M = 500
COLUMNS, ROWS = 660, 804


@pytest.fixture
def context(qgis_new_project):
    return QgsProcessingContext()


@pytest.fixture
def layer(tmp_path):
    path = tmp_path / "größe 1.tif"
    shutil.copyfile(RASTER, path)
    return QgsRasterLayer(str(path), "größe 1")


def small_raster(path, values, no_data=None, crs="EPSG:20350"):
    dataset = gdal.GetDriverByName("GTiff").Create(str(path), len(values), 1, 1, gdal.GDT_Float32)
    dataset.SetGeoTransform((500000, 10, 0, 7000000, 0, -10))
    if crs:
        dataset.SetProjection(QgsCoordinateReferenceSystem(crs).toWkt())
    band = dataset.GetRasterBand(1)
    if no_data is not None:
        band.SetNoDataValue(no_data)
    band.WriteRaster(0, 0, len(values), 1, struct.pack(f"<{len(values)}f", *values))
    del band, dataset  # writes the file
    return QgsRasterLayer(str(path), path.stem)


def valid_values(path):
    """The values that are data, by GDAL's own mask."""
    dataset = gdal.Open(path)
    band = dataset.GetRasterBand(1)
    count = dataset.RasterXSize * dataset.RasterYSize
    raw = band.ReadRaster(buf_type=gdal.GDT_Float64)
    mask = band.GetMaskBand().ReadRaster(buf_type=gdal.GDT_Byte)
    values = struct.unpack(f"<{count}d", raw)
    return [value for value, valid in zip(values, mask, strict=True) if valid]


def test_a_plain_file_is_itself(layer, context):
    found = raster_input(layer, context)
    assert found.path == layer.source()
    assert found.spec("mag", 1) == f"mag={layer.source()}:1"
    assert (found.crs, found.no_data, found.exports, found.temporary) == ("", {}, (), ())


def test_a_relative_path_becomes_absolute(layer, context, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    relative = QgsRasterLayer("größe 1.tif", "x")
    assert raster_input(relative, context).path == str(tmp_path / "größe 1.tif")


def test_a_crs_set_in_qgis_is_said(layer, context):
    layer.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    assert raster_input(layer, context).crs == "EPSG:28350"
    own = QgsCoordinateReferenceSystem.fromProj("+proj=tmerc +lat_0=1 +lon_0=117 +ellps=GRS80")
    layer.setCrs(own)
    assert raster_input(layer, context).crs.startswith(("PROJCRS[", "BOUNDCRS["))


def test_a_file_without_crs_gets_that_of_the_layer(tmp_path, context):
    layer = small_raster(tmp_path / "bare.tif", [1, 2, 3], crs=None)
    layer.setCrs(QgsCoordinateReferenceSystem("EPSG:20350"))
    assert raster_input(layer, context).crs == "EPSG:20350"


def test_one_no_data_value_set_in_qgis_is_said(layer, context):
    layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(0, 0)])
    found = raster_input(layer, context)
    assert found.no_data == {1: 0.0}
    assert not found.exports


def test_ranges_of_no_data_are_written_into_a_copy(tmp_path, context):
    layer = small_raster(tmp_path / "r.tif", [1, 2, 3, 4, 5, NO_DATA], no_data=NO_DATA)
    layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(2, 3), QgsRasterRange(5, 5)])
    found = raster_input(layer, context)
    assert found.no_data == {}
    (export,) = found.exports
    export.run(QgsProcessingFeedback())
    assert found.path == export.path == found.temporary[0]
    assert valid_values(found.path) == [1, 4]


def test_the_same_raster_is_written_once_so_that_a_job_can_go_on(tmp_path, context):
    def found(values, upper):
        layer = small_raster(tmp_path / "r.tif", values) if values else QgsRasterLayer(path, "r")
        layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(2, upper)])
        (export,) = raster_input(layer, context).exports
        export.run()
        return export.path

    path = str(tmp_path / "r.tif")
    written = found([1, 2, 3, 4, 5], 3)
    stamp = os.stat(written).st_mtime_ns
    assert found(None, 3) == written
    assert os.stat(written).st_mtime_ns == stamp
    assert os.listdir(os.path.dirname(written)) == ["r.tif"]
    assert found(None, 4) != written
    again = found([1, 2, 3, 4, 5, 6], 3)
    assert again != written
    assert valid_values(again) == [1, 4, 5, 6]


def test_ranges_of_no_data_in_a_file_that_has_none(tmp_path, context):
    layer = small_raster(tmp_path / "r.tif", [1, 2, 3, 4, 5])
    layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(2, 3)])
    found = raster_input(layer, context)
    found.exports[0].run()
    assert valid_values(found.path) == [1, 4, 5]


def test_a_no_data_value_of_the_file_that_is_not_used_in_qgis(tmp_path, context):
    layer = small_raster(tmp_path / "r.tif", [1, 2, 0], no_data=0)
    assert valid_values(raster_input(layer, context).path) == [1, 2]
    layer.dataProvider().setUseSourceNoDataValue(1, False)
    layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(2, 2)])
    found = raster_input(layer, context)
    assert found.path.endswith(".vrt")
    assert found.temporary == (found.path,)
    assert valid_values(found.path) == [1, 2, 0]
    assert found.no_data == {1: 2.0}


def test_options_to_open_with_are_kept_in_a_virtual_raster(layer, context):
    opened = QgsRasterLayer(f"{layer.source()}|option:NUM_THREADS=2", "with options", "gdal")
    assert opened.isValid()
    found = raster_input(opened, context)
    assert found.path.endswith(".vrt")
    with open(found.path, encoding="utf-8") as file:
        assert '<OOI key="NUM_THREADS">2</OOI>' in file.read()


def test_a_table_of_a_geopackage_stays_as_gdal_names_it(layer, context, tmp_path):
    path = tmp_path / "two.gpkg"
    for name in ("one", "two"):
        gdal.Translate(
            str(path),
            layer.source(),
            format="GPKG",
            outputType=gdal.GDT_Float32,
            width=20,
            creationOptions=[f"RASTER_TABLE={name}", "APPEND_SUBDATASET=YES"],
        )
    source = f"GPKG:{path}:two"
    table = QgsRasterLayer(source, "t", "gdal")
    assert table.isValid()
    assert raster_input(table, context).path == source


def virtual_layer(name="doubled", width=COLUMNS, height=ROWS):
    """A raster of another provider than GDAL, which is there without a server."""
    base = QgsRasterLayer(RASTER, "a")
    given = QgsRasterDataProvider.VirtualRasterParameters()
    given.crs, given.extent, given.formula = base.crs(), base.extent(), '"a@1" * 2'
    given.width, given.height = width, height
    source = QgsRasterDataProvider.VirtualRasterInputLayers()
    source.name, source.uri, source.provider = "a", base.source(), "gdal"
    given.rInputLayers = [source]
    uri = QgsRasterDataProvider.encodeVirtualRasterProviderUri(given)
    layer = QgsRasterLayer(uri, name, "virtualraster")
    assert layer.isValid()
    return layer


def test_what_is_no_file_is_exported_over_the_area(context):
    layer = virtual_layer()
    assert layer.providerType() == "virtualraster"
    inside = QgsRectangle(500_010, 6_850_010, 519_990, 6_869_990)
    area = area_of_interest(inside, layer.crs(), None, context)
    found = raster_input(layer, context, area)
    (export,) = found.exports
    assert not os.path.exists(found.path)
    progress = []
    feedback = QgsProcessingFeedback()
    feedback.progressChanged.connect(progress.append)
    del layer  # the user may remove it meanwhile
    export.run(feedback)
    written, original = gdal.Open(found.path), gdal.Open(RASTER)
    assert written.RasterXSize < COLUMNS
    assert written.RasterXSize == pytest.approx(40 + 2 * MARGIN_CELLS, abs=2)
    left, cell, _, top, _, _ = written.GetGeoTransform()
    assert cell == CELL_M
    assert (left - original.GetGeoTransform()[0]) % CELL_M == pytest.approx(0, abs=1e-6)
    column = round((left - original.GetGeoTransform()[0]) / CELL_M)
    row = round((original.GetGeoTransform()[3] - top) / CELL_M)
    here = written.GetRasterBand(1).ReadRaster(10, 20, 1, 1, buf_type=gdal.GDT_Float32)
    there = original.GetRasterBand(1).ReadRaster(
        column + 10, row + 20, 1, 1, buf_type=gdal.GDT_Float32
    )
    assert struct.unpack("<f", here)[0] == 2 * struct.unpack("<f", there)[0]
    assert progress
    assert "doubled" in feedback.textLog()


def test_a_cancelled_export_leaves_no_file(context):
    found = raster_input(virtual_layer(), context)
    feedback = QgsProcessingFeedback()
    feedback.cancel()
    found.exports[0].run(feedback)
    assert not os.path.exists(found.path)


def test_an_export_in_the_background_can_be_cancelled(context):
    layer = virtual_layer(width=5000, height=5000)
    (export,) = raster_input(layer, context).exports
    feedback = QgsProcessingFeedback()
    worker = threading.Thread(target=export.run, args=(feedback,))
    worker.start()
    folder = os.path.dirname(export.path)
    while worker.is_alive() and not (os.path.isdir(folder) and os.listdir(folder)):
        time.sleep(0.01)
    feedback.cancel()
    worker.join(60)
    assert not worker.is_alive()
    assert os.listdir(folder) == []


def test_too_large_an_export_is_refused(context, monkeypatch):
    monkeypatch.setattr("geocfm_qgis.jobs.raster_export.MOST_CELLS", COLUMNS * ROWS - 1)
    with pytest.raises(QgsProcessingException, match="Choose a smaller area of interest"):
        raster_input(virtual_layer(), context)


def test_an_area_elsewhere_is_refused(context):
    elsewhere = area_of_interest(
        QgsRectangle(5, 50, 6, 51), QgsCoordinateReferenceSystem("EPSG:4326"), None, context
    )
    with pytest.raises(QgsProcessingException, match="does not overlap"):
        raster_input(virtual_layer(), context, elsewhere)


def test_web_maps_are_refused(context, tmp_path):
    tiles = QgsRasterLayer(
        f"type=xyz&url=file://{tmp_path}/%7Bz%7D/%7Bx%7D/%7By%7D.png&zmin=0&zmax=3", "osm", "wms"
    )
    assert tiles.isValid()
    with pytest.raises(QgsProcessingException, match="'osm' is a web map, which gives pictures"):
        raster_input(tiles, context)


def test_web_maps_by_gdal_are_refused(context, tmp_path):
    path = tmp_path / "service.xml"
    path.write_text(
        "<GDAL_WMS><Service name='TMS'><ServerUrl>http://127.0.0.1:9/${z}/${x}/${y}.png"
        "</ServerUrl></Service><DataWindow><UpperLeftX>-20037508</UpperLeftX><UpperLeftY>20037508"
        "</UpperLeftY><LowerRightX>20037508</LowerRightX><LowerRightY>-20037508</LowerRightY>"
        "<TileLevel>3</TileLevel></DataWindow><Projection>EPSG:3857</Projection>"
        "<BandsCount>3</BandsCount></GDAL_WMS>",
        encoding="utf-8",
    )
    layer = QgsRasterLayer(str(path), "tms", "gdal")
    assert layer.isValid()
    with pytest.raises(QgsProcessingException, match="web map"):
        raster_input(layer, context)


def test_a_layer_whose_file_is_gone_is_refused(context):
    with pytest.raises(QgsProcessingException, match=r"'mag' is gone: /nowhere/mag\.tif"):
        raster_input(QgsRasterLayer("/nowhere/mag.tif", "mag"), context)


def test_a_file_that_vanished_after_it_was_opened_is_said(layer, context):
    os.remove(layer.source())
    assert layer.isValid()  # QGIS still thinks so
    with pytest.raises(QgsProcessingException, match=r"'größe 1' is gone: .*größe 1\.tif"):
        raster_input(layer, context)


def test_a_virtual_raster_is_made_anew_when_its_source_has_changed(tmp_path, context):
    def written(values):
        layer = small_raster(tmp_path / "r.tif", values, no_data=0)
        layer.dataProvider().setUseSourceNoDataValue(1, False)
        found = raster_input(layer, context).path
        assert found.endswith(".vrt")
        layer.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
        reference, _, _ = reference_path(layer, context, [])
        return gdal.Open(found).RasterXSize, gdal.Open(reference).RasterXSize

    assert written([1, 2, 0]) == (3, 3)
    assert written([1, 2, 0, 4, 5]) == (5, 5)


def test_the_reference_is_the_layers_own_raster_or_says_its_crs(layer, context):
    given = raster_input(layer, context)
    assert reference_path(layer, context, [(layer, given)]) == (given.path, (), ())
    other = QgsRasterLayer(RASTER, "other")
    assert reference_path(other, context, [(layer, given)]) == (RASTER, (), ())
    other.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    path, temporary, _ = reference_path(other, context, [(layer, given)])
    assert temporary == (path,)
    assert QgsRasterLayer(path, "vrt").crs().authid() == "EPSG:28350"


def test_no_data_that_neither_the_job_nor_a_copy_can_tell_is_refused(tmp_path, context):
    layer = small_raster(tmp_path / "r.tif", [1, 2, 0], no_data=0)
    layer.dataProvider().setUseSourceNoDataValue(1, False)
    layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(1, 2)])
    with pytest.raises(QgsProcessingException, match="Export it as a GeoTIFF"):
        raster_input(layer, context)
