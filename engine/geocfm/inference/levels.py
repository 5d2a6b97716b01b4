"""How rich windows are beside each other: a window's density sums to one, whatever it holds.

If occurrences follow an intensity lambda, a window W sees pi(p | W) = lambda(p) / Lambda(W), and
two windows that overlap must agree there up to their masses Lambda. With q_jk, the mass that window
j gives to what it shares with window k,

    log Lambda_j - log Lambda_k = log(q_kj / q_jk),

for every pair. ``window_levels`` finds the log masses that agree best: weighted least squares, one
sparse symmetric solve, held by a ridge to what a window is thought to hold beforehand (PRIORS).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csgraph, diags_array
from scipy.sparse.linalg import cg

from geocfm.geo.grid import Window
from geocfm.inference.mosaic import Mosaic

COMBINATIONS = ("average", "consistent", "head", "count")
RIDGE = {"consistent": 1e-3, "head": 1e-2, "count": 3.0}
"""How much a window's own prior counts beside one pair that shares all its mass; by trial on a
synthetic region and on validation tiles (docs/benchmarks.md)."""
LEAST_SHARED = 1e-12  # of a window's mass; less on an overlap tells nothing of it
PRECISION = 1e-9  # of the solution, relative


@dataclass(frozen=True)
class Survey:
    """What is known of windows before they are put side by side; index W runs over them.

    shared (W, 2 r + 1, 2 r + 1): the mass each gives to what it shares with the window so many
    rows and columns of windows further on; its own, in the middle, is 1 if it holds data.
    """

    cells: NDArray[np.int64]  # (W,) with data
    shared: NDArray[np.float64]
    log_mass: NDArray[np.float64]  # (W,) of the density head, NaN without one
    log_count: NDArray[np.float64]  # (W,) expected by the model, NaN if it does not count


@dataclass(frozen=True)
class Levels:
    """Mean density (W,) of each window's data beside the others', and how far windows compare.

    parts: groups of windows that share no mass with each other, so that only their priors compare
    them.
    """

    values: NDArray[np.float64]
    parts: int


def reach(mosaic: Mosaic) -> int:
    """How many rows or columns of windows further on a window may still overlap another."""
    return max(
        bisect_left(starts, start + mosaic.size) - 1 - number
        for starts in (mosaic.row_starts, mosaic.col_starts)
        for number, start in enumerate(starts)
    )


def shared_masses(
    mosaic: Mosaic, window: Window, density: NDArray[np.float64], most: int
) -> NDArray[np.float64]:
    """What a window's density (P, P), of sum 1, gives to each of its neighbours: see ``Survey``."""
    table = np.zeros((mosaic.size + 1, mosaic.size + 1))
    table[1:, 1:] = density.cumsum(axis=0).cumsum(axis=1)
    rows = _overlaps(mosaic.row_starts, window.row, mosaic.size, most)
    cols = _overlaps(mosaic.col_starts, window.col, mosaic.size, most)
    low, high = rows
    left, right = cols
    return (
        table[np.ix_(high, right)]
        - table[np.ix_(low, right)]
        - table[np.ix_(high, left)]
        + table[np.ix_(low, left)]
    )


def _overlaps(
    starts: Sequence[int], start: int, size: int, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Along one axis: from and to which cell of a window each neighbour overlaps it."""
    own = starts.index(start)
    low, high = np.zeros((2, 2 * most + 1), dtype=np.int64)
    for offset in range(-most, most + 1):
        if 0 <= own + offset < len(starts):
            begin = starts[own + offset] - start
            low[offset + most] = min(max(begin, 0), size)
            high[offset + most] = max(min(begin + size, size), low[offset + most])
    return low, high


def window_levels(
    mosaic: Mosaic, windows: Sequence[Window], survey: Survey, combine: str
) -> Levels:
    """Levels of the windows by the way they are to be combined; 0 for one without data."""
    first, second, weight, step = _pairs(mosaic, windows, survey)
    count = len(windows)
    graph = coo_array((weight, (first, second)), shape=(count, count)).tocsr()
    graph = graph + graph.T
    held = survey.cells > 0
    _, label = csgraph.connected_components(graph, directed=False)
    parts = len(np.unique(label[held]))
    if combine == "average":
        return Levels(held.astype(np.float64), parts)
    prior = _prior(survey, combine)
    ridge = np.where(held, RIDGE[combine], 1.0)
    pull = np.zeros(count)
    np.add.at(pull, first, weight * step)
    np.add.at(pull, second, -weight * step)
    system = diags_array(graph.sum(axis=1) + ridge) - graph
    scale = diags_array(1 / system.diagonal())
    found, failed = cg(
        system, pull + ridge * prior, x0=prior, rtol=PRECISION, M=scale, maxiter=20 * count + 1000
    )
    if failed:
        raise RuntimeError("the levels of the windows were not found")
    log_density = found - np.log(np.maximum(survey.cells, 1))
    values = np.where(held, np.exp(log_density - log_density.max(initial=-np.inf)), 0.0)
    mean = (values * survey.cells).sum() / max(survey.cells.sum(), 1)
    return Levels(values / max(mean, 1e-300), parts)


def _prior(survey: Survey, combine: str) -> NDArray[np.float64]:
    """Log masses (W,) as thought of beforehand: even, or what a head says."""
    if combine == "consistent":
        prior = np.log(np.maximum(survey.cells, 1.0))
    else:
        prior = survey.log_mass if combine == "head" else survey.log_count
    held = survey.cells > 0
    return np.where(held, prior - prior[held].mean() if held.any() else 0.0, 0.0)


def _pairs(
    mosaic: Mosaic, windows: Sequence[Window], survey: Survey
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Each pair of windows once: both numbers, the mass they share, and log(q_kj / q_jk)."""
    rows, cols = len(mosaic.row_starts), len(mosaic.col_starts)
    number = np.full((rows, cols), -1)
    row = np.searchsorted(mosaic.row_starts, [window.row for window in windows])
    col = np.searchsorted(mosaic.col_starts, [window.col for window in windows])
    number[row, col] = np.arange(len(windows))
    most = survey.shared.shape[1] // 2
    found = [(np.zeros((0, 2), dtype=np.int64), np.zeros((0, 2)))]
    for down, right in _onwards(most):
        if down >= rows or abs(right) >= cols:
            continue
        ours = number[: rows - down, max(0, -right) : cols - max(0, right)].ravel()
        theirs = number[down:, max(0, right) : cols - max(0, -right)].ravel()
        pairs = np.stack([ours, theirs], axis=1)[(ours >= 0) & (theirs >= 0)]
        there = survey.shared[pairs[:, 0], most + down, most + right]
        back = survey.shared[pairs[:, 1], most - down, most - right]
        found.append((pairs, np.stack([there, back], axis=1)))
    both, masses = (np.concatenate(parts) for parts in zip(*found, strict=True))
    telling = masses.min(axis=1) > LEAST_SHARED
    (first, second), (there, back) = both[telling].T, masses[telling].T
    return first, second, np.minimum(there, back), np.log(back / there)


def _onwards(most: int) -> Iterator[tuple[int, int]]:
    """Offsets that come later, row by row: every pair of neighbours is met once."""
    for down in range(most + 1):
        for right in range(-most, most + 1):
            if (down, right) > (0, 0):
                yield down, right
