"""What keeps chosen layers from being used, in sentences with their remedies."""

from collections import Counter

from qgis.core import QgsRasterLayer

from ..jobs.layer_file import layer_path
from ..jobs.raster_facts import clean_name, is_out_of_reach, why_unusable
from ..translation import tr


def layer_problems(project, channels, absent, reference):
    """Give the sentences. channels is None where a model brings its own layers.

    absent: channels that were asked for and are not in the project; reference: a LayerChoice.
    """
    problems = []
    if channels is not None:
        problems += _nothing_ticked(project, channels, absent)
        problems += _absent(absent)
        problems += _clashes(channels)
        ids = list(dict.fromkeys(channel.layer for channel in channels))
        problems += [text for key in ids for text in _raster_problems(project.mapLayer(key))]
    else:
        ids = []
    return problems + _reference_problems(reference, ids)


def _nothing_ticked(project, channels, absent):
    if channels or absent:
        return []
    rasters = [layer for layer in project.mapLayers().values() if isinstance(layer, QgsRasterLayer)]
    if any(not why_unusable(layer) for layer in rasters):
        return [tr("No layer is ticked. Tick the rasters to learn from in step 1.")]
    return [
        tr("The project has no raster to learn from. Add some with 'Add from file…' in step 1.")
    ]


def _absent(absent):
    if not absent:
        return []
    names = ", ".join(channel.name for channel in absent)
    return [
        tr(
            "These layers are not in the project: {names}. Add them with 'Add from file…', or "
            "change the ticks to go on without them."
        ).format(names=names)
    ]


def _clashes(channels):
    problems = []
    for name, count in Counter(channel.name for channel in channels).items():
        if count > 1:
            problems.append(
                tr(
                    "{count} of the ticked layers have the name '{name}'. Double-click one of the "
                    "names and change it."
                ).format(count=count, name=name)
            )
        if name != clean_name(name):
            problems.append(
                tr(
                    "The name '{name}' cannot be used, as it holds one of = / \\ or a comma. "
                    "Double-click it and change it."
                ).format(name=name)
            )
    return problems


def _raster_problems(layer):
    name = layer.name()
    if is_out_of_reach(layer) and layer_path(layer):
        return [
            tr(
                "The file of '{name}' is not found: {source}. Right-click the layer in the Layers "
                "panel and choose Change Data Source, or untick it."
            ).format(name=name, source=layer.publicSource())
        ]
    reason = why_unusable(layer)
    if reason:
        return [tr("'{name}' cannot be used. {reason} Untick it.").format(name=name, reason=reason)]
    return [] if layer.crs().isValid() else [_no_crs(name)]


def _reference_problems(reference, ids):
    if not reference.layer_id():
        return []
    layer = reference.chosen_layer()
    if layer is None:
        return [
            tr(
                "The raster chosen as reference grid is not in the project. Choose another one in "
                "step 1."
            )
        ]
    if layer.id() in ids:  # what is wrong with it has been said
        return []
    if is_out_of_reach(layer):
        return [
            tr(
                "The file of the reference grid '{name}' is not found. Choose another one in "
                "step 1."
            ).format(name=layer.name())
        ]
    return [] if layer.crs().isValid() else [_no_crs(layer.name())]


def _no_crs(name):
    return tr(
        "'{name}' has no coordinate system. Right-click it in the Layers panel, choose Layer CRS, "
        "Set Layer CRS, and select the one its coordinates are in."
    ).format(name=name)
