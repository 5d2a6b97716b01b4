"""The runs of a project: remembered with it, and ready to be repeated."""

import json

import pytest
from qgis.core import QgsProject
from small_results import VERSIONS, make_run, outcome_of, training_job

from geocfm_qgis.panel.choices import Choices, ModelChoices
from geocfm_qgis.runs import history

CHOICES = Choices(model=ModelChoices(minutes=7.5, seed=3))


@pytest.fixture
def project(qgis_new_project):
    return QgsProject.instance()


def gold_run(name="Gold"):
    job = training_job("/data/gold.gpkg", out="/results/model.safetensors")
    return make_run(name, jobs=(job,), choices=CHOICES.to_dict())


def done():
    return outcome_of(("train", "done", "checkpoint", "/results/model.safetensors"))


def test_a_run_is_remembered_with_all_that_it_takes_to_repeat_it(project):
    made = history.record(project, gold_run(), done())
    (found,) = history.runs(project)
    assert found == made
    assert (found.name, found.status, found.message) == ("Gold", "done", "")
    assert found.artifacts == ({"kind": "checkpoint", "path": "/results/model.safetensors"},)
    assert 'command = "train"' in found.job
    assert found.versions == VERSIONS
    assert found.time[:2] == "20"
    assert Choices.from_dict(found.choices) == CHOICES


def test_a_failed_run_keeps_its_sentence_and_none_of_its_files(project):
    outcome = outcome_of(
        ("map", "failed", "prospectivity", "/results/map.tif"),
        status="failed",
        message="A layer is missing.",
    )
    history.record(project, gold_run(), outcome)
    (found,) = history.runs(project)
    assert (found.status, found.message) == ("failed", "A layer is missing.")
    assert found.artifacts == ()


def test_the_newest_come_first_and_their_number_is_bounded(project):
    for number in range(history.MOST_RUNS + 3):
        history.record(project, gold_run(f"run {number}"), done())
    names = [each.name for each in history.runs(project)]
    assert len(names) == history.MOST_RUNS
    assert names[:2] == [f"run {history.MOST_RUNS + 2}", f"run {history.MOST_RUNS + 1}"]


def test_the_history_is_saved_with_the_project(project, tmp_path):
    project.setDirty(False)
    made = history.record(project, gold_run('Größe & <Gold> "1"'), done())
    assert project.isDirty()
    assert project.write(str(tmp_path / "project.qgz"))
    project.clear()
    assert history.runs(project) == []
    assert project.read(str(tmp_path / "project.qgz"))
    assert history.runs(project) == [made]


def test_a_run_can_be_forgotten(project):
    history.record(project, gold_run("one"), done())
    two = history.record(project, gold_run("two"), done())
    project.setDirty(False)
    history.forget(project, two)
    assert [each.name for each in history.runs(project)] == ["one"]
    assert project.isDirty()
    history.forget(project, two)
    assert len(history.runs(project)) == 1


@pytest.mark.parametrize("text", ["", "{", "null", "3", '{"name": "x"}', "[" * 100_000])
def test_a_damaged_history_is_an_empty_one(project, text):
    project.writeEntry(history.SCOPE, history.KEY, text)
    assert history.runs(project) == []
    history.record(project, gold_run(), done())
    assert len(history.runs(project)) == 1


def test_damaged_entries_are_passed_over(project):
    good = {"name": "good", "time": "2026-01-01T00:00:00+00:00", "status": "done", "new": 1}
    entries = [
        7,
        {},
        {**good, "name": 5},
        {**good, "choices": []},
        {**good, "artifacts": [3, {"path": "x"}, {"kind": "log", "path": "y"}]},
    ]
    project.writeEntry(history.SCOPE, history.KEY, json.dumps(entries))
    (found,) = history.runs(project)
    assert found.name == "good"
    assert found.artifacts == ({"kind": "log", "path": "y"},)
