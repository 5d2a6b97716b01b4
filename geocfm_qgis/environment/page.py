"""The page of the engine's environment: use a Python that is there, or have one made."""

from __future__ import annotations

import os
from pathlib import Path

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QSize, pyqtSignal
from qgis.PyQt.QtWidgets import QFrame, QWidget

from .. import settings
from ..background import BackgroundCall
from ..bundle import load_form
from ..translation import tr
from .create_form import CreateForm
from .installation import DONE
from .installer import InstallTask, RemovalTask, task_at_work
from .place import BROKEN, HALF_MADE, OUTDATED, is_inside
from .work_view import WorkView

ICON_SIZE = QSize(32, 32)


def shake_hands(python, is_cancelled=None):
    """Ask a Python's engine for its versions and devices."""
    from ..engine_client import handshake

    return handshake(python, is_cancelled)


class EnvironmentPage(QWidget):
    """Two ways to an engine, how far it is, and the work on it. Nothing begins by itself."""

    engine_changed = pyqtSignal()

    def __init__(self, parent=None, check=shake_hands):
        super().__init__(parent)
        load_form("environment", self)
        self._check = check
        self._task = None
        self.statusFrame.setFrameShape(QFrame.Shape.StyledPanel)
        self.createForm = CreateForm(self)
        self.createLayout.addWidget(self.createForm)
        self.workView = WorkView(self)
        self.workLayout.addWidget(self.workView)
        self.pythonFile.setFilePath(settings.engine_python())
        self.pythonFile.setDialogTitle(tr("The Python that runs the engine"))
        self.useWay.setChecked(self._uses_own_python())

        self.createWay.toggled.connect(self._show_way)
        self.checkButton.clicked.connect(self.check_python)
        self.pythonFile.fileChanged.connect(self._ask_for_check)
        self.createForm.agreed.connect(self._install)
        self.createForm.removal_asked.connect(self._remove)
        self._show_way()
        self._show_status()
        if task_at_work() is not None:
            self._watch(task_at_work())

    # --- use this Python

    def check_python(self):
        """Shake hands with the Python that is entered; use it if it answers."""
        python = self.pythonFile.filePath().strip()
        self._enable_check(False)
        self.useResult.setText(tr("Starting it and asking for its versions …"))
        self.workView.clear_outcome()
        call = BackgroundCall(
            tr("GeoCFM: checking the engine"),
            lambda is_cancelled: (python, self._check(python, is_cancelled)),
        )
        call.done.connect(self._show_checked)
        call.failed.connect(self._show_unusable)
        self.destroyed.connect(call.cancel)
        call.start()

    def _show_checked(self, call):
        self._enable_check(True)
        self.useResult.setText(tr("It works, and is used from now on."))
        self._use(*call.result)

    def _show_unusable(self, error):
        self._enable_check(True)
        self.useResult.setText(tr("It is not used."))
        message = getattr(error, "message", "") or str(error)
        details = getattr(error, "details", "")
        self.workView.show_sentences(message, getattr(error, "hint", ""), details)

    def _ask_for_check(self):
        """A Python that is entered is used only after it was seen to work."""
        python = self.pythonFile.filePath().strip()
        is_new = python and python != settings.engine_python()
        asked = tr("It is not used yet: press “Check and use”.") if is_new else ""
        self.useResult.setText(asked)
        self.workView.clear_outcome()

    def _enable_check(self, enabled):
        self.checkButton.setEnabled(enabled)
        self.pythonFile.setEnabled(enabled)

    # --- create one

    def _install(self, plan):
        self._start(InstallTask(plan, self._check))

    def _remove(self, place):
        self._start(RemovalTask(place))

    def _start(self, task):
        self._watch(task)
        QgsApplication.taskManager().addTask(task)

    def _watch(self, task):
        self._task = task
        self.createWay.setChecked(True)
        self._show_way()
        self._show_status()
        self.workView.watch(task)
        task.ended.connect(self._end)

    def _end(self, outcome):
        self._task = None
        self._show_way()
        self.createForm.refresh()
        if outcome.status == DONE and outcome.python:
            self._use(outcome.python, outcome.handshake)
            self.pythonFile.setFilePath(outcome.python)
        elif settings.engine_python() and not Path(settings.engine_python()).is_file():
            self._use("")  # it was removed
            self.pythonFile.setFilePath("")
        else:
            self._show_status()
        self.workView.show_outcome(outcome)

    # --- both

    def _use(self, python, handshake=None):
        settings.set_engine_python(python)
        if handshake is not None:
            devices = [(device.name, device.description) for device in handshake.devices]
            settings.set_known_engine(python, handshake.versions, devices)
        self._show_status()
        self.engine_changed.emit()

    def _uses_own_python(self):
        """Tell whether the engine's Python is one that the plugin did not make."""
        python = settings.engine_python()
        return bool(python) and not is_inside(python, self.createForm.place().folder)

    def _show_way(self):
        """Show the fields of one way; none of them while the environment is worked on."""
        creates, idle = self.createWay.isChecked(), self._task is None
        for widget in (self.introduction, self.createWay, self.useWay):
            widget.setVisible(idle)
        self.createForm.setVisible(idle and creates)
        self.useBox.setVisible(idle and not creates)
        self.workView.clear_outcome()

    def _show_status(self):
        title, text, icon = self._status()
        self.statusTitle.setText(title)
        self.statusText.setText(text)
        self.statusText.setVisible(bool(text))
        theme = QgsApplication.getThemeIcon(icon)
        self.statusIcon.setPixmap(theme.pixmap(ICON_SIZE))

    def _status(self):
        """Give (title, text, name of an icon)."""
        if self._task is not None:
            text = tr("You can go on working, and close this window; it continues meanwhile.")
            return self._task.description(), text, "/mIconInfo.svg"
        python = settings.engine_python()
        if os.environ.get(settings.PYTHON_VARIABLE):
            text = tr("The variable {name} names it, and outweighs what is chosen here: {python}")
            return (
                tr("The engine's Python is set from outside."),
                text.format(name=settings.PYTHON_VARIABLE, python=python),
                "/mIconInfo.svg",
            )
        if not python:
            return (
                tr("There is no engine yet."),
                tr("Training and mapping need one. Choose one of the two ways below."),
                "/mIconWarning.svg",
            )
        ours = is_inside(python, self.createForm.place().folder)
        state = self.createForm.place().state() if ours else ""
        if state in (HALF_MADE, BROKEN) or not Path(python).is_file():
            return (
                tr("The engine's Python does not work any more."),
                tr("It is incomplete or gone: {python}").format(python=python),
                "/mIconWarning.svg",
            )
        if state == OUTDATED:
            return (
                tr("The engine needs an update."),
                tr("This version of the plugin needs other packages than are installed."),
                "/mIconWarning.svg",
            )
        known = settings.known_engine()
        if known.get("python") != python:
            return (
                tr("An engine is chosen, and was not asked yet whether it works."),
                python,
                "/mIconInfo.svg",
            )
        return tr("The engine is ready."), _known_text(known), "/mIconSuccess.svg"


def _known_text(known):
    versions = known.get("versions", {})
    devices = [description or name for name, description in known.get("devices", [])]
    said = tr("GeoCFM {geocfm}, PyTorch {torch}, Python {python}. Computes on: {devices}.").format(
        geocfm=versions.get("geocfm", "?"),
        torch=versions.get("torch", "?"),
        python=versions.get("python", "?"),
        devices=", ".join(devices) or "?",
    )
    return f"{said}\n{known.get('python', '')}"
