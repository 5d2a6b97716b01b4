"""Windows on a stride lattice: how large, where, and how much of each holds data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.geo.grid import Grid, Window
from geocfm.model.settings import WindowSettings

LATTICE = 16  # window sizes are multiples of this, so that strides divide them
SMALLEST, LARGEST = 32, 128
ENOUGH_CONTEXT = 48  # cells; a smaller window only where the region is small
WINDOWS_ACROSS = 5  # of the region's shorter side, so that tiles can be held out
POINTS_IN_WINDOW = 4  # on average over the region; windows that are used hold several times more
TILES_WANTED = 24
BLOCK = 1024  # the largest piece read at once, cells


Starts = NDArray[np.int64]
"""Windows of one size as (N, 2): the first row and column of each."""


@dataclass(frozen=True)
class WindowPlan:
    """Sizes in cells, and the sentence that says how they were chosen."""

    size: int
    stride: int
    tile: int
    sentence: str


def plan_windows(grid: Grid, occurrences: int, settings: WindowSettings) -> WindowPlan:
    """Window, stride and tile from the settings, or from the grid and the occurrences."""
    size = settings.size or _choose_size(grid, occurrences)
    tile = settings.tile or _choose_tile(grid, size)
    stride = settings.stride or _common_divisor(size, tile, at_most=max(1, size // 8))
    if size % stride or tile % stride:
        raise UserError(
            f"Windows of {size} and tiles of {tile} cells are not both multiples of the stride "
            f"of {stride}.",
            "Choose sizes that are multiples of it.",
        )
    chosen = "as set" if settings.size else "chosen from the grid and the occurrences"
    cell = grid.cell_size[0]
    sentence = (
        f"Windows of {size} x {size} cells ({grid.length(size * cell)} across), {chosen}, "
        f"every {stride} cells; tiles of {tile} cells are held out as a whole."
    )
    return WindowPlan(size, stride, tile, sentence)


def _choose_size(grid: Grid, occurrences: int) -> int:
    fitting = min(grid.height, grid.width) / WINDOWS_ACROSS
    cells_a_point = grid.height * grid.width / max(occurrences, 1)
    telling = max((POINTS_IN_WINDOW * cells_a_point) ** 0.5, ENOUGH_CONTEXT)
    size = round(min(fitting, telling, LARGEST) / LATTICE) * LATTICE
    return int(max(size, SMALLEST))


def _choose_tile(grid: Grid, size: int) -> int:
    side = (grid.height * grid.width / TILES_WANTED) ** 0.5
    step = _common_divisor(size, size, at_most=max(1, size // 8))
    return int(min(max(round(side / step) * step, size), 3 * size))


def _common_divisor(first: int, second: int, *, at_most: int) -> int:
    return max(d for d in range(1, at_most + 1) if first % d == 0 and second % d == 0)


def lattice_starts(grid: Grid, size: int, stride: int) -> Starts:
    """First (row, column) of windows at multiples of the stride within the grid (at least one)."""
    rows = np.arange(0, max(grid.height - size, 0) + 1, stride)
    cols = np.arange(0, max(grid.width - size, 0) + 1, stride)
    return np.stack(np.meshgrid(rows, cols, indexing="ij"), axis=-1).reshape(-1, 2)


def lattice_sums(
    cells: NDArray[np.int64], starts: Starts, size: int, stride: int
) -> NDArray[np.int64]:
    """Sums over windows of a quantity counted per stride x stride lattice cell."""
    low = starts // stride
    high = np.minimum(low + size // stride, cells.shape)
    return box_sums(cells, low[:, 0], low[:, 1], high[:, 0], high[:, 1])


def covering_starts(length: int, size: int, stride: int) -> list[int]:
    """Starts of windows that cover 0..length; the last is flush with the end."""
    if length <= size:
        return [0]
    starts = list(range(0, length - size, stride))
    return [*starts, length - size]


def blocks(window: Window, step: int, largest: int = BLOCK) -> Iterator[Window]:
    """The window cut into pieces no larger than ``largest``, at multiples of ``step``."""
    piece = max(step, largest // step * step)
    for row in range(window.row, window.row_stop, piece):
        for col in range(window.col, window.col_stop, piece):
            height = min(piece, window.row_stop - row)
            yield Window(row, col, height, min(piece, window.col_stop - col))


def box_sums(
    cells: NDArray[np.int64],
    top: NDArray[np.int64],
    left: NDArray[np.int64],
    bottom: NDArray[np.int64],
    right: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Sums of ``cells[top:bottom, left:right]`` for many boxes, from one summed-area table."""
    table = np.zeros((cells.shape[0] + 1, cells.shape[1] + 1), dtype=np.int64)
    table[1:, 1:] = cells.cumsum(axis=0).cumsum(axis=1)
    return table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
