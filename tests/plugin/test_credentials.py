"""What opens a database or a service is written down nowhere: sets, history, jobs, provenance."""

import http.server
import json
import threading
from functools import partial

import pytest
from osgeo import gdal
from qgis.core import (
    QgsProcessingContext,
    QgsProcessingFeedback,
    QgsProject,
    QgsRasterLayer,
    QgsSettings,
    QgsVectorLayer,
)
from small_results import make_run, outcome_of, provenance, write_map

from geocfm_qgis.algorithms import engine_job
from geocfm_qgis.jobs import EngineJob, as_command_line, as_job_file
from geocfm_qgis.panel import layer_origins, layer_sets
from geocfm_qgis.panel.choices import Channel
from geocfm_qgis.results.provenance import PROVENANCE, describe
from geocfm_qgis.runs import history

SECRET = "s3cret"
DATABASE = f"dbname='geo' host=db user='anna' password='{SECRET}' authcfg=abc1234 table=\"mag\" (r)"


@pytest.fixture
def project(qgis_new_project):
    yield QgsProject.instance()
    QgsSettings().remove(layer_sets.SETTING)


@pytest.fixture
def served(tmp_path, monkeypatch):
    """A raster that a server of this computer gives to those who name themselves."""
    write_map(tmp_path / "mag.tif", [float(n) for n in range(16)], 4)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(quiet, directory=str(tmp_path))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"/vsicurl/http://anna:{SECRET}@127.0.0.1:{server.server_port}/mag.tif"
    server.shutdown()
    thread.join()
    server.server_close()
    gdal.VSICurlClearCache()


def test_a_set_of_layers_keeps_none_and_finds_its_layer_all_the_same(project):
    layer = QgsRasterLayer(DATABASE, "mag", "postgresraster")
    other = QgsRasterLayer(DATABASE.replace('"mag"', '"k"'), "mag", "postgresraster")
    project.addMapLayers([other, layer])
    layer_sets.save_set(project, "mine", [Channel(layer.id(), 1, "mag")])
    stored = project.readEntry(layer_sets.SCOPE, layer_sets.ENTRY)[0]
    for text in (stored, QgsSettings().value(layer_sets.SETTING)):
        assert "mag" in text
        for word in (SECRET, "anna", "abc1234"):
            assert word not in text
    found = layer_sets.find_set(project, layer_sets.saved_sets(project)["mine"])
    assert [channel.layer for channel in found.channels] == [layer.id()]


def test_where_chosen_layers_come_from_is_kept_without(project):
    layer = QgsVectorLayer(DATABASE, "gold", "postgres")
    project.addMapLayer(layer)
    kept = layer_origins.origins(project, [layer.id()])
    assert "dbname='geo'" in json.dumps(kept)
    for word in (SECRET, "anna", "abc1234"):
        assert word not in json.dumps(kept)
    again = QgsVectorLayer(DATABASE.replace(SECRET, "changed"), "gold", "postgres")
    old = layer.id()
    project.removeMapLayer(old)
    project.addMapLayer(again)
    assert layer_origins.current_id(project, old, kept) == again.id()


def test_a_layer_behind_a_password_is_read_by_qgis_alone(project, provider, served, tmp_path):
    layer = QgsRasterLayer(served, "mag")
    assert layer.isValid()
    project.addMapLayer(layer)
    context = QgsProcessingContext()
    context.setProject(project)
    model = str(tmp_path / "model.safetensors")
    parameters = {"RASTERS": [layer.id()], "CHECKPOINT": model, "OUTPUT": str(tmp_path / "p.tif")}
    job = engine_job("map", parameters, context)
    for text in (as_command_line(job), as_job_file([job]), json.dumps(job.entry())):
        assert SECRET not in text
        assert "anna" not in text
    (export,) = job.exports
    export.run(QgsProcessingFeedback(False))
    assert gdal.Open(export.path).RasterXSize == 4
    assert job.values["raster"] == [f"mag={export.path}:1"]


def test_the_history_keeps_none(project):
    job = EngineJob("map", {"raster": [f"a=/vsicurl/https://anna:{SECRET}@h/a.tif:1"]})
    said = f"It cannot be opened: https://h/a.tif?token={SECRET}&x=1"
    choices = {"layers": {"origins": {"id": {"source": DATABASE, "name": "gold"}}}}
    run = make_run("Gold", jobs=(job,), choices=choices)
    outcome = outcome_of(("map", "failed", "log", "x"), status="failed", message=said)
    made = history.record(project, run, outcome)
    assert "&x=1" in made.message
    stored = project.readEntry(history.SCOPE, history.KEY)[0]
    for word in (SECRET, "anna", "abc1234"):
        assert word not in stored


def test_the_provenance_of_a_layer_tells_none(project, tmp_path):
    path = write_map(tmp_path / "p.tif", [0.5, 1, 2, 3], 2)
    told = provenance("map", path)
    told["inputs"][0]["path"] = f"https://anna:{SECRET}@h/mag.tif"
    told["job"]["raster"] = [f"mag=https://h/mag.tif?token={SECRET}:1"]
    dataset = gdal.Open(path, gdal.GA_Update)
    dataset.SetMetadataItem("GEOCFM_PROVENANCE", json.dumps(told))
    del dataset
    layer = QgsRasterLayer(path, "p")
    assert describe(layer, path)
    metadata = layer.metadata()
    links = [link.url for link in metadata.links()]
    shown = " ".join([*metadata.history(), *links, layer.customProperty(PROVENANCE)])
    assert "h/mag.tif" in shown
    assert json.loads(layer.customProperty(PROVENANCE))["versions"] == told["versions"]
    for word in (SECRET, "anna"):
        assert word not in shown
