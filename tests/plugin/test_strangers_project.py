"""A project that somebody else has made: its history starts nothing and reaches nobody."""

import json
import os

import pytest
from fake_engine_fixture import fake_python
from panel_support import OpenPanel
from qgis.core import QgsProject
from qgis.PyQt.QtWidgets import QApplication, QFileDialog
from small_results import write_map

from geocfm_qgis import settings
from geocfm_qgis.panel import choice_store, result_files
from geocfm_qgis.panel.choices import Choices, ResultChoices
from geocfm_qgis.panel.history_view import HistoryView
from geocfm_qgis.results import opening
from geocfm_qgis.runs import history
from geocfm_qgis.runs.own_files import is_far, is_plain_folder

BUTTONS = ("repeat", "layers", "model", "export", "report", "folder", "copy")


@pytest.fixture
def project(qgis_new_project):
    return QgsProject.instance()


@pytest.fixture
def opened(monkeypatch):
    """What the computer is asked to open."""
    asked = []
    monkeypatch.setattr(opening.QDesktopServices, "openUrl", lambda url: asked.append(url))
    return asked


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "Gold"
    made.mkdir()
    return made


def tell(project, **values):
    """Put one run into the history as a project from elsewhere may have it; give the view."""
    record = {"name": "Gold", "time": "2026-01-01T00:00:00+00:00", "status": "done", **values}
    project.writeEntry(history.SCOPE, history.KEY, json.dumps([record]))
    return HistoryView(project)


def artifact(kind, path):
    return {"kind": kind, "path": str(path)}


def press_all(view):
    """Press each button, also those that are disabled: what they do must not depend on that."""
    for name in ("report", "folder"):
        button = getattr(view, f"{name}_button")
        button.setEnabled(True)
        button.click()


@pytest.mark.parametrize(
    "path",
    [
        "{folder}/../evil.html",
        "{folder}/evil.desktop",
        "{folder}/evil.exe",
        "{folder}/evil.html.bat",
        "{folder}/folder.html",
        "{folder}/link.html",
        "{folder}/program.html",
        "{folder}/missing.html",
        "evil.html",
        "https://example.org/evil.html",
        "file://{folder}/report.html",
        "//evil/share/report.html",
        r"\\evil\share\report.html",
        "",
    ],
)
def test_no_report_but_a_page_in_the_runs_own_folder_is_opened(
    project, opened, folder, tmp_path, monkeypatch, path
):
    monkeypatch.chdir(tmp_path)
    (folder / "report.html").write_text("<html></html>")
    (folder / "folder.html").mkdir()
    for name in ("Gold/evil.desktop", "Gold/evil.exe", "Gold/evil.html.bat", "evil.html"):
        (tmp_path / name).write_text("#!/bin/sh")
        (tmp_path / name).chmod(0o755)
    (folder / "link.html").symlink_to(tmp_path / "evil.html")
    (folder / "program.html").symlink_to(folder / "evil.exe")
    path = path.format(folder=folder)
    view = tell(project, folder=str(folder), artifacts=[artifact("report", path)])
    assert not view.report_button.isEnabled()
    press_all(view)
    assert [url.toLocalFile() for url in opened] == [str(folder)]
    # where it is its own report, it is opened
    view = tell(project, folder=str(folder), artifacts=[artifact("report", folder / "report.html")])
    view.report_button.click()
    assert opened[-1].toLocalFile() == str(folder / "report.html")


@pytest.mark.parametrize(
    "place", ["", "Gold/model.safetensors", "Game.app", "Bundle", "link", "//evil/share", "missing"]
)
def test_no_folder_is_opened_that_is_a_program_or_elsewhere(
    project, opened, folder, tmp_path, place
):
    (folder / "model.safetensors").write_bytes(b"")
    (tmp_path / "Game.app").mkdir()
    (tmp_path / "Bundle" / "Contents").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "Game.app")
    where = place if place.startswith("//") else str(tmp_path / place) if place else ""
    view = tell(project, folder=where)
    assert not view.folder_button.isEnabled()
    press_all(view)
    assert opened == []
    assert is_plain_folder(str(folder))


def test_only_layers_and_models_of_the_runs_own_folder_are_used(project, folder, tmp_path):
    elsewhere = write_map(tmp_path / "secret.tif", [0.5, 1, 2, 3], 2)
    (tmp_path / "model.safetensors").write_bytes(b"model")
    (folder / "p.tif").symlink_to(elsewhere)
    maps = [artifact("prospectivity", path) for path in (elsewhere, folder / "p.tif")]
    model = str(tmp_path / "model.safetensors")
    view = tell(project, folder=str(folder), artifacts=maps, model=model)
    told = []
    view.use_model.connect(told.append)
    for name in ("layers", "model", "export"):
        assert not getattr(view, f"{name}_button").isEnabled(), name
    view.layers_button.setEnabled(True)
    view.layers_button.click()
    assert project.mapLayers() == {}
    assert told == []


def test_no_other_computer_is_asked(project, monkeypatch):
    share = r"\\evil\share\Gold"
    asked = []
    for name in ("exists", "isfile", "isdir", "realpath"):
        real = getattr(os.path, name)
        monkeypatch.setattr(
            os.path, name, lambda path, *more, real=real: asked.append(path) or real(path, *more)
        )
    artifacts = [artifact("report", rf"{share}\r.html"), artifact("prospectivity", f"{share}/p")]
    tell(project, folder=share, artifacts=artifacts, model=f"{share}/m.safetensors")
    assert [path for path in asked if "evil" in str(path)] == []


def test_a_share_that_keeps_the_results_is_not_far(project):
    assert is_far(r"\\server\data\Gold", project)
    assert not is_far("/data/Gold", project)
    assert not is_far(r"D:\Gold", project)
    settings.set_results_folder(r"\\Server\Data\results")
    assert not is_far(r"\\server\data\Gold", project)
    assert is_far(r"\\server\other\Gold", project)


def test_names_and_times_are_only_shown(project, folder, monkeypatch):
    path = write_map(folder / "p.tif", [0.5, 1, 2, 3], 2)
    proposed = []
    monkeypatch.setattr(
        QFileDialog, "getSaveFileName", lambda *words: proposed.append(words[2]) or ("", "")
    )
    view = tell(
        project,
        name="../../etc/cron.d/x",
        time="0001-01-01T00:00:00+14:00",
        folder=str(folder),
        artifacts=[artifact("prospectivity", path)],
        job="[[jobs]]\x1b]0;x\x07\x7f\ncommand = 'map'\u202e\n",
    )
    view.export_button.click()
    assert os.path.dirname(proposed[0]) == os.path.expanduser("~")
    view.copy_button.click()
    assert QApplication.clipboard().text() == "[[jobs]]]0;x\ncommand = 'map'\n"


@pytest.mark.parametrize("choices", [{"layers": 3}, {"results": {"products": [1]}}, {"model": []}])
def test_choices_that_are_none_are_said(project, choices):
    view = tell(project, choices=choices)
    told = []
    view.repeat.connect(told.append)
    view.repeat_button.click()
    assert told == []
    assert "cannot be repeated" in view.said.text()


def test_a_project_does_not_open_with_replacing_ticked(sample_project, tmp_path):
    folder = tmp_path / "results" / "Gold"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"years of work")
    results = ResultChoices("Gold", str(folder.parent), overwrite=True)
    choice_store.save_choices(sample_project, Choices(results=results))
    opened = OpenPanel(fake_python(tmp_path / "engine", "succeed"), tmp_path / "results")
    assert opened.panel.choices().results.name == "Gold"
    assert not opened.panel.choices().results.overwrite
    opened.close()


def test_a_project_does_not_open_with_results_on_a_strangers_computer(sample_project):
    results = ResultChoices("Gold", r"\\evil\share")
    choice_store.save_choices(sample_project, Choices(results=results))
    chosen = choice_store.load_choices(sample_project)
    assert chosen.results.folder == "."
    assert result_files.default_folder(sample_project)
