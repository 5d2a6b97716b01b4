"""Percentiles of a raster, from as many of its cells as can be sorted in a moment."""

from __future__ import annotations

import math
from array import array

from qgis.core import Qgis

MOST_CELLS = 600 * 600  # larger rasters are read through their overviews


def sorted_values(layer, band=1):
    """Give the values of a raster layer in rising order, of at most MOST_CELLS of its cells."""
    provider = layer.dataProvider()
    thinning = max(1.0, math.sqrt(provider.xSize() * provider.ySize() / MOST_CELLS))
    width = max(1, int(provider.xSize() / thinning))
    height = max(1, int(provider.ySize() / thinning))
    block = provider.block(band, provider.extent(), width, height)
    if not block.isValid() or not block.convert(Qgis.DataType.Float64):
        return []
    values = array("d")
    values.frombytes(bytes(block.data()))
    missing = block.noDataValue() if block.hasNoDataValue() else math.nan
    return sorted(value for value in values if math.isfinite(value) and value != missing)


def value_exceeded_by(percent, values):
    """Give the value that the highest `percent` of the sorted values reach."""
    return values[min(int(len(values) * (1 - percent / 100)), len(values) - 1)]
