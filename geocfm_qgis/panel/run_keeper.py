"""What is done with a run that has ended: layers into the project, its record, a message."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from qgis.core import Qgis
from qgis.PyQt.QtCore import QObject, QTimer, pyqtSignal
from qgis.PyQt.QtWidgets import QPushButton

from .. import engine_client as engine
from ..jobs import in_layer_names
from ..plain_text import as_html
from ..results import add_run_layers
from ..results.finished import report_of
from ..results.opening import can_open, open_folder, open_report
from ..results.reopening import release, take_back
from ..runs import history
from ..translation import tr
from .showing import zoom_to

TITLE = "GeoCFM"
SUCCESS_SECONDS = 15


@dataclass
class _Origin:
    """The project that a run was begun for."""

    run: object
    opening: int  # how many projects were opened before it
    file_name: str


class RunKeeper(QObject):
    """Keeps what runs make, whether the panel is open or not."""

    kept = pyqtSignal(object, object, object)  # run, outcome, layers that were added
    show_panel = pyqtSignal()

    def __init__(self, queue, project, iface, parent=None):
        super().__init__(parent)
        self._queue = queue
        self._project = project
        self._iface = iface
        self._at_work = None
        self._released = []
        self._openings = 0
        self._origins = []
        self._elsewhere = []  # runs whose results could be added to this project
        self._messages = []
        self._telling = QTimer(self)  # a child: it ends with the panel
        self._telling.setSingleShot(True)
        self._telling.timeout.connect(self._push_messages)
        queue.started.connect(self._on_started)
        queue.changed.connect(self._note_origins)
        queue.ended.connect(self._on_ended)
        project.cleared.connect(self._on_cleared)
        project.projectSaved.connect(self._on_saved)
        self._note_origins()

    def _on_cleared(self):
        """Runs begun for the project that was closed must not appear in another."""
        self._openings += 1

    def _on_saved(self):
        for origin in self._origins:
            if origin.opening == self._openings:
                origin.file_name = self._project.fileName()

    def _on_started(self, run):
        self._at_work = run
        # Windows replaces no file that a layer has open
        self._released = release(self._project, run.jobs) if os.name == "nt" else []
        self._note(run)

    def _note_origins(self):
        for run in (self._queue.current, *self._queue.waiting):
            if run is not None:
                self._note(run)

    def _note(self, run):
        if not any(origin.run is run for origin in self._origins):
            self._origins.append(_Origin(run, self._openings, self._project.fileName()))

    def _is_of_this_project(self, run):
        """Whether its project is still open, or open again."""
        origin = next(each for each in self._origins if each.run is run)
        self._origins.remove(origin)
        if origin.opening == self._openings:
            return True
        return bool(origin.file_name) and origin.file_name == self._project.fileName()

    def _on_ended(self, run, outcome):
        if run is not self._at_work:  # taken out of the queue before it began
            self._origins = [each for each in self._origins if each.run is not run]
            return
        take_back(self._project, self._released)
        if self._is_of_this_project(run):
            self._tell(run, outcome, self._keep(run, outcome))
        else:
            self._tell_elsewhere(run, outcome)
            self.kept.emit(run, outcome, [])

    def _keep(self, run, outcome):
        layers = add_run_layers(self._project, run, outcome)
        history.record(self._project, run, outcome)
        self.kept.emit(run, outcome, layers)
        return layers

    def _tell(self, run, outcome, layers=()):
        actions = self._actions(run, outcome, layers)
        if outcome.status == engine.DONE:
            text = tr("'{name}' is finished.").format(name=run.name)
            self._push_soon(text, Qgis.MessageLevel.Success, SUCCESS_SECONDS, actions)
        elif outcome.status == engine.CANCELLED:
            text = tr("'{name}' was cancelled.").format(name=run.name)
            self._push_soon(text, Qgis.MessageLevel.Info, SUCCESS_SECONDS, actions)
        else:
            reason = in_layer_names(f"{outcome.message} {outcome.hint}".strip(), run.jobs)
            text = tr("'{name}' did not finish. {reason}").format(name=run.name, reason=reason)
            self._push_soon(text, Qgis.MessageLevel.Warning, 0, actions)

    def _tell_elsewhere(self, run, outcome):
        if outcome.status != engine.DONE:
            self._tell(run, outcome)
            return
        text = tr(
            "'{name}' of the project open before is finished. Its results are in {folder}."
        ).format(name=run.name, folder=run.folder)
        self._elsewhere.append(run)
        adding = (tr("Add to this project"), partial(self._add_here, run, outcome))
        self._push_soon(text, Qgis.MessageLevel.Info, 0, [adding, *self._actions(run, outcome)])

    def _add_here(self, run, outcome):
        if run in self._elsewhere:  # once is enough
            self._elsewhere.remove(run)
            self._keep(run, outcome)

    def _actions(self, run, outcome, layers=()):
        """Give what one may want to do then: (text, what is done)."""
        actions = [(tr("Show"), self.show_panel.emit)]
        if os.path.isdir(run.folder):
            actions.insert(0, (tr("Open folder"), partial(open_folder, run.folder)))
        report = report_of(outcome)
        if can_open(report, run.folder):
            actions.insert(0, (tr("Open report"), partial(open_report, report, run.folder)))
        if layers:
            ids = [layer.id() for layer in layers]
            zoom = partial(zoom_to, self._iface, self._project, ids)
            actions.insert(0, (tr("Zoom to result"), zoom))
        return actions

    def _push_soon(self, *message):
        """Let QGIS say first that a task has ended: what is said last is on top."""
        self._messages.append(message)
        self._telling.start(0)

    def _push_messages(self):
        messages, self._messages = self._messages, []
        for text, level, seconds, actions in messages:
            bar = self._iface.messageBar()
            message = bar.createMessage(TITLE, as_html(text))
            for label, action in actions:
                button = QPushButton(label, message)
                button.clicked.connect(partial(_do, action))
                message.layout().addWidget(button)
            bar.pushWidget(message, level, seconds)


def _do(action, *_):
    action()
