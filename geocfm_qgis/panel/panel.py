"""The panel: four steps on one surface, what the data allow, Run, and the run at work.

Names by which a test finds the widgets it drives: geocfmPanel; engineBanner, setupButton,
engineDiagnosticsButton; section1Button .. section4Button and section1State .. section4State; of the
steps trainRadio, loadRadio, presetCombo, minutesSpin, ensembleSpin, seedSpin, deviceCombo,
advancedBox, iterationsSpin, windowSpin, tileSpin, resolutionSpin, foldsSpin, effortCombo,
groundCombo, positiveOnlyCheck, settingsEdit, checkpointFile, exampleLink, cardText, matchCombo0 ..;
prospectivityCheck, uncertaintyCheck, targetsCheck, samplesCheck, evaluationCheck and the same with
File, modelFile, numberSpin, area_shareSpin, excludeSpin, drawsSpin, pointsSpin, nameEdit,
placeCombo, folderFile, overwriteCheck; summaryLabel, checkDiagnosticsButton, detailsButton;
runButton, moreButton with copyCommandLineAction, copyJobFileAction, saveJobFileAction,
historyAction, sampleDataAction, helpAction; of the run runView, titleLabel, stageLabel, timeLabel,
progressBar, cancelButton, curveBox, lossCurve, endSentence, zoomButton, openFolderButton,
exportButton, reportButton, evaluationButton, useModelButton, diagnosticsButton,
removeWaitingButton, logBox, logText, copyLogButton, dismissButton; historyView.
"""

from __future__ import annotations

from dataclasses import replace

from qgis.core import QgsProcessingException, QgsProject
from qgis.PyQt.QtCore import QTimer, pyqtSignal
from qgis.PyQt.QtWidgets import QApplication, QDockWidget, QWidget

from .. import engine_client as engine
from ..bundle import load_form
from ..diagnostics import diagnostics_text
from ..plain_text import as_tip
from ..translation import tr
from ..wheel_guard import WheelGuard
from . import plan, theme
from .choice_store import load_choices, save_choices
from .choices import Choices
from .engine_banner import EngineBanner
from .engine_state import EngineState
from .fitting_scroll_area import FittingScrollArea
from .footed_splitter import FootedSplitter
from .history_view import HistoryView
from .preflight import Preflight
from .preflight_view import PreflightView
from .run_keeper import RunKeeper
from .run_menu import RunMenu
from .run_view import RunView
from .steps import Steps
from .summary import summary_sentence, whole_grid

MOST_REPORT_PX, LEAST_REPORT_PX, MOST_RUN_PX = 200, 110, 420
ALWAYS_THERE = ("", "auto")  # devices

# Held until Qt has deleted them: Python would take apart a panel that is to be deleted later while
# its widgets still get events.
_panels = set()


class GeoCFMPanel(QDockWidget):
    """All of GeoCFM in a dock; closing it stops nothing."""

    sample_asked = pyqtSignal()
    help_asked = pyqtSignal()

    def __init__(self, iface, queue, parent=None):
        super().__init__(tr("GeoCFM"), parent)
        self.setObjectName("geocfmPanel")
        _panels.add(self)
        self.destroyed.connect(lambda *_: _panels.discard(self))
        self.project = QgsProject.instance()
        self._iface = iface
        self._queue = queue
        self._history = None
        self.engine = EngineState(self)
        self.preflight = Preflight(self.project, self)
        self.keeper = RunKeeper(queue, self.project, iface, self)
        self._refreshing = QTimer(self)
        self._refreshing.setSingleShot(True)
        self._refreshing.timeout.connect(self.refresh)
        self._build()
        self._connect()
        stored = load_choices(self.project)
        if stored is not None:
            self.set_choices(stored)
        self.refresh()

    def choices(self):
        """Give all that is chosen."""
        return self.steps.choices()

    def set_choices(self, choices):
        """Show these Choices in the steps."""
        self.steps.set_choices(choices)
        self.refresh()

    def engine_changed(self):
        """Look at the engine again: the settings or its packages may have changed."""
        self.preflight.forget()
        self.engine.ask_again()

    def start(self):
        """Run what is chosen, at once or when its turn comes."""
        if self._refreshing.isActive():  # a change was made a moment ago
            self._refreshing.stop()
            self.refresh()
        if self.preflight.run is None or not self.preflight.report.can_run:
            return
        if self.preflight.still_holds(self.choices()):
            self._queue.add(self.preflight.run)
            self.results.make_ready_for_next()
        else:
            self.refresh()

    def refresh(self):
        """Take in what has changed: relate the steps, show their states, check anew."""
        self.steps.relate()
        self.steps.show_states()
        self.banner.refresh()
        self.preflight.update(
            self.choices(),
            self.problems(),
            has_engine=not self.engine.problem,
            engine_is_busy=self._queue.current is not None,
        )

    def problems(self):
        """Give what keeps the run from starting, but for a missing engine: see the banner."""
        found = self.steps.problems()
        device = self.model.choices().device
        names = [name for name, _ in self.engine.devices]
        if names and device not in (*names, *ALWAYS_THERE):
            found.append(
                tr(
                    "The engine has no device '{name}' here. Choose another one in the Model step."
                ).format(name=device)
            )
        return found

    def showEvent(self, event):
        """Ask the engine who it is, at the earliest when the panel is seen."""
        super().showEvent(event)
        self.engine.refresh()
        self.results.refresh()

    def _build(self):
        content = QWidget()
        load_form("panel", content)
        self.runButton, self.moreButton = content.runButton, content.moreButton
        self.banner = EngineBanner(self.engine)
        content.mainLayout.insertWidget(0, self.banner)
        content.mainLayout.addWidget(FootedSplitter(content.stepsArea, content.footer))
        self.steps = Steps(self.project, self)
        self.layers, self.occurrences = self.steps.layers, self.steps.occurrences
        self.model, self.results = self.steps.model, self.steps.results
        self.sections = self.steps.sections
        for place, section in enumerate(self.sections):
            content.stepsLayout.insertWidget(place, section)
        self.report = PreflightView()
        report_area = FittingScrollArea(self.report, MOST_REPORT_PX, LEAST_REPORT_PX)
        content.footerLayout.insertWidget(0, report_area)
        self.run_view = RunView(self._queue, self.keeper, self._iface)
        content.footerLayout.addWidget(FittingScrollArea(self.run_view, MOST_RUN_PX))
        self.runButton.setIcon(theme.theme_icon("mActionStart"))
        self.menu = RunMenu(self._iface, self._make_run, self)
        self.moreButton.setMenu(self.menu)
        self.setWidget(content)
        WheelGuard(content)

    def _connect(self):
        self.steps.changed.connect(self._refresh_soon)
        self.engine.changed.connect(self._on_engine)
        self.preflight.changed.connect(self._on_report)
        self.report.diagnostics_asked.connect(self._copy_diagnostics)
        self.runButton.clicked.connect(self.start)
        self.banner.setupButton.clicked.connect(self._set_up_engine)
        self.menu.history_asked.connect(self._show_history)
        self.menu.sample_asked.connect(self.sample_asked)
        self.menu.help_asked.connect(self.help_asked)
        self.run_view.use_model.connect(self.model.use_checkpoint)
        self.keeper.show_panel.connect(self._come_up)
        self.keeper.kept.connect(self._on_kept)
        self._queue.changed.connect(self._on_queue)
        QApplication.instance().focusWindowChanged.connect(self._look_at_options)
        self.project.writeProject.connect(self._save)
        self.project.readProject.connect(self._load)
        self.project.cleared.connect(self._clear)

    def _refresh_soon(self):
        """Several changes at once, as when a project opens, are taken in together."""
        self._refreshing.start(0)

    def _on_report(self):
        self._show_report()
        if self.preflight.report.meets_other_work and self.steps.avoid_name():
            self._refresh_soon()

    def _show_report(self):
        report = self.preflight.report
        busy = self._queue.current is not None
        self.report.show_report(report, self._summary(), briefly=busy)
        self.runButton.setEnabled(report.can_run)
        self.runButton.setText(tr("Run after this one") if busy else tr("Run"))
        missing = tr("There is no engine to compute with. Press 'Set up the engine…' above.")
        reasons = [*([missing] if self.engine.problem else []), *report.problems]
        self.runButton.setToolTip(as_tip("\n".join(reasons)))

    def _summary(self):
        choices = self.choices()
        facts = self.preflight.report.facts or {}
        count = facts.get("occurrences", {}).get("used")
        return summary_sentence(choices, count, whole_grid(choices, self.project))

    def _make_run(self):
        problems = self.problems()
        if problems:
            raise QgsProcessingException(problems[0])
        return plan.make_run(self.choices(), self.project)

    def _on_engine(self):
        self.model.set_devices(self.engine.devices)
        self.refresh()

    def _look_at_options(self):
        """Somebody may come back from QGIS's options."""
        if self.isVisible():
            self.engine.refresh()
        self.results.look_at_place()

    def _on_queue(self):
        runs = [run for run in (self._queue.current, *self._queue.waiting) if run is not None]
        self.results.set_taken([run.folder for run in runs])
        self._refresh_soon()

    def _on_kept(self):
        self.model.reread()
        self.results.refresh()
        self._refresh_soon()
        if self._history is not None:
            self._history.refresh()

    def _come_up(self):
        self.show()
        self.raise_()

    def _copy_diagnostics(self):
        report = self.preflight.report
        outcome = engine.Outcome(
            engine.BROKEN,
            "\n".join(report.problems or report.warnings),
            transcript=report.transcript,
        )
        QApplication.clipboard().setText(diagnostics_text(outcome))

    def _set_up_engine(self):
        from ..options_page import OPTIONS_PAGE  # QGIS's options are rarely opened from here

        self._iface.showOptionsDialog(self._iface.mainWindow(), OPTIONS_PAGE)
        self.engine_changed()

    def _show_history(self):
        if self._history is None:
            self._history = HistoryView(self.project, self)
            self._history.repeat.connect(self._repeat)
            self._history.use_model.connect(self.model.use_checkpoint)
        self._history.refresh()
        self._history.show()
        self._history.raise_()

    def _repeat(self, choices):
        self.set_choices(Choices.from_dict(choices))
        self.results.take_free_name()

    def _save(self):
        kept = replace(self.choices(), results=self.results.choices_to_keep())
        save_choices(self.project, kept)

    def _load(self):
        stored = load_choices(self.project)
        if stored is not None:
            self.set_choices(stored)

    def _clear(self):
        self.steps.reset()
        self._refresh_soon()
