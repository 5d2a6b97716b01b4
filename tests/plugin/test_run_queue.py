"""Runs in the background of a real QGIS, with the fake engine."""

import gc
import json
import threading
import time

import pytest
from fake_engine_fixture import fake_python, is_gone, noted_pids
from qgis.core import QgsApplication, QgsProcessingException, QgsTask
from qgis.PyQt.QtCore import QCoreApplication, QThread

from geocfm_qgis import child_process, engine_process, settings
from geocfm_qgis.engine_client import Finished, JobStarted, Progress, Started, run_engine
from geocfm_qgis.jobs import EngineJob
from geocfm_qgis.runs import Run, unfinished_model
from geocfm_qgis.runs.run_progress import RunProgress
from geocfm_qgis.runs.run_queue import RunQueue
from geocfm_qgis.runs.run_task import RunTask


def wait_until(condition, within=15.0):
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        QCoreApplication.processEvents()
        time.sleep(0.01)


@pytest.fixture
def engine(tmp_path, monkeypatch, qgis_app):
    """Choose how the engine behaves; gives the file with the ids of its processes."""

    def choose(behaviour, **variables):
        pids = tmp_path / f"pids {behaviour}"
        python = fake_python(tmp_path / behaviour, behaviour, GEOCFM_FAKE_PIDS=pids, **variables)
        monkeypatch.setenv(settings.PYTHON_VARIABLE, python)
        return pids

    return choose


@pytest.fixture
def queue(qgis_app):
    queue = RunQueue()
    yield queue
    queue.shutdown()
    wait_until(lambda: QgsApplication.taskManager().countActiveTasks() == 0)


@pytest.fixture
def make_run(tmp_path):
    def make(name, exports=()):
        folder = tmp_path / name
        model = str(folder / "model.safetensors")
        values = {"checkpoint": model, "out": str(folder / "map.tif")}
        jobs = (
            EngineJob("train", {"out": model}, "model", exports=tuple(exports)),
            EngineJob("map", values, "map", exports=tuple(exports)),
        )
        return Run(name, jobs, str(folder))

    return make


def hurry(monkeypatch):
    """Do not wait as long as a real engine needs."""
    monkeypatch.setattr("geocfm_qgis.runs.run_task.HURRIED_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(engine_process, "HURRIED_GRACE_SECONDS", 0.3)
    monkeypatch.setattr(child_process, "TERMINATE_SECONDS", 0.3)


class Ear:
    """Remembers what a queue tells, and in which thread."""

    def __init__(self, queue):
        self.said, self.events, self.outcomes, self.threads = [], [], {}, set()
        queue.started.connect(lambda run: self.said.append(f"{run.name} started"))
        queue.told.connect(self._on_event)
        queue.ended.connect(self._on_ended)
        queue.changed.connect(lambda: self.said.append("changed"))

    def _on_event(self, run, event):
        self.events.append((run.name, event))
        self.threads.add(QThread.currentThread())

    def _on_ended(self, run, outcome):
        self.said.append(f"{run.name} {outcome.status}")
        self.outcomes[run.name] = outcome
        self.threads.add(QThread.currentThread())


def test_runs_follow_each_other_though_one_fails(queue, engine, make_run):
    engine("succeed")
    ear = Ear(queue)
    first, second, third = make_run("first"), make_run("second"), make_run("third")
    behaviours = iter(["crash", "succeed"])  # of the second and the third
    queue.ended.connect(lambda run, outcome: engine(next(behaviours, "succeed")))
    for run in (first, second, third):
        queue.add(run)
    assert queue.current is first
    assert queue.waiting == (second, third)
    wait_until(lambda: len(ear.outcomes) == 3)
    assert [said for said in ear.said if said != "changed"] == [
        *("first started", "first done"),
        *("second started", "second broken"),
        *("third started", "third done"),
    ]
    assert queue.current is None
    assert queue.waiting == ()


def test_events_and_end_come_in_the_main_thread_in_order(queue, engine, make_run, tmp_path):
    engine("succeed")
    ear = Ear(queue)
    queue.add(make_run("run"))
    wait_until(lambda: ear.outcomes)
    assert ear.threads == {QCoreApplication.instance().thread()}
    events = [event for _, event in ear.events]
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)  # none is still on its way when the run has ended
    assert ear.said[-2:] == ["run done", "changed"]
    job_file = json.loads((tmp_path / "run" / "geocfm-job.json").read_text(encoding="utf-8"))
    assert [job["name"] for job in job_file["jobs"]] == ["model", "map"]
    assert (tmp_path / "run" / "map.tif").exists()


def test_the_task_shows_its_name_and_its_progress(queue, engine, make_run):
    engine("succeed", GEOCFM_FAKE_SECONDS=0.02)
    shown = []
    queue.add(make_run("Murchison gold"))
    (task,) = QgsApplication.taskManager().activeTasks()
    assert task.description() == "Murchison gold"
    assert task.canCancel()
    task.progressChanged.connect(shown.append)
    wait_until(lambda: queue.current is None)
    assert shown == sorted(shown)
    assert any(0 < percent < 50 for percent in shown)
    assert any(50 < percent < 100 for percent in shown)


def test_a_run_ends_though_nobody_else_keeps_its_task(queue, engine, make_run):
    engine("succeed")
    ear = Ear(queue)
    queue.add(make_run("run"))
    gc.collect()
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "done"


def test_cancel_keeps_the_model_so_far(queue, engine, make_run):
    pids = engine("succeed", GEOCFM_FAKE_SECONDS=0.05)
    ear = Ear(queue)
    run = make_run("run")
    queue.add(run)
    wait_until(
        lambda: any(
            isinstance(event, Progress) and event.stage == "Training" for _, event in ear.events
        )
    )
    queue.cancel(run)
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "cancelled"
    assert unfinished_model(run, ear.outcomes["run"]).endswith("model.unfinished.safetensors")
    assert is_gone(noted_pids(pids)[0])


def test_a_run_cancelled_from_qgis_task_bar_ends_as_cancelled(queue, engine, make_run):
    engine("dawdle")
    ear = Ear(queue)
    queue.add(make_run("run"))
    wait_until(lambda: ear.events)
    QgsApplication.taskManager().cancelAll()
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "cancelled"


def test_cancel_of_a_waiting_run_leaves_the_others(queue, engine, make_run):
    engine("dawdle")
    ear = Ear(queue)
    at_work, waiting, last = make_run("a"), make_run("b"), make_run("c")
    for run in (at_work, waiting, last):
        queue.add(run)
    queue.cancel(waiting)
    assert ear.outcomes["b"].status == "cancelled"
    assert queue.waiting == (last,)
    assert queue.current is at_work


def test_equal_runs_are_told_apart(queue, engine, make_run):
    engine("dawdle")
    first, second = make_run("same"), make_run("same")
    queue.add(first)
    queue.add(second)
    queue.cancel(second)
    assert queue.waiting == ()
    assert queue.current is first


@pytest.mark.parametrize("behaviour", ["dawdle", "ignore_cancel", "grandchild"])
def test_shutdown_leaves_no_process(engine, make_run, behaviour, monkeypatch):
    hurry(monkeypatch)
    pids = engine(behaviour, GEOCFM_FAKE_SECONDS=60)
    queue = RunQueue()
    ear = Ear(queue)
    queue.add(make_run("run"))
    queue.add(make_run("next"))
    count = 2 if behaviour == "grandchild" else 1
    started = noted_pids(pids, count)
    start = time.monotonic()
    queue.shutdown()
    assert time.monotonic() - start < 5
    assert all(is_gone(pid) for pid in started)
    assert len(noted_pids(pids)) == count  # the next one was not begun
    wait_until(lambda: QgsApplication.taskManager().countActiveTasks() == 0)
    assert not ear.outcomes  # nobody is left to hear it
    queue.add(make_run("late"))
    assert queue.current is None


def test_shutdown_right_after_a_start_does_not_wait_in_vain(engine, make_run):
    engine("dawdle")
    queue = RunQueue()
    queue.add(make_run("run"))
    start = time.monotonic()
    queue.shutdown()
    assert time.monotonic() - start < 5
    wait_until(lambda: QgsApplication.taskManager().countActiveTasks() == 0)


def test_shutdown_ends_engines_that_others_started(engine, make_run, tmp_path, queue, monkeypatch):
    hurry(monkeypatch)
    pids = engine("ignore_cancel")
    python = settings.engine_python()
    path = tmp_path / "jobs.json"
    path.write_text('{"jobs": []}')
    worker = threading.Thread(target=run_engine, args=(python, ["run", str(path)]))
    worker.start()
    (pid,) = noted_pids(pids)
    queue.shutdown()
    assert is_gone(pid)
    worker.join(5)
    assert not worker.is_alive()


def test_qgis_quitting_shuts_the_queue_down(engine, make_run):
    pids = engine("dawdle")
    queue = RunQueue()
    queue.add(make_run("run"))
    (pid,) = noted_pids(pids)
    QCoreApplication.instance().aboutToQuit.emit()
    assert is_gone(pid)
    wait_until(lambda: QgsApplication.taskManager().countActiveTasks() == 0)


class Export:
    """Stands for a layer that has to be written first."""

    def __init__(self, work=lambda feedback: None):
        self.threads = []
        self._work = work

    def run(self, feedback):
        self.threads.append(threading.get_ident())
        feedback.setProgress(50)
        self._work(feedback)


def test_exports_come_first_once_and_in_the_background(queue, engine, make_run):
    engine("succeed")
    ear = Ear(queue)
    export = Export()
    queue.add(make_run("run", [export]))  # both of its jobs name it
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "done"
    assert len(export.threads) == 1
    assert export.threads[0] != threading.get_ident()
    assert ear.events[0][1] == Progress("Exporting layers", 50.0, 100.0)


def test_an_export_that_fails_says_why(queue, engine, make_run):
    def refuse(feedback):
        raise QgsProcessingException("The layer 'x' could not be exported.")

    engine("succeed")
    ear = Ear(queue)
    queue.add(make_run("run", [Export(refuse)]))
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "failed"
    assert ear.outcomes["run"].message == "The layer 'x' could not be exported."


def test_an_export_can_be_cancelled(queue, engine, make_run):
    at_work = threading.Event()

    def dawdle(feedback):
        at_work.set()
        while not feedback.isCanceled():
            time.sleep(0.01)

    pids = engine("succeed")
    ear = Ear(queue)
    run = make_run("run", [Export(dawdle)])
    queue.add(run)
    wait_until(at_work.is_set)
    queue.cancel(run)
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "cancelled"
    assert not pids.exists()  # the engine was not started


def test_a_mistake_of_ours_ends_the_run_and_not_qgis(queue, engine, make_run):
    engine("succeed")
    ear = Ear(queue)
    queue.add(make_run("run", [Export(lambda feedback: {}["missing"])]))
    wait_until(lambda: ear.outcomes)
    outcome = ear.outcomes["run"]
    assert outcome.status == "broken"
    assert "KeyError" in outcome.message
    assert "Traceback" in outcome.transcript


def test_a_folder_that_cannot_be_written_is_said(queue, engine, make_run, tmp_path):
    engine("succeed")
    ear = Ear(queue)
    (tmp_path / "run").write_text("a file where the folder should be")
    queue.add(make_run("run"))
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "failed"
    assert "cannot be written" in ear.outcomes["run"].message


def test_without_an_engine_the_run_says_so(queue, monkeypatch, make_run):
    monkeypatch.setattr(settings, "engine_python", lambda: "")
    ear = Ear(queue)
    queue.add(make_run("run"))
    wait_until(lambda: ear.outcomes)
    assert ear.outcomes["run"].status == "failed"
    assert "No Python is chosen" in ear.outcomes["run"].message


def test_a_task_that_fails_is_shown_as_failed(engine, make_run, queue):
    engine("fail")
    task = RunTask(make_run("run"))
    outcomes = []
    task.ended.connect(outcomes.append)
    QgsApplication.taskManager().addTask(task)
    wait_until(lambda: outcomes)
    assert task.status() == QgsTask.TaskStatus.Terminated


def test_progress_goes_by_jobs_and_never_back():
    progress = RunProgress(exports=0)
    heard = [
        JobStarted(1, 2, "model", "train"),
        Progress("Reading layers", 1, 1),
        Progress("Training", 50, 100),
        Progress("Training", 100, 100),
        JobStarted(2, 2, "points", "sample"),
        Progress("Drawing points", 100, 100),
        Progress("Drawing points, pass 2", 10, 100),
        Progress("Densities of the points", 100, 100),
    ]
    shown = []
    for event in heard:
        progress.hear(event)
        shown.append(round(progress.percent, 2))
    assert shown == [0, 2.5, 26.25, 50, 50, 90, 90, 100]


def test_exports_are_a_part_of_the_progress():
    progress = RunProgress(exports=2)
    progress.exporting(1, 0.5)
    assert progress.percent == pytest.approx(7.5)
    progress.hear(JobStarted(1, 1, "map", "map"))
    progress.hear(Progress("Mapping", 50, 100))
    assert progress.percent == pytest.approx(55)
