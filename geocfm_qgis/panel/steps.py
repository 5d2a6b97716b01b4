"""The four steps: what each has to know of the others, and what is chosen in all of them."""

from __future__ import annotations

from dataclasses import replace

from qgis.PyQt.QtCore import QObject, pyqtSignal

from .. import settings
from ..translation import tr
from .card_text import model_name
from .choices import Choices, LayerChoices, ModelChoices, OccurrenceChoices
from .layers_step import LayersStep
from .model_step import ModelStep
from .occurrences_step import OccurrencesStep
from .products import product
from .results_step import ResultsStep
from .section import Section
from .step import READY, StepState


class Steps(QObject):
    """The steps in their order, each in a section of its own."""

    changed = pyqtSignal()

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self._project = project
        self._renamed_for = None  # the choices for which a name was avoided
        self.layers = LayersStep(project)
        self.occurrences = OccurrencesStep(project)
        self.model = ModelStep(project)
        self.results = ResultsStep(project)
        self.sections = [
            Section(1, tr("Layers"), self.layers),
            Section(2, tr("Occurrences"), self.occurrences),
            Section(3, tr("Model"), self.model),
            Section(4, tr("Results"), self.results),
        ]
        for section in self.sections:
            section.step.changed.connect(self.changed)

    def choices(self):
        """Give all that is chosen."""
        return Choices(*(section.step.choices() for section in self.sections))

    def set_choices(self, choices):
        """Show these Choices."""
        self.layers.set_choices(choices.layers)
        self.occurrences.set_choices(choices.occurrences)
        self.model.set_channels(self.layers.all_channels())
        self.model.set_choices(choices.model)
        self.relate()
        self.results.set_choices(choices.results)

    def reset(self):
        """Show what a new project begins with."""
        self.layers.set_choices(LayerChoices())
        self.occurrences.set_choices(OccurrenceChoices())
        self.model.set_choices(ModelChoices(device=settings.default_device()))
        self.results.reset()

    def relate(self):
        """Tell each step what it has to know of the others; none of this counts as a change."""
        chosen = self.model.choices()
        steps = (self.layers, self.model, self.results)
        layers = self.layers.choices() if chosen.train else LayerChoices()
        self.occurrences.set_layer_choices(layers, chosen.resolution)
        for step in steps:
            step.blockSignals(True)
        self.layers.set_needed(chosen.train)
        self.model.set_channels(self.layers.all_channels())
        points = self._project.mapLayer(self.occurrences.choices().layer)
        self.results.set_subject(self._subject(), chosen.train, points is not None)
        if self._renamed_for not in (None, self._all_but_the_name()):
            self._renamed_for = None
            self.results.allow_names()
        for step in steps:
            step.blockSignals(False)

    def show_states(self):
        """Show in each header how far the step is."""
        for section in self.sections:
            needless = section.step is self.occurrences and not self._needs_occurrences()
            words = tr("only needed to train or evaluate")
            section.show_state(StepState(READY, words) if needless else section.step.state())

    def problems(self):
        """Give what keeps the run from starting, as far as the steps can tell."""
        found = []
        for section in self.sections:
            if section.step is not self.occurrences or self._needs_occurrences():
                found += section.step.problems()
        return found

    def avoid_name(self):
        """Propose another name as long as nothing else is chosen; tell whether there is one."""
        is_other = self.results.avoid_name()
        if is_other:
            self._renamed_for = self._all_but_the_name()
        return is_other

    def _subject(self):
        """What the run is about, for its name: the occurrences, or the model that is used."""
        model = self.model.choices()
        if not model.train:
            return model_name(model.checkpoint)
        chosen = self.occurrences.choices()
        layer = self._project.mapLayer(chosen.layer)
        parts = [layer.name() if layer is not None else "", *chosen.values]
        return " ".join(part for part in parts if part)

    def _needs_occurrences(self):
        """Also where they are only told of, as by targets: a layer that is chosen must be sound."""
        wanted = [product(choice.key) for choice in self.results.choices().products]
        has_layer = self._project.mapLayer(self.occurrences.choices().layer) is not None
        return self.model.choices().train or any(
            each.needs_occurrences or (each.knows_occurrences and has_layer) for each in wanted
        )

    def _all_but_the_name(self):
        choices = self.choices()
        return replace(choices, results=replace(choices.results, name="", overwrite=False))
