"""The list of earlier runs: what can be done with each."""

import os

import pytest
from qgis.core import QgsProject, QgsRasterLayer
from qgis.PyQt.QtWidgets import QApplication
from small_results import make_run, outcome_of, training_job, write_map, write_points, write_samples

from geocfm_qgis.jobs import EngineJob
from geocfm_qgis.panel.history_view import HistoryView
from geocfm_qgis.results import opening
from geocfm_qgis.runs import history


@pytest.fixture
def project(qgis_new_project):
    return QgsProject.instance()


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "Gold"
    made.mkdir()
    return made


@pytest.fixture
def gold(project, folder):
    """The record of a run that trained, mapped and sampled."""
    model = str(folder / "model.safetensors")
    (folder / "model.safetensors").write_bytes(b"model")
    points = write_points(folder / "model_occurrences.gpkg", [(500100, 6999000)], fields=())
    jobs = (EngineJob("train", {"out": model}), EngineJob("map"), EngineJob("sample"))
    outcome = outcome_of(
        ("train", "done", "checkpoint", model),
        ("train", "done", "occurrences", points),
        ("map", "done", "earlier", write_map(folder / "map.tif", [0.5, 1, 2, 3], 2)),
        ("sample", "done", "samples", write_samples(folder / "samples.gpkg", draws=1)),
    )
    return history.record(project, make_run("Gold", jobs=jobs, folder=str(folder)), outcome)


def test_results_that_were_removed_are_shown_again(project, gold):
    view = HistoryView(project)
    view.layers_button.click()
    group = project.layerTreeRoot().children()[0]
    assert group.name() == "Gold"
    shown = {node.layer().name(): node.layer() for node in group.findLayers()}
    assert set(shown) == {"Occurrences used", "Sampled points", "Prospectivity"}
    assert all(layer.isValid() for layer in shown.values())
    assert isinstance(shown["Prospectivity"], QgsRasterLayer)
    assert view.said.text() == "The results are the topmost group of layers."


def test_its_model_can_be_used_and_its_map_exported(project, gold, folder, tmp_path):
    view = HistoryView(project)
    told = []
    view.use_model.connect(told.append)
    view.model_button.click()
    assert told == [str(folder / "model.safetensors")]
    view.export_to(str(tmp_path / "copy.tif"))
    assert (tmp_path / "copy.tif").read_bytes() == (folder / "map.tif").read_bytes()
    assert str(tmp_path / "copy.tif") in view.said.text()
    assert view.folder_button.isEnabled()


def test_its_report_can_be_read_as_long_as_it_is_there(project, folder, monkeypatch):
    opened = []
    monkeypatch.setattr(
        opening.QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile())
    )
    report = folder / "model.report.html"
    report.write_text("<html></html>")
    outcome = outcome_of(("train", "done", "report", str(report)))
    history.record(project, make_run("Gold", folder=str(folder)), outcome)
    view = HistoryView(project)
    view.report_button.click()
    assert opened == [str(report)]
    report.unlink()
    view.refresh()
    assert not view.report_button.isEnabled()


def test_only_what_is_there_is_offered(project, gold, folder):
    for name in os.listdir(folder):
        (folder / name).unlink()
    folder.rmdir()
    view = HistoryView(project)
    for button in (view.layers_button, view.model_button, view.export_button, view.folder_button):
        assert not button.isEnabled(), button.text()
    for button in (view.repeat_button, view.copy_button, view.forget_button):
        assert button.isEnabled(), button.text()


def test_it_follows_the_project(project, gold, tmp_path):
    assert project.write(str(tmp_path / "project.qgz"))
    view = HistoryView(project)
    assert view.list.topLevelItemCount() == 1
    project.clear()
    assert view.list.topLevelItemCount() == 0
    assert not view.repeat_button.isEnabled()
    assert project.read(str(tmp_path / "project.qgz"))
    assert view.list.topLevelItemCount() == 1


def test_why_a_run_failed_is_said(project):
    outcome = outcome_of(
        ("map", "failed", "log", "x"), status="failed", message="A layer is missing."
    )
    history.record(project, make_run("Gold"), outcome)
    assert HistoryView(project).said.text() == "A layer is missing."


def _temporary_job(tmp_path):
    points, grid = tmp_path / "temp" / "occurrences.gpkg", tmp_path / "temp" / "mag.tif"
    points.parent.mkdir()
    points.write_bytes(b"points")
    grid.write_bytes(b"grid")
    values = {"raster": [f"mag={grid}:2", "k=/data/k.tif:1"], "out": "/results/m.safetensors"}
    job = training_job(str(points), **values)
    return EngineJob(job.command, job.values, temporary=(str(points), str(grid)))


def test_the_job_file_names_inputs_that_stay(project, folder, tmp_path):
    job = _temporary_job(tmp_path)
    outcome = outcome_of(("train", "done", "checkpoint", "/results/m.safetensors"))
    for _ in range(2):  # the same inputs are kept once
        history.record(project, make_run("Gold", jobs=(job,), folder=str(folder)), outcome)
    HistoryView(project).copy_button.click()
    text = QApplication.clipboard().text()
    assert str(tmp_path / "temp") not in text
    assert f'occurrences = "{folder}/inputs/occurrences.gpkg"' in text
    assert f'raster = ["mag={folder}/inputs/mag.tif:2", "k=/data/k.tif:1"]' in text
    kept = {name: (folder / "inputs" / name).read_bytes() for name in os.listdir(folder / "inputs")}
    assert kept == {"occurrences.gpkg": b"points", "mag.tif": b"grid"}


def test_the_job_file_says_which_inputs_do_not_stay(project, folder, tmp_path):
    job = _temporary_job(tmp_path)
    outcome = outcome_of(("train", "done", "checkpoint", "/results/m.safetensors"))
    run = make_run("Gold", jobs=(job,), folder=str(folder), temporary=True)
    made = history.record(project, run, outcome)
    assert made.job.startswith(
        "# These inputs are temporary files, gone when QGIS closes: occurrences.gpkg, mag.tif\n"
    )
    assert not (folder / "inputs").exists()
