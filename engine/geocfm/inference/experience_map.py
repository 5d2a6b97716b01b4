"""Where a map leaves what its model has seen: block by block, how far from experience cells lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.encoding import Encoder
from geocfm.data.windows import blocks, covering_starts
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.inference.predictor import Layers
from geocfm.model.experience import Experience

OUTSIDE = "outside experience"  # a band: 1 where cells are outside, else 0
LARGEST_BLOCK = 512  # cells along a side: all channels of a block are held at once


@dataclass(frozen=True)
class JudgedBlock:
    """A block of the grid and its cells' dissimilarity (h, w): above 1 is outside experience."""

    window: Window
    dissimilarity: NDArray[np.float32]


class ExperienceMap:
    """Dissimilarity over a grid; NaN where no layer has data, and outside the area if there is one.

    Where the model standardises each window by itself, a cell is judged within one window of the
    model's size; else by itself, whatever the block. every: only the cells of every so many-th row
    and column are judged, the others are NaN.
    """

    def __init__(
        self,
        experience: Experience,
        encoder: Encoder,
        layers: Layers,
        window_size: int,
        area: Area | None = None,
        every: int = 1,
    ) -> None:
        self._experience, self._encoder, self._layers = experience, encoder, layers
        self._size, self._area, self._every = window_size, area, every

    def blocks(self) -> Iterator[JudgedBlock]:
        """All of the grid, or of the area's bounds."""
        shown = self._layers.grid.window() if self._area is None else self._area.bounds
        for block in blocks(shown, self._size, LARGEST_BLOCK):
            yield JudgedBlock(block, self.of(block))

    def of(self, window: Window) -> NDArray[np.float32]:
        """Dissimilarity (h, w) of any window; of one that is a strip of the map, for example."""
        found = np.full((window.height, window.width), np.nan, dtype=np.float32)
        for whole, part in self._parts(window):
            channels, footprint = self._encoder.encode(self._layers.read(whole))
            judged = self._experience.dissimilarity(channels, footprint & self._chosen(whole))
            found[part.slices_in(window)] = judged[part.slices_in(whole)]
        if self._area is not None:
            found[~self._area.mask(window)] = np.nan
        return found

    def _chosen(self, window: Window) -> NDArray[np.bool_]:
        """Which cells of a window are judged, (h, w)."""
        rows, columns = np.ogrid[window.row : window.row_stop, window.col : window.col_stop]
        return (rows % self._every == 0) & (columns % self._every == 0)

    def _parts(self, window: Window) -> Iterator[tuple[Window, Window]]:
        """What has to be encoded together, and its part of the window."""
        if self._encoder.settings.standardise == "region":
            yield window, window
            return
        grid, size = self._layers.grid, self._size
        for row, top, bottom in _shares(grid.height, size, window.row, window.row_stop):
            for col, left, right in _shares(grid.width, size, window.col, window.col_stop):
                yield Window(row, col, size, size), Window(top, left, bottom - top, right - left)


def _shares(length: int, size: int, low: int, high: int) -> Iterator[tuple[int, int, int]]:
    """Starts of windows side by side, each with the cells from low to high that are its own.

    The last is flush with the end, so that its statistics too are those of a whole window; what
    it shares with the one before it is that one's.
    """
    stop = 0
    for start in covering_starts(length, size, size):
        first, stop = max(stop, low), start + size
        if first < min(stop, high):
            yield start, first, min(stop, high)


@dataclass
class OutsideTally:
    """How much of the mapped area lies outside experience, counted block by block."""

    grid: Grid
    mapped_km2: float = 0.0
    outside_km2: float = 0.0

    def add(self, block: JudgedBlock) -> None:
        """Count the cells of another block."""
        cells = np.broadcast_to(self.grid.cell_areas(block.window), block.dissimilarity.shape)
        self.mapped_km2 += float(cells[np.isfinite(block.dissimilarity)].sum())
        self.outside_km2 += float(cells[block.dissimilarity > 1].sum())

    @property
    def share(self) -> float:
        """Of the mapped area; 0 where nothing was mapped."""
        return self.outside_km2 / self.mapped_km2 if self.mapped_km2 else 0.0

    def sentence(self) -> str:
        """For people."""
        if not self.outside_km2:
            return "All of the mapped area is like what the model has seen."
        share = f"{100 * self.share:.0f} %" if self.share >= 0.01 else "Less than 1 %"
        return f"{share} of the mapped area lies outside what the model has seen."
