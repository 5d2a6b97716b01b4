"""The run at work: stage, loss, time, the queue, the log, and how it ended."""

import pytest
from fake_engine_fixture import fake_python
from panel_support import Iface, wait_until
from qgis.core import QgsCoordinateReferenceSystem, QgsProject
from qgis.PyQt.QtGui import QPalette
from qgis.PyQt.QtWidgets import QApplication, QPushButton, QWidget

from geocfm_qgis import settings
from geocfm_qgis.engine_client import Progress
from geocfm_qgis.jobs.engine_job import EngineJob
from geocfm_qgis.panel.durations import duration_text
from geocfm_qgis.panel.loss_curve import MOST_POINTS, VALIDATION, LossCurve, stretches
from geocfm_qgis.panel.run_keeper import RunKeeper
from geocfm_qgis.panel.run_view import RunView
from geocfm_qgis.results import opening
from geocfm_qgis.runs import Run, history
from geocfm_qgis.runs.run_queue import RunQueue


class Watched:
    """A run view on a queue, without the rest of the panel."""

    def __init__(self, project, folder, behaviour="succeed", **variables):
        settings.set_engine_python(fake_python(folder / behaviour, behaviour, **variables))
        self.folder = folder
        self.iface = Iface()
        self.queue = RunQueue()
        self.keeper = RunKeeper(self.queue, project, self.iface)
        self.view = RunView(self.queue, self.keeper, self.iface)
        self.kept = []
        self.keeper.kept.connect(lambda *told: self.kept.append(told))

    def add(self, name="a run", exports=()):
        folder = self.folder / name
        model = str(folder / "model.safetensors")
        jobs = (
            EngineJob("train", {"out": model}, "Model", exports),
            EngineJob("map", {"checkpoint": model, "out": str(folder / "map.tif")}, "Map"),
        )
        self.queue.add(Run(name, jobs, str(folder)))

    def button(self, name):
        return self.view.findChild(QWidget, name)

    def message(self):
        """Give the message on top, after QGIS has said its own."""
        wait_until(lambda: False, 0.02)
        return self.iface.bar.currentItem()

    def press(self, text):
        """Press a button of the message on top."""
        buttons = self.message().findChildren(QPushButton)
        next(each for each in buttons if each.text() == text).click()

    def wait_until_ended(self, count=1):
        assert wait_until(lambda: len(self.kept) == count)


@pytest.fixture
def watch(qgis_new_project, tmp_path):
    made = []

    def make(behaviour="succeed", **variables):
        made.append(Watched(QgsProject.instance(), tmp_path, behaviour, **variables))
        return made[-1]

    yield make
    for each in made:
        each.queue.shutdown()


def test_it_is_hidden_until_there_is_something_to_tell(watch):
    assert watch().view.isHidden()


def test_a_run_is_followed_to_its_end(watch):
    watched = watch(GEOCFM_FAKE_SECONDS="0.03")
    watched.add()
    view = watched.view
    assert not view.isHidden()
    assert view.titleLabel.text() == "a run"
    assert not view.workBox.isHidden()
    assert view.endSentence.isHidden()
    assert wait_until(lambda: "Training" in view.stageLabel.text())
    assert view.stageLabel.text() == "Step 1 of 2: Model · Training"
    assert not view.curveBox.isHidden()
    assert not view.curveBox.isCollapsed()
    assert not view.cancelHint.isHidden()
    assert wait_until(lambda: view.timeLabel.text() == "this step: 0 s left")
    assert view.progressBar.value() <= 500  # the model is half of the run
    assert wait_until(lambda: "Mapping" in view.stageLabel.text())
    assert view.progressBar.value() >= 500
    assert view.cancelHint.isHidden()
    watched.wait_until_ended()
    assert view.workBox.isHidden()
    assert view.curveBox.isCollapsed()
    assert view.endSentence.text().startswith("Finished in ")
    assert len(view.curve.training) == 10
    assert len(view.curve.validation) == 10
    assert view.curve.training[0] == (10.0, 2.0)
    assert "Wrote" in view.log()
    assert "Job 2 of 2: Map" in view.log()
    view.copyLogButton.click()
    assert QApplication.clipboard().text() == view.log()
    view.dismissButton.click()
    assert view.isHidden()


def test_the_report_is_a_button_of_the_message_and_of_the_panel(watch, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        opening.QDesktopServices, "openUrl", lambda url: opened.append(url.toLocalFile())
    )
    watched = watch()
    watched.add()
    watched.wait_until_ended()
    watched.press("Open report")
    watched.button("reportButton").click()
    assert opened == [str(tmp_path / "a run" / "model.report.html")] * 2
    assert watched.button("evaluationButton") is None


def test_finished_layers_come_into_the_project_and_the_run_into_its_history(watch):
    watched = watch()
    watched.add()
    watched.wait_until_ended()
    project = QgsProject.instance()
    assert project.layerTreeRoot().children()[0].name() == "a run"
    assert {layer.id() for layer in watched.kept[0][2]} == set(project.mapLayers())
    assert [(each.name, each.status) for each in history.runs(project)] == [("a run", "done")]
    for name in ("zoomButton", "openFolderButton", "exportButton"):
        assert watched.button(name) is not None
    before = watched.iface.canvas.extent()
    watched.iface.canvas.setDestinationCrs(watched.kept[0][2][0].crs())
    watched.button("zoomButton").click()
    after = watched.iface.canvas.extent()
    assert after != before
    assert after.contains(watched.kept[0][2][0].extent())
    assert "finished" in watched.message().text()


def test_cancel_keeps_the_best_model_and_offers_it(watch):
    watched = watch(GEOCFM_FAKE_SECONDS="0.2")
    used = []
    watched.view.use_model.connect(used.append)
    watched.add()
    assert wait_until(lambda: not watched.view.curve.is_empty())
    watched.view.cancelButton.click()
    assert not watched.view.cancelButton.isEnabled()
    watched.wait_until_ended()
    assert "The best model so far is kept" in watched.view.endSentence.text()
    assert watched.button("zoomButton") is None
    assert QgsProject.instance().mapLayers() == {}
    watched.button("useModelButton").click()
    assert used == [str(watched.folder / "a run" / "model.unfinished.safetensors")]
    assert history.runs(QgsProject.instance())[0].status == "cancelled"


def test_a_failure_shows_the_engines_sentence(watch):
    watched = watch("fail")
    watched.add()
    watched.wait_until_ended()
    said = watched.view.endSentence.text()
    assert "90 GB of memory" in said
    assert "a smaller “Window”" in said
    assert watched.button("diagnosticsButton") is None
    used = []
    watched.view.use_model.connect(used.append)
    watched.button("useModelButton").click()  # the training was done
    assert used == [str(watched.folder / "a run" / "model.safetensors")]
    assert "90 GB of memory" in watched.message().text()


def test_an_error_of_ours_offers_diagnostics(watch):
    watched = watch("broken")
    watched.add()
    watched.wait_until_ended()
    watched.button("diagnosticsButton").click()
    assert "KeyError" in QApplication.clipboard().text()


def test_runs_wait_their_turn_and_can_be_taken_out(watch):
    watched = watch(GEOCFM_FAKE_SECONDS="0.02")
    for name in ("first", "second", "third"):
        watched.add(name)
    removes = watched.view.findChildren(QWidget, "removeWaitingButton")
    assert len(removes) == 2
    assert watched.view.titleLabel.text() == "first"
    removes[0].click()
    assert [run.name for run in watched.queue.waiting] == ["third"]
    assert watched.view.titleLabel.text() == "first"  # nothing has ended
    watched.wait_until_ended(2)
    assert [told[0].name for told in watched.kept] == ["first", "third"]
    assert watched.view.titleLabel.text() == "third"


def test_a_view_made_later_shows_the_run_at_work(watch):
    watched = watch("dawdle")
    watched.add()
    later = RunView(watched.queue, watched.keeper, watched.iface)
    assert not later.isHidden()
    assert later.titleLabel.text() == "a run"


def test_results_of_a_project_that_was_closed_stay_out_of_the_next(watch):
    watched = watch(GEOCFM_FAKE_SECONDS="0.02")
    watched.add()
    QgsProject.instance().clear()
    watched.wait_until_ended()
    assert QgsProject.instance().mapLayers() == {}
    assert history.runs(QgsProject.instance()) == []
    assert str(watched.folder) in watched.message().text()


def test_results_come_into_their_project_when_it_was_opened_anew(watch, tmp_path):
    watched = watch(GEOCFM_FAKE_SECONDS="0.02")
    project = QgsProject.instance()
    watched.add()
    watched.add("second")
    path = str(tmp_path / "mine.qgz")
    assert project.write(path)
    project.clear()
    assert project.read(path)
    watched.wait_until_ended(2)
    names = [node.name() for node in project.layerTreeRoot().children()]
    assert names == ["second", "a run"]


def test_results_of_another_project_can_be_added_to_this_one(watch):
    watched = watch(GEOCFM_FAKE_SECONDS="0.02")
    watched.add()
    project = QgsProject.instance()
    project.clear()
    watched.wait_until_ended()
    assert project.mapLayers() == {}
    watched.press("Add to this project")
    watched.press("Add to this project")
    assert project.layerTreeRoot().children()[0].name() == "a run"
    assert len(history.runs(project)) == 1
    assert watched.button("zoomButton") is not None


def test_the_message_comes_after_qgis_own_and_has_what_one_wants_then(watch):
    watched = watch()
    watched.keeper.kept.connect(lambda *_: watched.iface.bar.pushMessage("Task complete"))
    watched.add()
    watched.wait_until_ended()
    texts = [each.text() for each in watched.message().findChildren(QPushButton)]
    assert texts == ["Zoom to result", "Open report", "Open folder", "Show"]
    watched.iface.canvas.setDestinationCrs(watched.kept[0][2][0].crs())
    watched.press("Zoom to result")
    assert watched.iface.canvas.extent().contains(watched.kept[0][2][0].extent())
    shown = []
    watched.keeper.show_panel.connect(lambda: shown.append(True))
    watched.press("Show")
    assert shown


def test_layers_that_were_removed_are_not_zoomed_to(watch):
    watched = watch()
    watched.add()
    watched.wait_until_ended()
    project = QgsProject.instance()
    first, *others = list(project.mapLayers())
    assert not watched.button("zoomButton").isHidden()
    project.removeMapLayer(first)
    watched.button("zoomButton").click()
    project.removeMapLayers(others)
    assert watched.button("zoomButton").isHidden()
    watched.press("Zoom to result")  # of the message, which is still there


def test_zooming_to_where_the_map_has_no_place_does_nothing(watch):
    watched = watch()
    watched.add()
    watched.wait_until_ended()
    # Western Australia is beyond the horizon of this one
    text = "PROJ:+proj=ortho +lat_0=30 +lon_0=-60 +datum=WGS84"
    watched.iface.canvas.setDestinationCrs(QgsCoordinateReferenceSystem(text))
    before = watched.iface.canvas.extent()
    watched.button("zoomButton").click()
    assert watched.iface.canvas.extent() == before


def test_another_project_begins_without_the_report_of_a_run(watch):
    watched = watch()
    watched.add()
    watched.wait_until_ended()
    assert not watched.view.isHidden()
    QgsProject.instance().clear()
    assert watched.view.isHidden()


def test_the_curve_marks_each_validation_once_and_stays_small(qgis_app):
    curve = LossCurve()
    assert curve.is_empty()
    for step in range(10 * MOST_POINTS):
        values = {"loss": 1 / (step + 1), "validation": float(step // 1000)}
        curve.add(100 * step / (10 * MOST_POINTS), values)
    assert len(curve.training) <= MOST_POINTS
    assert len(curve.validation) == 10 * MOST_POINTS // 1000
    assert curve.training[0][0] == 0
    assert curve.training[-1][0] > 99
    curve.add(100, {"loss": float("nan")})
    curve.add(100, {})
    assert curve.training[-1][1] > 0


def test_the_curve_is_painted(qgis_app):
    curve = LossCurve()
    curve.resize(300, 120)
    blank = curve.grab().toImage()
    for values in ({"loss": 2.0}, {"loss": 2.0, "validation": 2.0}, {"loss": 1e6}, {"loss": -1.0}):
        curve.add(50, values)
        assert curve.grab().toImage() != blank
    curve.clear()
    assert curve.grab().toImage() == blank


def test_the_curve_is_seen_in_dark_themes(qgis_app):
    curve = LossCurve()
    curve.setStyleSheet("QLabel { color: #ff0000; }")  # how they tell the colour of texts
    palette = curve.palette()
    palette.setColor(QPalette.ColorRole.Highlight, VALIDATION)
    curve.setPalette(palette)
    curve.resize(300, 120)
    for percent in (10, 50, 90):
        curve.add(percent, {"loss": 2.0, "validation": 1.0})
    image = curve.grab().toImage()
    pixels = [image.pixelColor(x, y) for x in range(300) for y in range(120)]
    assert any(each.red() > 220 and each.green() + each.blue() < 150 for each in pixels)
    assert any(each.blue() > each.red() + 80 for each in pixels)


def test_progress_without_a_job_is_shown_as_a_stage(watch):
    watched = watch("dawdle")
    watched.add(exports=(object(), object()))
    for percent in (40.0, 100.0, 0.0, 50.0):
        watched.queue.told.emit(watched.queue.current, Progress("Exporting layers", percent, 100.0))
    assert watched.view.stageLabel.text() == "Exporting layers"
    assert watched.view.progressBar.value() == 75  # of 1000; all exports are a tenth of the run


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3725, "1 h 2 min"), (-3, "0 s")],
)
def test_spans_of_time(seconds, text):
    assert duration_text(seconds) == text


def test_the_next_network_of_several_begins_a_curve_of_its_own():
    first, second = [(0.0, 9.0), (50.0, 8.0), (50.0, 8.1)], [(1.0, 9.5), (2.0, 9.4)]
    assert stretches(first + second) == [first, second]
    assert stretches([]) == []
