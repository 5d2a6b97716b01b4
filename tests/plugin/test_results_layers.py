"""What a run leaves in the project: one group, with what finished and nothing else."""

import os
from dataclasses import replace

import pytest
from qgis.core import (
    QgsLayerNotesUtils,
    QgsLayerTree,
    QgsLayerTreeModel,
    QgsProject,
    QgsRasterLayer,
    QgsSettings,
)
from qgis.gui import QgsLayerTreeView
from qgis.PyQt.QtCore import QCoreApplication
from small_results import (
    MEANING,
    make_run,
    outcome_of,
    write_map,
    write_points,
    write_samples,
    write_targets,
    write_uncertainty,
)

from geocfm_qgis.results import add_run_layers
from geocfm_qgis.results.run_layers import MOST_DRAW_LAYERS
from geocfm_qgis.results.styling import KIND

VALUES = [0.01 * n for n in range(400)]


@pytest.fixture
def project(qgis_new_project):
    return QgsProject.instance()


@pytest.fixture
def map_file(tmp_path):
    return write_map(tmp_path / "prospectivity.tif", VALUES, 20)


@pytest.fixture
def samples_file(tmp_path):
    return write_samples(tmp_path / "samples.gpkg", draws=3)


@pytest.fixture
def outcome(map_file, samples_file):
    return outcome_of(
        ("map", "done", "prospectivity", map_file), ("sample", "done", "samples", samples_file)
    )


@pytest.fixture
def occurrences(tmp_path):
    """The occurrences that a training used, as the engine writes them."""
    rows = [(500100 + 100 * number, 6999000, number) for number in range(4)]
    path = tmp_path / "model.occurrences.gpkg"
    return write_points(path, rows, layer="occurrences", fields=(("source_id", int),))


@pytest.fixture
def training(outcome, occurrences):
    """The outcome of a run that has trained first."""
    trained = outcome_of(("train", "done", "occurrences", occurrences))
    return replace(outcome, events=trained.events + outcome.events)


def tree(group):
    """Give the names below a group, nested as they are."""
    return [
        (node.name(), tree(node)) if QgsLayerTree.isGroup(node) else node.name()
        for node in group.children()
    ]


def shown(project):
    return tree(project.layerTreeRoot())


def test_a_group_on_top_holds_all_that_the_run_made(project, training):
    project.layerTreeRoot().addGroup("the user's own")
    added = add_run_layers(project, make_run("North"), training)
    assert shown(project) == [
        (
            "North",
            [
                "Occurrences used",
                ("Sampled points: 3 draws", ["Draw 1", "Draw 2", "Draw 3"]),
                "Prospectivity",
            ],
        ),
        ("the user's own", []),
    ]
    assert added.problems == []
    assert {layer.id() for layer in added} == set(project.mapLayers())


def test_targets_and_uncertainty_have_their_places(project, training, tmp_path):
    further = outcome_of(
        ("train", "done", "out-of-fold", write_map(tmp_path / "m.folds.tif", VALUES, 20)),
        ("map", "done", "uncertainty", write_uncertainty(tmp_path / "uncertainty.tif")),
        ("targets", "done", "targets", write_targets(tmp_path / "targets.gpkg")),
    )
    whole = replace(training, events=training.events + further.events)
    for _ in range(2):  # the same again shows nothing twice
        added = add_run_layers(project, make_run("North"), whole)
        names = [
            "Occurrences used",
            "Targets",
            ("Sampled points: 3 draws", ["Draw 1", "Draw 2", "Draw 3"]),
            "Outside what the model has seen",
            "Uncertainty",
            "Prospectivity",
            "Cross-validated map",
        ]
        assert shown(project) == [("North", names)]
        assert added.problems == []
    layers = {layer.name(): layer for layer in added}
    root = project.layerTreeRoot()
    seen = {name for name, layer in layers.items() if root.findLayer(layer.id()).isVisible()}
    assert not {"Uncertainty", names[-1]} & seen  # they would hide the map
    assert {"Targets", "Prospectivity", "Outside what the model has seen"} <= seen
    assert layers["Targets"].labelsEnabled()
    bands = [layers[name].renderer().band() for name in ("Uncertainty", names[3])]
    assert bands == [1, 3]


def test_of_one_network_the_uncertainty_is_where_it_has_never_been(project, tmp_path):
    path = write_uncertainty(tmp_path / "uncertainty.tif", variation=False)
    add_run_layers(project, make_run("One"), outcome_of(("map", "done", "uncertainty", path)))
    assert shown(project) == [("One", ["Outside what the model has seen"])]


def test_each_draw_is_a_layer_and_the_first_is_seen(project, outcome):
    layers = {layer.name(): layer for layer in add_run_layers(project, make_run(), outcome)}
    root = project.layerTreeRoot()
    for number in (1, 2, 3):
        layer = layers[f"Draw {number}"]
        assert [feature["draw"] for feature in layer.getFeatures()] == [number] * 4
        assert root.findLayer(layer.id()).isVisible() == (number == 1)
        assert layer.renderer().classAttribute() == "log_relative_density"
    assert root.findLayer(layers["Prospectivity"].id()).isVisible()


def test_many_draws_share_a_layer_beyond_the_first_ones(project, tmp_path):
    path = write_samples(tmp_path / "many.gpkg", draws=20, points=2)
    added = add_run_layers(project, make_run(), outcome_of(("sample", "done", "samples", path)))
    assert len(added) == MOST_DRAW_LAYERS + 1
    assert added[-1].name() == "Draws 9 to 20"
    assert added[-1].featureCount() == 24


def test_one_draw_needs_no_group_of_its_own(project, tmp_path):
    path = write_samples(tmp_path / "one.gpkg", draws=1)
    add_run_layers(project, make_run("One"), outcome_of(("sample", "done", "samples", path)))
    assert shown(project) == [("One", ["Sampled points"])]


def test_the_legend_in_the_layer_tree_says_relative_density(project, outcome):
    layers = {layer.name(): layer for layer in add_run_layers(project, make_run(), outcome)}
    root = project.layerTreeRoot()
    node = root.findLayer(layers["Prospectivity"].id())
    model = QgsLayerTreeModel(root)
    assert model.layerLegendNodes(node)[0].data(0) == "relative density (1 = regional mean)"


@pytest.mark.parametrize("ended", ["failed", "broken", "cancelled", "skipped"])
def test_what_did_not_finish_never_appears(project, map_file, samples_file, ended):
    outcome = outcome_of(
        ("map", ended, "prospectivity", map_file),
        ("sample", "done", "samples", samples_file),
        status="failed",
    )
    add_run_layers(project, make_run("Half"), outcome)
    assert shown(project) == [
        ("Half", [("Sampled points: 3 draws", ["Draw 1", "Draw 2", "Draw 3"])])
    ]


def test_a_run_that_finished_nothing_leaves_no_group(project, map_file, occurrences):
    outcome = outcome_of(
        ("train", "done", "occurrences", occurrences),
        ("map", "failed", "prospectivity", map_file),
        status="failed",
    )
    assert add_run_layers(project, make_run(), outcome) == []
    assert shown(project) == []
    assert project.mapLayers() == {}


def test_other_files_of_a_run_are_no_layers(project, tmp_path):
    model = outcome_of(("train", "done", "checkpoint", str(tmp_path / "model.safetensors")))
    assert add_run_layers(project, make_run(), model) == []


def test_results_made_earlier_are_shown_by_the_job_that_made_them(project, map_file, samples_file):
    outcome = outcome_of(
        ("map", "done", "earlier", map_file),
        ("sample", "done", "earlier", samples_file),
        ("evaluate", "done", "earlier", os.path.join(os.path.dirname(map_file), "evaluation.json")),
    )
    names = [layer.name() for layer in add_run_layers(project, make_run(), outcome)]
    assert names == ["Draw 1", "Draw 2", "Draw 3", "Prospectivity"]


def test_a_file_that_cannot_be_shown_is_told_in_a_sentence(project, tmp_path, samples_file):
    broken = tmp_path / "broken.tif"
    broken.write_bytes(b"no raster")
    outcome = outcome_of(
        ("map", "done", "prospectivity", str(broken)), ("sample", "done", "samples", samples_file)
    )
    added = add_run_layers(project, make_run(), outcome)
    assert len(added) == 3
    assert added.problems == [f"The result {broken} is there, but cannot be shown as a layer."]


def test_a_table_without_places_is_told_in_a_sentence(project, tmp_path):
    table = tmp_path / "samples.csv"
    table.write_text("x,y,draw,log_relative_density\n1,2,1,0\n1,2,2,0\n", encoding="utf-8")
    outcome = outcome_of(("sample", "done", "samples", str(table)))
    added = add_run_layers(project, make_run(), outcome)
    assert added == []
    assert len(added.problems) == 1
    assert shown(project) == []


def test_geojson_is_split_by_draw_as_well(project, tmp_path):
    point = '{"type": "Feature", "geometry": {"type": "Point", "coordinates": [117, -%d]}, '
    point += '"properties": {"draw": %d, "log_relative_density": 0.5}}'
    features = ", ".join(point % (20 + draw, draw) for draw in (1, 2, 2))
    path = tmp_path / "samples.geojson"
    collection = f'{{"type": "FeatureCollection", "features": [{features}]}}'
    path.write_text(collection, encoding="utf-8")
    outcome = outcome_of(("sample", "done", "samples", str(path)))
    added = add_run_layers(project, make_run(), outcome)
    assert [sum(1 for _ in layer.getFeatures()) for layer in added] == [1, 2]


def test_two_runs_of_one_name_are_told_apart(project, tmp_path, map_file):
    other = write_map(tmp_path / "other.tif", VALUES, 20)
    add_run_layers(
        project, make_run("Gold"), outcome_of(("map", "done", "prospectivity", map_file))
    )
    add_run_layers(project, make_run("Gold"), outcome_of(("map", "done", "prospectivity", other)))
    assert shown(project) == [("Gold (2)", ["Prospectivity"]), ("Gold", ["Prospectivity"])]


def test_temporary_results_are_marked(project, outcome):
    added = add_run_layers(project, make_run("Try", temporary=True), outcome)
    assert shown(project)[0][0] == "Try (temporary)"
    assert all("temporary" in QgsLayerNotesUtils.layerNotes(layer) for layer in added)


def test_styles_are_saved_beside_the_files(project, outcome, map_file, samples_file):
    add_run_layers(project, make_run(), outcome)
    for path in (map_file, samples_file):
        with open(f"{os.path.splitext(path)[0]}.qml", encoding="utf-8") as file:
            style = file.read()
        assert "geocfm/run" not in style
        assert "GEOCFM_PROVENANCE" not in style


def test_a_second_run_takes_over_the_layers_of_the_files_it_replaced(
    project, tmp_path, training, map_file
):
    first = add_run_layers(project, make_run("First"), training)
    by_hand = QgsRasterLayer(map_file, "by hand")
    project.addMapLayer(by_hand)
    write_map(map_file, [100 * value for value in VALUES] + [0.0] * 40, 20, seed=2)
    write_samples(tmp_path / "samples.gpkg", draws=2, points=7)
    second = add_run_layers(project, make_run("Second"), training)
    expected = [
        "Occurrences used",
        ("Sampled points: 2 draws", ["Draw 1", "Draw 2"]),
        "Prospectivity",
    ]
    assert shown(project) == [("Second", expected), "by hand"]
    map_layer = second[-1]
    assert second[0].id() == first[0].id()
    assert map_layer.id() == first[-1].id()  # what refers to it, such as a layout, still does
    assert map_layer.height() == 22
    assert map_layer.renderer().classificationMax() > 100
    assert by_hand.height() == 22
    draw = next(layer for layer in second if layer.name() == "Draw 2")
    assert sum(1 for _ in draw.getFeatures()) == 7


def test_one_draw_replaced_by_several_leaves_nothing_behind(project, tmp_path):
    path = write_samples(tmp_path / "samples.gpkg", draws=1)
    outcome = outcome_of(("sample", "done", "samples", path))
    add_run_layers(project, make_run("First"), outcome)
    write_samples(path, draws=2)
    add_run_layers(project, make_run("Second"), outcome)
    draws = ("Sampled points: 2 draws", ["Draw 1", "Draw 2"])
    assert shown(project) == [("Second", [draws])]
    assert len(project.mapLayers()) == 2


def test_a_group_with_a_layer_of_the_users_stays(project, tmp_path, map_file):
    outcome = outcome_of(("map", "done", "prospectivity", map_file))
    add_run_layers(project, make_run("First"), outcome)
    own = QgsRasterLayer(write_map(tmp_path / "own.tif", VALUES, 20), "own")
    project.addMapLayer(own, False)
    project.layerTreeRoot().findGroup("First").addLayer(own)
    add_run_layers(project, make_run("Second"), outcome)
    assert shown(project) == [("Second", ["Prospectivity"]), ("First", ["own"])]


def test_the_occurrences_shown_are_those_that_the_engine_used(project, training, occurrences):
    layer = add_run_layers(project, make_run(), training)[0]
    assert layer.featureCount() == 4
    assert layer.source().startswith(occurrences)
    assert layer.customProperty(KIND) == "occurrences"
    assert layer.metadata().abstract() == MEANING
    assert os.path.exists(f"{os.path.splitext(occurrences)[0]}.qml")


def test_the_occurrences_of_the_training_come_before_those_of_the_evaluation(
    project, outcome, occurrences, tmp_path
):
    judged = write_samples(tmp_path / "occurrences.gpkg")
    for jobs, shown_first in (
        ([("evaluate", "done", "occurrences", judged)], judged),
        (
            [
                ("evaluate", "done", "occurrences", judged),
                ("train", "done", "occurrences", occurrences),
            ],
            occurrences,
        ),
    ):
        whole = replace(outcome, events=outcome_of(*jobs).events + outcome.events)
        layer = add_run_layers(project, make_run(), whole)[0]
        assert layer.source().startswith(shown_first)


def test_every_draw_knows_its_points_and_where_they_are(project, samples_file):
    QgsSettings().setValue("qgis/walForSqlite3", True)  # as QGIS has it by itself
    outcome = outcome_of(("sample", "done", "samples", samples_file))
    for _ in range(2):  # the second time the layers are there
        for layer in add_run_layers(project, make_run(), outcome):
            assert layer.featureCount() == 4
            assert not layer.extent().isNull()
            assert layer.extent().xMinimum() == 500100


def test_group_and_legend_are_unfolded_where_they_are_seen(project, training, tmp_path):
    project.addMapLayer(QgsRasterLayer(write_map(tmp_path / "own.tif", VALUES, 20), "own"))
    view = QgsLayerTreeView()
    root = project.layerTreeRoot()
    model = QgsLayerTreeModel(root)
    view.setModel(model)
    view.show()
    QCoreApplication.processEvents()
    layers = {layer.name(): layer for layer in add_run_layers(project, make_run(), training)}
    nodes = [root.children()[0], *map(root.findLayer, (layers["Prospectivity"], layers["Draw 1"]))]
    QCoreApplication.processEvents()
    assert [view.isExpanded(view.node2index(node)) for node in nodes] == [True] * 3
    assert not view.isExpanded(view.node2index(root.findLayer(layers["Draw 2"])))
