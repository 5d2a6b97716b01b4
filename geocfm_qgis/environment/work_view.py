"""What is being done to the environment: stage, time, last line, Cancel, and the log."""

import html
import time

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QTimer
from qgis.PyQt.QtWidgets import QSizePolicy, QWidget

from ..bundle import load_form
from ..translation import tr
from .installation import FAILED
from .plan import as_size

LOG_LINES = 20000


class WorkView(QWidget):
    """Watches a task; opened anew, it shows all that the task has said before."""

    def __init__(self, parent=None):
        super().__init__(parent)
        load_form("environment_work", self)
        self._task = None
        self._stage = None
        self._stage_began = 0.0
        self._clock = QTimer(self)
        self._clock.setInterval(1000)
        self._clock.timeout.connect(self._show_stage)
        self.progressBox.setVisible(False)
        self.outcomeLabel.setVisible(False)
        self.logBox.setVisible(False)
        self.logText.setMaximumBlockCount(LOG_LINES)
        # a long line of pip's must not widen the page
        self.lineLabel.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.cancelButton.clicked.connect(self._cancel)
        self.copyButton.clicked.connect(self.copy_log)

    def watch(self, task):
        """Show a task from here on."""
        self._task = task
        self.outcomeLabel.setVisible(False)
        self.logText.setPlainText("\n".join(task.log))
        self.logBox.setVisible(True)
        self.progressBox.setVisible(True)
        self.cancelButton.setEnabled(True)
        self.progressBar.setRange(0, 0)
        self.stageLabel.setText(task.description())
        self.lineLabel.setText("")
        task.stage.connect(self._enter)
        task.log_line.connect(self.logText.appendPlainText)
        task.ended.connect(self._end)
        if task.last_stage is not None:
            self._enter(task.last_stage)
        self._clock.start()

    def show_outcome(self, outcome):
        """Say how the work ended."""
        self.show_sentences(outcome.message, outcome.remedy)
        if outcome.status == FAILED:
            self.logBox.setCollapsed(False)

    def show_sentences(self, message, remedy, details=""):
        """Show a sentence with its remedy, and details in the log."""
        self.outcomeLabel.setText(f"<b>{html.escape(message)}</b> {html.escape(remedy)}")
        self.outcomeLabel.setVisible(True)
        if details:
            self.logText.setPlainText(details)
            self.logBox.setVisible(True)

    def clear_outcome(self):
        """Take away what was said of the last work."""
        self.outcomeLabel.setVisible(False)

    def copy_log(self):
        """Put the log on the clipboard."""
        QgsApplication.clipboard().setText(self.logText.toPlainText())

    def _enter(self, stage):
        if self._stage is None or stage.number != self._stage.number:
            self._stage_began = time.monotonic()
        self._stage = stage
        self._show_stage()

    def _show_stage(self):
        stage = self._stage
        if stage is None:
            return
        minutes, seconds = divmod(int(time.monotonic() - self._stage_began), 60)
        self.stageLabel.setText(
            tr("Step {number} of {total}: {title} ({minutes}:{seconds:02d})").format(
                number=stage.number,
                total=stage.total,
                title=stage.title,
                minutes=minutes,
                seconds=seconds,
            )
        )
        line = stage.line.strip()
        if stage.downloaded_bytes:
            arrived = tr("{size} downloaded").format(size=as_size(stage.downloaded_bytes))
            line = f"{arrived}   {line}"
        self.lineLabel.setText(line)

    def _cancel(self):
        self.cancelButton.setEnabled(False)
        self.stageLabel.setText(tr("Cancelling …"))
        self._stage = None
        self._task.cancel()

    def _end(self, _outcome):
        self._clock.stop()
        self._task = self._stage = None
        self.progressBox.setVisible(False)
