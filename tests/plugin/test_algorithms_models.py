"""The algorithms as parts of models and batches of Processing."""

import os

import processing
import pytest
from fake_engine_fixture import fake_python
from qgis.core import (
    QgsApplication,
    QgsProcessingContext,
    QgsProcessingFeedback,
    QgsProcessingModelAlgorithm,
    QgsProcessingModelChildAlgorithm,
    QgsProcessingModelChildParameterSource,
    QgsProcessingModelOutput,
    QgsProcessingModelParameter,
    QgsProcessingParameterMultipleLayers,
    QgsProcessingParameterVectorLayer,
    QgsVectorLayer,
)

from geocfm_qgis.algorithms.provider import GeoCFMProvider
from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.compat import SOURCE_RASTER

SAMPLE = resources_folder() / "sample"
RASTERS = sorted(str(path) for path in SAMPLE.glob("rasters/*.tif"))
OCCURRENCES = str(SAMPLE / "occurrences.gpkg")


@pytest.fixture(scope="module")
def provider(qgis_app, qgis_processing):
    provider = GeoCFMProvider()
    registry = QgsApplication.processingRegistry()
    assert registry.addProvider(provider)
    yield provider
    registry.removeProvider(provider)


@pytest.fixture
def context(provider, qgis_new_project, monkeypatch, tmp_path):
    python = fake_python(tmp_path / "engine", GEOCFM_FAKE_PIDS=tmp_path / "pids")
    monkeypatch.setenv("GEOCFM_PYTHON", python)
    context = QgsProcessingContext()
    yield context
    context.temporaryLayerStore().removeAllMapLayers()  # before QGIS ends, else it crashes


def child(model, child_id, algorithm, **sources):
    made = QgsProcessingModelChildAlgorithm(algorithm)
    made.setChildId(child_id)
    for name, source in sources.items():
        made.addParameterSources(name, [source])
    model.addChildAlgorithm(made)
    return model.childAlgorithm(child_id)


def test_training_on_extracted_features_and_mapping_in_one_model(context, tmp_path):
    value = QgsProcessingModelChildParameterSource.fromStaticValue
    of_model = QgsProcessingModelChildParameterSource.fromModelParameter
    of_child = QgsProcessingModelChildParameterSource.fromChildOutput
    model = QgsProcessingModelAlgorithm("gold", "tests")
    model.addModelParameter(
        QgsProcessingParameterVectorLayer("points"), QgsProcessingModelParameter("points")
    )
    model.addModelParameter(
        QgsProcessingParameterMultipleLayers("rasters", "rasters", SOURCE_RASTER),
        QgsProcessingModelParameter("rasters"),
    )
    child(
        model,
        "extract",
        "native:extractbyexpression",
        INPUT=of_model("points"),
        EXPRESSION=value("$id <= 30"),
    )
    child(
        model,
        "learn",
        "geocfm:train",
        RASTERS=of_model("rasters"),
        OCCURRENCES=of_child("extract", "OUTPUT"),
        ITERATIONS=value(8),
    )
    mapping = child(
        model,
        "draw",
        "geocfm:map",
        RASTERS=of_model("rasters"),
        CHECKPOINT=of_child("learn", "OUTPUT"),
    )
    output = QgsProcessingModelOutput("result")
    output.setChildId("draw")
    output.setChildOutputName("OUTPUT")
    mapping.setModelOutputs({"result": output})
    model.setChildAlgorithm(mapping)
    model.updateDestinationParameters()

    out = str(tmp_path / "map.tif")
    feedback = QgsProcessingFeedback(False)
    found = processing.run(
        model,
        {"points": OCCURRENCES, "rasters": RASTERS, "draw:result": out, "result": out},
        context=context,
        feedback=feedback,
    )
    assert os.path.exists(out), feedback.textLog()
    assert os.path.exists(out[:-4] + ".qml")
    assert out in found.values()
    assert len((tmp_path / "pids").read_text().split()) == 2


def test_a_batch_runs_one_after_another(context, tmp_path):
    """What a batch does: the same algorithm with other parameters, each by itself."""
    for number in (1, 2):
        out = str(tmp_path / f"model {number}.safetensors")
        layer = QgsVectorLayer(OCCURRENCES, "points", "ogr")
        layer.selectByIds(list(range(1, 10 * number)))
        found = processing.run(
            "geocfm:train",
            {"RASTERS": RASTERS, "OCCURRENCES": layer, "SEED": number, "OUTPUT": out},
            context=context,
            feedback=QgsProcessingFeedback(False),
        )
        assert found["OUTPUT"] == out
        assert os.path.exists(out)
