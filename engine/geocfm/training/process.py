"""The Poisson process of single cells: ranks of their layers, products of those, and a ridge.

Its likelihood is that of the number of occurrences in every part of the training tiles, parts
without any included. Each occurrence counts by its weight, which is by the effort that it took to
find it, if that is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from geocfm.model.process import QUANTILES, CellProcess
from geocfm.training.cells import Cells, Floats, Rows, log_mean, nats

FOR_SQUARES, FOR_PRODUCTS = 10, 80  # occurrences; as Maxent has it (Phillips & Dudik 2008)
MOST_FEATURES = 400  # products are left out rather than make more
RIDGES = (1.0, 0.3, 0.1, 0.03)  # half of it times the squared weights of standardised features,
# beside the mean log likelihood of an occurrence
USUAL_RIDGE = 0.3  # of a process alone, and where too few tiles hold occurrences to choose one
ITERATIONS = 500
LEAST_SPREAD = 0.1  # of a term: what only a hundredth of the cells tells apart has little say
DIGITS = 4  # of a channel, whose standard deviation is about 1


class ProcessFit:
    """What a process of some cells is fitted with: ranks and terms, standardised.

    A layer without data stands for the mean of its values, and that it is there may only speak for
    a cell. So an absent layer makes no cell richer than some value of the layer would.
    """

    def __init__(self, cells: Cells, presence: NDArray[np.int64]) -> None:
        self._cells = cells
        self._ranks = CellProcess(len(presence))
        self._ranks.presence.copy_(torch.from_numpy(presence))
        for channel, column in enumerate(cells.sample.T):
            if presence[channel] != channel:
                beside = presence[channel]
                has_data = cells.sample[:, beside] > 0 if beside >= 0 else ...
                values, ranks = _quantiles(column[has_data])
                self._ranks.values[channel] = torch.from_numpy(values)
                self._ranks.ranks[channel] = torch.from_numpy(ranks)
        _centre(self._ranks, cells.sample)
        sample, present = (
            self._ranks.ranked(torch.from_numpy(rows.T)).double().numpy().T
            for rows in (cells.sample, cells.present)
        )
        self._terms = _Terms.learned(sample, presence, len(present))
        everywhere, there = self._terms.of(sample), self._terms.of(present)
        self._mean = mean = everywhere.mean(axis=0)
        self._spread = everywhere.std(axis=0).clip(min=LEAST_SPREAD)
        self._everywhere = (everywhere - mean) / self._spread
        self._there = (there - mean) / self._spread
        self._complete = np.concatenate(
            [self._terms.complete(sample), self._terms.complete(present)]
        )

    def best_ridge(self) -> float:
        """What predicts occurrences of groups of tiles that were left out, by likelihood."""
        if self._cells.groups < 2:
            return USUAL_RIDGE
        found = {ridge: nats(self._cells, *self._left_out(ridge)) for ridge in RIDGES}
        return max(found, key=found.__getitem__)

    def _left_out(self, ridge: float) -> tuple[Floats, Floats]:
        """Logs at the sample and at occurrences, each by a fit without its group of tiles."""
        cells = self._cells
        everywhere, there = np.empty(len(cells.sample)), np.empty(len(cells.present))
        for group in range(cells.groups):
            weights = self._fitted(ridge, group)
            all_logs = self._everywhere @ weights
            level = log_mean(all_logs)
            for found, terms, groups in (
                (everywhere, self._everywhere, cells.sample_group),
                (there, self._there, cells.present_group),
            ):
                found[groups == group] = terms[groups == group] @ weights - level
        return everywhere, there

    def _fitted(self, ridge: float, without: int | None) -> Floats:
        """Weights (F,) of the standardised terms, learned without a group of tiles."""
        cells = self._cells
        sample, present = cells.kept(without)
        return _most_likely(
            self._there[present],
            cells.weights[present],
            self._everywhere[sample],
            self._terms.only_positive,
            ridge,
        )

    def give(self, process: CellProcess, ridge: float, without: int | None = None) -> None:
        """Give the process its coefficients, learned without a group of tiles."""
        weights = self._fitted(ridge, without)
        logs = self._everywhere @ weights
        among = np.concatenate([logs, self._there @ weights])
        complete = self._complete if self._complete.any() else ...
        weights = weights / self._spread
        # the terms were held against their means: what that took away is made up for here
        highest = among[complete].max()
        level = -log_mean(logs.clip(max=highest))
        linear, pairs, constant = self._terms.form(weights)
        shift = -float(weights @ self._mean)
        for name in ("presence", "values", "ranks"):
            getattr(process, name).copy_(getattr(self._ranks, name))
        process.linear.copy_(torch.from_numpy(linear))
        process.pairs.copy_(torch.from_numpy(pairs))
        process.intercept.fill_(float(level + constant + shift))
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
    present: Floats,
    weights: Floats,
    everywhere: Floats,
    only_positive: NDArray[np.bool_],
    ridge: float,
) -> Floats:
    """Weights (F,) of the features: where occurrences lie among all cells, held by the ridge."""
    mean = (weights / weights.sum()) @ present

    def loss(values: Floats) -> tuple[float, Floats]:
        logs = everywhere @ values
        highest = logs.max()
        shares = np.exp(logs - highest)
        total = shares.sum()
        value = highest + np.log(total) - mean @ values + ridge / 2 * values @ values
        return value, shares @ everywhere / total - mean + ridge * values

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
