"""Targets, uncertainty and reports in Processing, with an engine that only pretends to work."""

import json
import os

import pytest
import qgis.utils
from panel_support import Iface
from qgis.core import (
    QgsProcessingException,
    QgsProcessingFeedback,
    QgsProcessingOutputHtml,
    QgsProcessingOutputLayerDefinition,
    QgsRasterLayer,
    QgsVectorLayer,
)
from qgis.PyQt.QtWidgets import QPushButton
from small_results import write_map, write_targets, write_uncertainty
from test_algorithms import MODEL, OCCURRENCES, RASTERS, mapping, problem, run, training

from geocfm_qgis.results import opening


@pytest.fixture
def map_file(tmp_path):
    return write_map(tmp_path / "map.tif", [float(n) for n in range(400)], 20)


def ranking(map_file, **more):
    return {"MAP": map_file, "OUTPUT": "TEMPORARY_OUTPUT", **more}


def loaded(path, context):
    """The layer as Processing would load it."""
    details = context.layerToLoadOnCompletionDetails(path)
    kind = QgsVectorLayer if path.endswith(".gpkg") else QgsRasterLayer
    layer = kind(path, "result")
    layer.setCustomProperty("geocfm/kind", "")
    details.postProcessor().postProcessLayer(layer, context, QgsProcessingFeedback())
    return layer


def test_targets_are_styled_on_load(context, engine, map_file, tmp_path):
    engine(GEOCFM_FAKE_TARGETS=write_targets(tmp_path / "made.gpkg"))
    path = str(tmp_path / "targets.gpkg")
    output = QgsProcessingOutputLayerDefinition(path, context.project())
    assert run("targets", ranking(map_file, OUTPUT=output), context) == {"OUTPUT": path}
    assert os.path.exists(tmp_path / "targets.qml")
    layer = loaded(path, context)
    assert layer.customProperty("geocfm/kind") == "targets"
    assert layer.labelsEnabled()


def test_uncertainty_is_written_if_a_file_is_given(context, engine, tmp_path):
    engine(GEOCFM_FAKE_UNCERTAINTY=write_uncertainty(tmp_path / "made.tif"))
    assert set(run("map", mapping(), context)) == {"OUTPUT"}
    path = str(tmp_path / "u.tif")
    output = QgsProcessingOutputLayerDefinition(path, context.project())
    found = run("map", mapping(UNCERTAINTY=output), context)
    assert found["UNCERTAINTY"] == path
    assert loaded(path, context).customProperty("geocfm/kind") == "uncertainty"
    assert os.path.exists(tmp_path / "u.qml")
    temporary = run("map", mapping(UNCERTAINTY="TEMPORARY_OUTPUT"), context)["UNCERTAINTY"]
    assert temporary.endswith(".tif")
    assert os.path.exists(temporary)


def test_mistakes_of_ranking_are_said_before_the_work(provider, context, engine, map_file):
    assert problem(provider, "targets", ranking(map_file), context) == ""
    assert "No map is chosen" in problem(provider, "targets", ranking(""), context)
    said = problem(provider, "targets", ranking("/nowhere/map.tif"), context)
    assert "There is no raster /nowhere/map.tif." in said
    said = problem(provider, "targets", ranking(OCCURRENCES), context)
    assert "the raster cannot be opened" in said
    said = problem(provider, "targets", ranking(map_file, EXCLUDE=5), context)
    assert "need to know where these are" in said
    known = ranking(map_file, EXCLUDE=5, OCCURRENCES=OCCURRENCES)
    assert problem(provider, "targets", known, context) == ""
    said = problem(provider, "targets", ranking(map_file, OUTPUT="/tmp/t.geojson"), context)
    assert "must end in .gpkg" in said
    said = problem(provider, "targets", ranking(map_file, CHECKPOINT=MODEL), context)
    assert "Choose both, or neither." in said
    whole = ranking(map_file, CHECKPOINT=MODEL, RASTERS=RASTERS)
    assert problem(provider, "targets", whole, context) == ""
    said = problem(provider, "targets", {**whole, "RASTERS": RASTERS[:2]}, context)
    assert "needs layers that were not given" in said
    replacing = mapping(UNCERTAINTY=RASTERS[0])
    assert "would replace its own input" in problem(provider, "map", replacing, context)


def test_a_report_is_an_output_and_a_button(provider, context, engine, tmp_path, monkeypatch):
    definitions = provider.algorithm("train").outputDefinitions()
    assert any(isinstance(each, QgsProcessingOutputHtml) for each in definitions)
    iface, opened = Iface(), []
    monkeypatch.setattr(qgis.utils, "iface", iface)
    monkeypatch.setattr(
        opening.QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile())
    )
    out = str(tmp_path / "m.safetensors")
    found = run("train", training(OUTPUT=out), context)
    report = str(tmp_path / "m.report.html")
    assert found == {"OUTPUT": out, "REPORT": report}
    (button,) = iface.bar.currentItem().findChildren(QPushButton)
    assert button.text() == "Open report"
    button.click()
    assert opened == [report]


def test_without_a_report_there_is_no_button(context, engine, tmp_path, monkeypatch):
    iface = Iface()
    monkeypatch.setattr(qgis.utils, "iface", iface)
    found = run("train", training(SKIP_REPORT=True), context)
    assert set(found) == {"OUTPUT"}
    assert iface.bar.currentItem() is None


def test_a_job_file_leads_to_its_report_and_loads_targets(context, engine, tmp_path):
    engine(GEOCFM_FAKE_TARGETS=write_targets(tmp_path / "made.gpkg"))
    model, raster = str(tmp_path / "m.safetensors"), str(tmp_path / "p.tif")
    targets = str(tmp_path / "t.gpkg")
    jobs = [
        {"command": "train", "raster": RASTERS, "occurrences": OCCURRENCES, "out": model},
        {"command": "map", "checkpoint": model, "raster": RASTERS, "out": raster},
        {"command": "targets", "map": raster, "out": targets},
    ]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"jobs": jobs}))
    found = run("runjobfile", {"JOB_FILE": str(file)}, context)
    assert found == {"DONE": 3, "FAILED": 0, "REPORT": str(tmp_path / "m.report.html")}
    assert set(context.layersToLoadOnCompletion()) == {raster, targets}


def test_a_failed_engine_leaves_no_targets(context, engine, map_file, tmp_path):
    engine("fail")
    with pytest.raises(QgsProcessingException, match="90 GB"):
        run("targets", ranking(map_file, OUTPUT=str(tmp_path / "t.gpkg")), context)
    assert not (tmp_path / "t.gpkg").exists()
