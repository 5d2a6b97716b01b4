"""Labels for sampled points: their logarithms are told as multiples of the regional mean."""

import math

from ..translation import tr


def label_classes(layer):
    """Label the classes of samples.qml; its bounds are logarithms of 1, 2, 4, 8 and 16."""
    renderer = layer.renderer()
    ranges = renderer.ranges()
    for number, each in enumerate(ranges):
        if number == 0:
            text = tr("below the mean density")
        elif number == len(ranges) - 1:
            text = tr("more than {low} × mean density").format(low=_multiple(each.lowerValue()))
        else:
            text = tr("{low} to {high} × mean density").format(
                low=_multiple(each.lowerValue()), high=_multiple(each.upperValue())
            )
        renderer.updateRangeLabel(number, text)


def _multiple(logarithm):
    return round(math.exp(logarithm))
