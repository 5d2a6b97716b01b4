"""Layers of files that a run replaces: they let go of them, and show them again."""

import os

import pytest
from qgis.core import QgsProject, QgsRasterLayer, QgsVectorLayer
from small_results import write_map, write_samples

from geocfm_qgis.jobs import EngineJob
from geocfm_qgis.results.reopening import file_of, release, take_back

VALUES = [0.01 * n for n in range(400)]
SUBSET = '"draw" = 2'


@pytest.fixture
def project(qgis_new_project):
    return QgsProject.instance()


@pytest.fixture
def map_layer(project, tmp_path):
    path = write_map(tmp_path / "prospectivity.tif", VALUES, 20)
    return project.addMapLayer(QgsRasterLayer(str(path), "Prospectivity"))


@pytest.fixture
def points_layer(project, tmp_path):
    path = write_samples(tmp_path / "samples.gpkg", draws=3)
    layer = project.addMapLayer(QgsVectorLayer(str(path), "Draw 2", "ogr"))
    layer.setSubsetString(SUBSET)
    return layer


def jobs(*outputs, overwrite=True):
    return [EngineJob("map", {"out": str(out), "overwrite": overwrite}) for out in outputs]


def files_open():
    """The files that this process has open."""
    folder = "/proc/self/fd"
    links = (os.path.join(folder, name) for name in os.listdir(folder))
    return {os.readlink(link) for link in links if os.path.islink(link)}


def test_released_layers_show_a_copy_and_hold_no_file(project, map_layer, points_layer):
    paths = [file_of(map_layer), file_of(points_layer)]
    look = map_layer.renderer().type()
    next(points_layer.getFeatures())
    map_layer.dataProvider().sample(map_layer.extent().center(), 1)
    assert set(paths) <= files_open()
    released = release(project, jobs(*paths, "/nowhere/else.tif"))
    assert len(released) == 2
    assert not files_open().intersection(paths)
    for layer in (map_layer, points_layer):
        assert layer.isValid()
        assert file_of(layer) not in paths
    assert points_layer.subsetString() == SUBSET
    assert map_layer.renderer().type() == look


def test_what_a_map_writes_besides_is_released_too(project, map_layer):
    values = {"out": "/nowhere/map.tif", "uncertainty": file_of(map_layer), "overwrite": True}
    assert len(release(project, [EngineJob("map", values)])) == 1
    reading = {**values, "map": "/nowhere/map.tif", "out": "/nowhere/targets.gpkg"}
    assert release(project, [EngineJob("targets", reading)]) == []


@pytest.mark.parametrize("is_replaced", [True, False])
def test_however_the_run_ended_the_layers_show_their_files(
    project, map_layer, points_layer, tmp_path, is_replaced
):
    sources = map_layer.source(), points_layer.source()
    count = points_layer.featureCount()
    released = release(project, jobs(file_of(map_layer), file_of(points_layer)))
    if is_replaced:
        write_map(tmp_path / "prospectivity.tif", [7.0] * 400, 20)
    project.setDirty(False)
    take_back(project, released)
    assert (map_layer.source(), points_layer.source()) == sources
    assert map_layer.isValid()
    assert points_layer.isValid()
    assert points_layer.featureCount() == count
    value, _ = map_layer.dataProvider().sample(map_layer.extent().center(), 1)
    assert (value == 7.0) == is_replaced
    assert project.isDirty()  # a project saved meanwhile names the copy


def test_layers_that_the_user_removed_meanwhile_stay_away(project, map_layer):
    released = release(project, jobs(file_of(map_layer)))
    project.removeAllMapLayers()
    take_back(project, released)
    assert not project.mapLayers()


def test_only_what_is_replaced_is_released(project, map_layer, points_layer, tmp_path):
    assert release(project, jobs(file_of(map_layer), overwrite=False)) == []
    assert release(project, jobs(tmp_path / "other.tif", tmp_path / "sample.gpkg")) == []
    beside = release(project, jobs(tmp_path / "samples.safetensors"))  # samples.gpkg goes with it
    inside = release(project, jobs(tmp_path))
    assert [[layer_id for layer_id, _ in each] for each in (beside, inside)] == [
        [points_layer.id()],
        [map_layer.id()],
    ]
