"""What is done with a run that has ended: layers into the project, its record, a message."""

from __future__ import annotations

from qgis.core import Qgis
from qgis.PyQt.QtCore import QObject, pyqtSignal
from qgis.PyQt.QtWidgets import QPushButton

from .. import engine_client as engine
from ..results import add_run_layers
from ..runs import history
from ..translation import tr

TITLE = "GeoCFM"
SUCCESS_SECONDS = 15


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
        self._of_other_projects = []
        queue.started.connect(self._on_started)
        queue.ended.connect(self._on_ended)
        project.cleared.connect(self._on_cleared)

    def _on_cleared(self):
        """Runs begun for the project that was closed must not appear in the next."""
        at_work = [self._queue.current] if self._queue.current is not None else []
        self._of_other_projects = [*at_work, *self._queue.waiting]

    def _on_started(self, run):
        self._at_work = run

    def _on_ended(self, run, outcome):
        if run is not self._at_work:  # taken out of the queue before it began
            return
        layers = []
        if any(run is other for other in self._of_other_projects):
            self._tell_elsewhere(run, outcome)
        else:
            layers = add_run_layers(self._project, run, outcome)
            history.record(self._project, run, outcome)
            self._tell(run, outcome)
        self.kept.emit(run, outcome, layers)

    def _tell(self, run, outcome):
        if outcome.status == engine.DONE:
            text = tr("'{name}' is finished.").format(name=run.name)
            self._push(text, Qgis.MessageLevel.Success, SUCCESS_SECONDS)
        elif outcome.status == engine.CANCELLED:
            text = tr("'{name}' was cancelled.").format(name=run.name)
            self._push(text, Qgis.MessageLevel.Info, SUCCESS_SECONDS)
        else:
            text = tr("'{name}' did not finish. {reason}").format(
                name=run.name, reason=f"{outcome.message} {outcome.hint}".strip()
            )
            self._push(text, Qgis.MessageLevel.Warning, 0)

    def _tell_elsewhere(self, run, outcome):
        if outcome.status == engine.DONE:
            text = tr(
                "'{name}' of the project open before is finished. Its results are in {folder}."
            ).format(name=run.name, folder=run.folder)
            self._push(text, Qgis.MessageLevel.Info, 0)
        else:
            self._tell(run, outcome)

    def _push(self, text, level, seconds):
        bar = self._iface.messageBar()
        message = bar.createMessage(TITLE, text)
        button = QPushButton(tr("Show"), message)
        button.clicked.connect(self.show_panel)
        message.layout().addWidget(button)
        bar.pushWidget(message, level, seconds)
