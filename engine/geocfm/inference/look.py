"""A network's one look at a part of the region, and the windows that are cut out of it.

What a network with a density head says of a cell depends on the cells within its reach alone. So a
part of the grid is looked at with a margin as wide, but not beyond the grid's end, which is an end
of the image as windows have them in training; and it begins where the network's cells begin, on one
lattice for the whole grid. What is found then is the same however the grid is cut into parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from geocfm.geo.grid import Window
from geocfm.model.settings import NetworkSettings


def seen_around(window: Window, network: NetworkSettings, grid: Window) -> Window:
    """What has to be seen of the grid for a window to be known exactly, from a whole cell on."""
    period, reach = network.period, network.reach
    row, col = ((first - reach) // period * period for first in (window.row, window.col))
    row_stop, col_stop = (
        -(-(stop + reach) // period) * period for stop in (window.row_stop, window.col_stop)
    )
    seen = Window(row, col, row_stop - row, col_stop - col).intersection(grid)
    if seen is None:
        raise ValueError(f"{window} lies beyond the grid")
    return seen


def pieces(window: Window, side: int) -> Iterator[Window]:
    """The window in squares of a side, or a little less, row by row."""
    rows, cols = (
        np.linspace(0, length, -(-length // side) + 1).round().astype(int).tolist()
        for length in (window.height, window.width)
    )
    for top, bottom in pairwise(rows):
        for left, right in pairwise(cols):
            yield Window(window.row + top, window.col + left, bottom - top, right - left)


@dataclass(frozen=True)
class Look:
    """What a network makes of a window of the grid, and of the margin around it.

    The window may end beyond the grid, where nothing is seen and there is no data.

    levels: features (1, D, h, w) on cells of ``stem`` pixels, and of coarser levels if the head
    reads them; intensity: (1, H, W) on the cells of ``seen``; footprint (h, w) of the window.
    """

    window: Window
    seen: Window
    stem: int
    levels: list[Tensor]
    intensity: Tensor
    footprint: NDArray[np.bool_]

    @property
    def log_intensity(self) -> NDArray[np.float32]:
        """Log intensity (h, w) of the window, NaN where no layer has data."""
        inside = self._part(self.intensity, self.window, 1)[0].float().cpu().numpy()
        return np.where(self.footprint, inside, np.float32(np.nan))

    def cut(self, windows: Sequence[Window]) -> tuple[list[Tensor], Tensor, NDArray[np.bool_]]:
        """Features, log intensity and footprints of windows of one size within this one.

        They begin where cells of the features begin; beyond the grid the last ones are repeated.
        """
        levels = []
        for number, level in enumerate(self.levels):
            cell = self.stem * 2**number
            levels.append(torch.cat([self._part(level, window, cell) for window in windows]))
        intensity = torch.cat([self._part(self.intensity, window, 1) for window in windows])
        footprints = np.stack([self.footprint[w.slices_in(self.window)] for w in windows])
        return levels, intensity, footprints

    def _part(self, images: Tensor, window: Window, cell: int) -> Tensor:
        row, col = window.row - self.seen.row, window.col - self.seen.col
        if row % cell or col % cell:
            raise ValueError(f"{window} does not begin at a cell of {cell} pixels")
        rows = slice(row // cell, -(-(row + window.height) // cell))
        cols = slice(col // cell, -(-(col + window.width) // cell))
        found = images[..., rows, cols]
        missing = (
            rows.stop - rows.start - found.shape[-2],
            cols.stop - cols.start - found.shape[-1],
        )
        if not any(missing):
            return found
        return functional.pad(found, (0, missing[1], 0, missing[0]), mode="replicate")
