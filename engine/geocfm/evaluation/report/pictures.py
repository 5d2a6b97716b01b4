"""Pictures of rasters for a report, as PNG: layers from afar."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
from matplotlib import colormaps
from matplotlib.image import imsave
from numpy.typing import NDArray

from geocfm.evaluation.report.overview import LayerView

VALUES, CLASSES = "cividis", "tab20"  # names of colour maps
CLIPPED = (2.0, 98.0)  # percentiles between which the colours of values run


@dataclass(frozen=True)
class Pictures:
    """What a report shows of rasters."""

    layers: tuple[bytes, ...]  # PNG, in the order of the layers
    map: bytes


def layer_picture(view: LayerView, classes: tuple[int, ...]) -> bytes:
    """A layer as PNG; transparent where it has no data."""
    valid = np.isfinite(view.values)
    if classes:
        shades = np.searchsorted(classes, np.where(valid, view.values, classes[0]))
        colours = colormaps[CLASSES](shades % colormaps[CLASSES].N)
    else:
        colours = colormaps[VALUES](_stretched(view.values, valid))
    colours[..., 3] = valid
    buffer = io.BytesIO()
    imsave(buffer, colours, format="png")
    return buffer.getvalue()


def _stretched(values: NDArray[np.float32], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Values from 0 to 1 between the percentiles; 0.5 where all are the same."""
    if not valid.any():
        return np.zeros(values.shape)
    low, high = np.percentile(values[valid].astype(np.float64), CLIPPED)
    if high <= low:  # few cells differ from all others
        low, high = float(values[valid].min()), float(values[valid].max())
    middle = np.full(values.shape, 0.5)
    return middle if high <= low else np.clip((values - low) / (high - low), 0.0, 1.0)
