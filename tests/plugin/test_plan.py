"""The plan: from choices to algorithms with parameters, and to one Run."""

import json
import os
from dataclasses import replace

import pytest
from qgis.core import (
    QgsFeature,
    QgsGeometry,
    QgsPointXY,
    QgsProcessingException,
    QgsProcessingFeatureSourceDefinition,
    QgsVectorLayer,
)

from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.jobs.engine_job import EngineJob
from geocfm_qgis.panel import plan
from geocfm_qgis.panel.choices import (
    Channel,
    Choices,
    LayerChoices,
    ModelChoices,
    OccurrenceChoices,
    ProductChoice,
    ResultChoices,
)
from geocfm_qgis.panel.shared_inputs import share_inputs
from geocfm_qgis.panel.summary import summary_sentence

EXAMPLE = str(resources_folder() / "checkpoints" / "murchison_gold.safetensors")
PRODUCTS = (
    ProductChoice("prospectivity", "prospectivity.tif"),
    ProductChoice("samples", "samples.gpkg", {"draws": 4, "points": 500}),
    ProductChoice("evaluation", "evaluation"),
)


@pytest.fixture
def choices(sample_project, tmp_path):
    rasters = ("fault_density", "dist_fault", "greenstone")
    channels = tuple(
        Channel(sample_project.mapLayersByName(name)[0].id(), 1, name, name == "greenstone")
        for name in rasters
    )
    points = sample_project.mapLayersByName("gold deposits")[0]
    return Choices(
        LayerChoices(channels),
        OccurrenceChoices(points.id()),
        ModelChoices(),
        ResultChoices("my run", str(tmp_path), products=PRODUCTS),
    )


def loaded(choices):
    model = ModelChoices(train=False, checkpoint=EXAMPLE, matches=choices.layers.channels)
    return replace(choices, model=model)


def test_training_comes_first_and_the_products_use_its_model(choices, tmp_path):
    steps = plan.steps(choices)
    assert [step.algorithm for step in steps] == ["train", "map", "sample", "evaluate"]
    model = str(tmp_path / "my run" / "model.safetensors")
    assert steps[0].parameters["OUTPUT"] == model
    assert {step.parameters["CHECKPOINT"] for step in steps[1:]} == {model}
    assert steps[1].parameters["OUTPUT"] == str(tmp_path / "my run" / "prospectivity.tif")
    assert (steps[2].parameters["DRAWS"], steps[2].parameters["POINTS"]) == (4, 500)
    assert "OCCURRENCES" in steps[3].parameters
    assert "OCCURRENCES" not in steps[1].parameters


def with_targets(choices, *further):
    targets = ProductChoice(
        "targets", "targets.gpkg", {"number": 5, "area_share": 2.5, "exclude": 10.0}
    )
    return replace(
        choices, results=replace(choices.results, products=(PRODUCTS[0], *further, targets))
    )


def test_targets_are_made_from_the_map_of_the_same_run(choices, sample_project, tmp_path):
    steps = plan.steps(with_targets(choices))
    assert [step.algorithm for step in steps] == ["train", "map", "targets"]
    parameters = steps[2].parameters
    assert parameters["MAP"] == steps[1].parameters["OUTPUT"]
    assert parameters["CHECKPOINT"] == steps[0].parameters["OUTPUT"]
    assert parameters["CHANNELS"] == steps[1].parameters["CHANNELS"]
    assert "UNCERTAINTY" not in parameters | steps[1].parameters
    run = plan.make_run(with_targets(choices), sample_project)
    targets = run.jobs[2].values
    assert targets == {
        "raster": run.jobs[1].values["raster"],
        "checkpoint": run.jobs[0].values["out"],
        "map": str(tmp_path / "my run" / "prospectivity.tif"),
        "occurrences": targets["occurrences"],
        "layer": "occurrences",
        "number": 5,
        "area_share": 0.025,
        "exclude": 10.0,
        "out": str(tmp_path / "my run" / "targets.gpkg"),
    }
    nothing_known = replace(with_targets(choices), occurrences=OccurrenceChoices())
    assert "OCCURRENCES" not in plan.steps(nothing_known)[2].parameters


def test_uncertainty_is_made_with_the_map_and_handed_to_the_targets(
    choices, sample_project, tmp_path
):
    chosen = with_targets(choices, ProductChoice("uncertainty", "u.tif"))
    run = plan.make_run(chosen, sample_project)
    assert [job.command for job in run.jobs] == ["train", "map", "targets"]
    path = str(tmp_path / "my run" / "u.tif")
    assert run.jobs[1].values["uncertainty"] == run.jobs[2].values["uncertainty"] == path
    assert "tell how uncertain it is and rank up to 5 targets" in summary_sentence(chosen, 255)


def test_one_report_is_enough(choices):
    assert plan.steps(choices)[0].parameters["SKIP_REPORT"]
    assert not plan.steps(with_targets(choices))[0].parameters["SKIP_REPORT"]


def test_an_ensemble_folds_and_survey_effort_reach_the_training(choices, sample_project):
    effort = choices.layers.channels[1].layer
    model = ModelChoices(ensemble=3, folds=5, effort=effort)
    chosen = replace(choices, model=model)
    values = plan.make_run(chosen, sample_project).jobs[0].values
    assert (values["ensemble"], values["folds"]) == (3, 5)
    assert values["effort"].endswith("dist_fault.tif:1")
    assert plan.make_check(chosen, sample_project).values["effort"] == values["effort"]
    kept = Choices.from_dict(json.loads(json.dumps(chosen.to_dict())))
    assert kept == chosen


def test_the_searched_ground_reaches_the_training_and_nothing_else(choices, sample_project):
    told = plan.make_run(choices, sample_project).jobs[0].values
    assert told["ground"] == "auto"
    assert "positive_only" not in told
    chosen = replace(choices, model=ModelChoices(ground="window", positive_only=True))
    run = plan.make_run(chosen, sample_project)
    keys = ("ground", "positive_only")
    assert [run.jobs[0].values[key] for key in keys] == ["window", True]
    assert not any(key in job.values for key in keys for job in run.jobs[1:])
    assert not any(key in plan.make_check(chosen, sample_project).values for key in keys)
    assert Choices.from_dict(json.loads(json.dumps(chosen.to_dict()))) == chosen


def test_the_order_of_the_bands_and_their_names_are_kept(choices):
    parameters = plan.steps(choices)[0].parameters
    assert parameters["RASTERS"] == [channel.layer for channel in choices.layers.channels]
    assert parameters["CHANNELS"] == "fault_density=1:1, dist_fault=2:1, greenstone=3:1"
    assert parameters["CLASSES"] == "greenstone"


def test_several_bands_of_one_raster_name_it_once(choices):
    first = choices.layers.channels[0].layer
    channels = (Channel(first, 2, "k"), Channel("other", 1, "mag"), Channel(first, 1, "th"))
    changed = replace(choices, layers=LayerChoices(channels))
    parameters = plan.steps(changed)[0].parameters
    assert parameters["RASTERS"] == [first, "other"]
    assert parameters["CHANNELS"] == "k=1:2, mag=2:1, th=1:1"


def test_all_choices_of_the_model_become_parameters(choices):
    model = ModelChoices(
        preset="quick",
        minutes=2.5,
        device="cpu",
        seed=9,
        iterations=10,
        window=64,
        tile=96,
        resolution=1000.0,
        settings=("network.width=16", "training.batch=2"),
    )
    parameters = plan.steps(replace(choices, model=model))[0].parameters
    expected = {
        "PRESET": "quick",
        "MINUTES": 2.5,
        "DEVICE": "cpu",
        "SEED": 9,
        "ITERATIONS": 10,
        "WINDOW": 64,
        "TILE": 96,
        "RESOLUTION": 1000.0,
        "SETTINGS": "network.width=16, training.batch=2",
    }
    assert expected.items() <= parameters.items()
    by_preset = plan.steps(replace(choices, model=ModelChoices(minutes=0.0)))[0].parameters
    assert "MINUTES" not in by_preset


def test_a_filter_and_a_selection_reach_the_parameters(choices):
    points = OccurrenceChoices(
        choices.occurrences.layer, True, "commodity", ("Gold", "Copper"), True
    )
    parameters = plan.steps(replace(choices, occurrences=points))[0].parameters
    assert isinstance(parameters["OCCURRENCES"], QgsProcessingFeatureSourceDefinition)
    assert parameters["OCCURRENCES"].selectedFeaturesOnly
    assert parameters["WHERE"] == "commodity ~ Gold, Copper"
    assert parameters["DEDUPLICATE"] is True


def test_a_loaded_model_takes_the_matched_bands_and_the_area(choices):
    chosen = loaded(choices)
    area = LayerChoices(reference="ref", extent="1,2,3,4 [EPSG:20350]")
    steps = plan.steps(replace(chosen, layers=area))
    assert [step.algorithm for step in steps] == ["map", "sample", "evaluate"]
    assert steps[0].parameters["CHECKPOINT"] == EXAMPLE
    assert steps[0].parameters["CHANNELS"].startswith("fault_density=1:1")
    assert steps[0].parameters["REFERENCE"] == "ref"
    assert steps[0].parameters["EXTENT"].startswith("1,2,3,4")
    assert "EXTENT" not in steps[2].parameters


def test_a_run_has_jobs_with_absolute_paths_and_remembers_the_choices(
    choices, sample_project, tmp_path
):
    run = plan.make_run(choices, sample_project)
    assert [job.command for job in run.jobs] == ["train", "map", "sample", "evaluate"]
    assert all(job.name for job in run.jobs)
    rasters = [spec.partition("=")[2].rpartition(":")[0] for spec in run.jobs[0].values["raster"]]
    assert all(os.path.isabs(path) and os.path.exists(path) for path in rasters)
    assert run.name == "my run"
    assert run.folder == str(tmp_path / "my run")
    assert not run.temporary
    assert Choices.from_dict(json.loads(json.dumps(run.choices))) == choices
    temporary = replace(choices, results=replace(choices.results, folder=""))
    made = plan.make_run(temporary, sample_project)
    assert made.temporary
    assert os.path.isabs(made.jobs[0].values["out"])


def test_points_of_a_memory_layer_are_written_once_for_all_jobs(choices, sample_project):
    memory = QgsVectorLayer("Point?crs=EPSG:20350&field=name:string", "sketch", "memory")
    point = QgsFeature(memory.fields())
    point.setGeometry(QgsGeometry.fromPointXY(QgsPointXY(500_000, 7_000_000)))
    memory.dataProvider().addFeature(point)
    sample_project.addMapLayer(memory)
    changed = replace(choices, occurrences=OccurrenceChoices(memory.id()))
    run = plan.make_run(changed, sample_project)
    train, evaluate = run.jobs[0], run.jobs[-1]
    assert train.values["occurrences"] == evaluate.values["occurrences"]
    assert len(train.exports) == 1
    assert evaluate.exports == ()
    assert evaluate.temporary == train.temporary


def test_shared_inputs_are_told_apart_by_name_and_order():
    class Export:
        def __init__(self, path):
            self.path = path

    def job(folder):
        paths = (f"/{folder}1/mag.tif", f"/{folder}2/mag.tif", f"/{folder}3/aoi.gpkg")
        values = {"raster": [f"a={paths[0]}:1", f"b={paths[1]}:2", "c=/x.tif:1"], "aoi": paths[2]}
        return EngineJob("map", values, "", tuple(map(Export, paths)), paths)

    first, second = share_inputs([job("p"), job("q")])
    assert second.values == first.values
    assert first.values["raster"] == ["a=/p1/mag.tif:1", "b=/p2/mag.tif:2", "c=/x.tif:1"]
    assert len(first.exports) == 3
    assert second.exports == ()


def test_a_layer_that_is_gone_is_said_in_a_sentence(choices, sample_project):
    channels = (Channel("no such layer", 1, "mag"),)
    with pytest.raises(QgsProcessingException, match="raster"):
        plan.make_run(replace(choices, layers=LayerChoices(channels)), sample_project)


def test_the_whole_run_in_one_line(choices):
    assert summary_sentence(choices, 255, (804, 660)) == (
        "Train for 5 minutes (3 networks) on 3 layers and 255 occurrences, then map 804 x 660 "
        "cells, draw 4 x 500 points and evaluate the model."
    )
    alone = replace(
        choices,
        model=ModelChoices(minutes=1.0, ensemble=1),
        results=ResultChoices("x", "y"),
        layers=LayerChoices(choices.layers.channels[:1]),
    )
    assert summary_sentence(alone, None) == "Train for 1 minute on 1 layer and the occurrences."
    several = replace(choices, model=ModelChoices(ensemble=3, folds=5))
    assert summary_sentence(several, 255).startswith(
        "Train for 5 minutes (3 networks, 5 folds) on 3 layers and 255 occurrences, then"
    )
    assert summary_sentence(loaded(choices), None).startswith(
        "With the model murchison_gold: map the region"
    )
