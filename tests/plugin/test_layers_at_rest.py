"""Layers are read once while it is certain that they do not change, and every time otherwise."""

import pytest
from panel_support import wait_until
from raster_making import make_points

from geocfm_qgis.jobs import vector_source
from geocfm_qgis.jobs.layers_at_rest import layers_at_rest
from geocfm_qgis.jobs.vector_source import VectorSource
from geocfm_qgis.panel.choices import (
    Channel,
    Choices,
    LayerChoices,
    OccurrenceChoices,
    ProductChoice,
    ResultChoices,
)
from geocfm_qgis.panel.preflight import Preflight


@pytest.fixture
def mines(qgis_app):
    return make_points([(1, 1, "Au"), (2, 2, "Cu"), (3, 3, "Ni")])


@pytest.fixture
def readings(monkeypatch):
    found = []
    name_it = vector_source.path_by_content
    monkeypatch.setattr(
        vector_source, "path_by_content", lambda *given: found.append(given) or name_it(*given)
    )
    return found


def test_a_layer_at_rest_is_read_once(mines, readings):
    with layers_at_rest():
        paths = {VectorSource(mines).path_for_copy("points.gpkg") for _ in range(3)}
        with layers_at_rest():
            paths.add(VectorSource(mines).path_for_copy("points.gpkg"))
    assert len(readings) == 1
    assert paths == {VectorSource(mines).path_for_copy("points.gpkg")}
    assert len(readings) == 2


def test_another_selection_or_filter_is_another_reading(mines, readings):
    with layers_at_rest():
        paths = [VectorSource(mines).path_for_copy("points.gpkg")]
        paths.append(VectorSource(mines, limit=2).path_for_copy("points.gpkg"))
        for chosen in ([1], [2]):
            mines.selectByIds(chosen)
            paths.append(VectorSource(mines, True).path_for_copy("points.gpkg"))
    assert len(set(paths)) == len(readings) == 4


def test_nothing_is_remembered_from_one_rest_to_the_next(mines):
    paths = []
    for _ in range(2):
        with layers_at_rest():
            paths.append(VectorSource(mines).path_for_copy("points.gpkg"))
        mines.dataProvider().changeAttributeValues({1: {0: "Ag"}})
    assert paths[0] != paths[1]


def test_a_check_of_the_run_reads_the_points_once(sample_project, mines, readings, tmp_path):
    sample_project.addMapLayer(mines)
    rasters = sample_project.mapLayersByName("greenstone")
    choices = Choices(
        LayerChoices((Channel(rasters[0].id(), 1, "greenstone"),)),
        OccurrenceChoices(mines.id()),
        results=ResultChoices(
            "Gold", str(tmp_path), products=(ProductChoice("evaluation", "evaluation"),)
        ),
    )
    preflight = Preflight(sample_project)
    preflight.update(choices, [], has_engine=True, engine_is_busy=False)
    assert wait_until(lambda: preflight.run is not None), preflight.report
    preflight.stop()
    assert [job.command for job in preflight.run.jobs] == ["train", "evaluate"]
    assert len(readings) == 1
