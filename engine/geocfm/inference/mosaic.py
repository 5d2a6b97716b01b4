"""Overlapping windows become one map without seams."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.windows import covering_starts
from geocfm.geo.grid import Grid, Window


@dataclass(frozen=True)
class Mosaic:
    """Windows that cover a grid, and the smooth weights with which they are blended."""

    grid: Grid
    size: int
    row_starts: tuple[int, ...]
    col_starts: tuple[int, ...]
    taper: NDArray[np.float64]  # along one axis of a window; the weight is the outer product
    row_sums: NDArray[np.float64]  # all tapers together, per row and per column of the grid
    col_sums: NDArray[np.float64]

    @classmethod
    def over(cls, grid: Grid, size: int, stride: int) -> Mosaic:
        """Cover the grid; windows overlap by size - stride."""
        taper = np.sin(np.pi * (np.arange(size) + 0.5) / size) ** 2
        rows = covering_starts(grid.height, size, stride)
        cols = covering_starts(grid.width, size, stride)
        sums = [_overlay(starts, taper) for starts in (rows, cols)]
        return cls(grid, size, tuple(rows), tuple(cols), taper, *sums)

    def windows(self) -> list[Window]:
        """All windows, row by row."""
        return [
            Window(row, col, self.size, self.size)
            for row in self.row_starts
            for col in self.col_starts
        ]

    def strips(self) -> list[Window]:
        """What is finished with each row of windows: the rows of the grid up to the next one's."""
        ends = [*self.row_starts[1:], self.grid.height]
        return [
            Window(start, 0, end - start, self.grid.width)
            for start, end in zip(self.row_starts, ends, strict=True)
        ]

    def first_row_into(self, strip: Window) -> int:
        """The number of the first row of windows that reaches into a strip."""
        return bisect_right(self.row_starts, strip.row - self.size)

    def share(self, window: Window, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """The window's part in the blend (N,) at points (N, 2) inside it; all parts sum to 1."""
        col, row = np.floor(points).astype(np.int64).T
        own = self.taper[row - window.row] * self.taper[col - window.col]
        return own / (self.row_sums[row] * self.col_sums[col])


def _overlay(starts: Sequence[int], taper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of all windows' tapers along one axis."""
    total = np.zeros(starts[-1] + len(taper))
    for start in starts:
        total[start : start + len(taper)] += taper
    return total


@dataclass(frozen=True)
class MappedWindow:
    """A window's relative density (..., P, P); zero off its data.

    Before P, P may come the members of an ensemble and repetitions, which are blended side by side.
    """

    window: Window
    density: NDArray[np.float64]
    footprint: NDArray[np.bool_]


def blend(
    mosaic: Mosaic, mapped: Iterator[MappedWindow], first: int = 0
) -> Iterator[tuple[Window, NDArray[np.float32]]]:
    """Finished strips (window, values (..., rows, columns)) from windows that come row by row.

    Only one row of windows is held at a time. Cells without data in any window are NaN. Windows
    may begin with the ``first`` row of them; strips that earlier rows reach into are then wrong.
    """
    size, width = mosaic.size, mosaic.grid.width
    weight = np.outer(mosaic.taper, mosaic.taper)
    waiting = next(mapped, None)
    weights = np.zeros((size, max(width, size)))
    total = np.zeros((*(waiting.density.shape[:-2] if waiting else ()), *weights.shape))
    for strip in mosaic.strips()[first:]:
        while waiting is not None and waiting.window.row == strip.row:
            here = (..., slice(waiting.window.col, waiting.window.col_stop))
            used = np.where(waiting.footprint, weight, 0.0)
            total[here] += used * waiting.density
            weights[here] += used
            waiting = next(mapped, None)
        done = strip.height
        with np.errstate(invalid="ignore"):
            values = (total[..., :done, :width] / weights[:done, :width]).astype(np.float32)
        yield strip, values
        for rows in (total, weights):
            rows[..., :-done, :] = rows[..., done:, :].copy()
            rows[..., -done:, :] = 0
