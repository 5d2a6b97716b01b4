"""The algorithms of the provider, with an engine that only pretends to work."""

import html
import json
import os
import shutil

import processing
import pytest
from qgis.core import (
    QgsApplication,
    QgsCoordinateReferenceSystem,
    QgsProcessingAlgorithm,
    QgsProcessingException,
    QgsProcessingFeatureSourceDefinition,
    QgsProcessingFeedback,
    QgsProcessingOutputLayerDefinition,
    QgsProject,
    QgsProperty,
    QgsRasterLayer,
    QgsRasterRange,
    QgsVectorLayer,
)

from geocfm_qgis.algorithms import algorithm_classes, engine_job
from geocfm_qgis.algorithms.parameters import BASELINES, SOLVERS
from geocfm_qgis.algorithms.training_parameters import GROUNDS, PRESETS
from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.engine_client import DONE, FAILED, JobStarted, Outcome, Warning
from geocfm_qgis.jobs import as_command_line, as_job_file, in_layer_names

SAMPLE = resources_folder() / "sample"
RASTERS = sorted(str(path) for path in SAMPLE.glob("rasters/*.tif"))
NAMES = [os.path.basename(path)[:-4] for path in RASTERS]
OCCURRENCES = str(SAMPLE / "occurrences.gpkg")
MODEL = str(resources_folder() / "checkpoints" / "murchison_gold.safetensors")
SCHEMA = resources_folder().parent / "docs" / "job.schema.json"
LEARNING = {
    *("RASTERS", "CHANNELS", "CLASSES", "REFERENCE", "EXTENT", "AREA", "RESOLUTION", "CRS"),
    *("OCCURRENCES", "WHERE", "DEDUPLICATE", "PRESET", "WINDOW", "TILE", "SETTINGS", "OUTPUT"),
    "EFFORT",
}
APPLYING = {
    *("CHECKPOINT", "RASTERS", "CHANNELS", "SEED", "DEVICE", "SOLVER", "STEPS", "OVERWRITE"),
    "OUTPUT",
}
KNOWN = {"OCCURRENCES", "WHERE"}
PARAMETERS = {
    "checkdata": LEARNING,
    "train": LEARNING
    | {"MINUTES", "ITERATIONS", "ENSEMBLE", "FOLDS", "SEED", "DEVICE", "SKIP_REPORT", "OVERWRITE"}
    | {"BASELINES", "GROUND", "POSITIVE_ONLY"},
    "map": APPLYING
    | {"REFERENCE", "EXTENT", "AREA", "TEMPERATURE", "UNCERTAINTY", "MONTE_CARLO_ERROR"},
    "sample": APPLYING | {"REFERENCE", "EXTENT", "AREA", "POINTS", "DRAWS"},
    "targets": KNOWN
    | {"MAP", "UNCERTAINTY", "NUMBER", "AREA_SHARE", "EXCLUDE", "THRESHOLD", "MINIMUM_AREA"}
    | {"SMOOTH", "CHECKPOINT", "RASTERS", "CHANNELS", "OVERWRITE", "OUTPUT"},
    "evaluate": APPLYING | KNOWN | {"TEMPERATURE", "DEDUPLICATE", "BASELINES", "SKIP_IMPORTANCE"},
    "runjobfile": {"JOB_FILE", "OVERWRITE"},
}


class TellingFeedback(QgsProcessingFeedback):
    """Remembers the texts beside the progress bar."""

    def __init__(self, log):
        super().__init__(log)
        self.texts = []

    def setProgressText(self, text):
        self.texts.append(text)


def layer_named(name):
    return QgsProject.instance().mapLayersByName(name)[0]


def run(name, parameters, context, feedback=None):
    feedback = feedback or QgsProcessingFeedback(False)
    return processing.run(f"geocfm:{name}", parameters, context=context, feedback=feedback)


def problem(provider, name, parameters, context):
    """What an algorithm says before it begins; empty if it would begin."""
    algorithm = provider.algorithm(name).create()
    ok, sentence = algorithm.checkParameterValues(parameters, context)
    assert ok == (not sentence)
    return sentence


def training(**more):
    return {"RASTERS": RASTERS, "OCCURRENCES": OCCURRENCES, "OUTPUT": "TEMPORARY_OUTPUT", **more}


def mapping(**more):
    return {"RASTERS": RASTERS, "CHECKPOINT": MODEL, "OUTPUT": "TEMPORARY_OUTPUT", **more}


def test_the_provider_offers_all_algorithms(provider):
    assert provider.id() == "geocfm"
    assert {
        each.name(): {p.name() for p in each.parameterDefinitions()}
        for each in provider.algorithms()
    } == PARAMETERS
    for algorithm in provider.algorithms():
        assert len(algorithm.shortHelpString()) > 100
        assert not algorithm.icon().isNull()
        assert not algorithm.flags() & QgsProcessingAlgorithm.Flag.FlagNoThreading
        for parameter in algorithm.parameterDefinitions():
            assert parameter.description()
            assert parameter.isDestination() or parameter.help(), parameter.name()


def test_all_values_are_keys_of_the_engines_jobs(context, tmp_path):
    everything = {
        "RASTERS": RASTERS,
        "CHANNELS": "a=1:1, b=2",
        "CLASSES": "B",
        "REFERENCE": RASTERS[1],
        "EXTENT": "360000,600000,6700000,7100000 [EPSG:20350]",
        "AREA": str(SAMPLE.parents[1] / "docs" / "examples" / "middle.geojson"),
        "RESOLUTION": 1000,
        "CRS": QgsCoordinateReferenceSystem("EPSG:28350"),
        "OCCURRENCES": OCCURRENCES,
        "WHERE": "commodity ~ gold\nsize = large",
        "DEDUPLICATE": True,
        "PRESET": "quick",
        "MINUTES": 2.5,
        "ITERATIONS": 8,
        "SEED": 7,
        "DEVICE": "cuda:1",
        "WINDOW": 32,
        "TILE": 64,
        "SETTINGS": "network.width=32, training.batch=4",
        "CHECKPOINT": MODEL,
        "POINTS": 50,
        "DRAWS": 2,
        "SOLVER": "heun",
        "STEPS": 9,
        "BASELINES": [3, 5, 11],
        "ENSEMBLE": 3,
        "FOLDS": 5,
        "EFFORT": RASTERS[2],
        "GROUND": "window",
        "POSITIVE_ONLY": True,
        "SKIP_REPORT": True,
        "SKIP_IMPORTANCE": True,
        "TEMPERATURE": 0.8,
        "UNCERTAINTY": RASTERS[3],
        "MONTE_CARLO_ERROR": str(tmp_path / "error.tif"),
        "MAP": RASTERS[0],
        "NUMBER": 7,
        "AREA_SHARE": 2.5,
        "MINIMUM_AREA": 3.5,
        "EXCLUDE": 10,
        "SMOOTH": 0,
        "OVERWRITE": True,
        "OUTPUT": str(tmp_path / "out"),
    }
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    for kind in algorithm_classes():
        if kind.algorithm_id == "runjobfile":
            continue
        job = engine_job(kind.algorithm_id, everything, context, "a name")
        known = schema[f"{kind.command.capitalize()}Job"]["properties"]
        assert set(job.entry()) <= set(known), kind
        given = {name for name in PARAMETERS[kind.algorithm_id] if name in everything}
        ways = {"CHANNELS", "EXTENT", "AREA"}  # become no keys of their names
        area = {"aoi", "aoi_layer"} if "AREA" in given else set()
        own = {name.lower() for name in given - ways}
        renamed = {"rasters": "raster", "reference": "like", "output": "out"}
        expected = {renamed.get(name, name) for name in own} | area
        assert set(job.values) == expected - ({"out"} if kind.command == "check" else set())
    job = engine_job("geocfm:train", everything, context)
    assert job.values == {
        "raster": [f"a={RASTERS[0]}:1", f"b={RASTERS[1]}:1"],
        "classes": ["b"],
        "like": RASTERS[1],
        "aoi": job.values["aoi"],
        "aoi_layer": "features",
        "resolution": 1000.0,
        "crs": "EPSG:28350",
        "occurrences": OCCURRENCES,
        "where": ["commodity ~ gold", "size = large"],
        "deduplicate": True,
        "preset": "quick",
        "minutes": 2.5,
        "iterations": 8,
        "seed": 7,
        "device": "cuda:1",
        "window": 32,
        "tile": 64,
        "ensemble": 3,
        "folds": 5,
        "effort": f"{RASTERS[2]}:1",
        "ground": "window",
        "positive_only": True,
        "baselines": "rf,gbdt,ipp",
        "skip_report": True,
        "settings": ["network.width=32", "training.batch=4"],
        "overwrite": True,
        "out": str(tmp_path / "out"),
    }
    assert job.temporary == (job.values["aoi"],)
    values = engine_job("geocfm:evaluate", everything, context).values
    assert values["baselines"] == "rf,gbdt,ipp"
    job = engine_job("geocfm:targets", everything, context)
    assert job.values == {
        "raster": [f"a={RASTERS[0]}:1", f"b={RASTERS[1]}:1"],
        "checkpoint": MODEL,
        "map": RASTERS[0],
        "uncertainty": RASTERS[3],
        "occurrences": OCCURRENCES,
        "where": ["commodity ~ gold", "size = large"],
        "number": 7,
        "area_share": 0.025,
        "minimum_area": 3.5,
        "exclude": 10.0,
        "smooth": 0.0,
        "overwrite": True,
        "out": str(tmp_path / "out"),
    }
    # a density outweighs the part of the area, and nothing of it is 0
    values = engine_job("targets", {**everything, "THRESHOLD": 4, "EXCLUDE": 0}, context).values
    assert values["threshold"] == 4
    assert not {"area_share", "exclude"} & set(values)


def test_methods_to_compare_with_are_the_engines():
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    for job in ("TrainJob", "EvaluateJob"):
        described = schema[job]["properties"]["baselines"]["description"]
        assert ", ".join(BASELINES) in described
    engine = resources_folder().parent / "engine" / "geocfm" / "evaluation" / "baselines"
    code = "".join(path.read_text(encoding="utf-8") for path in engine.glob("*.py"))
    assert [title for title in BASELINES.values() if f' = "{title}"' not in code] == []


@pytest.mark.parametrize(
    ("command", "key", "offered"),
    [
        ("Train", "preset", PRESETS),
        ("Train", "ground", GROUNDS),
        ("Map", "solver", SOLVERS),
        ("Sample", "solver", SOLVERS),
    ],
)
def test_what_is_offered_is_what_the_engine_takes(command, key, offered):
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]
    described = schema[f"{command}Job"]["properties"][key]
    taken = described.get("enum") or described["anyOf"][0]["enum"]
    assert sorted(offered) == sorted(taken)


@pytest.mark.parametrize("ground", GROUNDS)
def test_the_searched_ground_reaches_the_training_as_chosen(context, tmp_path, ground):
    out = str(tmp_path / "m.safetensors")
    job = engine_job("train", training(GROUND=ground, OUTPUT=out), context)
    assert job.values["ground"] == ground
    assert "positive_only" not in job.values
    assert f"--ground {ground}" in as_command_line(job)
    assert f'ground = "{ground}"' in as_job_file([job])


def test_learning_from_known_occurrences_alone_is_told_to_the_training(context, tmp_path):
    out = str(tmp_path / "m.safetensors")
    job = engine_job("train", training(POSITIVE_ONLY=True, OUTPUT=out), context)
    assert (job.values["positive_only"], job.values["ground"]) == (True, "auto")
    assert " --positive-only " in as_command_line(job)
    assert "positive_only = true" in as_job_file([job])
    assert not {"ground", "positive_only"} & set(
        engine_job("checkdata", training(), context).values
    )


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ({}, "auto"),
        ({"BASELINES": [3, 11]}, "auto"),  # what the dialog shows ticked
        ({"BASELINES": [11]}, "ipp"),
        ({"BASELINES": []}, "none"),
    ],
)
def test_a_report_has_the_usual_methods_unless_others_are_chosen(context, tmp_path, chosen, said):
    given = {"CHECKPOINT": MODEL, "RASTERS": RASTERS, "OCCURRENCES": OCCURRENCES}
    parameters = {**given, **chosen, "OUTPUT": str(tmp_path / "out.safetensors")}
    for kind in ("train", "evaluate"):
        assert engine_job(kind, parameters, context).values["baselines"] == said


def test_what_is_not_given_is_left_to_the_engine(context, tmp_path, monkeypatch):
    monkeypatch.setattr("geocfm_qgis.algorithms.job_inputs.default_device", lambda: "mps")
    out = str(tmp_path / "m.safetensors")
    job = engine_job("train", training(OUTPUT=out), context)
    specs = [f"{name}={path}:1" for name, path in zip(NAMES, RASTERS, strict=True)]
    assert job.values == {
        "raster": specs,
        "occurrences": OCCURRENCES,
        "preset": "auto",
        "ground": "auto",
        "ensemble": 3,
        "seed": 1,
        "device": "mps",
        "baselines": "auto",
        "out": out,
    }
    assert (job.exports, job.temporary, job.command) == ((), (), "train")


def test_layers_of_the_project_are_taken_as_qgis_has_them(context):
    fault, stone = layer_named("dist_fault"), layer_named("greenstone")
    fault.setName("Dist = fault, km")
    fault.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    stone.dataProvider().setUserNoDataValue(1, [QgsRasterRange(0, 0)])
    deposits = layer_named("gold deposits")
    deposits.selectByIds([1, 2])
    job = engine_job(
        "checkdata",
        {
            "RASTERS": [fault.id(), stone.id()],
            "OCCURRENCES": QgsProcessingFeatureSourceDefinition(deposits.id(), True),
        },
        context,
    )
    assert [spec.partition("=")[0] for spec in job.values["raster"]] == [
        "Dist _ fault_ km",
        "greenstone",
    ]
    assert job.values["raster_crs"] == ["Dist _ fault_ km=EPSG:28350"]
    assert job.values["nodata"] == ["greenstone=0"]
    assert job.values["occurrences"] == job.temporary[0] == job.exports[0].path
    assert "out" not in job.values


def test_layers_are_matched_with_the_models(context):
    renamed = {"dist_fault": "Dist fault", "greenstone": "GREENSTONE"}
    for old, new in renamed.items():
        layer_named(old).setName(new)
    ids = [
        layer.id()
        for layer in QgsProject.instance().mapLayers().values()
        if isinstance(layer, QgsRasterLayer)
    ]
    job = engine_job("map", mapping(RASTERS=ids, OUTPUT="/tmp/x.tif"), context)
    assert [spec.partition("=")[0] for spec in job.values["raster"]] == NAMES
    # names that the user wrote out are the user's
    job = engine_job("map", mapping(RASTERS=ids, CHANNELS="X=1:1", OUTPUT="/tmp/x.tif"), context)
    assert [spec.partition("=")[0] for spec in job.values["raster"]] == ["X"]


def test_a_model_that_is_yet_to_be_made_is_no_mistake(context, tmp_path):
    parameters = mapping(CHECKPOINT=str(tmp_path / "later.safetensors"), OUTPUT="/tmp/x.tif")
    job = engine_job("map", parameters, context)
    assert [spec.partition("=")[0] for spec in job.values["raster"]] == NAMES


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"CHANNELS": "mag"}, "does not say which band is meant"),
        ({"CHANNELS": "mag=9:1"}, "but the list has 4"),
        ({"RASTERS": [RASTERS[0], RASTERS[0]]}, "Two layers have the name 'dist_fault'"),
        (
            {"RASTERS": [RASTERS[0], "/nowhere/x.tif"]},
            "These rasters cannot be opened: /nowhere/x.tif.",
        ),
        ({"RASTERS": "/nowhere/x.tif"}, "These rasters cannot be opened: /nowhere/x.tif."),
        ({"RASTERS": [OCCURRENCES]}, "These rasters cannot be opened: occurrences."),
        ({"RASTERS": []}, "No raster is chosen"),
        ({"OCCURRENCES": None}, "Occurrences: no layer is chosen"),
        ({"PRESET": "slow"}, "PRESET"),
        ({"CLASSES": "geology"}, "There is no layer 'geology' that could hold classes"),
        ({"DEVICE": "gpu"}, "There is no device 'gpu'"),
        ({"OUTPUT": "/tmp/model.pt"}, "must end in .safetensors"),
        ({"AREA": "/nowhere/area.gpkg"}, "is no vector layer"),
    ],
)
def test_mistakes_are_said_before_the_work(provider, context, engine, parameters, said):
    assert problem(provider, "train", training(), context) == ""
    assert said in problem(provider, "train", training(**parameters), context)


def test_mistakes_of_applying_are_said_before_the_work(provider, context, engine, tmp_path):
    assert problem(provider, "map", mapping(), context) == ""
    said = problem(provider, "map", mapping(RASTERS=RASTERS[:2]), context)
    assert "needs layers that were not given: fault_density, greenstone." in said
    assert "No model is chosen" in problem(provider, "map", mapping(CHECKPOINT=""), context)
    said = problem(provider, "map", mapping(CHECKPOINT="/nowhere/m.safetensors"), context)
    assert "There is no model at /nowhere/m.safetensors" in said
    assert "is no model" in problem(provider, "map", mapping(CHECKPOINT=RASTERS[0]), context)
    own = tmp_path / "dist_fault.tif"
    shutil.copyfile(RASTERS[0], own)
    parameters = mapping(RASTERS=[str(own), *RASTERS[1:]], OUTPUT=str(own))
    assert "would replace its own input" in problem(provider, "map", parameters, context)
    said = problem(provider, "runjobfile", {"JOB_FILE": RASTERS[0]}, context)
    assert "Choose a .toml or .json file" in said


def test_no_engine_yet_is_said_with_what_to_do(provider, context, monkeypatch):
    monkeypatch.delenv("GEOCFM_PYTHON", raising=False)
    monkeypatch.setattr("geocfm_qgis.algorithms.engine_algorithm.engine_python", lambda: "")
    said = problem(provider, "train", training(), context)
    assert "Settings > Options > GeoCFM" in said
    algorithm = provider.algorithm("train").create()
    feedback = QgsProcessingFeedback()
    assert not algorithm.prepare(training(), context, feedback)
    assert "Settings > Options > GeoCFM" in feedback.textLog()


def test_training_writes_a_temporary_model(context, engine):
    feedback = TellingFeedback(False)
    progress = []
    feedback.progressChanged.connect(progress.append)
    found = run("train", training(), context, feedback)
    assert found["OUTPUT"].endswith(".safetensors")
    assert os.path.getsize(found["OUTPUT"]) == os.path.getsize(MODEL)
    assert progress[-1] == 100
    assert "best at iteration 90" in feedback.textLog()
    assert feedback.texts[0].startswith("Reading layers")
    assert feedback.texts[1].startswith("Training, loss 2, validation 2.2, 0:00 left")
    assert len(feedback.texts) == 2  # each becomes a line of the log


def test_maps_and_samples_are_styled_and_loaded(context, engine, tmp_path):
    for name, suffix, kind in (("map", ".tif", "prospectivity"), ("sample", ".gpkg", "samples")):
        path = str(tmp_path / f"result of {name}{suffix}")
        output = QgsProcessingOutputLayerDefinition(path, context.project())
        assert run(name, mapping(OUTPUT=output), context) == {"OUTPUT": path}
        assert os.path.exists(path[: -len(suffix)] + ".qml")
        details = context.layerToLoadOnCompletionDetails(path)
        kinds = {"map": QgsRasterLayer, "sample": QgsVectorLayer}
        layer = kinds[name](path, "result")
        layer.setCustomProperty("geocfm/kind", "")
        details.postProcessor().postProcessLayer(layer, context, QgsProcessingFeedback())
        assert layer.customProperty("geocfm/kind") == kind


def test_a_result_is_loaded_with_its_style_however_its_path_is_spelled(context, engine, tmp_path):
    (tmp_path / "a").mkdir()
    path = f"{tmp_path}/a/../b.tif"
    output = QgsProcessingOutputLayerDefinition(path, context.project())
    assert run("map", mapping(OUTPUT=output), context) == {"OUTPUT": path}
    assert (tmp_path / "b.tif").exists()
    assert context.layerToLoadOnCompletionDetails(path).postProcessor() is not None


def test_a_file_chosen_for_a_result_is_replaced(provider, context, engine, tmp_path):
    for name, file in (("map", "m.tif"), ("sample", "s.gpkg"), ("evaluate", "e")):
        parameters = mapping(OCCURRENCES=OCCURRENCES, OUTPUT=str(tmp_path / file))
        for _ in range(2):
            assert problem(provider, name, parameters, context) == ""
            assert run(name, parameters, context)["OUTPUT"] == str(tmp_path / file)
    with pytest.raises(QgsProcessingException, match="already there"):
        run("map", mapping(OVERWRITE=False, OUTPUT=str(tmp_path / "m.tif")), context)


def test_a_model_is_replaced_only_if_asked(provider, context, engine, tmp_path):
    out = tmp_path / "m.safetensors"
    (tmp_path / ".m.safetensors.work").mkdir()  # an interrupted training goes on
    assert problem(provider, "train", training(OUTPUT=str(out)), context) == ""
    out.write_text("hours of work")
    said = problem(provider, "train", training(OUTPUT=str(out)), context)
    assert f"There is a model {out} already." in said
    assert "“Replace results that are there”" in said
    parameters = training(OUTPUT=str(out), OVERWRITE=True)
    assert problem(provider, "train", parameters, context) == ""


def test_the_bar_shows_the_whole_work(context, engine):
    layer = layer_named("gold deposits")
    layer.setSubsetString("fid <= 20")
    progress = []
    feedback = QgsProcessingFeedback(False)
    feedback.progressChanged.connect(progress.append)
    run("train", training(OCCURRENCES=layer.id()), context, feedback)
    work = [value for value in progress if value < 100]
    assert len(work) > 10
    assert work == sorted(work)  # never back to 0


def test_the_engine_is_told_of_files_and_the_user_of_layers(context, engine, tmp_path):
    layer = layer_named("gold deposits")
    layer.setSubsetString("fid <= 20")
    job = engine_job("checkdata", training(OCCURRENCES=layer.id()), context)
    path = job.values["occurrences"]
    assert in_layer_names(f"No occurrence of '{path}' lies inside.", [job]) == (
        "No occurrence of 'gold deposits' lies inside."
    )
    assert in_layer_names(f"mag ({path}) is empty", [job]) == "mag ('gold deposits') is empty"


def test_sentences_of_the_engine_name_layers(context, engine, tmp_path, monkeypatch):
    def answer(python, arguments, on_event, is_cancelled):
        with open(arguments[1], encoding="utf-8") as file:
            path = json.load(file)["jobs"][0]["occurrences"]
        events = JobStarted(1, 1, "Check", "check"), Warning(f"'{path}' is odd.")
        for event in events:
            on_event(event)
        return Outcome(FAILED, f"No occurrence of '{path}' lies inside the grid.", events=events)

    monkeypatch.setattr("geocfm_qgis.algorithms.engine_algorithm.run_engine", answer)
    layer = layer_named("gold deposits")
    layer.setSubsetString("fid <= 20")
    feedback, path = QgsProcessingFeedback(False), tmp_path / "report.html"
    run("checkdata", training(OCCURRENCES=layer.id(), OUTPUT=str(path)), context, feedback)
    for said in (feedback.textLog(), html.unescape(path.read_text(encoding="utf-8"))):
        assert "'gold deposits' is odd." in said
        assert "No occurrence of 'gold deposits' lies inside the grid." in said


def test_points_are_written_in_formats_that_qgis_opens_as_points(provider, context, engine):
    assert "csv" not in provider.supportedOutputVectorLayerExtensions()
    said = problem(provider, "sample", mapping(OUTPUT="/tmp/points.csv"), context)
    assert "must end in .gpkg or .geojson" in said


def test_temporary_layers_have_the_engines_formats(context, engine):
    assert run("map", mapping(), context)["OUTPUT"].endswith(".tif")
    assert run("sample", mapping(DRAWS=2), context)["OUTPUT"].endswith(".gpkg")


def test_evaluation_gives_figures(context, engine, monkeypatch, tmp_path):
    folder = tmp_path / "figures"
    parameters = mapping(OCCURRENCES=OCCURRENCES, OUTPUT=str(folder))
    report = str(folder / "report.html")
    found = run("evaluate", parameters, context)
    assert found == {"OUTPUT": str(folder), "REPORT": report}
    held_out = {"occurrences": 53, "area_under_curve": 0.81, "captured": {"0.1": 0.6}}
    (folder / "evaluation.json").write_text(json.dumps({"test": held_out}))
    figures = provider_results("evaluate", str(folder), context)
    assert figures == {"OUTPUT": str(folder), "AUC": 0.81, "CAPTURED_10": 0.6}


def provider_results(name, out, context):
    (kind,) = (each for each in algorithm_classes() if each.algorithm_id == name)
    job = type("Job", (), {"values": {"out": out}})
    return kind().results(Outcome(DONE), job, context, None)


def test_checking_reports_what_there_is(context, engine, tmp_path):
    path = tmp_path / "report.html"
    feedback = QgsProcessingFeedback(False)
    found = run("checkdata", training(OUTPUT=str(path)), context, feedback)
    assert found == {"USED": 255, "CAN_TRAIN": True, "OUTPUT": str(path)}
    page = path.read_text(encoding="utf-8")
    assert "Training is possible." in page
    assert "804 rows x 660 columns" in page
    assert "<td>255</td>" in page
    assert "--deduplicate" not in page + feedback.textLog()


def test_checking_answers_that_training_is_impossible(context, engine, tmp_path):
    engine("fail")
    path = tmp_path / "report.html"
    feedback = QgsProcessingFeedback(False)
    found = run("checkdata", training(OUTPUT=str(path)), context, feedback)
    assert found == {"USED": 0, "CAN_TRAIN": False, "OUTPUT": str(path)}
    assert "90 GB of memory" in path.read_text(encoding="utf-8")
    assert "90 GB of memory" in feedback.textLog()


@pytest.mark.parametrize("behaviour", ["missing", "lacks_everything", "new_protocol"])
def test_an_engine_that_does_not_work_says_nothing_of_the_data(
    context, engine, behaviour, tmp_path
):
    engine(behaviour)
    path = tmp_path / "report.html"
    with pytest.raises(QgsProcessingException):
        run("checkdata", training(OUTPUT=str(path)), context)
    assert not path.exists()


def test_the_engines_sentence_is_the_algorithms(context, engine, tmp_path):
    engine("fail")
    path = tmp_path / "map.tif"
    with pytest.raises(QgsProcessingException, match="90 GB of memory; 8 GB are free") as caught:
        run("map", mapping(OUTPUT=str(path)), context)
    assert "--window" not in str(caught.value)
    assert not path.exists()
    engine("broken")
    with pytest.raises(QgsProcessingException, match=r"geocfm-error-fake\.log"):
        run("map", mapping(OUTPUT=str(path)), context)


def test_a_cancelled_training_says_where_the_best_model_is(context, engine, tmp_path):
    feedback = TellingFeedback(False)
    feedback.progressChanged.connect(
        lambda _: feedback.cancel() if len(feedback.texts) > 1 else None
    )
    out = tmp_path / "m.safetensors"
    with pytest.raises(QgsProcessingException, match="Stopped as asked") as caught:
        run("train", training(OUTPUT=str(out)), context, feedback)
    assert not out.exists()
    unfinished = tmp_path / "m.unfinished.safetensors"
    assert unfinished.exists()
    assert f"The best model so far is {unfinished}." in str(caught.value)


def test_cancelled_before_it_began_starts_no_engine(context, engine, tmp_path):
    engine(GEOCFM_FAKE_PIDS=tmp_path / "pids")
    feedback = QgsProcessingFeedback(False)
    feedback.cancel()
    with pytest.raises(QgsProcessingException, match="nothing had begun"):
        run("train", training(), context, feedback)
    assert not (tmp_path / "pids").exists()


def test_exports_are_written_before_the_engine_starts(context, engine, tmp_path):
    layer = layer_named("gold deposits")
    layer.setSubsetString("fid <= 20")
    algorithm = QgsApplication.processingRegistry().algorithmById("geocfm:train").create()
    found, ok = algorithm.run(
        training(OCCURRENCES=layer.id()), context, QgsProcessingFeedback(False)
    )
    assert ok
    assert os.path.exists(found["OUTPUT"])


def test_a_job_file_is_run_and_its_layers_are_loaded(context, engine, tmp_path):
    raster, points = str(tmp_path / "p.tif"), str(tmp_path / "s.gpkg")
    jobs = [
        {"command": "map", "checkpoint": MODEL, "raster": RASTERS, "out": raster},
        {"command": "sample", "checkpoint": MODEL, "raster": RASTERS, "out": points},
    ]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"jobs": jobs}))
    feedback = QgsProcessingFeedback(False)
    found = run("runjobfile", {"JOB_FILE": str(file)}, context, feedback)
    assert found == {"DONE": 2, "FAILED": 0}
    assert set(context.layersToLoadOnCompletion()) == {raster, points}
    assert (tmp_path / "p.qml").exists()
    assert "Job 2 of 2" in feedback.textLog()
    again = QgsProcessingFeedback(False)
    with pytest.raises(QgsProcessingException, match="already there"):
        run("runjobfile", {"JOB_FILE": str(file)}, context, again)


def test_one_failed_job_does_not_hide_the_results_of_others(context, engine, tmp_path):
    engine("fail")
    raster, points = str(tmp_path / "p.tif"), str(tmp_path / "s.gpkg")
    jobs = [
        {"command": "map", "checkpoint": MODEL, "raster": RASTERS, "out": raster},
        {"command": "sample", "checkpoint": MODEL, "raster": RASTERS, "out": points},
    ]
    file = tmp_path / "jobs.json"
    file.write_text(json.dumps({"jobs": jobs}))
    feedback = QgsProcessingFeedback(False)
    found = run("runjobfile", {"JOB_FILE": str(file)}, context, feedback)
    assert found == {"DONE": 1, "FAILED": 1}
    assert set(context.layersToLoadOnCompletion()) == {raster}
    assert "90 GB of memory" in feedback.textLog()


def test_values_by_expression_are_evaluated(context):
    parameters = training(SEED=QgsProperty.fromExpression("6 * 7"), OUTPUT="/tmp/m.safetensors")
    assert engine_job("train", parameters, context).values["seed"] == 42


def test_an_unknown_algorithm_is_refused(context):
    with pytest.raises(QgsProcessingException, match="no algorithm 'geocfm:fly'"):
        engine_job("geocfm:fly", {}, context)
