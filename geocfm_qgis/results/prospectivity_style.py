"""The colours of a prospectivity raster, laid over its own values.

Relative density has a mean of 1 and a long upper tail, so its stops are placed by the share of the
area above them: the few best percent get half of the ramp. Ground that is no better than the mean
stays transparent, whatever its share of the area.
"""

from __future__ import annotations

import math

from qgis.core import QgsColorRampShader
from qgis.PyQt.QtCore import QLocale

from ..translation import tr
from .percentiles import sorted_values, value_exceeded_by

# percent of the area above each stop of prospectivity.qml, from transparent to brightest
AREA_ABOVE = (30, 20, 10, 5, 2, 1, 0.5)
MEAN = 1.0  # of the region: poorer ground is nothing to look at, even if it is among the best third
MANY_STOPS = (
    5  # so many begin faintly; of fewer the lowest is far above the mean, and is to be seen
)


def spread_stops(layer):
    """Place the stops of the layer's colour ramp at percentiles of its values, and label them."""
    values = sorted_values(layer)
    if not values:
        return  # nothing but no-data: the stops of the file do no harm
    renderer = layer.renderer()
    shader = renderer.shader().rasterShaderFunction()
    stops = _labelled(_placed(shader.colorRampItemList(), values))
    shader.setColorRampItemList(stops)
    shader.setMinimumValue(stops[0].value)
    shader.setMaximumValue(stops[-1].value)
    shader.setSourceColorRamp(shader.createColorRamp())  # for those who go on from this style
    renderer.setClassificationMin(stops[0].value)
    renderer.setClassificationMax(stops[-1].value)


def _placed(stops, values):
    """Give (value, colour, percent of the area above or None), rising; equal values become one."""
    lowest, highest = values[0], values[-1]
    if lowest == highest:
        return [(lowest, stops[len(stops) // 2].color, None)]
    reached = {}  # value: percent of the area above; of equal values the first
    for percent in AREA_ABOVE:
        reached.setdefault(value_exceeded_by(percent, values), percent)
    clear = min(reached)
    if highest > MEAN:
        clear = max(clear, MEAN)
    seen = [(value, percent) for value, percent in reached.items() if value > clear]
    if not seen:  # hardly a cell differs, or is above the mean: what does is the news
        clear = max(lowest, MEAN) if highest > MEAN else lowest
        seen = [(highest, None)]
    colours = _spread([stop.color for stop in stops[1:]], len(seen))
    coloured = [(value, colour, percent) for (value, percent), colour in zip(seen, colours)]
    return [(clear, stops[0].color, None), *coloured]


def _spread(colours, count):
    """Give so many of the colours, spread over the ramp; the brightest is always the last."""
    last = len(colours) - 1
    first = last if count == 1 else 0 if count >= MANY_STOPS else 1
    return [colours[first + round((last - first) * n / max(1, count - 1))] for n in range(count)]


def _labelled(placed):
    items = []
    for number, (value, colour, percent) in enumerate(placed):
        text = readable(value)
        if len(placed) == 1:
            text = tr("{value} everywhere").format(value=text)
        elif number == 0:
            text = tr("up to {value} (transparent)").format(value=text)
        elif percent is not None:
            share = tr("top {percent} % of the area").format(percent=readable(percent))
            text = f"{text} ({share})" if number < len(placed) - 1 else f"≥ {text} ({share})"
        items.append(QgsColorRampShader.ColorRampItem(value, colour, text))
    return items


def readable(value):
    """Give a number with two digits that count, as the user's language writes it."""
    if value == 0:
        return "0"
    decimals = max(0, 1 - math.floor(math.log10(abs(value))))
    text = f"{value:.{decimals}f}"
    digits = len(text.rstrip("0").rstrip(".").partition(".")[2]) if decimals else 0
    return QLocale().toString(float(value), "f", digits)
