"""The Sinkhorn divergence against POT's plans, and what must hold of it."""

from __future__ import annotations

import numpy as np
import ot
import pytest
import torch
from geocfm.evaluation.sinkhorn import EPSILON, _cost, _transport, sinkhorn_divergence
from numpy.typing import NDArray

SIZE = 220.0


def uniform(count: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random((count, 2)) * SIZE)


def ring(count: int, seed: int, middle: tuple[float, float] = (150.0, 60.0)) -> torch.Tensor:
    generator = np.random.default_rng(seed)
    angle = generator.uniform(0, 2 * np.pi, count)
    around = 25 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return torch.from_numpy(middle + around + 2 * generator.standard_normal((count, 2)))


def transport_by_pot(x: NDArray[np.float64], y: NDArray[np.float64], epsilon: float) -> float:
    """<P, C> + epsilon KL(P | a x b) of POT's plan P."""
    cost = ot.dist(x / SIZE, y / SIZE)
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    plan = ot.bregman.sinkhorn_log(a, b, cost, epsilon, numIterMax=5000, stopThr=1e-7, warn=False)
    assert np.abs(plan.sum(axis=1) - a).sum() + np.abs(plan.sum(axis=0) - b).sum() < 1e-4
    ratio = np.maximum(plan / np.outer(a, b), 1e-300)
    return float((plan * cost).sum() + epsilon * (plan * np.log(ratio)).sum())


def by_pot(x: torch.Tensor, y: torch.Tensor, epsilon: float = EPSILON) -> float:
    first, second = x.numpy(), y.numpy()
    own = transport_by_pot(first, first, epsilon) + transport_by_pot(second, second, epsilon)
    return transport_by_pot(first, second, epsilon) - own / 2


@pytest.mark.parametrize(
    ("draw", "observed"),
    [
        (uniform(50, 1), ring(40, 2)),
        (ring(50, 3), ring(50, 2)),
        (ring(60, 4, (40.0, 180.0)), ring(50, 2)),
        (uniform(1, 5), ring(30, 6)),
        (ring(30, 2) + 3.0, ring(30, 2)),
    ],
    ids=["uniform", "same law", "far away", "one point", "shifted"],
)
def test_it_is_what_pots_plans_give(draw: torch.Tensor, observed: torch.Tensor) -> None:
    (found,) = sinkhorn_divergence(draw[None], observed, SIZE)
    assert found.item() == pytest.approx(by_pot(draw, observed), rel=1e-3, abs=1e-8)


def test_it_is_pots_for_sets_as_large_as_the_benchmarks() -> None:
    draw, observed = ring(500, 3, (160.0, 70.0)), ring(500, 2)
    (found,) = sinkhorn_divergence(draw[None], observed, SIZE)
    assert found.item() == pytest.approx(by_pot(draw, observed), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_a_larger_epsilon_is_pots_too(epsilon: float) -> None:
    draw, observed = uniform(30, 1), ring(40, 2)
    (found,) = sinkhorn_divergence(draw[None], observed, SIZE, epsilon)
    assert found.item() == pytest.approx(by_pot(draw, observed, epsilon), rel=1e-3)


def test_with_little_epsilon_it_nears_the_squared_transport_distance() -> None:
    draw, observed = uniform(40, 1), ring(40, 2)
    cost = ot.dist(draw.numpy() / SIZE, observed.numpy() / SIZE)
    (found,) = sinkhorn_divergence(draw[None], observed, SIZE, 2e-4)
    assert found.item() == pytest.approx(ot.emd2([], [], cost), rel=0.01)


def test_single_points_are_their_squared_distance_apart() -> None:
    draw = torch.tensor([[[10.0, 20.0]], [[43.0, 64.0]], [[10.0, 20.0]]], dtype=torch.float64)
    found = sinkhorn_divergence(draw, torch.tensor([[10.0, 20.0]]), 100.0)
    assert found.tolist() == pytest.approx([0, 0.55**2, 0], abs=1e-9)


def test_a_shift_costs_its_square_and_a_common_shift_nothing() -> None:
    points = ring(80, 1)
    shift = torch.tensor([44.0, -22.0], dtype=torch.float64)
    shifted = sinkhorn_divergence((points + shift)[None], points, SIZE).item()
    assert shifted == pytest.approx(0.2**2 + 0.1**2, rel=1e-4)
    other = uniform(60, 2)
    both = sinkhorn_divergence((other + shift)[None], points + shift, SIZE).item()
    assert both == pytest.approx(sinkhorn_divergence(other[None], points, SIZE).item(), rel=1e-5)


def test_equal_sets_in_any_order_are_at_zero() -> None:
    points = ring(300, 1)
    shuffled = points[torch.from_numpy(np.random.default_rng(0).permutation(300))]
    found = sinkhorn_divergence(torch.stack([points, shuffled]), points, SIZE)
    assert found.abs().max() < 1e-6


def test_symmetric_positive_and_blind_to_order() -> None:
    first, second = uniform(90, 1), ring(70, 2)
    there = sinkhorn_divergence(first[None], second, SIZE).item()
    back = sinkhorn_divergence(second[None], first, SIZE).item()
    turned = sinkhorn_divergence(first.flip(0)[None], second, SIZE).item()
    assert there > 0.05
    assert back == pytest.approx(there, rel=1e-4)
    assert turned == pytest.approx(there, rel=1e-5)


def test_draws_are_scored_one_by_one_and_far_points_do_not_overflow() -> None:
    observed = ring(50, 2)
    draws = torch.stack([uniform(60, 1), ring(60, 3), uniform(60, 4) * 50])
    together = sinkhorn_divergence(draws, observed, SIZE)
    assert torch.isfinite(together).all()
    for draw, value in zip(draws, together, strict=True):
        assert sinkhorn_divergence(draw[None], observed, SIZE).item() == value.item()
    assert together[2] > 100 * together[0] > 1000 * together[1]
    # where pairs are solved together, as on a GPU, each goes on until the last is balanced
    at_once = _transport(_cost(draws / SIZE, observed[None] / SIZE), EPSILON)
    for draw, value in zip(draws, at_once, strict=True):
        (alone,) = _transport(_cost(draw[None] / SIZE, observed[None] / SIZE), EPSILON)
        assert value.item() == pytest.approx(alone.item(), rel=1e-4)


def test_empty_sets_have_none() -> None:
    assert sinkhorn_divergence(torch.zeros(2, 0, 2), ring(5, 1), SIZE).isnan().tolist() == [1, 1]
    assert sinkhorn_divergence(uniform(5, 1)[None], torch.zeros(0, 2), SIZE).isnan().all()
    assert sinkhorn_divergence(torch.zeros(0, 5, 2), ring(5, 1), SIZE).shape == (0,)
