"""Scores out of fold, and leads over several commodities."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.evaluation.benchmark.fold_scores import KEYS, FoldScores, common, lead, means
from geocfm.evaluation.capture import CaptureCurve
from geocfm.evaluation.evaluate import Evaluation


def scores(seed: int, gain: float = 0.0, count: int = 400, tiles: int = 20) -> FoldScores:
    """Occurrences on tiles, with what all methods share there, and a gain of one of them."""
    generator = np.random.default_rng(seed)
    tile = generator.integers(0, tiles, count)
    shared = generator.random(tiles)[tile][:, None] + 0.1 * generator.random((count, len(KEYS)))
    return FoldScores(shared + gain, tile, 1.0)


def test_an_even_map_scores_as_chance() -> None:
    curve, nothing = CaptureCurve(), CaptureCurve()
    curve.add_cells(np.ones(1000), np.ones(1000))
    densities = np.array([1.0, np.nan, 1.0])
    curve.add_occurrences(densities[[0, 2]])
    evaluation = Evaluation(curve, nothing, nothing, 1, densities)
    found = FoldScores.of(evaluation, np.array([0, 1, 2]), 3.0)
    assert found.values[[0, 2]] == pytest.approx(np.array([[0.5, 0.05, 0.1, 0.0]] * 2))
    assert np.isnan(found.values[1]).all()
    again = FoldScores.from_arrays(found.to_arrays())
    assert np.array_equal(again.values, found.values, equal_nan=True)
    assert again.seconds == 3


def test_only_occurrences_that_all_maps_know_are_judged() -> None:
    one, other = scores(1), scores(1, 0.5)
    other.values[:7] = np.nan
    kept = common({"a": one, "b": other})
    assert len(kept["a"].tiles) == len(kept["b"].tiles) == 393
    assert np.isfinite(kept["b"].values).all()


def test_a_lead_over_commodities_is_told_from_chance() -> None:
    first = [scores(seed, 0.01) for seed in (1, 2)]
    second = [scores(seed) for seed in (1, 2)]
    found = lead(first, second)
    assert found.mean == pytest.approx(0.01)
    assert found.low == pytest.approx(0.01)  # the same everywhere: no chance in it
    assert (means(first) - means(second)) == pytest.approx(found.mean)


def test_every_commodity_counts_alike_and_intervals_are_by_tiles() -> None:
    large, small = scores(1, count=2000), scores(2, count=20)
    shifted = FoldScores(small.values + 0.4, small.tiles, 1.0)
    assert lead([large, shifted], [large, small]).mean == pytest.approx(0.2)
    one_tile = large.values + 0.3 * (large.tiles == 0)[:, None]
    found = lead([FoldScores(one_tile, large.tiles, 1.0)], [large])
    assert (found.low <= 1e-12).all()  # what one tile gives may be chance
    assert (found.mean > 0).all()
