"""Whether one map captures more than another, told from few held-out occurrences."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.data.split import Split
from geocfm.evaluation.capture import CaptureCurve
from geocfm.evaluation.comparison import (
    held_out_captured,
    held_out_difference,
    paired_difference,
    shared_confidence,
)
from geocfm.evaluation.evaluate import Evaluation
from numpy.typing import NDArray
from scipy.stats import binom, t


@pytest.mark.parametrize("share", [0.0, 0.03, 0.1, 0.35, 1.0])
def test_credits_sum_to_what_is_captured(share: float) -> None:
    generator = np.random.default_rng(0)
    cells = np.round(generator.exponential(size=2000), 1)  # many ties
    curve = CaptureCurve()
    curve.add_cells(cells, generator.uniform(0.5, 2, 2000))
    at = generator.choice(cells, 40)
    curve.add_occurrences(at)
    credit = curve.credit(at, share)
    assert ((credit >= 0) & (credit <= 1)).all()
    assert credit.mean() == pytest.approx(curve.captured(share), abs=1e-12)


def test_the_interval_of_independent_occurrences_is_agrestis() -> None:
    # 100 pairs, 20 found by the first alone and 8 by the second alone, each on a tile of its own:
    # (20 - 8) / 102 +- 1.96 sqrt(29 - 144 / 102) / 102 (Agresti & Min 2005, adjusted Wald)
    gain = np.array([1.0] * 20 + [-1.0] * 8 + [0.0] * 72)
    found = paired_difference(gain, np.zeros(100, dtype=np.int64))
    assert found.difference == pytest.approx(0.12)
    half = 1.959964 * np.sqrt(29 - 144 / 102) / 102
    assert (found.low, found.high) == pytest.approx((12 / 102 - half, 12 / 102 + half))
    assert (found.occurrences, found.tiles) == (100, 1)


def test_occurrences_that_go_together_by_tile_widen_the_interval() -> None:
    gain = np.repeat([1.0, 1.0, -1.0, 1.0], 25)
    together = paired_difference(gain, np.repeat(np.arange(4), 25))
    apart = paired_difference(gain, np.arange(100))
    assert together.low < 0 < apart.low
    # four tiles of one size: the interval of their mean by Student's t
    half = t.ppf(0.975, 3) * np.std([1, 1, -1, 1], ddof=1) / 2
    assert together.low == pytest.approx(max(0.5 - half, -1))
    assert together.high == 1.0


def test_a_few_pairs_that_agree_prove_nothing() -> None:
    found = paired_difference(np.ones(2), np.array([0, 1]))
    assert found.difference == 1
    assert found.low < 0.3
    level = paired_difference(np.zeros(5), np.arange(5))
    assert level.low < 0 < level.high


def test_intervals_hold_the_true_difference_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        tile = generator.integers(0, 6, 40)
        richness = generator.normal(scale=0.2, size=6)[tile]  # whole tiles go well or badly
        first = generator.random(40) < np.clip(0.6 + richness, 0, 1)
        second = generator.random(40) < np.clip(0.4 - richness, 0, 1)
        found = paired_difference(first.astype(float) - second, tile)
        held += found.low <= 0.2 <= found.high
    assert held / 400 >= 0.92


def test_the_best_of_many_chosen_afterwards_is_held_to_more() -> None:
    generator = np.random.default_rng(2)
    level = shared_confidence(10)
    assert (shared_confidence(1), level) == pytest.approx((0.95, 0.995))
    wrong = {0.95: 0, level: 0}
    for _ in range(200):  # ten methods as good as the first, of which the luckiest is looked at
        found = generator.random((11, 60)) < 0.5
        gains = found[0].astype(float) - found[1:]
        luckiest = gains[gains.mean(axis=1).argmin()]
        for confidence in wrong:
            wrong[confidence] += paired_difference(luckiest, np.arange(60), confidence).high < 0
    assert wrong[level] <= 0.05 * 200 < wrong[0.95]


def evaluation(cells: NDArray[np.float64], at: NDArray[np.float64]) -> Evaluation:
    curve = CaptureCurve()
    curve.add_cells(cells, np.ones(len(cells)))
    curve.add_occurrences(at[:3])
    return Evaluation(curve, CaptureCurve(), CaptureCurve(), 1, at)


def test_only_held_out_occurrences_on_data_are_compared() -> None:
    split = Split(np.array([0, 10]), np.array([0, 10, 20]), np.array([[2, 0]], dtype=np.int8))
    points = np.array([[1.0, 1.0], [2.0, 2.0], [9.0, 9.0], [15.0, 5.0], [3.0, 3.0]])
    cells = np.arange(1.0, 101.0)
    nothing = np.nan
    good = evaluation(cells, np.array([100.0, 99.0, 5.0, 1.0, nothing]))
    poor = evaluation(cells, np.array([100.0, 2.0, 5.0, 100.0, nothing]))
    found = held_out_difference(good, poor, points, split, 0.1)
    assert found is not None
    assert found.occurrences == 3
    assert found.difference == pytest.approx(1 / 3)
    trained = Split(split.row_edges, split.col_edges, np.zeros((1, 2), dtype=np.int8))
    assert held_out_difference(good, poor, points, trained, 0.1) is None


def test_what_a_map_captures_has_an_interval_by_tiles() -> None:
    edges = np.arange(0, 90, 10)
    split = Split(np.array([0, 10]), edges, np.full((1, 8), 2, dtype=np.int8))
    tile = np.repeat(np.arange(8), 5)
    points = np.stack([10 * tile + 5.0, np.full(40, 5.0)], axis=1)
    curve = CaptureCurve()
    curve.add_cells(np.arange(1.0, 101.0), np.ones(100))
    good = np.where(tile < 6, 100.0, 1.0)  # six tiles of eight are found, two are missed
    curve.add_occurrences(good)
    found = Evaluation(curve, CaptureCurve(), CaptureCurve(), 0, good)
    captured = held_out_captured(found, points, split, 0.1)
    assert captured is not None
    assert captured.share == pytest.approx(0.75)
    # tiles of one size: the share of found ones among eight is binomial
    assert captured.low == pytest.approx(binom.ppf(0.025, 8, 0.75) / 8, abs=0.13)
    assert captured.high == 1.0
    assert captured.tiles == 8
    one = Evaluation(curve, CaptureCurve(), CaptureCurve(), 0, np.where(tile < 1, 100.0, np.nan))
    alone = held_out_captured(one, points, split, 0.1)
    assert alone is not None
    assert (alone.share, alone.low, alone.tiles) == (1.0, None, 1)
    trained = Split(split.row_edges, edges, np.zeros((1, 8), dtype=np.int8))
    assert held_out_captured(found, points, trained, 0.1) is None
