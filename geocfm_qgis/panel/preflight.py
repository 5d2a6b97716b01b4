"""Whether a run can work, found out while the user chooses: by us at once, then by the engine."""

from __future__ import annotations

import json
import os
import traceback
from dataclasses import dataclass

from qgis.core import QgsProcessingException
from qgis.PyQt.QtCore import QObject, QTimer, pyqtSignal

from .. import settings
from ..jobs.checkpoint_card import CheckpointError
from ..jobs.job_paths import input_paths
from ..jobs.layers_at_rest import layers_at_rest
from ..jobs.raster_export import RasterExport
from ..translation import tr
from . import plan, result_files
from .preflight_task import PreflightTask

SETTLE_MS = 100  # after the last change: what we can tell ourselves
ENGINE_MS = 800  # after the last change: the engine is asked
MOST_REMEMBERED = 50
INPUTS_FOLDER = "geocfm_inputs"  # of temporary files that are named after their content

BLOCKED, PENDING, READY, UNCHECKED = "blocked", "pending", "ready", "unchecked"


@dataclass(frozen=True)
class PreflightReport:
    """What is known of the run that the panel would start now."""

    status: str
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    facts: dict | None = None  # the engine's own report on the data
    transcript: str = ""  # when the check itself broke
    meets_other_work: bool = False  # another, unfinished run has the same name

    @property
    def can_run(self):
        """Whether Run may be pressed."""
        return self.status in (READY, UNCHECKED)


class Preflight(QObject):
    """Checks the choices whenever they change; the newest report is in `report`."""

    changed = pyqtSignal()

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self._project = project
        self._choices = None
        self._engine_is_busy = False
        self._task = None
        self._remembered = {}
        self.report = PreflightReport(BLOCKED)
        self.run = None  # the Run that was found fit
        self._settle = _timer(self, SETTLE_MS, self._prepare)
        self._ask = _timer(self, ENGINE_MS - SETTLE_MS, self._start)

    def update(self, choices, problems, has_engine, engine_is_busy):
        """Begin anew: something has changed. `problems` are those the steps found themselves."""
        self.stop()
        self._choices = choices
        self._engine_is_busy = engine_is_busy
        self.run = None
        if problems or not has_engine:
            self._show(PreflightReport(BLOCKED, tuple(dict.fromkeys(problems))))
            return
        self._show(PreflightReport(PENDING))
        self._settle.start()

    def stop(self):
        """Let nothing go on in the background."""
        self._settle.stop()
        self._ask.stop()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def still_holds(self, choices):
        """Whether a plan made now is the one that was checked: layers change without a word.

        So does the place of the results, with the project's and with QGIS's options.
        """
        if choices != self._choices:
            return False
        try:
            run = plan.make_run(choices, self._project)
        except (QgsProcessingException, CheckpointError):
            return False
        return _lasting_content(run.jobs) == self._planned

    def forget(self):
        """Forget what was found: the engine has changed."""
        self._remembered.clear()

    def _prepare(self):
        try:
            with layers_at_rest():
                run = plan.make_run(self._choices, self._project)
                self._questions = self._to_ask(run)
        except (QgsProcessingException, CheckpointError) as error:
            self._show(PreflightReport(BLOCKED, (str(error),)))
            return
        except Exception as error:  # a mistake of ours: without a plan there is nothing to run
            self._show(PreflightReport(BLOCKED, (_mistake(error),), transcript=_told(error)))
            return
        self.run = run
        self._planned = _lasting_content(run.jobs)
        self._key = _content(self._questions)
        if self._key in self._remembered:
            self._show(self._remembered[self._key])
            return
        if self._engine_is_busy:
            note = tr("It is checked when its turn comes.")
            self._show(PreflightReport(UNCHECKED, notes=(note,)))
            return
        if any(isinstance(export, RasterExport) for job in run.jobs for export in job.exports):
            note = tr(
                "Some layers are no files that the engine can read. They are exported when the run "
                "starts, and checked then."
            )
            self._show(PreflightReport(UNCHECKED, notes=(note,)))
            return
        self._ask.start()

    def _to_ask(self, run):
        """Give (jobs, whether only to rehearse them) for each question to the engine.

        Of a model that is yet to be made only its data can be looked at, and whether an
        interrupted training can go on.
        """
        if not self._choices.model.train:
            return [(run.jobs, True)]
        questions = [((plan.make_check(self._choices, self._project),), False)]
        outputs = result_files.output_paths(self._choices.results, training=True)
        if result_files.interrupted(outputs) or result_files.existing(outputs):
            questions.append((run.jobs, True))
        return questions

    def _start(self):
        self._task = PreflightTask(settings.engine_python(), self._questions, self._on_answer)
        self._task.failed.connect(self._on_mistake)
        self._task.start()

    def _on_answer(self, task):
        if task is not self._task:  # one that was cancelled meanwhile
            return
        self._task = None
        report = _report(task)
        if not task.is_broken:
            if len(self._remembered) >= MOST_REMEMBERED:
                self._remembered.pop(next(iter(self._remembered)))
            self._remembered[self._key] = report
        self._show(report)

    def _on_mistake(self, error):
        """A mistake of ours must neither leave the user waiting nor keep the run from starting."""
        self._task = None
        self._show(_unknown((_mistake(error),), _told(error)))

    def _show(self, report):
        self.report = report
        self.changed.emit()


def _report(task):
    if task.is_broken and task.has_begun:
        return _unknown((*task.problems, *task.warnings), task.transcript)
    status = BLOCKED if task.problems else READY
    return PreflightReport(
        status,
        tuple(task.problems),
        tuple(task.warnings),
        tuple(task.notes),
        task.facts,
        task.transcript if task.is_broken else "",
        task.meets_other_work,
    )


def _unknown(told, transcript):
    """Give the report of a check that broke: nothing is known to be in the way of the run."""
    note = tr(
        "The data could not be checked: the check itself broke off. You can run it all the same."
    )
    return PreflightReport(UNCHECKED, warnings=told, notes=(note,), transcript=transcript)


def _mistake(error):
    return tr("Sorry, GeoCFM made a mistake while looking at the data: {error}").format(
        error=f"{type(error).__name__}: {error}"
    )


def _told(error):
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _content(questions):
    """Give what the answer depends on; temporary files are named after their content."""
    jobs = [job for asked, _ in questions for job in asked]
    stamps = sorted({_stamp(path) for job in jobs for path in _inputs(job)})
    entries = [[[job.entry() for job in asked], dry] for asked, dry in questions]
    return json.dumps([settings.engine_python(), entries, stamps], default=str)


def _lasting_content(jobs):
    """Give what a run depends on, whatever folder its temporary files go to."""
    text = _content([(jobs, False)])
    for path in {path for job in jobs for path in job.temporary}:
        folder = os.path.dirname(path)
        if os.path.basename(os.path.dirname(folder)) != INPUTS_FOLDER:
            text = text.replace(json.dumps(folder)[1:-1], "")
    return text


def _inputs(job):
    return [path for path in input_paths(job) if path not in job.temporary]


def _stamp(path):
    try:
        found = os.stat(path)
    except OSError:
        return path, 0, 0
    return path, found.st_size, found.st_mtime_ns


def _timer(parent, milliseconds, action):
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(action)
    return timer
