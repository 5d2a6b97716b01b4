"""The pre-flight check by the real engine: layers that are odd, and the sample."""

import random

import pytest
from osgeo import gdal
from panel_support import OpenPanel, wait_until
from qgis.core import QgsProject, QgsRasterLayer
from raster_making import SIZE, make_points, make_raster

from geocfm_qgis.panel import preflight as module

CHECK_S = 60.0
NO_DATA = -9999.0


@pytest.fixture
def open_panel(engine_python, tmp_path, qgis_new_project, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    opened = []

    def make():
        opened.append(OpenPanel(engine_python, tmp_path / "results"))
        assert wait_until(lambda: opened[-1].panel.engine.devices, CHECK_S)
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def fill(path, value, no_data=None, columns=SIZE):
    """Give so many columns of a raster one value."""
    dataset = gdal.Open(path, gdal.GA_Update)
    band = dataset.GetRasterBand(1)
    if no_data is not None:
        band.SetNoDataValue(no_data)
    one = gdal.GetDriverByName("MEM").Create("", columns, SIZE, 1, gdal.GDT_Float64)
    one.GetRasterBand(1).Fill(value)
    band.WriteRaster(
        0, 0, columns, SIZE, one.ReadRaster(buf_type=gdal.GDT_Float64), buf_type=gdal.GDT_Float64
    )
    del one, band, dataset
    return path


def add(path, name):
    layer = QgsRasterLayer(path, name)
    assert QgsProject.instance().addMapLayer(layer)


def check(opened):
    """Tick all rasters and wait for what the engine says."""
    opened.tick_all()
    assert wait_until(lambda: opened.panel.preflight.report.status != module.BLOCKED)
    preflight = opened.panel.preflight
    assert wait_until(lambda: preflight.report.status != module.PENDING, CHECK_S)
    return preflight.report


def add_points():
    chance = random.Random(1)
    rows = [(chance.randrange(SIZE), chance.randrange(SIZE), "gold") for _ in range(60)]
    QgsProject.instance().addMapLayer(make_points(rows))


def odd_layer(kind, folder):
    path = str(folder / f"{kind}.tif")
    if kind == "constant":
        return fill(make_raster(path), 7.0)
    if kind == "partly constant":
        return fill(fill(make_raster(path), 7.0, NO_DATA), NO_DATA, NO_DATA, SIZE // 4)
    if kind == "empty":
        return fill(make_raster(path), NO_DATA, NO_DATA)
    if kind == "integers":
        return make_raster(path, kind=gdal.GDT_Int16)
    return make_raster(path, kind=gdal.GDT_Byte, palette=True)


def test_odd_layers_are_checked_and_run_follows_from_what_is_said(open_panel, tmp_path):
    add(make_raster(tmp_path / "mag.tif"), "mag")
    for kind in ("constant", "partly constant", "integers", "classes"):
        add(odd_layer(kind, tmp_path), kind)
    add_points()
    opened = open_panel()
    report = check(opened)
    assert report.transcript == ""  # the check itself did not break
    assert report.problems == ()
    told = " ".join(report.warnings)
    assert "Layer constant has the same value everywhere" in told
    assert "Layer partly constant has the same value everywhere" in told
    assert opened.panel.report.sentences() == list(report.warnings)
    assert opened.find("runButton").isEnabled()

    add(odd_layer("empty", tmp_path), "empty")
    wait_until(lambda: False, 0.2)  # the layer is taken in
    report = check(opened)
    assert report.transcript == ""
    assert any("empty" in each for each in report.problems)
    assert not opened.find("runButton").isEnabled()


def test_the_sample_can_be_trained_with_the_papers_preset(open_panel, sample_project):
    opened = open_panel()
    combo = opened.find("presetCombo")
    combo.setCurrentIndex(combo.findData("paper-earthmri"))
    assert combo.currentText() == "Paper: Earth MRI"
    report = check(opened)
    assert report.transcript == ""
    assert report.status == module.READY, report.problems
    assert opened.find("runButton").isEnabled()
