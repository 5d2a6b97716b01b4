"""The third step: train a new model, or use one that was trained before."""

from __future__ import annotations

from dataclasses import replace

from qgis.gui import QgsFileWidget

from .. import settings
from ..algorithms.training_parameters import AUTO, REGION, WINDOW
from ..bundle import load_form, resources_folder
from ..compat import RASTER_LAYERS
from ..jobs.checkpoint_card import CheckpointError, read_card
from ..plain_text import as_html
from ..translation import tr
from .card_text import card_html, model_name
from .choices import ModelChoices
from .layer_matches import LayerMatches
from .layer_origins import current_id, origins
from .presets import all_presets
from .result_files import MODEL_SUFFIX
from .step import READY, TO_DO, WRONG, Step, StepState
from .theme import mute

NO_FOLDS = 1  # in the box: no cross-validation
EXAMPLE = "murchison_gold.safetensors"


class ModelStep(Step):
    """How the model is trained, or which one is loaded and what its layers are here."""

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self.project = project
        self.card = None
        self._card_problem = ""
        load_form("model_step", self)
        self._presets = {preset.key: preset for preset in all_presets()}
        for preset in self._presets.values():
            self.presetCombo.addItem(preset.title, preset.key)
        self._last_preset = self.presetCombo.currentData()
        for ground, title in (
            (AUTO, tr("Automatic")),
            (WINDOW, tr("Surroundings of occurrences")),
            (REGION, tr("Whole region")),
        ):
            self.groundCombo.addItem(title, ground)
        self._last_ground = AUTO
        self._matches = LayerMatches(self.matchLayout, self)
        self.checkpointFile.setStorageMode(QgsFileWidget.StorageMode.GetFile)
        self.checkpointFile.setFilter(tr("Models of GeoCFM") + f" (*{MODEL_SUFFIX})")
        self.checkpointFile.lineEdit().setPlaceholderText(tr("model file, .safetensors"))
        self.exampleLink.setText(
            '<a href="example">{}</a>'.format(tr("Use the example: gold in the Murchison"))
        )
        self.effortCombo.prepare(project, RASTER_LAYERS, tr("not known"))
        mute(self.presetSentence)
        self.set_devices(settings.known_devices())
        self.setAcceptDrops(True)
        self._connect()
        self._show_way()
        self._show_preset()
        self._read_checkpoint()

    def choices(self):
        """Give the ModelChoices."""
        texts = (text.strip() for text in self.settingsEdit.text().split(","))
        matches = self._matches.matches()
        return ModelChoices(
            train=self.trainRadio.isChecked(),
            preset=self.presetCombo.currentData(),
            minutes=self.minutesSpin.value(),
            device=self.deviceCombo.currentData(),
            seed=self.seedSpin.value(),
            ensemble=self.ensembleSpin.value(),
            folds=self.foldsSpin.value() if self.foldsSpin.value() > NO_FOLDS else None,
            effort=self.effortCombo.layer_id(),
            ground=self.groundCombo.currentData(),
            positive_only=self.positiveOnlyCheck.isChecked(),
            iterations=self.iterationsSpin.value() or None,
            window=self.windowSpin.value() or None,
            tile=self.tileSpin.value() or None,
            resolution=self.resolutionSpin.value() or None,
            settings=tuple(text for text in texts if text),
            checkpoint=self.checkpointFile.filePath(),
            matches=matches,
            origins={
                **origins(self.project, [each.layer for each in matches]),
                **self.effortCombo.origins(),
            },
        )

    def set_choices(self, choices):
        """Show these ModelChoices."""
        (self.trainRadio if choices.train else self.loadRadio).setChecked(True)
        self.presetCombo.setCurrentIndex(max(0, self.presetCombo.findData(choices.preset)))
        self.minutesSpin.setValue(choices.minutes)
        self._choose_device(choices.device)
        self.seedSpin.setValue(choices.seed)
        self.ensembleSpin.setValue(choices.ensemble)
        self.foldsSpin.setValue(choices.folds or NO_FOLDS)
        self.effortCombo.choose(choices.effort, choices.origins)
        self.positiveOnlyCheck.setChecked(False)
        self._choose_ground(choices.ground)
        self.positiveOnlyCheck.setChecked(choices.positive_only)
        self.iterationsSpin.setValue(choices.iterations or 0)
        self.windowSpin.setValue(choices.window or 0)
        self.tileSpin.setValue(choices.tile or 0)
        self.resolutionSpin.setValue(choices.resolution or 0.0)
        self.settingsEdit.setText(", ".join(choices.settings))
        self.checkpointFile.setFilePath(choices.checkpoint)
        self._matches.set_matches(
            [
                replace(each, layer=current_id(self.project, each.layer, choices.origins))
                for each in choices.matches
            ]
        )

    def set_channels(self, channels):
        """Take in all bands of the project, for the layers of a loaded model."""
        self._matches.set_channels(channels)

    def set_devices(self, devices):
        """Offer the devices that the engine found, as (name, description)."""
        chosen = self.deviceCombo.currentData() or settings.default_device()
        self.deviceCombo.blockSignals(True)
        self.deviceCombo.clear()
        self.deviceCombo.addItem(tr("Automatic"), "auto")
        for name, description in devices:
            self.deviceCombo.addItem(description or name, name)
        self._choose_device(chosen)
        self.deviceCombo.blockSignals(False)

    def use_checkpoint(self, path):
        """Load this model file."""
        self.loadRadio.setChecked(True)
        self.checkpointFile.setFilePath(str(path))

    def reread(self):
        """Look at the model file again: a run may have written it anew."""
        self._read_checkpoint()

    def state(self):
        """Give how a model comes about."""
        problems = self.problems()
        choices = self.choices()
        if problems:
            to_do = not choices.train and not choices.checkpoint
            return StepState(TO_DO if to_do else WRONG, _short(problems[0]))
        if choices.train:
            if choices.iterations:
                text = tr("train for at most {count} iterations").format(count=choices.iterations)
            elif choices.minutes:
                text = tr("train for {minutes} min").format(minutes=f"{choices.minutes:g}")
            else:
                text = tr("train by the preset")
            return StepState(READY, text)
        return StepState(READY, model_name(choices.checkpoint))

    def problems(self):
        """Give what keeps the model from being trained or used."""
        choices = self.choices()
        if not choices.train:
            return self._problems_of_checkpoint(choices)
        found = []
        for text in choices.settings:
            name, equals, value = text.partition("=")
            if not (name.strip() and equals and value.strip()):
                found.append(
                    tr(
                        "The setting '{text}' has no value. Write it like network.width=32 under "
                        "Advanced."
                    ).format(text=text)
                )
        return found

    def dragEnterEvent(self, event):
        """Take a model file that is dragged here."""
        if _dropped_model(event):
            event.acceptProposedAction()

    def dropEvent(self, event):
        """Load the model file that was dropped."""
        self.use_checkpoint(_dropped_model(event))
        event.acceptProposedAction()

    def _problems_of_checkpoint(self, choices):
        if not choices.checkpoint:
            return [tr("No model is chosen. Choose a model file, or train a new model.")]
        if self._card_problem:
            return [self._card_problem]
        missing = self._matches.missing()
        if missing:
            return [
                tr(
                    "The model needs layers that have no match yet: {names}. Add them to the "
                    "project, or choose the layers that are meant in the Model step."
                ).format(names=", ".join(missing))
            ]
        return [
            tr(
                "The model would get '{band}' for several of its layers: {names}. Choose another "
                "one for all but one of them in step 3."
            ).format(band=band, names=", ".join(names))
            for band, names in self._matches.shared().items()
        ]

    def _connect(self):
        self.trainRadio.toggled.connect(self._show_way)
        self.trainRadio.toggled.connect(self.changed)
        self.presetCombo.currentIndexChanged.connect(self._on_preset)
        self.checkpointFile.fileChanged.connect(self._on_checkpoint)
        self.exampleLink.linkActivated.connect(self._use_example)
        self._matches.changed.connect(self.changed)
        self.settingsEdit.textChanged.connect(self.changed)
        self.deviceCombo.currentIndexChanged.connect(self.changed)
        self.effortCombo.chosen.connect(self.changed)
        self.groundCombo.currentIndexChanged.connect(self.changed)
        self.positiveOnlyCheck.toggled.connect(self._on_positive_only)
        self.positiveOnlyCheck.toggled.connect(self.changed)
        for box in (
            *(self.minutesSpin, self.seedSpin, self.iterationsSpin, self.ensembleSpin),
            self.foldsSpin,
            *(self.windowSpin, self.tileSpin, self.resolutionSpin),
        ):
            box.valueChanged.connect(self.changed)

    def _show_way(self):
        training = self.trainRadio.isChecked()
        self.trainBox.setVisible(training)
        self.advancedBox.setVisible(training)
        self.loadBox.setVisible(not training)

    def _show_preset(self):
        self.presetSentence.setText(self._presets[self.presetCombo.currentData()].sentence)

    def _on_preset(self):
        """A preset brings its minutes along, unless the user has chosen others."""
        preset = self._presets[self.presetCombo.currentData()]
        if self.minutesSpin.value() == self._presets[self._last_preset].minutes:
            self.minutesSpin.setValue(preset.minutes)
        self._last_preset = preset.key
        self._show_preset()
        self.changed.emit()

    def _on_positive_only(self, positive_only):
        """The ground is then that around occurrences; afterwards it is what it was before."""
        if positive_only:
            self._last_ground = self.groundCombo.currentData()
        self._choose_ground(WINDOW if positive_only else self._last_ground)
        self.groundCombo.setEnabled(not positive_only)

    def _on_checkpoint(self):
        self._read_checkpoint()
        self.changed.emit()

    def _read_checkpoint(self):
        path = self.checkpointFile.filePath()
        self.card, self._card_problem = None, ""
        if path:
            try:
                self.card = read_card(path)
            except CheckpointError as error:
                self._card_problem = str(error)
        if self.card and [each["name"] for each in self.card["layers"]] != self._matches.names():
            self._matches.set_card(self.card)
        elif not self.card:
            self._matches.set_card(None)
        self.exampleLink.setVisible(not path and _example().exists())
        self.cardText.setText(card_html(self.card) if self.card else as_html(self._card_problem))
        self.cardText.setVisible(bool(path))
        self.matchBox.setVisible(self.card is not None)

    def _use_example(self):
        self.checkpointFile.setFilePath(str(_example()))

    def _choose_ground(self, ground):
        self.groundCombo.setCurrentIndex(max(0, self.groundCombo.findData(ground)))

    def _choose_device(self, name):
        """Show a device; one that is not offered (any more) is shown by its name."""
        position = self.deviceCombo.findData(name)
        if position < 0:
            self.deviceCombo.addItem(name, name)
            position = self.deviceCombo.count() - 1
        self.deviceCombo.setCurrentIndex(position)


def _example():
    return resources_folder() / "checkpoints" / EXAMPLE


def _short(sentence):
    return sentence.partition(".")[0]


def _dropped_model(event):
    """Give the path of the model among what is dragged, or an empty text."""
    paths = (url.toLocalFile() for url in event.mimeData().urls())
    return next((path for path in paths if path.lower().endswith(MODEL_SUFFIX)), "")
