"""Every metric against another implementation or a case counted by hand, and what must hold."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from geocfm.evaluation import metrics
from geocfm.evaluation.metrics import (
    capture_of,
    chamfer,
    f_score,
    kde_nll,
    pixel_log_density,
    top_share,
)
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import gaussian_kde

Metric = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
EVERY = pytest.mark.parametrize("metric", [chamfer, f_score, kde_nll])


def points(count: int, seed: int, size: float = 60.0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, 2)) * size)


def tensor(*rows: tuple[float, float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float64)


def draws(number: int, count: int, seed: int = 0) -> torch.Tensor:
    return torch.stack([points(count, seed + 100 * i) for i in range(number)])


def test_chamfer_is_the_nearest_distances_counted_one_by_one() -> None:
    several, observed = draws(3, 40), points(25, 7)
    for draw, found in zip(several, chamfer(several, observed), strict=True):
        there = [min(math.dist(a, b) for b in observed.tolist()) for a in draw.tolist()]
        back = [min(math.dist(a, b) for a in draw.tolist()) for b in observed.tolist()]
        assert found.item() == pytest.approx(np.mean(there) + np.mean(back), rel=1e-12)


def test_chamfer_by_hand() -> None:
    # to the nearest: 0, 3 and 5; back: 0
    found = chamfer(tensor((0, 0), (0, 3), (3, 4))[None], tensor((0, 0)))
    assert found.tolist() == pytest.approx([8 / 3])


def test_chamfer_keeps_its_digits_far_from_the_origin() -> None:
    near = tensor((1e6, 1e6))
    assert chamfer((near + 1e-3)[None].repeat(1, 40, 1), near.repeat(40, 1)).item() == (
        pytest.approx(2 * math.hypot(1e-3, 1e-3), rel=1e-6)
    )


def test_f_score_by_hand() -> None:
    observed = tensor((0, 0), (4, 0), (20, 0), (50, 50))
    # both near points want the same two; (25, 0) is just within 5 px; the last is alone
    draw = tensor((1, 0), (3, 0), (25, 0), (90, 0), (26, 0))
    assert f_score(draw[None], observed).tolist() == pytest.approx([2 * 3 / 9])
    assert f_score(draw[None], observed, tolerance=4.99).tolist() == pytest.approx([2 * 2 / 9])


def test_a_greedy_choice_does_not_spoil_the_matching() -> None:
    # the first point is nearest to the one that the second needs
    draw, observed = tensor((5, 0), (9.5, 0)), tensor((5.5, 0), (0.5, 0))
    assert f_score(draw[None], observed).tolist() == [1.0]


@pytest.mark.parametrize("counts", [(30, 30), (12, 45), (80, 33)])
def test_f_score_is_the_best_assignment(counts: tuple[int, int]) -> None:
    several, observed = draws(4, counts[0]), points(counts[1], 9)
    found = f_score(several, observed)
    assert 0.1 < found.min() < found.max() < 1
    for draw, score in zip(several, found, strict=True):
        far = (cdist(draw.numpy(), observed.numpy()) > 5).astype(float)
        chosen = linear_sum_assignment(far)
        hits = int((1 - far[chosen]).sum())
        assert score.item() == pytest.approx(2 * hits / sum(counts))


@pytest.mark.parametrize("count", [12, 300])
def test_kde_nll_is_that_of_scipy(count: int) -> None:
    spread = torch.tensor([[1.0, 0.6], [0.0, 0.4]], dtype=torch.float64)
    several, observed = draws(3, count) @ spread, points(50, 8) @ spread
    expected = [
        -gaussian_kde(draw.numpy().T, "scott").logpdf(observed.numpy().T).mean() for draw in several
    ]
    assert kde_nll(several, observed).tolist() == pytest.approx(expected, rel=1e-9)


def test_kde_nll_of_one_point_is_that_of_a_kernel_a_pixel_wide() -> None:
    observed = tensor((3, 4), (0, 0))
    expected = math.log(2 * math.pi) + (25 / 2 + 0) / 2
    assert kde_nll(tensor((0, 0))[None], observed).tolist() == pytest.approx([expected])


def test_kde_nll_of_collinear_points_has_a_floor_across_them() -> None:
    along = torch.arange(27, dtype=torch.float64) * 4
    line = torch.stack([along, 2 * along], dim=1)
    # turned so that the line is an axis, the density is a product of two
    turned = (along * math.sqrt(5)).numpy()
    kernel = turned.std(ddof=1) * 27 ** (-1 / 6)
    across = 1.5
    one = np.exp(-0.5 * ((turned - turned[5]) / kernel) ** 2).mean() / (2 * math.pi * kernel)
    expected = -math.log(one * math.exp(-0.5 * across**2))
    off = line[5] + across * tensor((-2, 1))[0] / math.sqrt(5)
    assert kde_nll(line[None], off[None]).tolist() == pytest.approx([expected])


def test_uniform_draws_have_the_uniform_kde_nll_away_from_the_border() -> None:
    inside = 60 + points(500, 5, 100.0)
    found = kde_nll(draws(5, 500) * 220 / 60, inside)
    assert found.mean().item() == pytest.approx(math.log(220**2), abs=0.05)


@EVERY
def test_order_and_translation_do_not_matter(metric: Metric) -> None:
    several, observed = draws(2, 30), points(20, 3)
    found = metric(several, observed)
    shift = tensor((17, -5))
    torch.testing.assert_close(metric(several.flip(1), observed.flip(0)), found)
    torch.testing.assert_close(metric(several + shift, observed + shift), found)


@EVERY
def test_draws_do_not_know_of_each_other(metric: Metric, monkeypatch: pytest.MonkeyPatch) -> None:
    several, observed = draws(5, 30), points(20, 3)
    alone = torch.cat([metric(draw[None], observed) for draw in several])
    torch.testing.assert_close(metric(several, observed), alone)
    monkeypatch.setattr(metrics, "DISTANCES_AT_ONCE", 1300)  # two at a time
    torch.testing.assert_close(metric(several, observed), alone)
    assert alone.unique().numel() > 1


@pytest.mark.parametrize("metric", [chamfer, f_score])
def test_both_ways_are_the_same(metric: Metric) -> None:
    first, second = points(30, 1), points(20, 2)
    torch.testing.assert_close(metric(first[None], second), metric(second[None], first))


def test_equal_sets_are_perfect() -> None:
    observed = points(50, 1)
    assert chamfer(observed.flip(0)[None], observed).tolist() == [0]
    assert f_score(observed.flip(0)[None], observed).tolist() == [1]
    assert f_score(observed[:1][None], observed[:1]).tolist() == [1]


@EVERY
def test_empty_sets_have_no_score(metric: Metric) -> None:
    none = torch.zeros(0, 2, dtype=torch.float64)
    assert metric(draws(3, 5), none).isnan().tolist() == [True] * 3
    assert metric(torch.zeros(3, 0, 2), points(4, 1)).isnan().tolist() == [True] * 3
    assert metric(torch.zeros(0, 5, 2), points(4, 1)).shape == (0,)


@EVERY
def test_one_point_against_one(metric: Metric) -> None:
    found = metric(tensor((1, 1))[None], tensor((4, 5))).item()
    expected = {chamfer: 10.0, f_score: 1.0, kde_nll: math.log(2 * math.pi) + 12.5}
    assert found == pytest.approx(expected[metric])


EVERYWHERE = np.ones((20, 30), dtype=bool)


def some_points(count: int, seed: int) -> NDArray[np.float64]:
    return np.random.default_rng(seed).random((count, 2)) * (30, 20)


def test_top_share_of_a_flat_density_is_the_share() -> None:
    assert top_share(np.full((20, 30), 0.7), EVERYWHERE, some_points(9, 1)) == pytest.approx(0.05)
    half = EVERYWHERE.copy()
    half[:, 15:] = False
    inside = some_points(9, 1) * (0.5, 1)
    assert top_share(np.ones((20, 30)), half, inside, 0.3) == pytest.approx(0.3)


def test_top_share_by_hand() -> None:
    density = np.zeros((20, 30))
    density[3, 4], density[3, 5:45] = 9, 2  # one best pixel and 25 equal ones; 30 have room
    assert top_share(density, EVERYWHERE, np.array([[4.5, 3.5]])) == 1
    assert top_share(density, EVERYWHERE, np.array([[29.9, 3.0]])) == 1
    # the other 574 share what is left: 4 of the 30
    assert top_share(density, EVERYWHERE, np.array([[0.5, 0.5]])) == pytest.approx(4 / 574)
    # of 12 pixels of room 11 are left to the 25
    assert top_share(density, EVERYWHERE, np.array([[8.0, 3.5]]), 0.02) == pytest.approx(11 / 25)


def test_top_share_without_ties_is_the_best_pixels_counted() -> None:
    density = np.random.default_rng(2).random((20, 30))
    footprint = np.random.default_rng(3).random((20, 30)) > 0.2
    where = some_points(400, 4)
    on_data = footprint[where[:, 1].astype(int), where[:, 0].astype(int)]
    ranked = sorted(zip(*np.nonzero(footprint), strict=True), key=lambda cell: -density[cell])
    best = set(ranked[: int(0.1 * len(ranked))])
    hits = [(int(y), int(x)) in best for x, y in where]
    share = int(0.1 * len(ranked)) / len(ranked)
    found = top_share(density, footprint, where, share)
    assert found == pytest.approx(np.mean(hits), abs=1e-12)
    assert 0 < found < on_data.mean() < 1  # what lies off the footprint is never found
    assert math.isnan(top_share(density, footprint, where[:0]))


def test_the_log_density_is_that_of_the_pixel_a_point_lies_in() -> None:
    density = np.arange(1, 601, dtype=float).reshape(20, 30)
    density /= density.sum()
    where = np.array([[0.2, 0.9], [29.99, 19.99], [4.0, 2.0]])
    expected = np.log([density[0, 0], density[19, 29], density[2, 4]])
    assert pixel_log_density(density, where) == pytest.approx(expected)
    density[2, 4] = 0
    assert pixel_log_density(density, where)[2] == -math.inf
    assert pixel_log_density(density, where[:0]).shape == (0,)


def test_the_capture_curve_agrees_with_the_top_share_at_any_scale() -> None:
    density = np.random.default_rng(2).random((20, 30)) ** 3
    footprint = np.random.default_rng(3).random((20, 30)) > 0.2
    where = some_points(500, 4)
    where = where[footprint[where[:, 1].astype(int), where[:, 0].astype(int)]]
    curves = [capture_of(scale * density, footprint, where) for scale in (1.0, 1e-9)]
    assert curves[0].count == len(where)
    assert curves[0].area.sum() == footprint.sum()
    for share in (0.05, 0.2, 0.6):
        exact = top_share(density, footprint, where, share)
        for curve in curves:
            assert curve.captured(share) == pytest.approx(exact, abs=0.005)
    assert capture_of(np.ones((20, 30)), footprint, where).under_curve() == pytest.approx(0.5)
    assert capture_of(density, footprint, where[:0]).count == 0
