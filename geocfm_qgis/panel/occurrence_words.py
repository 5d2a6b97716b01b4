"""What is said about the occurrences: the count, and what keeps them from being used."""

from ..translation import tr
from .commodity_filter import can_be_filtered

FEWEST_POINTS = 3  # one each to learn from, to choose the best model by, and to test it


def count_sentence(table, count):
    """Say how many points will be used."""
    text = tr("{used} of {read} points will be used.")
    if not table.is_complete:
        text = tr("{used} of the first {read} points will be used; the others were not counted.")
    return text.format(used=_number(count.used), read=_number(count.read))


def loss_sentence(count):
    """Say what becomes of the points that are not used; an empty text if all are."""
    reasons = (
        (count.not_selected, tr("{count} not selected")),
        (count.without_location, tr("{count} without a location")),
        (count.filtered_out, tr("{count} by the filter")),
        (count.outside, tr("{count} outside the grid or the area")),
        (count.sharing_a_cell, tr("{count} in a cell that already has one")),
    )
    parts = [text.format(count=_number(lost)) for lost, text in reasons if lost]
    return tr("Left out: {reasons}.").format(reasons=", ".join(parts)) if parts else ""


def layer_problems(combo):
    """Say what is wrong with the chosen layer itself. combo: a LayerChoice."""
    if combo.is_missing():
        return [
            tr("The point layer that was chosen is not in the project. Choose another in step 2.")
        ]
    layer = combo.chosen_layer()
    if layer is None and combo.offered_layers():
        return [tr("No occurrences are chosen. Choose their point layer in step 2.")]
    if layer is None:
        return [
            tr(
                "The project has no point layer. Add the known occurrences to it: a GeoPackage, a "
                "shapefile, or a table with coordinates (Layer, Add Layer, Add Delimited Text "
                "Layer)."
            )
        ]
    name = layer.name()
    if not layer.isValid():
        return [
            tr(
                "The file of the point layer '{name}' is not found. Right-click it in the Layers "
                "panel and choose Change Data Source, or choose another in step 2."
            ).format(name=name)
        ]
    if not layer.crs().isValid():
        return [
            tr(
                "The point layer '{name}' has no coordinate system. Right-click it in the Layers "
                "panel, choose Layer CRS, Set Layer CRS, and select the one its coordinates are in."
            ).format(name=name)
        ]
    if layer.featureCount() == 0:
        return [
            tr(
                "The point layer '{name}' has no features. Choose another in step 2, or widen its "
                "filter in QGIS."
            ).format(name=name)
        ]
    return []


def values_sentence(field, count, most, too_many_numbers):
    """Say what the list of a field's values is for, or why it is not complete."""
    if too_many_numbers:
        return tr(
            "This field holds too many different numbers to tick. Right-click the layer in the "
            'Layers panel and choose Filter, for example: "{field}" > 5.'
        ).format(field=field)
    if count > most:
        return tr("The {count} most frequent values are listed.").format(count=most)
    if not count:
        return tr("This field is empty in all features.")
    return tr("Tick the values to keep; while none is ticked, all are.")


def choice_problems(layer, choices, lost_selection=0):
    """Say what is wrong with the selection and the field.

    lost_selection: how many features were selected for a run that is repeated, if they could not
    be selected again.
    """
    problems = []
    if choices.selected_only and lost_selection:
        problems.append(
            tr(
                "The {count} features of '{name}' that were selected for this run cannot be "
                "selected again. Select them on the map, or untick 'Selected features only' in "
                "step 2."
            ).format(count=lost_selection, name=layer.name())
        )
    elif choices.selected_only and not layer.selectedFeatureCount():
        problems.append(
            tr(
                "No feature of '{name}' is selected. Select some on the map, or untick 'Selected "
                "features only' in step 2."
            ).format(name=layer.name())
        )
    if choices.field and layer.fields().indexFromName(choices.field) < 0:
        problems.append(
            tr(
                "The point layer '{name}' has no field '{field}'. Choose another field in step 2, "
                "or untick the filter."
            ).format(name=layer.name(), field=choices.field)
        )
    elif choices.field and not can_be_filtered(choices.field):
        problems.append(
            tr(
                "The field '{field}' cannot be filtered by, as its name holds one of ~ = ! < > |. "
                "Rename the field, or set a filter in QGIS (right-click the layer, Filter)."
            ).format(field=choices.field)
        )
    return problems


def count_problems(count):
    """Say that too few points are left, and what takes most of them."""
    if count.used >= FEWEST_POINTS:
        return []
    lost = {
        count.not_selected: tr("Select more of them."),
        count.filtered_out: tr("Tick more values of the filter in step 2."),
        count.outside: tr(
            "Most lie outside the grid or the area: check the coordinate system of the point "
            "layer, the reference grid and the area of interest."
        ),
    }
    most = max(lost)
    remedy = lost[most] if most else tr("A model needs at least three: add more.")
    text = tr("Only {count} of the occurrences would be used, which is too few to learn from.")
    if not count.used:
        text = tr("None of the occurrences would be used.")
    return [f"{text.format(count=count.used)} {remedy}"]


def _number(count):
    return f"{count:,}".replace(",", "\u202f") if count >= 10_000 else str(count)
