"""The second step: which points are learned from."""

import re

from qgis.PyQt.QtCore import QTimer

from ..bundle import load_form
from ..compat import POINT_LAYERS
from ..jobs.raster_facts import PROVENANCE
from ..translation import tr
from .area_polygons import AreaPolygons
from .choices import OccurrenceChoices
from .commodity_filter import fields_to_filter, wanted_values
from .layer_watch import SOON_MS, LayerWatch
from .occurrence_words import (
    choice_problems,
    count_problems,
    count_sentence,
    layer_problems,
    loss_sentence,
    values_sentence,
)
from .point_count import count_points
from .point_table import PointReader
from .step import READY, TO_DO, WRONG, Step, StepState
from .study_area import study_area

COUNTED_AT_ONCE = 20_000  # points; more are counted when the choices have come to rest
MOST_NUMBERS = 100  # different numbers in a field that is still a list of kinds
MOST_VALUES = 1_000  # that are listed
MOST_REMEMBERED = 10_000  # selected features that a run can be repeated with
FEW_VALUES = 6  # that need no search
LIKELY_FIELD = re.compile(r"commod|mineral|metal|element|target", re.IGNORECASE)


class OccurrencesStep(Step):
    """The point layer, what of it is used, and the live count."""

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self.project = project
        self._layer = None
        self._field = ""  # of the filter; the layer may lack it
        self._table = None
        self._cells = []  # of the points of the table, as far as they have been placed
        self._area = None  # the StudyArea
        self._polygons = AreaPolygons(self)  # of the area of interest
        self._count = None
        self._reader = PointReader(self)
        self._lost_selection = 0  # features that were selected for a run, and are not now
        self._watcher = LayerWatch(self)
        self._counting_soon = _timer(self, self._recount)
        load_form("occurrences_step", self)
        font = self.countLabel.font()
        font.setBold(True)
        self.countLabel.setFont(font)
        self.searchEdit.setShowClearButton(True)
        self.layerCombo.prepare(project, POINT_LAYERS, tr("Choose a point layer"))
        self._connect()
        self._choose_only_layer()
        self._layer_chosen()

    def choices(self):
        """Give the OccurrenceChoices."""
        field = self._field if self.filterCheck.isChecked() else ""
        selected = self._selected_ids()
        return OccurrenceChoices(
            layer=self.layerCombo.layer_id(),
            selected_only=self.selectedCheck.isChecked(),
            field=field,
            values=self.valueList.values() if field else (),
            deduplicate=self.deduplicateCheck.isChecked(),
            selected=selected if len(selected) <= MOST_REMEMBERED else (),
            selected_count=len(selected),
            origins=self.layerCombo.origins(),
        )

    def set_choices(self, choices):
        """Show these OccurrenceChoices."""
        self.layerCombo.choose(choices.layer, choices.origins)
        is_selected = self._select(choices)
        self.selectedCheck.setChecked(choices.selected_only)
        self._lost_selection = 0 if is_selected else choices.selected_count
        self.deduplicateCheck.setChecked(choices.deduplicate)
        if choices.field:
            self._field = choices.field
            self._offer_fields()
        self.valueList.set_values(choices.values)
        self.filterCheck.setChecked(bool(choices.field))
        self._read()

    def set_layer_choices(self, choices, resolution=None):
        """Count only points on the grid and in the area of these LayerChoices.

        resolution: the size of the grid's cells, where it is not that of the raster.
        """
        area = study_area(self.project, choices, resolution, self._polygons.of)
        if area != self._area:
            self._area = area
            self._cells = []
            self._choice_changed()

    def state(self):
        """Give the StepState: how many points will be used."""
        if self.layerCombo.chosen_layer() is None and not self.layerCombo.is_missing():
            return StepState(TO_DO, tr("No point layer is chosen"))
        level = WRONG if self.problems() else READY
        if self._count is None:
            text = tr("Counting…") if self._is_counting() else tr("Cannot be read")
        else:
            text = tr("{used} of {read} points").format(
                used=self._count.used, read=self._count.read
            )
        return StepState(level, text)

    def problems(self):
        """Say what keeps these points from being used."""
        problems = layer_problems(self.layerCombo)
        if problems:
            return problems
        layer = self.layerCombo.chosen_layer()
        problems = choice_problems(layer, self.choices(), self._lost_selection)
        if problems or self._count is None:
            return problems
        return count_problems(self._count)

    def _connect(self):
        self.layerCombo.chosen.connect(self._layer_chosen)
        self.project.layersAdded.connect(self._choose_only_layer)
        self.project.layersWillBeRemoved["QStringList"].connect(self._layers_go)
        self.selectedCheck.toggled.connect(self._selection_changed)
        self.filterCheck.toggled.connect(self._read)
        self.fieldCombo.fieldChanged.connect(self._field_chosen)
        self.searchEdit.textChanged.connect(self.valueList.seek)
        self.valueList.ticked.connect(self._choice_changed)
        self.deduplicateCheck.toggled.connect(self._choice_changed)
        self._reader.done.connect(self._take_table)
        self._watcher.changed.connect(self._read)

    def _choose_only_layer(self):
        """Where there is but one point layer that is no result of ours, there is no question."""
        layers = [
            layer
            for layer in self.layerCombo.offered_layers()
            if not layer.customProperty(PROVENANCE)
        ]
        if not self.layerCombo.layer_id() and len(layers) == 1:
            self.layerCombo.choose(layers[0].id())

    def _layer_chosen(self):
        layer = self.layerCombo.chosen_layer()
        self._watch(layer)
        names = [field.name() for field in fields_to_filter(layer)]
        if names and self._field not in names:
            self._field = next((name for name in names if LIKELY_FIELD.search(name)), names[0])
            self.valueList.set_values(())
        self._offer_fields()
        self._read()

    def _offer_fields(self):
        self.fieldCombo.blockSignals(True)
        self.fieldCombo.setFields(fields_to_filter(self._layer))
        self.fieldCombo.setField(self._field)
        self.fieldCombo.blockSignals(False)

    def _watch(self, layer):
        """Follow the signals of the chosen layer, and of no other."""
        if layer is self._layer:
            return
        for signal, slot in self._signals(self._layer):
            signal.disconnect(slot)
        self._layer = layer
        self._watcher.follow(layer)
        for signal, slot in self._signals(layer):
            signal.connect(slot)

    def _signals(self, layer):
        if layer is None:
            return ()
        return (
            (layer.selectionChanged, self._selection_changed),
            (layer.nameChanged, self.changed),
            (layer.updatedFields, self._offer_fields),
        )

    def _layers_go(self, ids):
        if self._layer is not None and self._layer.id() in ids:
            self._watch(None)  # while it can still be let go
            self._reader.stop()

    def _field_chosen(self):
        self._field = self.fieldCombo.currentField()
        self.valueList.set_values(())
        self._read()

    def _read(self):
        """Read the layer anew, with the values of the field of the filter."""
        self._reader.stop()
        self._table = self._count = None
        self._cells = []
        self._counting_soon.stop()
        layer = self.layerCombo.chosen_layer()
        if layer is not None and layer.isValid():
            self._reader.read(layer, self.choices().field)
        if self._table is None:
            self._show()

    def _take_table(self, table):
        self._table = table
        self._show_values()
        self._choice_changed()

    def _select(self, choices):
        """Select the features that a run was made of; tell whether they are selected."""
        layer = self.layerCombo.chosen_layer()
        remembered = len(choices.selected) == choices.selected_count
        if layer is not None and choices.selected and remembered:
            layer.selectByIds(list(choices.selected))
        return layer is not None and remembered

    def _selected_ids(self):
        if self._layer is None or not self.selectedCheck.isChecked():
            return ()
        return tuple(sorted(self._layer.selectedFeatureIds()))

    def _selection_changed(self):
        self._lost_selection = 0
        self._choice_changed()

    def _choice_changed(self):
        if self._table is not None and len(self._table.owners) > COUNTED_AT_ONCE:
            self._count = None
            self._counting_soon.start(SOON_MS)
            self._show()
        else:
            self._recount()

    def _recount(self):
        table, choices = self._table, self.choices()
        if table is not None:
            cells = self._placed(table) if self._area and table.crs.isValid() else None
            if cells is not None and len(cells) < len(table.x):
                self._counting_soon.start(0)  # after what the user did meanwhile
                return
            selected = set(self._selected_ids()) if choices.selected_only else None
            wanted = wanted_values(choices.values) if choices.values else None
            self._count = count_points(table, cells, selected, wanted, choices.deduplicate)
        self._show()

    def _placed(self, table):
        """The cells of the points placed so far; a call places some more."""
        some = slice(len(self._cells), len(self._cells) + COUNTED_AT_ONCE)
        self._cells += self._area.cells(table.x[some], table.y[some], table.crs)
        return self._cells

    def _is_counting(self):
        return self._reader.is_reading() or self._counting_soon.isActive()

    def _show_values(self):
        """List what the field holds, unless it is a measurement rather than a kind."""
        values = self._table.listed_values()
        index = self._layer.fields().indexFromName(self.choices().field)
        is_number = index >= 0 and self._layer.fields()[index].isNumeric()
        too_many = is_number and len(values) > MOST_NUMBERS
        text = values_sentence(self.choices().field, len(values), MOST_VALUES, too_many)
        if too_many:
            values = []
        self.valueList.show_counts(values[:MOST_VALUES])
        self.valueList.setVisible(self.valueList.count() > 0)
        self.searchEdit.setVisible(self.valueList.count() > FEW_VALUES)
        self.valuesLabel.setText(text)

    def _show(self):
        """Show what is known, and tell of it."""
        layer = self.layerCombo.chosen_layer()
        picked = layer.selectedFeatureCount() if layer is not None and layer.isValid() else 0
        self.selectedCheck.setText(tr("Selected features only ({count})").format(count=picked))
        self.selectedCheck.setEnabled(bool(picked) or self.selectedCheck.isChecked())
        self.filterCheck.setEnabled(layer is not None)
        self.fieldCombo.setEnabled(layer is not None and self.filterCheck.isChecked())
        self.valuesBox.setVisible(layer is not None and self.filterCheck.isChecked())
        count = detail = ""
        if self._count is not None:
            count = count_sentence(self._table, self._count)
            detail = loss_sentence(self._count)
        elif self._is_counting():
            count = tr("The points are being counted…")
        self.countLabel.setText(count)
        self.detailLabel.setText(detail)
        self.detailLabel.setVisible(bool(detail))
        self.changed.emit()


def _timer(step, slot):
    timer = QTimer(step)
    timer.setSingleShot(True)
    timer.setInterval(SOON_MS)
    timer.timeout.connect(slot)
    return timer
