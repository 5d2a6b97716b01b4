"""Runs one at a time: the others wait, and none outlives QGIS."""

from __future__ import annotations

import time

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QCoreApplication, QObject, pyqtSignal

from ..child_process import KILL_SECONDS, TERMINATE_SECONDS
from ..engine_client import CANCELLED, Outcome
from ..engine_process import HURRIED_GRACE_SECONDS, end_all_engines
from ..translation import tr
from .run_task import RunTask

POLL_SECONDS = 0.05
LONGEST_SHUTDOWN = HURRIED_GRACE_SECONDS + TERMINATE_SECONDS + KILL_SECONDS


class RunQueue(QObject):
    """The run at work and those that wait.

    Signals, all in the main thread: `started(run)`, `told(run, event)`, `ended(run, outcome)`,
    and `changed()` whenever a run comes, begins or goes.
    """

    started = pyqtSignal(object)
    ended = pyqtSignal(object, object)
    changed = pyqtSignal()
    told = pyqtSignal(object, object)

    def __init__(self, parent=None):
        super().__init__(parent)
        self._waiting = []
        self._current = None
        self._task = None  # kept while QGIS works on it: without a reference it never ends
        self._closed = False
        QCoreApplication.instance().aboutToQuit.connect(self.shutdown)

    @property
    def current(self):
        """The run at work, or None."""
        return self._current

    @property
    def waiting(self):
        """The runs that wait, the next one first."""
        return tuple(self._waiting)

    def add(self, run):
        """Begin a run, or let it wait for those before it."""
        if self._closed:
            return
        self._waiting.append(run)
        self._start_next()
        self.changed.emit()

    def cancel(self, run):
        """Stop a run, which keeps what it has so far, or take it out of those that wait."""
        if run is self._current:
            self._task.cancel()
            return
        remaining = [each for each in self._waiting if each is not run]
        if len(remaining) < len(self._waiting):
            self._waiting = remaining
            self.ended.emit(
                run, Outcome(CANCELLED, tr("Taken out of the queue; nothing had begun."))
            )
            self.changed.emit()

    def shutdown(self):
        """End everything for good: the plugin is unloaded, or QGIS quits. No process is left."""
        if self._closed:
            return
        self._closed = True
        self._waiting = []
        task = self._task if self._current is not None else None
        deadline = time.monotonic() + LONGEST_SHUTDOWN
        if task is not None:
            task.hurry()
            task.cancel()
        end_all_engines()  # also those of Processing; all have the same time to save their work
        while task is not None and not task.is_over() and time.monotonic() < deadline:
            task.wait(POLL_SECONDS)

    def _start_next(self):
        if self._closed or self._current is not None or not self._waiting:
            return
        run = self._current = self._waiting.pop(0)
        task = self._task = RunTask(run)
        task.told.connect(self._on_event)
        task.ended.connect(self._on_ended)
        self.started.emit(run)
        QgsApplication.taskManager().addTask(task)

    def _on_event(self, event):
        if not self._closed and self._current is not None:
            self.told.emit(self._current, event)

    def _on_ended(self, outcome):
        run, self._current = self._current, None
        if self._closed:
            return
        self.ended.emit(run, outcome)
        self._start_next()
        self.changed.emit()
