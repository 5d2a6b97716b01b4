from __future__ import annotations

import itertools
import math

import pytest
from geocfm.model.settings import TrainingSettings
from geocfm.training.schedule import Budget, learning_rate

SETTINGS = TrainingSettings(learning_rate=2e-3, warm_up=0.1, final_rate=0.05)


def test_iterations_alone_spend_an_iteration_budget() -> None:
    budget = Budget(iterations=200, seconds=None)
    assert budget.spent(50, elapsed=1e9) == 0.25
    assert budget.spent(0, elapsed=1e9) == 0


def test_time_alone_spends_a_time_budget() -> None:
    budget = Budget(iterations=None, seconds=60.0)
    assert budget.spent(10**9, elapsed=15.0) == 0.25


@pytest.mark.parametrize(("iteration", "elapsed", "spent"), [(50, 6.0, 0.5), (10, 54.0, 0.9)])
def test_with_both_bounds_the_nearer_end_counts(
    iteration: int, elapsed: float, spent: float
) -> None:
    assert Budget(iterations=100, seconds=60.0).spent(iteration, elapsed) == spent


def test_no_more_than_all_is_spent_and_without_bounds_nothing() -> None:
    assert Budget(100, 60.0).spent(101, 0.0) == 1
    assert Budget(100, 60.0).spent(1, 61.0) == 1
    assert Budget(None, None).spent(10**9, 1e9) == 0


def test_the_rate_rises_in_a_line_to_its_peak() -> None:
    assert learning_rate(0.0, SETTINGS) == 0
    assert learning_rate(0.025, SETTINGS) == pytest.approx(0.5e-3)
    assert learning_rate(0.1, SETTINGS) == pytest.approx(2e-3)


def test_the_rate_falls_along_a_cosine_to_the_final_rate() -> None:
    # half-way between the end of the warm-up and the end the cosine is half-way down
    assert learning_rate(0.55, SETTINGS) == pytest.approx(2e-3 * (1 + 0.05) / 2)
    sixth = 2e-3 * (0.05 + 0.95 * math.cos(math.pi / 12) ** 2)  # cos^2(a/2) = (1 + cos a) / 2
    assert learning_rate(0.1 + 0.9 / 6, SETTINGS) == pytest.approx(sixth)
    assert learning_rate(1.0, SETTINGS) == pytest.approx(2e-3 * 0.05)
    rates = [learning_rate(0.1 + 0.9 * step / 50, SETTINGS) for step in range(51)]
    assert all(later < earlier for earlier, later in itertools.pairwise(rates))


def test_without_warm_up_the_first_rate_is_the_peak() -> None:
    settings = TrainingSettings(learning_rate=3e-4, warm_up=0.0, final_rate=0.0)
    assert learning_rate(0.0, settings) == 3e-4
    assert learning_rate(1.0, settings) == pytest.approx(0.0, abs=1e-18)
