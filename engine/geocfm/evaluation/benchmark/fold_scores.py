"""What methods are worth out of fold, occurrence by occurrence, and over several commodities.

Tiles are what is drawn anew to tell a lead from chance: occurrences of a tile are found or missed
together, and those of all commodities on it share its ground.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.evaluation.comparison import CONFIDENCE, RESAMPLES
from geocfm.evaluation.evaluate import Evaluation
from geocfm.inference.parts import Arrays

SHARES = (0.05, 0.1)  # of the area
AREA, LIKELIHOOD = "area", "nats"
KEYS = (AREA, *(f"{share:g}" for share in SHARES), LIKELIHOOD)
"""Area under the capture curve, what shares of the area capture, and the likelihood."""
LEAST_DENSITY = 1e-12  # relative; an occurrence on less counts as on that

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FoldScores:
    """What every occurrence (N,) adds to a method's scores; NaN where the map has no data.

    values (N, K) by KEYS; the likelihood is the log of the relative density, 0 by an even one.
    """

    values: Floats
    tiles: NDArray[np.int64]  # (N,) that they lie on
    seconds: float  # that fitting and mapping took

    @classmethod
    def of(cls, evaluation: Evaluation, tiles: NDArray[np.int64], seconds: float) -> FoldScores:
        """Of a map whose tiles are all held out."""
        curve, densities = evaluation.test, evaluation.densities
        known = np.isfinite(densities)
        values = np.full((len(densities), len(KEYS)), np.nan)
        there = densities[known]
        columns = [curve.outranked(there), *(curve.credit(there, share) for share in SHARES)]
        values[known] = np.stack([*columns, np.log(np.maximum(there, LEAST_DENSITY))], axis=1)
        return cls(values, tiles, seconds)

    def to_arrays(self) -> Arrays:
        """To be kept on disk."""
        return {"values": self.values, "tiles": self.tiles, "seconds": np.array(self.seconds)}

    @classmethod
    def from_arrays(cls, found: Arrays) -> FoldScores:
        """As it was kept."""
        return cls(found["values"], found["tiles"], float(found["seconds"]))


@dataclass(frozen=True)
class Lead:
    """One method's scores less another's, (K,), with 95 % intervals by tiles."""

    mean: Floats
    low: Floats
    high: Floats


def common(methods: Mapping[str, FoldScores]) -> dict[str, FoldScores]:
    """The scores of occurrences that every method's map has data at."""
    known = np.logical_and.reduce([np.isfinite(m.values).all(axis=1) for m in methods.values()])
    return {
        title: FoldScores(m.values[known], m.tiles[known], m.seconds)
        for title, m in methods.items()
    }


def means(commodities: Sequence[FoldScores]) -> Floats:
    """A method's scores (K,): the mean over commodities of the mean over their occurrences."""
    return np.mean([scores.values.mean(axis=0) for scores in commodities], axis=0)


def lead(first: Sequence[FoldScores], second: Sequence[FoldScores]) -> Lead:
    """Of two methods on the same commodities and occurrences, in the same order.

    Tiles are drawn with replacement, the same for all commodities.
    """
    tiles = np.unique(np.concatenate([one.tiles for one in first]))
    draws = np.random.default_rng(0).multinomial(
        len(tiles), np.full(len(tiles), 1 / len(tiles)), RESAMPLES
    )
    drawn = np.zeros((RESAMPLES, len(KEYS)))
    mean = np.zeros(len(KEYS))
    for one, other in zip(first, second, strict=True):
        gain = one.values - other.values
        at = np.searchsorted(tiles, one.tiles)
        sums = np.stack([np.bincount(at, g, len(tiles)) for g in gain.T], axis=1)
        counts = np.bincount(at, minlength=len(tiles))
        drawn += draws @ sums / np.maximum(draws @ counts, 1)[:, None]
        mean += gain.mean(axis=0)
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(drawn / len(first), ends, axis=0)
    return Lead(mean / len(first), low, high)
