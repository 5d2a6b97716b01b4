"""The first step: which layers, on which grid, and where."""

from dataclasses import replace

from qgis.core import QgsApplication, QgsProviderRegistry, QgsSettings
from qgis.PyQt.QtWidgets import QFileDialog

from ..bundle import load_form
from ..compat import RASTER_LAYERS
from ..jobs.raster_facts import PICTURE_PROVIDERS, cell_size, crs_name
from ..translation import tr
from .choices import LayerChoices
from .layer_origins import current_id, origins
from .layer_problems import layer_problems
from .layer_set_menu import LayerSetMenu
from .layer_sets import delete_set, find_set, save_set, saved_sets
from .raster_files import add_rasters, unreadable_sentence
from .step import READY, TO_DO, WRONG, Step, StepState

LAST_FOLDER = "geocfm/last_raster_folder"


class LayersStep(Step):
    """The checklist of rasters with its buttons, the reference grid and the area of interest."""

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self.project = project
        self._needed = None
        self._absent = ()  # channels that were asked for and that the project lacks
        self._origins = {}  # of what was asked for
        load_form("layers_step", self)
        self.addButton.setIcon(QgsApplication.getThemeIcon("/mActionAddRasterLayer.svg"))
        self.upButton.setIcon(QgsApplication.getThemeIcon("/mActionArrowUp.svg"))
        self.downButton.setIcon(QgsApplication.getThemeIcon("/mActionArrowDown.svg"))
        self._set_menu = LayerSetMenu(project, lambda: bool(self._ticked()), self)
        self.setsButton.setMenu(self._set_menu)
        self.referenceCombo.setExcludedProviders(list(PICTURE_PROVIDERS))
        self.referenceCombo.prepare(project, RASTER_LAYERS, "")
        self.areaChoice.prepare(project)
        self.channelTree.watch(project)
        self._connect()
        self.set_needed(True)
        self._say("")

    def choices(self):
        """Give the LayerChoices."""
        channels = tuple(self._ticked())
        return LayerChoices(
            channels=channels,
            reference=self.referenceCombo.layer_id(),
            extent=self.areaChoice.extent(),
            area_layer=self.areaChoice.layer_id(),
            origins={
                **origins(self.project, [channel.layer for channel in channels]),
                **self.referenceCombo.origins(),
                **self.areaChoice.origins(),
            },
        )

    def set_choices(self, choices):
        """Show these LayerChoices; what the project lacks is named, and ticked when it comes."""
        self._origins = choices.origins
        channels = [
            replace(each, layer=current_id(self.project, each.layer, choices.origins))
            for each in choices.channels
        ]
        self._absent = self._lacking(channels)
        self.channelTree.set_channels(channels)
        self.referenceCombo.choose(choices.reference, choices.origins)
        self.areaChoice.choose(choices.extent, choices.area_layer, choices.origins)
        self._say("")
        self.changed.emit()

    def all_channels(self):
        """Give every usable band of every raster of the project, ticked or not."""
        return self.channelTree.all_channels()

    def set_needed(self, needed):
        """Tell whether layers are chosen here, or given by a model; grid and area stay."""
        if needed == self._needed:
            return
        self._needed = needed
        self.notNeededLabel.setVisible(not needed)
        for widget in (
            self.channelTree,
            self.addButton,
            self.allButton,
            self.noneButton,
            self.setsButton,
            self.upButton,
            self.downButton,
        ):
            widget.setEnabled(needed)
        self.referenceCombo.set_empty_text(
            tr("Grid of the first ticked raster") if needed else tr("Cells as in the model")
        )
        self.changed.emit()

    def state(self):
        """Give the StepState: how many layers, and whether they must be aligned."""
        self.channelTree.look_again()
        problems = self.problems()
        if not self._needed:
            text = tr("The layers are those of the model")
            return StepState(WRONG if problems else READY, text)
        channels = self._ticked()
        if not channels:
            return StepState(TO_DO, tr("No layer is ticked"))
        return StepState(WRONG if problems else READY, self._summary(channels))

    def problems(self):
        """Say what keeps these layers from being used."""
        return (
            layer_problems(
                self.project,
                self._ticked() if self._needed else None,
                self._absent if self._needed else (),
                self.referenceCombo,
            )
            + self.areaChoice.problems()
        )

    def add_files(self, paths):
        """Add rasters from files to the project, and tick them."""
        added, unreadable = add_rasters(self.project, paths)
        self.channelTree.tick(True, added)
        self._say(unreadable_sentence(unreadable) if unreadable else "")

    def save_set(self, name):
        """Keep the ticked layers as a set."""
        save_set(self.project, name, self._ticked())
        self._say(tr("The set '{name}' is saved.").format(name=name))

    def load_set(self, name):
        """Tick the layers of a set; files that are not in the project are added to it."""
        entries = saved_sets(self.project).get(name, ())
        unreadable = add_rasters(self.project, find_set(self.project, entries).files)[1]
        found = find_set(self.project, entries)
        self._absent = ()
        self.channelTree.set_channels(found.channels)
        lost = [*found.missing, *(entry.name for entry in entries if entry.source in unreadable)]
        if lost:
            text = tr(
                "The set '{name}' is loaded, except for: {missing}. Their files are not where they "
                "were; add them with 'Add from file…'."
            ).format(name=name, missing=", ".join(lost))
        else:
            text = tr("The set '{name}' is loaded.").format(name=name)
        self._say(text)
        self.changed.emit()

    def delete_set(self, name):
        """Forget a set; the layers stay as they are."""
        delete_set(self.project, name)
        self._say(tr("The set '{name}' is deleted.").format(name=name))

    def _connect(self):
        self.channelTree.marked.connect(self._marked)
        self.channelTree.refreshed.connect(self._refreshed)
        self.referenceCombo.chosen.connect(self.changed)
        self.areaChoice.changed.connect(self.changed)
        self.addButton.clicked.connect(self._ask_files)
        self.allButton.clicked.connect(lambda: self.channelTree.tick(True))
        self.noneButton.clicked.connect(lambda: self.channelTree.tick(False))
        self.upButton.clicked.connect(lambda: self.channelTree.move_current(-1))
        self.downButton.clicked.connect(lambda: self.channelTree.move_current(1))
        self._set_menu.wants_load.connect(self.load_set)
        self._set_menu.wants_save.connect(self.save_set)
        self._set_menu.wants_delete.connect(self.delete_set)

    def _marked(self):
        self._absent = ()  # the user has seen what there is, and changed it
        self._say("")
        self.changed.emit()

    def _refreshed(self):
        found = {
            each.layer: current_id(self.project, each.layer, self._origins) for each in self._absent
        }
        self._absent = self._lacking(
            each for each in self._absent if found[each.layer] == each.layer
        )
        come = {old: new for old, new in found.items() if old != new}
        if come:
            self.channelTree.replace_layers(come)
        self.changed.emit()

    def _lacking(self, channels):
        return tuple(each for each in channels if self.project.mapLayer(each.layer) is None)

    def _ask_files(self):
        folder = QgsSettings().value(LAST_FOLDER, "", type=str)
        filters = QgsProviderRegistry.instance().fileRasterFilters()
        paths, _ = QFileDialog.getOpenFileNames(self, tr("Add rasters"), folder, filters)
        if paths:
            QgsSettings().setValue(LAST_FOLDER, paths[0])
            self.add_files(paths)

    def _ticked(self):
        return self.channelTree.ticked_channels()

    def _summary(self, channels):
        layers = [self.project.mapLayer(key) for key in {channel.layer for channel in channels}]
        if len(layers) == len(channels):
            text = tr("1 raster") if len(layers) == 1 else tr("{count} rasters")
        elif len(layers) == 1:
            text = tr("{bands} bands of 1 raster")
        else:
            text = tr("{bands} bands of {count} rasters")
        text = text.format(bands=len(channels), count=len(layers))
        systems = {crs_name(layer.crs()) for layer in layers}
        sizes = {cell_size(layer) for layer in layers}
        if len(systems) > 1:
            aligned = tr("{count} coordinate systems, aligned while reading")
            return f"{text}, {aligned.format(count=len(systems))}"
        if len(sizes) > 1:
            aligned = tr("{count} cell sizes, aligned while reading")
            return f"{text}, {aligned.format(count=len(sizes))}"
        return f"{text}, {systems.pop()}, {sizes.pop()}"

    def _say(self, text):
        self.noteLabel.setText(text)
        self.noteLabel.setVisible(bool(text))
