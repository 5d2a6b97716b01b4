"""How a map is held against the truth it was made from."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.data.split import Split
from geocfm.evaluation.benchmark.mosaics import held_out_cells, score_map
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.stats import entropy, spearmanr
from small_data import UTM

SHAPE = (120, 100)


def fields() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """A map, the truth, and which cells are held out; some cells of each have no data."""
    generator = np.random.default_rng(4)
    smooth = [gaussian_filter(generator.standard_normal(SHAPE), 6) for _ in range(2)]
    truth = np.exp(15 * smooth[0])
    density = np.exp(12 * smooth[0] + 8 * smooth[1])
    density[:9, :9], truth[50:53] = np.nan, np.nan
    held_out = np.zeros(SHAPE, dtype=bool)
    held_out[:, :30] = True
    return density, truth, held_out


def test_figures_are_those_of_scipy_over_all_cells_and_the_held_out_ones() -> None:
    density, truth, held_out = fields()
    found = score_map("a map", 1.5, density, truth, held_out)
    assert (found.title, found.seconds) == ("a map", 1.5)
    known = np.isfinite(density) & np.isfinite(truth)
    for where, kl, capture in (
        (known, found.kl, found.capture),
        (known & held_out, found.kl_held_out, found.capture_held_out),
    ):
        t, d = truth[where], density[where]
        assert kl == pytest.approx(entropy(t, d), rel=1e-6)
        order = np.argsort(-d)
        captured = np.cumsum(t[order]) / t.sum()
        assert capture == pytest.approx(captured.mean(), abs=1e-3)
    assert found.rank == pytest.approx(spearmanr(truth[known], density[known]).statistic, rel=1e-6)


def test_the_truth_itself_scores_best_at_any_scale() -> None:
    density, truth, held_out = fields()
    perfect = score_map("truth", 0, 7.3 * truth, truth, held_out)
    assert perfect.kl == pytest.approx(0, abs=1e-9)
    assert perfect.rank == pytest.approx(1)
    worse = score_map("a map", 0, density, truth, held_out)
    assert worse.kl > 0.05
    assert worse.capture < perfect.capture
    assert worse.capture_held_out < perfect.capture_held_out


def test_held_out_cells_are_those_of_test_tiles() -> None:
    split = Split(np.array([0, 40, 120]), np.array([0, 50, 100]), np.array([[0, 2], [1, 0]]))
    found = held_out_cells(UTM, split)
    expected = np.zeros((UTM.height, UTM.width), dtype=bool)
    expected[:40, 50:] = True
    assert np.array_equal(found, expected)
