"""One look at every layer: how much of the area it covers, and a small picture of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.encoding import data_mask
from geocfm.data.windows import blocks
from geocfm.events import Stage
from geocfm.inference.predictor import Layers
from geocfm.model.checkpoint import LayerCard

THUMBNAIL = 240  # cells along the longer side of a small picture


@dataclass(frozen=True)
class LayerView:
    """A layer from afar."""

    coverage: float  # share of the grid's area where it has data
    values: NDArray[np.float32]  # (h, w), coarser; NaN where it has none


def look_over(
    layers: Layers, cards: Sequence[LayerCard], zero_is_nodata: bool, stage: Stage
) -> list[LayerView]:
    """Read every cell once, block by block. Cells of values are averaged, of classes picked."""
    grid = layers.grid
    step = max(1, -(-max(grid.height, grid.width) // THUMBNAIL))
    shape = (len(cards), -(-grid.height // step), -(-grid.width // step))
    pictures = np.full(shape, np.nan, dtype=np.float32)
    covered, whole, done = np.zeros(len(cards)), 0.0, 0
    for block in blocks(grid.window(), step):
        stage(done, grid.height * grid.width)
        values = layers.read(block)
        valid = data_mask(values, zero_is_nodata)
        km2 = np.broadcast_to(grid.cell_areas(block), (block.height, block.width))
        whole += float(km2.sum())
        covered += np.array([km2[mask].sum() for mask in valid])
        row, col = block.row // step, block.col // step
        for number, card in enumerate(cards):
            plane = np.where(valid[number], values[number], np.float32(np.nan))
            small = plane[::step, ::step] if card.categorical else _means(plane, step)
            pictures[number, row : row + small.shape[0], col : col + small.shape[1]] = small
        done += block.cells
    stage(done, done)
    return [LayerView(float(c / whole), p) for c, p in zip(covered, pictures, strict=True)]


def _means(plane: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    """Means of the valid cells of step x step squares; NaN without any."""
    valid = np.isfinite(plane)
    rows, cols = np.arange(0, plane.shape[0], step), np.arange(0, plane.shape[1], step)

    def sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.add.reduceat(np.add.reduceat(values, rows, axis=0), cols, axis=1)

    with np.errstate(invalid="ignore"):
        total = sums(np.where(valid, plane, 0.0).astype(np.float64))
        return (total / sums(valid.astype(np.float64))).astype(np.float32)
