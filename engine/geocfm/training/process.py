"""The Poisson process of single cells, found before a network learns to correct it.

Its likelihood is that of the number of occurrences in every part of the training tiles, parts
without any included. Each occurrence counts by its weight, which is by the effort that it took to
find it, if that is known. Without the effort the process says where people have found much, which
is also where they have looked: it inherits the bias of exploration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from geocfm.data.region import Region
from geocfm.data.split import TRAIN
from geocfm.data.windows import blocks
from geocfm.model.process import QUANTILES, CellProcess

MOST_BLOCKS = 1024  # that cells are drawn from, spread evenly over all there are
CELLS = 60_000  # drawn from them at most
FOR_SQUARES, FOR_PRODUCTS = 10, 80  # occurrences; as Maxent has it (Phillips & Dudik 2008)
MOST_FEATURES = 400  # products are left out rather than make more
RIDGE = 0.3  # half of it times the squared weights of standardised features, beside the mean log
# likelihood of an occurrence; by trial on other commodities than those judged (docs/benchmarks.md)
ITERATIONS = 500
DIGITS = 4  # of a channel, whose standard deviation is about 1
PROCESS_STREAM = 2**31 + 2  # keeps this chance apart from that of every training step

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Cells:
    """Of the training tiles: a sample of all cells, and the cells and weights of occurrences."""

    sample: Rows
    in_all: float
    present: Rows
    weights: Floats


def fit_process(process: CellProcess, region: Region, seed: int) -> None:
    """Give the process its coefficients; without an occurrence that counts it stays even."""
    cells = _read_cells(region, seed)
    if not len(cells.present) or not len(cells.sample):
        return
    for channel, column in enumerate(cells.sample.T):
        values, ranks = _quantiles(column)
        process.values[channel] = torch.from_numpy(values)
        process.ranks[channel] = torch.from_numpy(ranks)
    sample, present = (
        process.ranked(torch.from_numpy(rows)).double().numpy()
        for rows in (cells.sample, cells.present)
    )
    first, second = _products(sample.shape[1], len(present))
    everywhere, there = (
        np.hstack([ranks, ranks[:, first] * ranks[:, second]]) for ranks in (sample, present)
    )
    mean, spread = everywhere.mean(axis=0), everywhere.std(axis=0)
    spread[spread < 1e-6] = np.inf  # a constant says nothing
    weights = _most_likely((there - mean) / spread, cells.weights, (everywhere - mean) / spread)
    weights /= spread
    linear, pairs = np.split(weights, [sample.shape[1]])
    level = cells.weights.sum() / (np.exp(everywhere @ weights).mean() * cells.in_all)
    process.intercept.fill_(float(np.log(level)))
    process.linear.copy_(torch.from_numpy(linear))
    process.pairs[first, second] = torch.from_numpy(pairs).float()


def _quantiles(column: Rows) -> tuple[Rows, Rows]:
    """Values (Q,) of a channel that rise, the last one repeated where they are fewer, and ranks.

    Ranks are even between -sqrt(3) and sqrt(3): of variance 1. A value that many cells have has the
    mean of theirs, and values nearer than DIGITS are one: else rounding would decide on ranks.
    """
    shares = np.linspace(0, 1, QUANTILES)
    seen = np.quantile(column, shares, method="nearest").round(DIGITS)
    values, where = np.unique(seen, return_inverse=True)
    ranks = np.bincount(where, shares) / np.bincount(where)
    repeated = np.minimum(np.arange(QUANTILES), len(values) - 1)
    return values[repeated], ((2 * ranks - 1) * np.sqrt(3)).astype(np.float32)[repeated]


def _products(channels: int, occurrences: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which channels are multiplied: as much as so many occurrences can teach."""
    if occurrences < FOR_SQUARES:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    first, second = np.triu_indices(channels)
    if occurrences < FOR_PRODUCTS or channels + len(first) > MOST_FEATURES:
        return np.arange(channels), np.arange(channels)
    return first, second


def _most_likely(present: Floats, weights: Floats, everywhere: Floats) -> Floats:
    """Weights (F,) of the features: where occurrences lie among all cells, held by the ridge."""
    mean = (weights / weights.sum()) @ present

    def loss(values: Floats) -> tuple[float, Floats]:
        logs = everywhere @ values
        highest = logs.max()
        shares = np.exp(logs - highest)
        total = shares.sum()
        value = highest + np.log(total) - mean @ values + RIDGE / 2 * values @ values
        return value, shares @ everywhere / total - mean + RIDGE * values

    start = np.zeros(present.shape[1])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    return np.asarray(found.x)


def _read_cells(region: Region, seed: int) -> _Cells:
    generator = np.random.default_rng([seed, PROCESS_STREAM])
    tiles = [tile for tile, role in region.split.tiles() if role == TRAIN]
    pieces = [piece for tile in tiles for piece in blocks(tile, 1, region.plan.size)]
    chosen = np.linspace(0, len(pieces) - 1, min(len(pieces), MOST_BLOCKS)).astype(int)
    drawn = set(chosen.tolist())
    share = CELLS / max(sum(pieces[number].cells for number in drawn), 1)
    sample: list[Rows] = []
    present: list[Rows] = []
    weights: list[Floats] = []
    with_data = 0
    for number, piece in enumerate(pieces):
        inside = region.inside(piece)
        inside = inside[region.weights[inside] > 0]
        if number not in drawn and not len(inside):
            continue
        channels, footprint = region.encoder.encode(region.read(piece))
        if number in drawn:
            kept = footprint & (generator.random(footprint.shape) < share)
            sample.append(channels[:, kept].T)
            with_data += int(footprint.sum())
        col, row = (region.points[inside].astype(np.int64) - (piece.col, piece.row)).T
        present.append(channels[:, row, col].T)
        weights.append(region.weights[inside])
    return _Cells(
        np.concatenate(sample),
        with_data * len(pieces) / max(len(drawn), 1),
        np.concatenate(present),
        np.concatenate(weights),
    )
