"""The styles of results: from the plugin's .qml files onto layers, and from there beside the files.

A .qml beside a result that was made for that very file says so in `STYLE_OF`, also after the user
has changed and saved it. As long as the file holds the same result the style is used as it is; when
the result was replaced, the style goes with it. Any other .qml, such as that of a shapefile of the
same name, is never touched.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Callable

from qgis.core import QgsMapLayer, QgsRasterLayer, QgsVectorLayer
from qgis.PyQt.QtXml import QDomDocument

from ..bundle import resources_folder
from .finished import OCCURRENCES, OUT_OF_FOLD, PROSPECTIVITY, SAMPLES, TARGETS, UNCERTAINTY
from .prospectivity_style import spread_stops
from .provenance import fingerprint
from .samples_style import label_classes
from .targets_style import describe_targets
from .uncertainty_style import VARIATION, band_called, label_outside, label_variation

KIND = "geocfm/kind"  # custom properties of a layer
STYLE_OF = "geocfm/style_of"  # the name of the file that a style was made for
STYLED = "geocfm/styled"  # which result was in it then

OUTSIDE = "outside experience"  # a second layer of an uncertainty raster

SYMBOLOGY = QgsMapLayer.StyleCategory.Symbology
LABELLED = SYMBOLOGY | QgsMapLayer.StyleCategory.Labeling
FORMED = (  # all that targets_style.py sets
    LABELLED
    | QgsMapLayer.StyleCategory.Fields
    | QgsMapLayer.StyleCategory.Forms
    | QgsMapLayer.StyleCategory.MapTips
)


@dataclass(frozen=True)
class _Look:
    """A .qml file of the plugin's, and what is done where it depends on values and language."""

    template: str
    finish: Callable | None = None
    is_raster: bool = True
    loaded: object = SYMBOLOGY
    saved: object = SYMBOLOGY


_LOOKS = {
    PROSPECTIVITY: _Look("prospectivity", spread_stops),
    OUT_OF_FOLD: _Look("prospectivity", spread_stops),
    UNCERTAINTY: _Look("uncertainty", label_variation),
    OUTSIDE: _Look("outside_experience", label_outside),
    SAMPLES: _Look("samples", label_classes, is_raster=False),
    OCCURRENCES: _Look("occurrences", is_raster=False),
    TARGETS: _Look("targets", describe_targets, False, LABELLED, FORMED),
}


def style_result(layer, kind):
    """Give a layer the look of its kind; tell whether it could take it."""
    look = _LOOKS.get(kind)
    if look is None or isinstance(layer, QgsRasterLayer) != look.is_raster:
        return False
    if not layer.isSpatial():
        return False
    if kind == UNCERTAINTY and not band_called(layer, VARIATION):
        look = _LOOKS[OUTSIDE]  # of a single network it tells no more
    template = resources_folder() / "styles" / f"{look.template}.qml"
    _, taken = layer.loadNamedStyle(str(template), categories=look.loaded)
    if not taken:
        return False
    if look.finish is not None:
        look.finish(layer)
    layer.setCustomProperty(KIND, kind)
    layer.emitStyleChanged()
    layer.triggerRepaint()
    return True


def open_result(path, kind):
    """Open a result as a layer, which may be invalid; a style that lies beside it is applied."""
    name = os.path.splitext(os.path.basename(path))[0]
    return QgsRasterLayer(path, name) if _LOOKS[kind].is_raster else QgsVectorLayer(path, name)


def save_style_beside(path, kind):
    """Save the style of a result beside it, also in qgis_process; tell whether it is there."""
    if has_current_style(path):
        return True
    layer = open_result(path, kind)
    return layer.isValid() and style_result(layer, kind) and _save(layer, kind, path)


def apply_style(layer, kind, path):
    """Give a layer the style that lies beside its file, or else one that is then saved there."""
    if has_current_style(path):
        layer.loadNamedStyle(style_path(path))
        layer.triggerRepaint()
    elif style_result(layer, kind):
        _save(layer, kind, path)


def _save(layer, kind, path):
    """Save the layer's style beside its file, unless a style of something else is in the way."""
    beside = style_path(path)
    if os.path.exists(beside) and not has_own_style(path):
        return False
    plain = layer.clone()  # what else is noted on the layer is no part of its style
    for key in plain.customPropertyKeys():
        if key != KIND:
            plain.removeCustomProperty(key)
    plain.setCustomProperty(STYLE_OF, os.path.basename(path))
    plain.setCustomProperty(STYLED, fingerprint(path))
    categories = _LOOKS[kind].saved | QgsMapLayer.StyleCategory.CustomProperties
    _, saved = plain.saveNamedStyle(beside, categories=categories)
    return saved


def style_path(path):
    """Give where QGIS looks for the style of a file."""
    return f"{os.path.splitext(path)[0]}.qml"


def has_current_style(path):
    """Whether the .qml beside a file was made for the result that is in it now.

    Time stamps do not tell: QGIS changes that of a GeoPackage by looking at it.
    """
    return has_own_style(path) and _noted(path).get(STYLED) == fingerprint(path)


def has_own_style(path):
    """Whether the .qml beside a file was made for it, by us or from what we made."""
    return _noted(path).get(STYLE_OF) == os.path.basename(path)


def _noted(path):
    """Give the custom properties in the .qml beside a file."""
    try:
        with open(style_path(path), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return {}
    document = QDomDocument()
    document.setContent(text)
    options = document.elementsByTagName("Option")
    elements = (options.at(number).toElement() for number in range(options.count()))
    return {each.attribute("name"): each.attribute("value") for each in elements}
