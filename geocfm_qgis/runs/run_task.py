"""A run at work in the background, as a task of QGIS."""

from __future__ import annotations

import os
import threading
import traceback

from qgis.core import QgsProcessingException, QgsProcessingFeedback, QgsTask
from qgis.PyQt.QtCore import pyqtSignal

from .. import settings
from ..engine_client import BROKEN, CANCELLED, DONE, FAILED, Outcome, Progress, run_engine
from ..engine_process import GRACE_SECONDS, HURRIED_GRACE_SECONDS
from ..jobs import run_arguments, write_job_file
from ..plain_text import without_tags
from ..translation import tr
from ..wording import JOB_FILE_NAME
from .run_progress import RunProgress


class RunTask(QgsTask):
    """Exports what has to be exported, then lets the engine do the jobs.

    Signals: `told(object)` for each event of the engine, `ended(object)` with the Outcome; both
    come in the main thread. Keep a reference to the task until it has ended: QGIS does not.
    """

    ended = pyqtSignal(object)
    told = pyqtSignal(object)

    def __init__(self, run):
        super().__init__(without_tags(run.name), QgsTask.Flag.CanCancel)
        self._run = run
        self._python = settings.engine_python()
        self._feedback = QgsProcessingFeedback(False)
        self._feedback.progressChanged.connect(self._on_export_progress)
        exports = [export for job in run.jobs for export in job.exports]
        self._exports = list(dict.fromkeys(exports))  # jobs may share one
        self._exporting = 0
        self._progress = RunProgress(len(self._exports))
        self._grace = GRACE_SECONDS
        self._over = threading.Event()
        self._outcome = Outcome(CANCELLED, tr("Stopped as asked; nothing had begun."))

    def run(self):
        """Do the work; called by QGIS in a thread of its own. No layer or project is touched."""
        try:
            self._outcome = self._work()
        except Exception as error:  # one that leaves this method would end QGIS
            self._outcome = _unexpected(error)
        finally:
            self._over.set()
        return self._outcome.status == DONE

    def finished(self, result):
        """Tell how it ended; called by QGIS in the main thread."""
        self.ended.emit(self._outcome)

    def cancel(self):
        """Ask the work to stop: an export at once, the engine when it has saved what it has."""
        self._feedback.cancel()
        super().cancel()

    def hurry(self):
        """Leave the engine little time to save its work, as QGIS is about to quit."""
        self._grace = HURRIED_GRACE_SECONDS

    def is_over(self):
        """Whether nothing of the run is at work any more, also when it never began."""
        ended = (QgsTask.TaskStatus.Complete, QgsTask.TaskStatus.Terminated)
        return self._over.is_set() or self.status() in ended

    def wait(self, seconds):
        """Wait for the work to be over, without the main thread's help."""
        return self._over.wait(seconds)

    def _work(self):
        try:
            for number, export in enumerate(self._exports):
                self._exporting = number
                if not self.isCanceled():
                    export.run(self._feedback)
            if self.isCanceled():
                return self._outcome
            os.makedirs(self._run.folder, exist_ok=True)
            path = write_job_file(self._run.jobs, os.path.join(self._run.folder, JOB_FILE_NAME))
        except QgsProcessingException as error:
            return Outcome(FAILED, str(error), transcript=str(error))
        except OSError as error:
            said = tr("The folder of the run cannot be written: {reason}").format(reason=error)
            hint = tr("Choose another folder for the results, or free some space on the disk.")
            return Outcome(FAILED, said, hint, transcript=said)
        return run_engine(
            self._python,
            run_arguments(self._run.jobs, path),
            on_event=self._hear,
            is_cancelled=self.isCanceled,
            grace=lambda: self._grace,
        )

    def _hear(self, event):
        self._progress.hear(event)
        self.setProgress(self._progress.percent)
        self.told.emit(event)

    def _on_export_progress(self, percent):
        """Show an export as a stage like the engine's; called in the main thread."""
        self._progress.exporting(self._exporting, percent / 100)
        self.setProgress(self._progress.percent)
        self.told.emit(Progress(tr("Exporting layers"), percent, 100.0))


def _unexpected(error):
    said = tr("Sorry, GeoCFM made a mistake and had to stop: {error}").format(
        error=f"{type(error).__name__}: {error}"
    )
    hint = tr("Copy the diagnostics and report it, please.")
    return Outcome(
        BROKEN,
        said,
        hint,
        transcript="".join(traceback.format_exception(type(error), error, error.__traceback__)),
    )
