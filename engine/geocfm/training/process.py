"""The Poisson process of single cells, found before a network learns to correct it.

Its likelihood is that of the number of occurrences in every part of the training tiles, parts
without any included. Each occurrence counts by its weight, which is by the effort that it took to
find it, if that is known. Without the effort the process says where people have found much, which
is also where they have looked: it inherits the bias of exploration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
LEAST_SPREAD = 0.1  # of a term: what only a hundredth of the cells tells apart has little say
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
    """Give the process its coefficients; without an occurrence that counts it stays even.

    A layer without data stands for the mean of its values, and that it is there may only speak for
    a cell. So an absent layer makes no cell richer than some value of the layer would.
    """
    cells = _read_cells(region, seed)
    if not len(cells.present) or not len(cells.sample):
        return
    presence = region.encoder.presence_channels()
    process.presence.copy_(torch.from_numpy(presence))
    for channel, column in enumerate(cells.sample.T):
        if presence[channel] != channel:
            has_data = cells.sample[:, presence[channel]] > 0 if presence[channel] >= 0 else ...
            values, ranks = _quantiles(column[has_data])
            process.values[channel] = torch.from_numpy(values)
            process.ranks[channel] = torch.from_numpy(ranks)
    _centre(process, cells.sample)
    sample, present = (
        process.ranked(torch.from_numpy(rows.T)).double().numpy().T
        for rows in (cells.sample, cells.present)
    )
    terms = _Terms.learned(sample, presence, len(present))
    everywhere, there = terms.of(sample), terms.of(present)
    mean, spread = everywhere.mean(axis=0), everywhere.std(axis=0).clip(min=LEAST_SPREAD)
    weights = _most_likely(
        (there - mean) / spread, cells.weights, (everywhere - mean) / spread, terms.only_positive
    )
    weights /= spread
    logs = everywhere @ weights
    among = np.concatenate([logs, there @ weights])
    complete = np.concatenate([terms.complete(sample), terms.complete(present)])
    highest = among[complete if complete.any() else ...].max()
    level = np.log(cells.weights.sum() / cells.in_all / np.exp(logs.clip(max=highest)).mean())
    linear, pairs, constant = terms.form(weights)
    process.linear.copy_(torch.from_numpy(linear))
    process.pairs.copy_(torch.from_numpy(pairs))
    process.intercept.fill_(float(level + constant))
    process.highest.fill_(float(level + highest))


def _centre(process: CellProcess, cells: Rows) -> None:
    """Give the ranks of values the mean 0 where there is data: what an absent layer has."""
    ranks = process.ranked(torch.from_numpy(cells.T)).double()
    for channel, beside in enumerate(process.presence.tolist()):
        if beside != channel:
            with_data = ranks[beside].sum() if beside >= 0 else len(cells)
            process.ranks[channel] -= ranks[channel].sum() / max(float(with_data), 1.0)


@dataclass(frozen=True)
class _Terms:
    """What the log intensity is a sum of: the ranks, and products of two of those of values.

    A product within a layer is held against its mean where the layer has data, so that an absent
    layer, whose ranks are 0, stands for that mean there too.
    """

    presence: NDArray[np.int64]  # (C,) as CellProcess has it
    first: NDArray[np.int64]  # (P,) channels that are multiplied
    second: NDArray[np.int64]
    means: Floats  # (P,)

    @classmethod
    def learned(cls, ranks: Floats, presence: NDArray[np.int64], occurrences: int) -> _Terms:
        """As many products as so many occurrences can teach, with their means in cells (N, C)."""
        valued = np.flatnonzero(presence != np.arange(len(presence)))
        first, second = (valued[number] for number in _products(len(valued), occurrences))
        own = (first == second) | ((presence[first] == presence[second]) & (presence[first] >= 0))
        plain = cls(presence, first, second, np.zeros(len(first)))
        cells = plain._has_data(ranks)[:, first].sum(axis=0).clip(min=1)
        return replace(plain, means=own * (ranks[:, first] * ranks[:, second]).sum(axis=0) / cells)

    def of(self, ranks: Floats) -> Floats:
        """The terms (N, C + P) of cells with such ranks (N, C)."""
        products = ranks[:, self.first] * ranks[:, self.second]
        return np.hstack([ranks, products - self.means * self._has_data(ranks)[:, self.first]])

    def complete(self, ranks: Floats) -> NDArray[np.bool_]:
        """Which cells (N,) have data in every layer."""
        return np.asarray((self._has_data(ranks) > 0).all(axis=1))

    def form(self, weights: Floats) -> tuple[Floats, Floats, float]:
        """Weights (C + P,) of the terms as a quadratic form: linear, pairs (C, C), constant."""
        channels = len(self.presence)
        linear, products = weights[:channels].copy(), weights[channels:]
        pairs = np.zeros((channels, channels))
        pairs[self.first, self.second] = products
        beside = self.presence[self.first]
        np.subtract.at(linear, beside[beside >= 0], (products * self.means)[beside >= 0])
        return linear, pairs, -float((products * self.means)[beside < 0].sum())

    @property
    def only_positive(self) -> NDArray[np.bool_]:
        """Which terms (C + P,) say that a layer is there."""
        told = self.presence == np.arange(len(self.presence))
        return np.concatenate([told, np.zeros(len(self.first), dtype=bool)])

    def _has_data(self, ranks: Floats) -> Floats:
        """Of each channel (N, C): 1 where its layer has data, else 0."""
        return np.where(self.presence >= 0, ranks[:, self.presence], 1.0)


def _quantiles(column: Rows) -> tuple[Rows, Rows]:
    """Values (Q,) of a channel that rise, the last one repeated where they are fewer, and ranks.

    Ranks are even between -sqrt(3) and sqrt(3): of variance 1. A value that many cells have has the
    mean of theirs, and values nearer than DIGITS are one: else rounding would decide on ranks.
    """
    if not len(column):
        return np.zeros(QUANTILES, np.float32), np.zeros(QUANTILES, np.float32)
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


def _most_likely(
    present: Floats, weights: Floats, everywhere: Floats, only_positive: NDArray[np.bool_]
) -> Floats:
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
    bounds = [(0.0 if held else None, None) for held in only_positive]
    found = minimize(
        *(loss, start),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": ITERATIONS},
    )
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
