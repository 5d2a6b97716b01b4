"""The solvers: their order by halving the step, on a field that is solved in closed form."""

import math
from itertools import pairwise

import pytest
import torch
from geocfm.model.flow import EULER, HEUN, MIDPOINT, SOLVERS, Tableau, integrate, time_grid

START = torch.tensor([[0.5, -0.5], [1.5, 0.1], [-0.4, -1.2]], dtype=torch.float64)


def field(state: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Non-linear, and different at every time: x' = -2 t x^2, y' = (1 + t) (1 + y^2) / 2."""
    x, y = state.T
    return torch.stack([-2 * t * x**2, (1 + t) * (1 + y**2) / 2], dim=1)


def solution(start: torch.Tensor, t: float) -> torch.Tensor:
    x, y = start.T
    return torch.stack([x / (1 + x * t**2), torch.tan(y.atan() + (t + t**2 / 2) / 2)], dim=1)


@pytest.mark.parametrize(("name", "order"), [("euler", 1), ("midpoint", 2), ("heun", 2)])
def test_order_against_the_closed_form(name, order):
    tableau = SOLVERS[name]
    assert tableau.order == order
    exact = solution(START, 1.0)
    error = [
        (integrate(field, START, time_grid(steps, 0), tableau) - exact).abs().max().item()
        for steps in (40, 80, 160)
    ]
    assert error[2] < 0.1 / 10**order
    for coarse, fine in pairwise(error):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.15)


@pytest.mark.parametrize("tableau", list(SOLVERS.values()), ids=list(SOLVERS))
def test_order_by_richardson(tableau):
    """(u_h - u_h/2) / (u_h/2 - u_h/4) tends to 2^order, and extrapolation gains an order."""
    coarse, middle, fine = (
        integrate(field, START, time_grid(steps, 0), tableau) for steps in (80, 160, 320)
    )
    ratio = (coarse - middle).norm() / (middle - fine).norm()
    assert math.log2(ratio.item()) == pytest.approx(tableau.order, abs=0.1)
    better = fine + (fine - middle) / (2**tableau.order - 1)
    exact = solution(START, 1.0)
    assert (better - exact).abs().max() < 0.1 * (fine - exact).abs().max()


@pytest.mark.parametrize("tableau", list(SOLVERS.values()), ids=list(SOLVERS))
def test_backwards_and_between_other_times(tableau):
    times = [0.25 + 0.5 * t for t in time_grid(2000, 0)]
    there = integrate(field, START, times, tableau)
    before = solution_between(START, 0.25, 0.75)
    torch.testing.assert_close(there, before, atol=2e-3, rtol=0)
    back = integrate(field, there, times[::-1], tableau)
    torch.testing.assert_close(back, START, atol=4e-3, rtol=0)


def solution_between(start: torch.Tensor, begin: float, end: float) -> torch.Tensor:
    x, y = start.T
    angle = y.atan() + (end - begin + (end**2 - begin**2) / 2) / 2
    return torch.stack([x / (1 + x * (end**2 - begin**2)), torch.tan(angle)], dim=1)


@pytest.mark.parametrize(("tableau", "expected"), [(EULER, 0.0), (MIDPOINT, 0.25), (HEUN, 0.5)])
def test_one_step_of_a_quadrature(tableau, expected):
    """x' = t^2 over [0, 1]: left value, middle value, trapezium."""
    moved = integrate(
        lambda state, t: t[:, None].square().expand_as(state), torch.zeros(4, 2), [0, 1], tableau
    )
    torch.testing.assert_close(moved, torch.full((4, 2), expected))


def test_euler_is_the_formula_of_the_paper():
    """t_k = k / K for every point, and x' = x grows by (1 + 1/K)^K."""
    seen: list[torch.Tensor] = []

    def growth(state: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        seen.append(t)
        return state

    moved = integrate(growth, START, time_grid(50, 0), EULER)
    torch.testing.assert_close(moved, START * (1 + 1 / 50) ** 50)
    expected = torch.arange(50, dtype=torch.float64)[:, None].expand(50, 3) / 50
    torch.testing.assert_close(torch.stack(seen), expected)


@pytest.mark.parametrize("tableau", list(SOLVERS.values()), ids=list(SOLVERS))
def test_tableaus_meet_the_conditions_of_their_order(tableau: Tableau):
    assert sum(tableau.weights) == 1
    assert tuple(sum(row) for row in tableau.matrix) == tableau.nodes
    second = sum(b * c for b, c in zip(tableau.weights, tableau.nodes, strict=True))
    assert (second == 0.5) == (tableau.order == 2)


@pytest.mark.parametrize("tableau", list(SOLVERS.values()), ids=list(SOLVERS))
def test_order_with_steps_that_shorten(tableau: Tableau):
    exact = solution(START, 1.0)
    coarse, fine = (
        (integrate(field, START, time_grid(steps, 4), tableau) - exact).abs().max().item()
        for steps in (80, 160)
    )
    assert math.log2(coarse / fine) == pytest.approx(tableau.order, abs=0.2)


@pytest.mark.parametrize("lateness", [0, 0.5, 5, 20])
def test_steps_shorten_towards_the_end(lateness: float):
    times = time_grid(10, lateness)
    assert (len(times), times[0], times[-1]) == (11, 0, 1)
    lengths = [after - before for before, after in pairwise(times)]
    ratios = [after / before for before, after in pairwise(lengths)]
    assert ratios == pytest.approx([math.exp(-lateness / 10)] * 9)
