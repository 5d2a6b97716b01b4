"""Results that are to be loaded, by the ways in which QGIS's own dialogs run an algorithm."""

import json
import os
import sys

import processing
import pytest
import qgis.utils
from panel_support import Iface, wait_until
from processing.gui.AlgorithmDialog import AlgorithmDialog
from processing.gui.BatchAlgorithmDialog import BatchAlgorithmDialog
from processing.modeler.ModelerUtils import ModelerUtils
from qgis.core import (
    QgsApplication,
    QgsProcessingFeedback,
    QgsProcessingModelAlgorithm,
    QgsProcessingModelChildParameterSource,
    QgsProcessingModelOutput,
    QgsProcessingModelParameter,
    QgsProcessingOutputLayerDefinition,
    QgsProcessingParameterMultipleLayers,
    QgsProject,
)
from qgis.PyQt.QtWidgets import QFileDialog, QMessageBox
from small_results import write_map, write_samples, write_targets, write_uncertainty
from test_algorithms import MODEL, OCCURRENCES, RASTERS, mapping
from test_algorithms_models import child

from geocfm_qgis.compat import SOURCE_RASTER
from geocfm_qgis.results.provenance import PROVENANCE


@pytest.fixture
def results(engine, tmp_path):
    """An engine whose results are small."""
    variables = {
        "TIF": write_map(tmp_path / "made.tif", [float(n) for n in range(400)], 20),
        "UNCERTAINTY": write_uncertainty(tmp_path / "made_u.tif"),
        "TARGETS": write_targets(tmp_path / "made_t.gpkg"),
        "GPKG": write_samples(tmp_path / "made_s.gpkg"),
    }
    engine(**{f"GEOCFM_FAKE_{name}": path for name, path in variables.items()})
    return variables


@pytest.fixture
def desktop(provider, qgis_new_project, results, monkeypatch):
    """Processing's own windows, with an interface of QGIS to stand in."""
    iface, said = Iface(), []
    monkeypatch.setattr(qgis.utils, "iface", iface)
    monkeypatch.setattr(QMessageBox, "warning", lambda *words: said.append(words[-1]))
    for name, module in list(sys.modules.items()):  # each has its own name for it
        if name.startswith("processing.") and hasattr(module, "iface"):
            monkeypatch.setattr(module, "iface", iface)
    yield said
    QgsProject.instance().removeAllMapLayers()


def layers():
    """The layers of the project: (name, kind) of each."""
    found = QgsProject.instance().mapLayers().values()
    return sorted((layer.name(), layer.customProperty("geocfm/kind")) for layer in found)


def run_in_dialog(algorithm, parameters, said):
    """Fill in the dialog of the toolbox, press Run, and wait until its task has ended."""
    dialog = AlgorithmDialog(algorithm.create(), parent=qgis.utils.iface.mainWindow())
    ended = []
    dialog.algorithmFinished.connect(lambda ok, found: ended.append((ok, found)))
    dialog.mainWidget().setParameters(parameters)
    dialog.runAlgorithm()
    assert said == []
    assert wait_until(lambda: ended)
    return ended[0]


def to_load(path="TEMPORARY_OUTPUT"):
    """An output with "Open output file after running algorithm" ticked."""
    return QgsProcessingOutputLayerDefinition(path, QgsProject.instance())


@pytest.mark.parametrize("temporary", [True, False], ids=["temporary", "file"])
@pytest.mark.parametrize(
    ("algorithm", "title", "kind"),
    [
        ("map", "Prospectivity", "prospectivity"),
        ("sample", "Sampled points", "samples"),
        ("targets", "Targets", "targets"),
    ],
)
def test_the_toolbox_loads_a_result_with_name_and_style(
    provider, desktop, tmp_path, algorithm, title, kind, temporary
):
    path = str(tmp_path / f"result{'.tif' if algorithm == 'map' else '.gpkg'}")
    out = to_load() if temporary else to_load(path)
    of_model = {"RASTERS": RASTERS, "CHECKPOINT": MODEL}
    given = {"MAP": str(tmp_path / "made.tif")} if algorithm == "targets" else of_model
    ok, found = run_in_dialog(provider.algorithm(algorithm), {**given, "OUTPUT": out}, desktop)
    assert ok
    assert os.path.exists(found["OUTPUT"])
    assert temporary or found["OUTPUT"] == path
    assert layers() == [(title, kind)]
    (layer,) = QgsProject.instance().mapLayers().values()
    assert layer.customProperty(PROVENANCE)


def test_the_toolbox_loads_what_is_written_besides(provider, desktop, tmp_path):
    out = {"OUTPUT": to_load(), "UNCERTAINTY": to_load(str(tmp_path / "u.tif"))}
    ok, found = run_in_dialog(provider.algorithm("map"), mapping(**out), desktop)
    assert ok
    assert found["UNCERTAINTY"] == str(tmp_path / "u.tif")
    assert layers() == [("Prospectivity", "prospectivity"), ("Uncertainty", "uncertainty")]


def test_the_toolbox_loads_nothing_that_was_not_made(provider, desktop, engine, tmp_path):
    engine("fail")
    out = to_load(str(tmp_path / "p.tif"))
    ok, _ = run_in_dialog(provider.algorithm("map"), mapping(OUTPUT=out), desktop)
    assert not ok
    assert layers() == []


def test_the_toolbox_loads_the_layers_of_a_job_file(provider, desktop, tmp_path):
    raster, targets = str(tmp_path / "p.tif"), str(tmp_path / "t.gpkg")
    jobs = [
        {"command": "map", "checkpoint": MODEL, "raster": RASTERS, "out": raster},
        {"command": "targets", "map": raster, "out": targets},
    ]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"jobs": jobs}))
    ok, _ = run_in_dialog(provider.algorithm("runjobfile"), {"JOB_FILE": str(file)}, desktop)
    assert ok
    assert layers() == [("p", "prospectivity"), ("t", "targets")]


def test_the_toolbox_evaluates_and_checks(provider, desktop, tmp_path):
    """What has no layer is written all the same, where the dialog says."""
    folder, page = str(tmp_path / "evaluation"), str(tmp_path / "check.html")
    known = {"RASTERS": RASTERS, "OCCURRENCES": OCCURRENCES}
    evaluating = {**known, "CHECKPOINT": MODEL, "OUTPUT": folder}
    ok, found = run_in_dialog(provider.algorithm("evaluate"), evaluating, desktop)
    assert ok
    assert found["OUTPUT"] == folder
    assert os.path.exists(found["REPORT"])
    ok, found = run_in_dialog(provider.algorithm("checkdata"), {**known, "OUTPUT": page}, desktop)
    assert ok
    assert found["OUTPUT"] == page
    assert os.path.exists(page)


def test_a_batch_loads_each_result_with_name_and_style(provider, desktop, tmp_path, monkeypatch):
    maps = [str(tmp_path / f"map {number}.tif") for number in (1, 2)]
    rows = [
        {
            "PARAMETERS": {"RASTERS": repr(RASTERS), "CHECKPOINT": repr(MODEL)},
            "OUTPUTS": {"OUTPUT": path},
        }
        for path in maps
    ]
    file = tmp_path / "batch.json"
    file.write_text(json.dumps(rows))
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: (str(file), ""))
    dialog = BatchAlgorithmDialog(provider.algorithm("map").create())
    dialog.mainWidget().load()
    dialog.mainWidget().checkLoadLayersOnCompletion.setChecked(True)
    dialog.runAlgorithm()
    assert wait_until(lambda: len(layers()) == 2), dialog.mainWidget().batchRowCount()
    assert layers() == [("Prospectivity", "prospectivity")] * 2
    found = QgsProject.instance().mapLayers().values()
    assert sorted(layer.source() for layer in found) == maps
    dialog.close()


def mapping_model():
    """A model of QGIS's that makes a map, and its uncertainty, from rasters."""
    model = QgsProcessingModelAlgorithm("gold", "tests")
    rasters = QgsProcessingParameterMultipleLayers("rasters", "rasters", SOURCE_RASTER)
    model.addModelParameter(rasters, QgsProcessingModelParameter("rasters"))
    given = QgsProcessingModelChildParameterSource
    inputs = {
        "RASTERS": given.fromModelParameter("rasters"),
        "CHECKPOINT": given.fromStaticValue(MODEL),
    }
    mapped = child(model, "draw", "geocfm:map", **inputs)
    outputs = {}
    for name, made in (("Best ground", "OUTPUT"), ("Doubt", "UNCERTAINTY")):
        outputs[name] = QgsProcessingModelOutput(name)
        outputs[name].setChildId("draw")
        outputs[name].setChildOutputName(made)
    mapped.setModelOutputs(outputs)
    model.setChildAlgorithm(mapped)
    model.updateDestinationParameters()
    return model


@pytest.fixture
def saved_model(desktop, tmp_path):
    """That model in the toolbox, where dialogs find it."""
    models = QgsApplication.processingRegistry().providerById("model")
    file = os.path.join(ModelerUtils.modelsFolders()[0], "gold.model3")
    assert mapping_model().toFile(file)
    models.refreshAlgorithms()
    yield models.algorithm("gold")
    os.remove(file)
    models.refreshAlgorithms()


def test_a_model_loads_results_with_its_own_names_and_our_styles(saved_model, desktop, tmp_path):
    path = str(tmp_path / "p.tif")
    out = {"draw:Best ground": to_load(path), "draw:Doubt": to_load()}
    ok, _ = run_in_dialog(saved_model, {"rasters": RASTERS, **out}, desktop)
    assert ok
    assert os.path.exists(path)
    assert layers() == [("Best ground", "prospectivity"), ("Doubt", "uncertainty")]


def test_a_script_loads_results(desktop, tmp_path):
    processing.runAndLoadResults("geocfm:map", mapping(), feedback=QgsProcessingFeedback(False))
    assert layers() == [("Prospectivity", "prospectivity")]
