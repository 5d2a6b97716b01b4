"""The panel end to end: from the sample project to finished layers, driven by its widgets."""

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from fake_engine_fixture import fake_python
from panel_support import OpenPanel, wait_until
from qgis.core import (
    QgsApplication,
    QgsCoordinateReferenceSystem,
    QgsProject,
    QgsRasterRange,
)
from qgis.PyQt.QtWidgets import QAction, QApplication, QFileDialog, QPushButton, QScrollArea

from geocfm_qgis import settings
from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.options_page import OPTIONS_PAGE
from geocfm_qgis.panel import panel as module
from geocfm_qgis.panel import result_files
from geocfm_qgis.panel.footed_splitter import FootedSplitter
from geocfm_qgis.runs import history

EXAMPLE = str(resources_folder() / "checkpoints" / "murchison_gold.safetensors")
NARROW_PX, LOW_PX = 400, 900


@pytest.fixture
def open_panel(sample_project, tmp_path):
    opened = []

    def make(behaviour="succeed", **variables):
        python = fake_python(tmp_path / behaviour, behaviour, **variables) if behaviour else ""
        opened.append(OpenPanel(python, tmp_path / "results"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def top_group():
    return QgsProject.instance().layerTreeRoot().children()[0]


def state(opened, number):
    return opened.find(f"section{number}State").text()


def trigger(opened, name):
    opened.panel.menu.findChild(QAction, name).trigger()


def test_from_the_sample_to_a_group_of_layers(open_panel, tmp_path):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    assert "4 rasters" in state(opened, 1)
    assert state(opened, 2) == "255 of 255 points"
    assert state(opened, 3) == "train for 5 min"
    assert "Prospectivity raster" in state(opened, 4)
    opened.run()
    assert not opened.find("runView").isHidden()
    name = opened.queue.current.name
    assert name.startswith("gold deposits 20")
    opened.wait_until_ended()
    assert top_group().name() == name
    names = [layer.name() for layer in QgsProject.instance().mapLayers().values()]
    assert "Prospectivity" in names
    assert "Occurrences used" in names
    made = sorted(path for path in os.listdir(tmp_path / "results" / name) if path[0] != ".")
    for expected in ("evaluation", "model.safetensors", "prospectivity.tif", "samples.gpkg"):
        assert expected in made
    assert opened.find("endSentence").text().startswith("Finished in ")
    # the next run gets a name of its own, so Run is at once possible again
    opened.wait_until_checked()
    assert opened.panel.choices().results.name == f"{name} (2)"


def test_the_jobs_are_those_of_the_choices(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.find("minutesSpin").setValue(2)
    opened.find("drawsSpin").setValue(1)
    opened.find("evaluationCheck").setChecked(False)
    opened.find("nameEdit").setText("mine")
    opened.wait_until_checked()
    run = opened.panel.preflight.run
    assert [job.command for job in run.jobs] == ["train", "map", "targets", "sample"]
    assert run.jobs[0].values["minutes"] == 2
    assert run.jobs[3].values["draws"] == 1
    assert run.name == "mine"


def test_without_an_engine_all_is_visible_and_one_button_leads_to_it(open_panel):
    opened = open_panel(None)
    opened.tick_all()
    wait_until(lambda: False, 0.05)
    banner = opened.find("engineBanner")
    assert not banner.isHidden()
    assert "set up once" in opened.find("bannerText").text()
    assert all(section.isVisible() for section in opened.panel.sections)
    assert not opened.find("runButton").isEnabled()
    assert "no engine" in opened.find("runButton").toolTip()
    assert opened.panel.report.sentences() == []  # the banner has said it
    assert opened.find("engineDiagnosticsButton").isHidden()
    opened.find("setupButton").click()
    assert opened.iface.options_opened == [OPTIONS_PAGE]


def test_an_engine_that_was_set_up_is_taken_at_once(open_panel, tmp_path):
    opened = open_panel(None)
    opened.tick_all()
    settings.set_engine_python(fake_python(tmp_path / "new"))
    QApplication.instance().focusWindowChanged.emit(None)  # back from QGIS's options
    assert opened.find("engineBanner").isHidden()
    opened.wait_until_checked()
    assert opened.find("deviceCombo").findData("cuda:0") > 0


def test_an_engine_that_cannot_be_used_says_why(open_panel):
    opened = open_panel("missing")
    opened.tick_all()
    assert wait_until(lambda: not opened.find("engineBanner").isHidden())
    assert "torch" in opened.find("bannerText").text()
    assert not opened.find("runButton").isEnabled()
    opened.find("engineDiagnosticsButton").click()
    assert "torch" in QApplication.clipboard().text()


@pytest.mark.parametrize("missing", ["layers", "occurrences", "products", "model"])
def test_run_is_disabled_with_its_reason(open_panel, missing):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    if missing == "layers":
        opened.find("noneButton").click()
    elif missing == "occurrences":
        project = QgsProject.instance()
        project.removeMapLayer(project.mapLayersByName("gold deposits")[0].id())
    elif missing == "products":
        opened.panel.model.use_checkpoint(EXAMPLE)
        wait_until(lambda: False, 0.05)
        for key in ("prospectivity", "targets", "samples", "evaluation"):
            opened.find(f"{key}Check").setChecked(False)
    else:
        opened.find("loadRadio").setChecked(True)
    assert wait_until(lambda: not opened.find("runButton").isEnabled())
    assert opened.panel.preflight.report.problems
    assert opened.panel.report.sentences()[0] == opened.panel.preflight.report.problems[0]


def test_a_loaded_model_needs_neither_ticks_nor_occurrences(open_panel):
    opened = open_panel()
    project = QgsProject.instance()
    project.removeMapLayer(project.mapLayersByName("gold deposits")[0].id())
    opened.panel.model.use_checkpoint(EXAMPLE)
    opened.wait_until_checked()
    assert not opened.find("evaluationCheck").isEnabled()
    assert state(opened, 2) == "only needed to train or evaluate"
    opened.run()
    opened.wait_until_ended()
    assert top_group().name().startswith("murchison_gold 20")


def test_cancel_keeps_the_model_and_it_can_be_used(open_panel):
    opened = open_panel(GEOCFM_FAKE_SECONDS="0.1")
    opened.tick_all()
    before = len(QgsProject.instance().mapLayers())
    opened.run()
    assert wait_until(lambda: not opened.panel.run_view.curve.is_empty())
    opened.find("cancelButton").click()
    opened.wait_until_ended()
    assert len(QgsProject.instance().mapLayers()) == before
    opened.find("useModelButton").click()
    assert opened.find("loadRadio").isChecked()
    chosen = opened.panel.choices().model
    assert chosen.checkpoint.endswith("model.unfinished.safetensors")
    assert len(chosen.matches) == 4
    opened.wait_until_checked()


def test_a_failure_shows_the_engines_sentence_and_keeps_what_finished(open_panel, tmp_path):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    fake_python(tmp_path / "succeed", "fail")  # the same program behaves otherwise now
    opened.find("runButton").click()
    opened.wait_until_ended()
    said = opened.find("endSentence").text()
    assert "90 GB of memory" in said
    assert "--" not in said
    assert "Prospectivity" in [layer.name() for layer in QgsProject.instance().mapLayers().values()]
    assert wait_until(lambda: opened.iface.bar.currentItem() is not None)
    assert "90 GB" in opened.iface.bar.currentItem().text()
    assert history.runs(QgsProject.instance())[0].status == "failed"


def test_what_cannot_be_written_is_said_before_the_run(open_panel, tmp_path):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    in_the_way = tmp_path / "a file"
    in_the_way.write_text("mine")
    for folder in ("/proc/nowhere", str(in_the_way), str(in_the_way / "below")):
        opened.find("folderFile").setFilePath(folder)
        assert wait_until(lambda said=folder: said in " ".join(opened.panel.report.sentences()))
        assert not opened.find("runButton").isEnabled()
    opened.find("folderFile").setFilePath(str(tmp_path / "not yet" / "there"))
    opened.wait_until_checked()


def test_a_device_that_the_engine_does_not_have_is_said_before_the_run(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    assert wait_until(lambda: opened.find("deviceCombo").findData("cuda:0") > 0)
    chosen = opened.panel.choices()
    for device, is_there in (("cuda:7", False), ("cuda:0", True), ("auto", True)):
        opened.panel.set_choices(replace(chosen, model=replace(chosen.model, device=device)))
        found = [each for each in opened.panel.problems() if device in each]
        assert bool(found) != is_there


def test_layers_that_changed_without_a_word_are_checked_again(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    layer = QgsProject.instance().mapLayersByName("fault_density")[0]
    layer.blockSignals(True)
    layer.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    layer.blockSignals(False)
    opened.find("runButton").click()
    assert opened.queue.current is None
    assert opened.panel.preflight.report.status == "pending"
    opened.run()
    assert opened.queue.current is not None


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "a moment later"])
def test_results_lie_beside_the_project_as_it_is_saved_when_run_is_pressed(
    open_panel, tmp_path, at_once
):
    opened, project = open_panel(), QgsProject.instance()
    settings.set_results_folder("")
    places = [tmp_path / "old place", tmp_path / "new place"]
    for place in places:
        place.mkdir()
    assert project.write(str(places[0] / "gold.qgz"))
    opened.tick_all()
    opened.wait_until_checked()
    assert opened.panel.preflight.run.folder.startswith(str(places[0]))
    assert project.write(str(places[1] / "gold.qgz"))
    if at_once:
        opened.panel.start()  # before anything could be taken in
        assert opened.queue.current is None
    planned = opened.panel.preflight
    assert wait_until(lambda: planned.run and planned.run.folder.startswith(str(places[1])))
    opened.run()
    assert opened.queue.current.folder.startswith(str(places[1]))
    shown = opened.panel.results.folderFile.lineEdit().placeholderText()
    assert shown == str(places[1] / "geocfm")
    opened.wait_until_ended()
    assert not (places[0] / "geocfm").exists()
    (made,) = (places[1] / "geocfm").iterdir()
    assert (made / "prospectivity.tif").exists()
    assert history.runs(project)[0].folder == str(made)


def test_a_folder_for_results_chosen_in_the_options_is_taken_at_once(open_panel, tmp_path):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    settings.set_results_folder(str(tmp_path / "another"))
    opened.panel.start()
    assert opened.queue.current is None
    opened.run()
    assert opened.queue.current.folder.startswith(str(tmp_path / "another"))
    opened.wait_until_ended()
    settings.set_results_folder(str(tmp_path / "a third"))
    QApplication.instance().focusWindowChanged.emit(None)  # as when the options are closed
    shown = opened.panel.results.folderFile.lineEdit()
    assert wait_until(lambda: shown.placeholderText() == str(tmp_path / "a third"))
    assert opened.panel.choices().results.folder == str(tmp_path / "a third")


def test_replacing_is_said_of_one_run_only(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.find("nameEdit").setText("mine")
    opened.run()
    opened.wait_until_ended()
    assert opened.panel.choices().results.name == "mine (2)"
    opened.find("nameEdit").setText("mine")
    opened.find("overwriteCheck").setChecked(True)
    opened.run()
    assert opened.queue.current.choices["results"]["overwrite"]
    assert not opened.find("overwriteCheck").isChecked()
    opened.wait_until_ended()


def test_unfinished_work_of_other_choices_is_kept_under_its_name(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    first = opened.panel.choices().results
    work = Path(result_files.run_folder(first), ".model.safetensors.work")
    work.mkdir(parents=True)
    (work / "seed").write_text(str(opened.panel.choices().model.seed))
    opened.panel.refresh()
    opened.wait_until_checked()
    assert opened.panel.choices().results.name == first.name  # it goes on
    opened.find("seedSpin").setValue(7)
    opened.wait_until_checked()
    assert opened.panel.choices().results.name == f"{first.name} (2)"
    opened.find("seedSpin").setValue(int((work / "seed").read_text()))
    opened.wait_until_checked()
    assert opened.panel.choices().results.name == first.name
    opened.find("nameEdit").setText(first.name)
    opened.find("seedSpin").setValue(7)
    assert wait_until(lambda: opened.panel.preflight.report.meets_other_work)
    assert any("another name" in each for each in opened.panel.report.sentences())


def test_nothing_but_runs_is_a_task_of_qgis(open_panel):
    tasks = []
    manager = QgsApplication.taskManager()
    manager.taskAdded.connect(tasks.append)
    opened = open_panel()
    opened.tick_all()
    opened.wait_until_checked()
    assert tasks == []
    opened.run()
    assert len(tasks) == 1
    opened.wait_until_ended()
    manager.taskAdded.disconnect(tasks.append)


def test_further_runs_are_queued(open_panel):
    opened = open_panel(GEOCFM_FAKE_SECONDS="0.02")
    opened.tick_all()
    opened.run()
    first = opened.queue.current.name
    assert wait_until(lambda: opened.find("runButton").text() == "Run after this one")
    opened.find("windowSpin").setValue(64)
    opened.run()
    assert "checked when its turn comes" in opened.find("summaryLabel").text()
    assert [run.name for run in opened.queue.waiting] == [f"{first} (2)"]
    assert wait_until(lambda: opened.queue.current is None and not opened.queue.waiting, 40)
    assert [each.name for each in history.runs(QgsProject.instance())] == [f"{first} (2)", first]


def test_closing_the_panel_stops_nothing(open_panel):
    opened = open_panel(GEOCFM_FAKE_SECONDS="0.03")
    opened.tick_all()
    opened.run()
    name = opened.queue.current.name
    opened.panel.close()
    assert opened.panel.isHidden()
    assert opened.queue.current is not None
    opened.panel.show()
    assert not opened.find("runView").isHidden()
    assert opened.find("titleLabel").text() == name
    opened.panel.close()
    opened.wait_until_ended()
    assert top_group().name() == name
    opened.panel.keeper.show_panel.emit()
    assert opened.panel.isVisible()


def test_choices_are_saved_with_the_project(open_panel, tmp_path):
    opened = open_panel()
    opened.tick_all()
    opened.find("minutesSpin").setValue(42)
    opened.find("samplesCheck").setChecked(False)
    opened.find("nameEdit").setText("kept")
    wait_until(lambda: False, 0.05)
    before = opened.panel.choices()
    project = QgsProject.instance()
    path = str(tmp_path / "project.qgz")
    assert project.write(path)
    project.clear()
    wait_until(lambda: False, 0.05)
    cleared = opened.panel.choices()
    assert cleared.model.minutes == 5
    assert cleared.layers.channels == ()
    assert cleared.results.name != "kept"
    assert project.read(path)
    wait_until(lambda: False, 0.05)
    assert opened.panel.choices() == before


def test_an_earlier_run_is_repeated_from_the_history(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.find("minutesSpin").setValue(3)
    opened.find("nameEdit").setText("mine")
    opened.run()
    opened.wait_until_ended()
    opened.find("minutesSpin").setValue(9)
    opened.find("noneButton").click()
    trigger(opened, "historyAction")
    view = opened.find("historyView")
    assert view.list.topLevelItemCount() == 1
    assert view.record().name == "mine"
    view.copy_button.click()
    assert QApplication.clipboard().text().startswith("[[jobs]]")
    view.repeat_button.click()
    chosen = opened.panel.choices()
    assert chosen.model.minutes == 3
    assert len(chosen.layers.channels) == 4
    assert chosen.results.name == "mine (2)"
    opened.wait_until_checked()
    view.forget_button.click()
    assert view.list.topLevelItemCount() == 0
    assert not view.repeat_button.isEnabled()


def test_the_same_run_elsewhere(open_panel, tmp_path, monkeypatch):
    opened = open_panel()
    opened.tick_all()
    wait_until(lambda: False, 0.05)
    trigger(opened, "copyCommandLineAction")
    lines = QApplication.clipboard().text().splitlines()
    commands = [shlex.split(line)[:2] for line in lines]
    expected = ("train", "map", "targets", "sample", "evaluate")
    assert commands == [["geocfm", each] for each in expected]
    trigger(opened, "copyJobFileAction")
    assert QApplication.clipboard().text().count("[[jobs]]") == len(expected)
    path = str(tmp_path / "server" / "jobs.toml")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *given: (path, ""))
    trigger(opened, "saveJobFileAction")
    assert "[[jobs]]" in Path(path).read_text(encoding="utf-8")
    assert path in opened.iface.bar.currentItem().text()
    opened.find("noneButton").click()
    QApplication.clipboard().setText("")
    trigger(opened, "copyCommandLineAction")
    assert QApplication.clipboard().text() == ""  # what is wrong is said instead
    assert "tick" in opened.iface.bar.currentItem().text().lower()


def test_the_same_training_elsewhere_has_the_searched_ground(open_panel):
    opened = open_panel()
    opened.tick_all()
    for choose, told in (
        (lambda: opened.find("groundCombo").setCurrentIndex(2), ("region", False)),
        (lambda: opened.find("positiveOnlyCheck").click(), ("window", True)),
    ):
        choose()
        wait_until(lambda: False, 0.05)
        trigger(opened, "copyCommandLineAction")
        words = shlex.split(QApplication.clipboard().text().splitlines()[0])
        said = words[words.index("--ground") + 1], "--positive-only" in words
        trigger(opened, "copyJobFileAction")
        training = QApplication.clipboard().text().split("[[jobs]]")[1].splitlines()
        assert said == told
        assert f'ground = "{told[0]}"' in training
        assert ("positive_only = true" in training) == told[1]


def test_copied_jobs_name_files_that_are_there(open_panel):
    opened = open_panel()
    opened.tick_all()
    QgsProject.instance().mapLayersByName("gold deposits")[0].selectByIds([1, 2, 3])
    opened.find("selectedCheck").setChecked(True)
    wait_until(lambda: False, 0.05)
    trigger(opened, "copyCommandLineAction")
    words = shlex.split(QApplication.clipboard().text().splitlines()[0])
    assert os.path.isfile(words[words.index("--occurrences") + 1])
    message = opened.iface.bar.currentItem()
    assert "temporary" in message.text()
    assert [each.text() for each in message.findChildren(QPushButton)] == ["Save job file…"]


def test_layers_to_export_are_saved_rather_than_copied(open_panel, tmp_path, monkeypatch):
    opened = open_panel()
    layer = QgsProject.instance().mapLayersByName("fault_density")[0]
    layer.dataProvider().setUserNoDataValue(1, [QgsRasterRange(0.0, 0.001)])
    opened.tick_all()
    wait_until(lambda: False, 0.05)
    QApplication.clipboard().setText("")
    trigger(opened, "copyJobFileAction")
    assert QApplication.clipboard().text() == ""
    path = tmp_path / "jobs.toml"
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *given: (str(path), ""))
    opened.iface.bar.currentItem().findChildren(QPushButton)[0].click()
    assert "jobs_inputs/fault_density.tif" in path.read_text(encoding="utf-8")
    assert (tmp_path / "jobs_inputs" / "fault_density.tif").exists()


def test_sample_data_and_help_are_asked_for(open_panel):
    opened = open_panel()
    heard = []
    opened.panel.sample_asked.connect(lambda: heard.append("sample"))
    opened.panel.help_asked.connect(lambda: heard.append("help"))
    trigger(opened, "sampleDataAction")
    trigger(opened, "helpAction")
    assert heard == ["sample", "help"]


def test_a_step_is_folded_by_its_header(open_panel):
    opened = open_panel()
    section = opened.panel.sections[0]
    opened.find("section1Button").click()
    assert not section.is_open()
    assert not opened.panel.layers.isVisible()
    opened.find("section1Button").click()
    assert section.is_open()


def test_it_fits_a_narrow_and_low_dock(open_panel):
    opened = open_panel()
    opened.tick_all()
    opened.run()
    opened.wait_until_ended()
    panel = opened.panel
    panel.resize(NARROW_PX, LOW_PX)
    wait_until(lambda: False, 0.1)
    assert (panel.width(), panel.height()) == (NARROW_PX, LOW_PX)
    area = opened.find("stepsArea")
    assert area.widget().width() <= area.viewport().width()
    assert area.height() >= 0.44 * LOW_PX
    for inner in panel.findChildren(QScrollArea):
        if inner.isVisible() and inner is not area and inner.widget() is panel.run_view:
            assert inner.widget().width() <= inner.viewport().width()
            assert inner.verticalScrollBar().maximum() == 0  # the heading of the log is seen
    splitter = panel.findChild(FootedSplitter)
    heights = splitter.sizes()
    splitter.moveSplitter(200, 1)
    wait_until(lambda: False, 0.1)
    assert splitter.sizes()[0] < heights[0]
    panel.resize(NARROW_PX, LOW_PX + 50)
    wait_until(lambda: False, 0.1)
    assert abs(splitter.sizes()[0] - 200) <= 50  # as the user wants it


def test_the_names_that_are_promised_exist(open_panel):
    opened = open_panel()
    promised = [name.strip(" .;,\n") for name in module.__doc__.replace(";", ",").split(",")]
    names = {name.rpartition(" ")[2] for name in promised}
    for name in ("trainRadio", "checkpointFile", "minutesSpin", "runButton", "cancelButton"):
        assert name in names
        opened.find(name)


def test_the_panel_leaves_nothing_behind(open_panel, tmp_path):
    opened = open_panel()
    opened.tick_all()
    opened.close()
    assert opened.panel not in module._panels
    project = QgsProject.instance()
    project.clear()
    assert project.write(str(tmp_path / "after.qgz"))
    wait_until(lambda: False, 1.2)  # no timer of the panel goes off any more
