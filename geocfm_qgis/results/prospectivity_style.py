"""The colours of a prospectivity raster, laid over its own values.

Relative density has a mean of 1 and a long upper tail, so its stops are placed by the share of the
area above them: the few best percent get half of the ramp, and common ground stays transparent.
"""

from __future__ import annotations

import math

from qgis.core import QgsColorRampShader
from qgis.PyQt.QtCore import QLocale

from ..translation import tr
from .percentiles import sorted_values, value_exceeded_by

# percent of the area above each stop of prospectivity.qml, from transparent to brightest
AREA_ABOVE = (30, 20, 10, 5, 2, 1, 0.5)
LEAST_SHOWN = 0.1  # of the mean density; less is no ground to look at, even if it is the best third


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
    placed = []
    for stop, percent in zip(stops, AREA_ABOVE):
        value = value_exceeded_by(percent, values)
        if not placed or value > placed[-1][0]:
            placed.append((value, stop.color, percent))
        elif len(placed) > 1:  # ground as good as the last: it deserves the brighter colour
            placed[-1] = (value, stop.color, placed[-1][2])
    if len(placed) == 1:  # nearly all cells are equal: what differs is the news
        return [(lowest, stops[0].color, None), (highest, stops[-1].color, None)]
    while len(placed) > 2 and placed[1][0] < LEAST_SHOWN:
        placed[:2] = [(placed[1][0], stops[0].color, placed[1][2])]
    return placed


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
