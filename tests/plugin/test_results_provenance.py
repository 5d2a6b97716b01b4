"""Where a layer comes from, in its metadata."""

import json

import pytest
from qgis.core import (
    QgsProcessingContext,
    QgsProcessingFeedback,
    QgsProject,
    QgsRasterLayer,
    QgsVectorLayer,
)
from small_results import (
    MEANING,
    make_run,
    outcome_of,
    provenance,
    write_map,
    write_points,
    write_samples,
)

from geocfm_qgis.results import LayerPostProcessor, add_run_layers
from geocfm_qgis.results.provenance import PROVENANCE, describe, read_provenance


@pytest.mark.parametrize("kind", ["map", "sample"])
def test_a_result_opened_by_hand_can_be_described(tmp_path, kind):
    if kind == "map":
        path = write_map(tmp_path / "map.tif", [1.0] * 100, 10)
        layer = QgsRasterLayer(path, "a map")
    else:
        path = write_samples(tmp_path / "samples.gpkg")
        layer = QgsVectorLayer(path, "some points")
    assert describe(layer, path)
    metadata = layer.metadata()
    assert metadata.title() == layer.name()
    assert metadata.abstract() == MEANING
    assert metadata.keywords()["GeoCFM"] == [kind, "mag", "gravity"]
    assert metadata.crs().authid() == "EPSG:32650"
    told = "\n".join(metadata.history())
    assert "Software: geocfm 0.1.0, torch 2.13.0, python 3.11.7" in told
    assert "Model: /models/gold.safetensors, trained 2026-11-16T03:53:14+00:00" in told
    assert "Trained on: 255 occurrences of gold.gpkg (commodity ~ gold)" in told
    assert "/data/mag.tif" in told
    assert metadata.history()[0].startswith("Made: 20")
    assert json.loads(metadata.history()[-1].partition(": ")[2])["command"] == kind
    links = {link.name: link.url for link in metadata.links()}
    assert links["This file"].endswith(path)
    assert links["Model"] == "file:///models/gold.safetensors"
    assert json.loads(layer.customProperty(PROVENANCE)) == provenance(kind, path)


def test_the_layers_of_a_run_carry_it_through_saving_the_project(tmp_path, qgis_new_project):
    project = QgsProject.instance()
    path = write_map(tmp_path / "map.tif", [float(x) for x in range(100)], 10)
    outcome = outcome_of(("map", "done", "prospectivity", path))
    layer_id = add_run_layers(project, make_run(), outcome)[0].id()
    assert project.write(str(tmp_path / "project.qgz"))
    project.clear()
    assert project.read(str(tmp_path / "project.qgz"))
    layer = project.mapLayer(layer_id)
    assert layer.metadata().abstract() == MEANING
    assert json.loads(layer.customProperty(PROVENANCE))["job"]["out"] == path


def test_formats_that_cannot_carry_it_have_it_beside_them(tmp_path):
    path = tmp_path / "samples.geojson"
    path.write_text("{}", encoding="utf-8")
    beside = tmp_path / "samples.geojson.provenance.json"
    beside.write_text(json.dumps(provenance("sample", path)), encoding="utf-8")
    assert read_provenance(str(path)).checkpoint == "/models/gold.safetensors"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"job": 3}', '{"job": {}, "inputs": 5}'])
def test_damaged_provenance_is_no_error(tmp_path, text):
    path = tmp_path / "samples.geojson"
    path.write_text('{"type": "FeatureCollection", "features": []}', encoding="utf-8")
    (tmp_path / "samples.geojson.provenance.json").write_text(text, encoding="utf-8")
    found = read_provenance(str(path))
    assert found is None or found.inputs == ()


def test_what_is_not_ours_is_left_as_it_is(tmp_path):
    rows = [(500000, 7000000, 1)]
    path = write_points(tmp_path / "own.gpkg", rows, fields=(("id", int),))
    from osgeo import ogr

    package = ogr.Open(path, 1)
    package.GetLayer(0).SetMetadata({})
    del package
    layer = QgsVectorLayer(path, "own")
    before = layer.metadata().title()
    assert describe(layer, path) is False
    assert layer.metadata().title() == before
    assert describe(layer, str(tmp_path / "missing.tif")) is False


def test_processing_styles_and_describes_the_layers_it_loads(tmp_path):
    paths = [write_map(tmp_path / f"{n}.tif", [float(x) for x in range(100)], 10) for n in "ab"]
    processors = [LayerPostProcessor.create("prospectivity", path) for path in paths]
    for path, processor in zip(paths, processors, strict=True):
        layer = QgsRasterLayer(path, "loaded")
        processor.postProcessLayer(layer, QgsProcessingContext(), QgsProcessingFeedback())
        assert layer.renderer().type() == "singlebandpseudocolor"
        assert layer.metadata().abstract() == MEANING
        assert json.loads(layer.customProperty(PROVENANCE))["job"]["out"] == path
