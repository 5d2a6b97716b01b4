"""The look of a map's uncertainty: how networks disagree, and where a model has never been."""

from __future__ import annotations

from qgis.core import QgsColorRampShader

from ..compat import set_band
from ..translation import tr
from .prospectivity_style import readable

# descriptions of the bands, as the engine writes them
VARIATION, OUTSIDE_BAND = "coefficient of variation", "outside experience"


def band_called(layer, description):
    """Give the number of the band with this description, or 0."""
    for number in range(1, layer.bandCount() + 1):
        if layer.bandName(number).lower().endswith(description):
            return number
    return 0


def label_variation(layer):
    """Show the coefficient of variation, with labels in percent of the density."""
    renderer = layer.renderer()
    set_band(renderer, band_called(layer, VARIATION) or 1)
    shader = renderer.shader().rasterShaderFunction()
    stops = shader.colorRampItemList()
    items = []
    for number, stop in enumerate(stops):
        share = tr("± {percent} %").format(percent=readable(100 * stop.value))
        if number == 0:
            share = tr("up to {value} (transparent)").format(value=share)
        elif number == len(stops) - 1:
            share = f"≥ {share}"
        items.append(QgsColorRampShader.ColorRampItem(stop.value, stop.color, share))
    shader.setColorRampItemList(items)
    shader.setSourceColorRamp(shader.createColorRamp())  # for those who go on from this style


def label_outside(layer):
    """Show the cells that are outside of what the model has seen."""
    renderer = layer.renderer()
    set_band(renderer, band_called(layer, OUTSIDE_BAND) or 1)
    shader = renderer.shader().rasterShaderFunction()
    texts = (tr("like what the model has seen"), tr("outside what the model has seen"))
    shader.setColorRampItemList(
        [
            QgsColorRampShader.ColorRampItem(stop.value, stop.color, text)
            for stop, text in zip(shader.colorRampItemList(), texts)
        ]
    )
