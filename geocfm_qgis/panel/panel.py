"""The panel: four steps on one surface, what the data allow, Run, and the run at work.

Names by which a test finds the widgets it drives: geocfmPanel; engineBanner, setupButton;
section1Button .. section4Button and section1State .. section4State; of the steps trainRadio,
loadRadio, presetCombo, minutesSpin, seedSpin, deviceCombo, advancedBox, iterationsSpin, windowSpin,
tileSpin, resolutionSpin, settingsEdit, checkpointFile, exampleLink, cardText, matchCombo0 ..;
prospectivityCheck, samplesCheck, evaluationCheck, prospectivityFile, samplesFile, evaluationFile,
modelFile, drawsSpin, pointsSpin, nameEdit, placeCombo, folderFile, overwriteCheck; summaryLabel,
detailsButton; runButton, moreButton with copyCommandLineAction, copyJobFileAction,
saveJobFileAction, historyAction, sampleDataAction, helpAction; of the run runView, titleLabel,
stageLabel, timeLabel, progressBar, cancelButton, lossCurve, endSentence, zoomButton,
openFolderButton, exportButton, evaluationButton, useModelButton, diagnosticsButton,
removeWaitingButton, logBox, logText, copyLogButton, dismissButton; historyView.
"""

from __future__ import annotations

import os
from dataclasses import replace

from qgis.core import QgsProcessingException, QgsProject
from qgis.PyQt.QtCore import QTimer, pyqtSignal
from qgis.PyQt.QtWidgets import QApplication, QDockWidget, QWidget

from .. import settings
from ..bundle import load_form
from ..translation import tr
from . import plan, theme
from .choice_store import load_choices, save_choices
from .choices import Choices, LayerChoices, ModelChoices, OccurrenceChoices
from .engine_state import EngineState
from .fitting_scroll_area import FittingScrollArea
from .history_view import HistoryView
from .layers_step import LayersStep
from .model_step import ModelStep
from .occurrences_step import OccurrencesStep
from .preflight import Preflight
from .preflight_view import PreflightView
from .products import product
from .results_step import ResultsStep
from .run_keeper import RunKeeper
from .run_menu import RunMenu
from .run_view import RunView
from .section import Section
from .step import READY, StepState
from .summary import summary_sentence, whole_grid

MOST_REPORT_PX, MOST_RUN_PX = 200, 420


class GeoCFMPanel(QDockWidget):
    """All of GeoCFM in a dock; closing it stops nothing."""

    sample_asked = pyqtSignal()
    help_asked = pyqtSignal()

    def __init__(self, iface, queue, parent=None):
        super().__init__(tr("GeoCFM"), parent)
        self.setObjectName("geocfmPanel")
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
        return Choices(
            self.layers.choices(),
            self.occurrences.choices(),
            self.model.choices(),
            self.results.choices(),
        )

    def set_choices(self, choices):
        """Show these Choices in the steps."""
        self.layers.set_choices(choices.layers)
        self.occurrences.set_choices(choices.occurrences)
        self.model.set_channels(self.layers.all_channels())
        self.model.set_choices(choices.model)
        self._relate()
        self.results.set_choices(choices.results)
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
        if self.preflight.run is not None and self.preflight.report.can_run:
            self._queue.add(self.preflight.run)

    def refresh(self):
        """Take in what has changed: relate the steps, show their states, check anew."""
        self._relate()
        for section in self.sections:
            section.show_state(self._state_of(section.step))
        self.engineBanner.setVisible(bool(self.engine.problem))
        self.bannerText.setText(self.engine.problem)
        problems = self.problems()
        self.preflight.update(self.choices(), problems, self._queue.current is not None)

    def problems(self):
        """Give what keeps the run from starting, as far as we can tell ourselves."""
        found = []
        for step in (self.layers, self.occurrences, self.model, self.results):
            if step is not self.occurrences or self._needs_occurrences():
                found += step.problems()
        if self.engine.problem:
            found.append(
                tr("There is no engine to compute with. Press 'Set up the engine…' above.")
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
        for name in ("engineBanner", "bannerText", "setupButton", "runButton", "moreButton"):
            setattr(self, name, getattr(content, name))
        self.layers = LayersStep(self.project)
        self.occurrences = OccurrencesStep(self.project)
        self.model = ModelStep(self.project)
        self.results = ResultsStep(self.project)
        self.sections = [
            Section(1, tr("Layers"), self.layers),
            Section(2, tr("Occurrences"), self.occurrences),
            Section(3, tr("Model"), self.model),
            Section(4, tr("Results"), self.results),
        ]
        for place, section in enumerate(self.sections):
            content.stepsLayout.insertWidget(place, section)
        self.report = PreflightView()
        content.footerLayout.insertWidget(0, FittingScrollArea(self.report, MOST_REPORT_PX))
        self.run_view = RunView(self._queue, self.keeper, self._iface)
        content.footerLayout.addWidget(FittingScrollArea(self.run_view, MOST_RUN_PX))
        self.runButton.setIcon(theme.theme_icon("mActionStart"))
        self.menu = RunMenu(self._iface, self._make_run, self)
        self.moreButton.setMenu(self.menu)
        self.setWidget(content)

    def _connect(self):
        for step in (self.layers, self.occurrences, self.model, self.results):
            step.changed.connect(self._refresh_soon)
        self.engine.changed.connect(self._on_engine)
        self.preflight.changed.connect(self._show_report)
        self.runButton.clicked.connect(self.start)
        self.setupButton.clicked.connect(self._set_up_engine)
        self.menu.history_asked.connect(self._show_history)
        self.menu.sample_asked.connect(self.sample_asked)
        self.menu.help_asked.connect(self.help_asked)
        self.run_view.use_model.connect(self.model.use_checkpoint)
        self.keeper.show_panel.connect(self._come_up)
        self.keeper.kept.connect(self._on_kept)
        self._queue.changed.connect(self._on_queue)
        QApplication.instance().focusWindowChanged.connect(self._look_at_engine)
        self.project.writeProject.connect(self._save)
        self.project.readProject.connect(self._load)
        self.project.cleared.connect(self._clear)

    def _refresh_soon(self):
        """Several changes at once, as when a project opens, are taken in together."""
        self._refreshing.start(0)

    def _relate(self):
        """Tell each step what it has to know of the others; none of this counts as a change."""
        training = self.model.choices().train
        steps = (self.layers, self.model, self.results)
        self.occurrences.set_layer_choices(self.layers.choices() if training else LayerChoices())
        for step in steps:
            step.blockSignals(True)
        self.layers.set_needed(training)
        self.model.set_channels(self.layers.all_channels())
        points = self.project.mapLayer(self.occurrences.choices().layer)
        self.results.set_subject(self._subject(), training, points is not None)
        for step in steps:
            step.blockSignals(False)

    def _subject(self):
        """What the run is about, for its name: the occurrences, or the model that is used."""
        model = self.model.choices()
        if not model.train:
            return os.path.splitext(os.path.basename(model.checkpoint))[0]
        chosen = self.occurrences.choices()
        layer = self.project.mapLayer(chosen.layer)
        parts = [layer.name() if layer is not None else "", *chosen.values]
        return " ".join(part for part in parts if part)

    def _needs_occurrences(self):
        wanted = (product(choice.key) for choice in self.results.choices().products)
        return self.model.choices().train or any(each.needs_occurrences for each in wanted)

    def _state_of(self, step):
        if step is self.occurrences and not self._needs_occurrences():
            return StepState(READY, tr("only needed to train or evaluate"))
        return step.state()

    def _show_report(self):
        report = self.preflight.report
        self.report.show_report(report, self._summary())
        busy = self._queue.current is not None
        self.runButton.setEnabled(report.can_run)
        self.runButton.setText(tr("Run after this one") if busy else tr("Run"))
        self.runButton.setToolTip("\n".join(report.problems))

    def _summary(self):
        choices = self.choices()
        facts = self.preflight.report.facts or {}
        count = facts.get("occurrences", {}).get("used")
        return summary_sentence(choices, count, whole_grid(choices, self.project))

    def _make_run(self):
        problems = [text for text in self.problems() if text]
        if problems and not self.engine.problem:
            raise QgsProcessingException(problems[0])
        return plan.make_run(self.choices(), self.project)

    def _on_engine(self):
        self.model.set_devices(self.engine.devices)
        self.refresh()

    def _look_at_engine(self):
        """Somebody may come back from QGIS's options."""
        if self.isVisible():
            self.engine.refresh()

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

    def _set_up_engine(self):
        from ..options_page import OPTIONS_PAGE  # QGIS's options are rarely opened from here

        self._iface.showOptionsDialog(self._iface.mainWindow(), OPTIONS_PAGE)
        self.engine_changed()

    def _show_history(self):
        if self._history is None:
            self._history = HistoryView(self.project, self)
            self._history.repeat.connect(self._repeat)
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
        self.layers.set_choices(LayerChoices())
        self.occurrences.set_choices(OccurrenceChoices())
        self.model.set_choices(ModelChoices(device=settings.default_device()))
        self.results.reset()
        self._refresh_soon()
