"""The run at work: its stage, its loss, what waits behind it, and in the end what came of it."""

from __future__ import annotations

import time

from qgis.core import QgsProject
from qgis.PyQt.QtCore import Qt, pyqtSignal
from qgis.PyQt.QtWidgets import QApplication, QHBoxLayout, QLabel, QToolButton, QWidget

from .. import engine_client as engine
from ..bundle import load_form
from ..plain_text import as_tip
from ..runs.run_progress import RunProgress
from ..stage_names import stage_name
from ..translation import tr
from ..wording import in_qgis_words
from . import theme
from .clear_layout import clear_layout
from .durations import duration_text
from .loss_curve import LossCurve
from .run_end import RunEnd

TRAINING = "train"
FULL_BAR = 1000


class RunView(QWidget):
    """Follows the queue; it is hidden when there is nothing to tell."""

    use_model = pyqtSignal(str)  # a model file that the next run shall use

    def __init__(self, queue, keeper, iface, parent=None):
        super().__init__(parent)
        self._queue = queue
        self._run = None
        self._begun = 0.0
        self._seconds = None
        self._stage = ""
        self._progress = RunProgress(0)
        self._exporting, self._exported = 0, 0.0
        load_form("run_view", self)
        font = self.titleLabel.font()
        font.setBold(True)
        self.titleLabel.setFont(font)
        theme.mute(self.cancelHint)
        self.dismissButton.setIcon(theme.theme_icon("mIconClose"))
        self.curve = LossCurve(self)
        self.curveLayout.addWidget(self.curve)
        self.end = RunEnd(self.buttonLayout, iface, self)
        self.end.use_model.connect(self.use_model)
        self.cancelButton.clicked.connect(self._cancel)
        self.dismissButton.clicked.connect(self.hide)
        self.copyLogButton.clicked.connect(self._copy_log)
        queue.started.connect(self._on_started)
        queue.told.connect(self._on_event)
        queue.changed.connect(self._show_queue)
        keeper.kept.connect(self._on_kept)
        QgsProject.instance().cleared.connect(self._on_cleared)
        self.hide()
        if queue.current is not None:
            self._on_started(queue.current)
        self._show_queue()

    def log(self):
        """Give the log as it is shown."""
        return self.logText.toPlainText()

    def _on_started(self, run):
        self._run = run
        self._begun, self._seconds = time.monotonic(), None
        self._stage = ""
        self._progress = RunProgress(len({export for job in run.jobs for export in job.exports}))
        self._exporting, self._exported = 0, 0.0
        theme.mark(self.statusIcon, theme.WORKING)
        self.titleLabel.setText(run.name)
        self.titleLabel.setToolTip(as_tip(run.name))
        self.stageLabel.setText(tr("Starting the engine…"))
        self.timeLabel.clear()
        self.progressBar.setRange(0, 0)  # busy, until there is something to count
        self.cancelButton.setEnabled(True)
        self.cancelHint.setVisible(any(job.command == TRAINING for job in run.jobs))
        self.curve.clear()
        self.curveBox.hide()
        self.curveBox.setCollapsed(False)
        self.logText.clear()
        self.end.clear()
        self._show_working(True)
        self.show()

    def _on_event(self, run, event):
        if isinstance(event, engine.Progress):
            self._show_progress(event)
        elif isinstance(event, engine.JobStarted):
            self._progress.hear(event)
            self._stage = tr("Step {number} of {total}: {name}").format(
                number=event.number, total=event.total, name=event.name
            )
            self.stageLabel.setText(self._stage)
            self.timeLabel.clear()
            self._show_bar()
            self.cancelHint.setVisible(event.command == TRAINING)
        text = engine.as_text(event)
        if text:
            self.logText.appendPlainText(in_qgis_words(text))

    def _show_progress(self, event):
        """The bar is for the whole run; the time left is known of a step only."""
        if self._stage:
            self._progress.hear(event)
        else:
            self._hear_export(event)
        self._show_bar()
        stage = stage_name(event.stage)
        self.stageLabel.setText(f"{self._stage} · {stage}" if self._stage else stage)
        self.timeLabel.setText(
            tr("this step: {time} left").format(time=duration_text(event.seconds_left))
            if event.seconds_left is not None and event.share < 1
            else ""
        )
        if event.values:
            self.curve.add(100 * event.share, event.values)
            self.curveBox.setVisible(not self.curve.is_empty())

    def _hear_export(self, event):
        """Layers are exported before the first job, one after another."""
        if event.share < self._exported:
            self._exporting += 1
        self._exported = event.share
        self._progress.exporting(self._exporting, event.share)

    def _show_bar(self):
        self.progressBar.setRange(0, FULL_BAR)
        self.progressBar.setValue(round(FULL_BAR * self._progress.percent / 100))

    def _on_kept(self, run, outcome, layers):
        if run is not self._run:  # one before, whose results were added to another project
            return
        self._show_working(False)
        theme.mark(self.statusIcon, self.end.icon(outcome))
        if self._seconds is None:
            self._seconds = time.monotonic() - self._begun
        self.endSentence.setText(self.end.sentence(run, outcome, layers, self._seconds))
        self.end.offer(run, outcome, layers)
        self.curveBox.setCollapsed(True)
        if not self.log().strip():
            self.logText.setPlainText(outcome.transcript)
        self.show()

    def _on_cleared(self):
        """What came of a run in another project is of no use in this one."""
        if self._queue.current is None:
            self.end.clear()
            self.hide()

    def _show_working(self, working):
        self.workBox.setVisible(working)
        self.endSentence.setVisible(not working)
        self.dismissButton.setVisible(not working)

    def _show_queue(self):
        clear_layout(self.queueLayout)
        for run in self._queue.waiting:
            self.queueLayout.addWidget(self._waiting_row(run))

    def _waiting_row(self, run):
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(0, 0, 0, 0)
        icon, name, remove = (
            QLabel(),
            QLabel(tr("Next: {name}").format(name=run.name)),
            QToolButton(),
        )
        theme.mark(icon, theme.WAITING)
        name.setTextFormat(Qt.TextFormat.PlainText)
        remove.setIcon(theme.theme_icon("mIconClose"))
        remove.setAutoRaise(True)
        remove.setObjectName("removeWaitingButton")
        remove.setToolTip(tr("Take this run out of the queue."))
        remove.clicked.connect(lambda: self._queue.cancel(run))
        line.addWidget(icon)
        line.addWidget(name, 1)
        line.addWidget(remove)
        return row

    def _cancel(self):
        if self._queue.current is not None:
            self.cancelButton.setEnabled(False)
            self.stageLabel.setText(tr("Stopping; what is worth keeping is being saved…"))
            self.timeLabel.clear()
            self._queue.cancel(self._queue.current)

    def _copy_log(self):
        QApplication.clipboard().setText(self.log())
