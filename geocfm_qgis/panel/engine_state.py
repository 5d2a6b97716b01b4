"""Whether there is an engine to work with, and what it can compute on."""

from __future__ import annotations

import os

from qgis.PyQt.QtCore import QObject, pyqtSignal

from .. import settings
from ..background import BackgroundTask
from ..engine_client import EngineUnusable, handshake
from ..translation import tr


class EngineState(QObject):
    """Knows the engine of the settings; it is asked who it is in the background."""

    changed = pyqtSignal()

    def __init__(self, parent=None):
        super().__init__(parent)
        self._known = None  # which engine was looked at, and what was known of it
        self._task = None
        self.devices = ()  # (name, description)
        self.problem = ""  # a sentence with its remedy, if there is no engine that works
        self.unusable = None  # what the engine answered instead of who it is

    def refresh(self):
        """Look at the settings, and ask the engine if it is another one than before."""
        if self._known == _known_now():
            return
        self._known = _known_now()
        self.stop()
        self.unusable = None
        python = settings.engine_python()
        self.devices = tuple(settings.known_devices())
        if not python:
            self.problem = tr(
                "GeoCFM computes in a Python of its own, apart from QGIS. It has to be set up once."
            )
        elif not os.path.isfile(python):
            self.problem = tr(
                "The Python that GeoCFM computes in is no longer at {path}. Set it up anew."
            ).format(path=python)
        else:
            self.problem = ""
            self._task = _HandshakeTask(python, self._on_answer).start()
        self.changed.emit()

    def ask_again(self):
        """Ask also if the Python is the same: what is installed in it may have changed."""
        self._known = None
        self.refresh()

    def stop(self):
        """Let nothing go on in the background."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _on_answer(self, task):
        if task is not self._task:
            return
        self._task = None
        self.unusable = task.unusable
        self.problem = str(task.unusable or "")
        if task.answer is not None:
            found = task.answer.devices
            self.devices = tuple((device.name, device.description) for device in found)
            settings.set_known_engine(task.python, task.answer.versions, self.devices)
            self._known = _known_now()
        self.changed.emit()


def _known_now():
    return settings.engine_python(), settings.known_engine()


class _HandshakeTask(BackgroundTask):
    def __init__(self, python, on_answer):
        super().__init__(tr("GeoCFM: asking the engine"), on_answer)
        self.python = python
        self.answer, self.unusable = None, None

    def work(self):
        try:
            self.answer = handshake(self.python, is_cancelled=self.isCanceled)
        except EngineUnusable as error:
            self.unusable = error
