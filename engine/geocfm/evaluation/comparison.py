"""Whether one map captures more than another, or the held-out occurrences are too few to tell."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from geocfm.data.split import TEST, Split
from geocfm.evaluation.evaluate import Evaluation

CONFIDENCE = 0.95
FEWEST_TILES = 2  # of which a spread can be told
FEW_TILES = 6  # of fewer, an interval by drawing them anew is too narrow to be shown
RESAMPLES = 2000  # of the tiles


@dataclass(frozen=True)
class Difference:
    """Captured by the first map less captured by the second, as shares of the occurrences."""

    difference: float
    low: float  # of the interval
    high: float
    occurrences: int
    tiles: int
    confidence: float = CONFIDENCE  # of the interval, by itself

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class Captured:
    """Share of the held-out occurrences that a map captures, with a tile-block bootstrap."""

    share: float
    low: float | None  # of the 95 % interval; None where all occurrences lie on one tile
    high: float | None
    tiles: int

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        return asdict(self)


@dataclass(frozen=True)
class TileBand:
    """Ends (K,) of the 95 % intervals of K means, by tiles drawn with replacement."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def shared_confidence(comparisons: int) -> float:
    """What each of several intervals must have for all of them to hold 95 times in 100.

    (Bonferroni.) The best of several methods is chosen after the fact, so that one is not enough.
    """
    return 1 - (1 - CONFIDENCE) / max(comparisons, 1)


def held_out_difference(
    first: Evaluation,
    second: Evaluation,
    points: NDArray[np.float64],
    split: Split,
    share: float,
    confidence: float = CONFIDENCE,
) -> Difference | None:
    """The difference in capture on the test tiles; None without any occurrence there.

    points: (N, 2), those that both evaluations are of, in cells that the split's tiles count.
    """
    both = np.isfinite(first.densities) & np.isfinite(second.densities)
    chosen = both & (split.role_of_points(points) == TEST)
    if not chosen.any():
        return None
    gain = first.test.credit(first.densities[chosen], share)
    gain -= second.test.credit(second.densities[chosen], share)
    return paired_difference(gain, split.tile_of_points(points[chosen]), confidence)


def held_out_captured(
    evaluation: Evaluation, points: NDArray[np.float64], split: Split, share: float
) -> Captured | None:
    """What one map captures on the test tiles; None without any occurrence there.

    The interval is by tiles (N occurrences in all) drawn with replacement, seeded. With few tiles
    it is too narrow, so no verdict rests on it.
    """
    chosen = np.isfinite(evaluation.densities) & (split.role_of_points(points) == TEST)
    if not chosen.any():
        return None
    credit = evaluation.test.credit(evaluation.densities[chosen], share)
    low, high, tiles = tile_interval(credit, split.tile_of_points(points[chosen]))
    return Captured(float(credit.mean()), low, high, tiles)


def tile_interval(
    values: NDArray[np.float64], tile: NDArray[np.int64]
) -> tuple[float | None, float | None, int]:
    """95 % interval of a mean of values (N,) by tiles (N,) drawn with replacement; how many tiles.

    No interval where all values lie on one tile.
    """
    band, tiles = tile_band(values[:, None], tile), len(np.unique(tile))
    return (None, None, tiles) if band is None else (float(band.low[0]), float(band.high[0]), tiles)


def tile_band(values: NDArray[np.float64], tile: NDArray[np.int64]) -> TileBand | None:
    """Intervals of K means of values (N, K), all from the same draws of tiles (N,).

    None where all values lie on one tile.
    """
    _, number = np.unique(tile, return_inverse=True)
    counts = np.bincount(number)
    tiles = len(counts)
    if tiles < FEWEST_TILES:
        return None
    found = np.stack([np.bincount(number, weights=column) for column in values.T], axis=1)
    drawn = np.random.default_rng(0).multinomial(tiles, np.full(tiles, 1 / tiles), RESAMPLES)
    ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
    low, high = np.quantile(drawn @ found / (drawn @ counts)[:, None], ends, axis=0)
    return TileBand(low, high)


def paired_difference(
    gain: NDArray[np.float64], tile: NDArray[np.int64], confidence: float = CONFIDENCE
) -> Difference:
    """Mean gain (N,) in [-1, 1] per occurrence, with the wider of two intervals.

    One takes occurrences as independent (Agresti & Min 2005 for matched pairs, which holds for few
    of them); the other tiles (N,), by the spread of their sums with Student's t, since
    occurrences of a tile are found or missed together. Tiles drawn with replacement would do the
    same, but of the two to six tiles that there often are they give too narrow an interval, and
    of tiles that agree one without any width.
    """
    count, mean = len(gain), float(gain.mean())
    up, down = np.maximum(gain, 0).sum() + 0.5, np.maximum(-gain, 0).sum() + 0.5
    padded = count + 2
    centre = (up - down) / padded
    spread = np.sqrt(max(up + down - (up - down) ** 2 / padded, 0.0)) / padded
    width = float(norm.ppf((1 + confidence) / 2)) * spread
    low, high = centre - width, centre + width
    _, number = np.unique(tile, return_inverse=True)
    tiles = int(number.max()) + 1
    if tiles >= FEWEST_TILES:
        left = np.bincount(number, weights=gain - mean)
        error = np.sqrt(tiles / (tiles - 1) * (left**2).sum()) / count
        width = float(t.ppf((1 + confidence) / 2, tiles - 1)) * error
        low, high = min(low, mean - width), max(high, mean + width)
    low, high = max(float(low), -1.0), min(float(high), 1.0)
    return Difference(mean, low, high, count, tiles, confidence)
