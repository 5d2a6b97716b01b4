"""The exact log-density of a flow: closed forms, and a model that has really been trained."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from geocfm.inference.flow_sampler import EXACT_STEPS, MAP_STEPS
from geocfm.model.flow import (
    HEUN,
    MIDPOINT,
    RK4,
    Tableau,
    integrate,
    log_density,
    time_grid,
)
from geocfm.model.network import TIME_SCALE, TimeEmbedding
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.stats import gaussian_kde
from small_flow import SIZE, SmallFlow, trained_flow
from torch.distributions import MultivariateNormal

pytestmark = pytest.mark.usefixtures("one_thread")

MEAN = torch.tensor([0.7, -0.4], dtype=torch.float64)
COVARIANCE = torch.tensor([[0.36, 0.15], [0.15, 0.25]], dtype=torch.float64)
DRAWS = 100_000
MARGIN = 3  # cells around the window that the lattice covers too
PER_CELL = 2  # lattice points in a cell's side
STRIP = 20_000


def gaussian_velocity(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """E[p - z | p_t] = mu + (t S - (1 - t) I) (t^2 S + (1 - t)^2 I)^-1 (p_t - t mu)."""
    one, t = torch.eye(2, dtype=torch.float64), t[:, None, None]
    gain = (t * COVARIANCE - (1 - t) * one) @ torch.linalg.inv(
        t**2 * COVARIANCE + (1 - t) ** 2 * one
    )
    return MEAN + (gain @ (position - t[..., 0] * MEAN)[..., None])[..., 0]


def around_the_mean(count: int) -> torch.Tensor:
    return MEAN + torch.from_numpy(np.random.default_rng(0).standard_normal((count, 2)))


@pytest.mark.parametrize(("steps", "allowed"), [(EXACT_STEPS, 1e-4), (MAP_STEPS, 5e-3)])
def test_a_gaussian_targets_density_is_the_closed_form(steps: int, allowed: float) -> None:
    position = around_the_mean(100)
    exact = MultivariateNormal(MEAN, COVARIANCE).log_prob(position)
    found = log_density(gaussian_velocity, position, time_grid(steps, 0), RK4)
    assert (found - exact).abs().max() < allowed


def test_rk4_is_of_fourth_order() -> None:
    position = around_the_mean(20)
    exact = MultivariateNormal(MEAN, COVARIANCE).log_prob(position)
    coarse, fine = (
        (log_density(gaussian_velocity, position, time_grid(steps, 0), RK4) - exact)
        .abs()
        .max()
        .item()
        for steps in (40, 80)
    )
    assert math.log2(coarse / fine) == pytest.approx(RK4.order, abs=0.5)


@pytest.mark.parametrize(("tableau", "steps"), [(RK4, EXACT_STEPS), (RK4, MAP_STEPS)])
def test_steps_see_every_phase_of_the_time_embedding(tableau: Tableau, steps: int) -> None:
    """The mean of each sinusoid over the solver's times is near its mean over all times."""
    frequency = TIME_SCALE * TimeEmbedding(64).frequencies.double()
    assert aliasing(tableau, steps, frequency) < 0.15
    assert aliasing(MIDPOINT, 20, frequency) > 0.9  # at 1/40, 3/40, ... sin 1000 t hardly moves
    assert aliasing(HEUN, 20, frequency) > 0.9


def aliasing(tableau: Tableau, steps: int, frequency: torch.Tensor) -> float:
    node, weight = torch.tensor([tableau.nodes, tableau.weights], dtype=torch.float64)
    t = (torch.arange(steps)[:, None] + node) / steps
    mean = (weight * torch.exp(1j * frequency[:, None, None] * t)).sum(dim=(1, 2)) / steps
    exact = (torch.exp(1j * frequency) - 1) / (1j * frequency)
    return float((mean - exact).abs().max())


@pytest.fixture(scope="module", params=[False, True], ids=["regressed", "anchored"])
def flow(request: pytest.FixtureRequest) -> SmallFlow:
    """One that is learned by regression alone, as the paper's, and one as `quick` has it."""
    return trained_flow(anchored=request.param)


@pytest.fixture(scope="module")
def drawn(flow: SmallFlow) -> NDArray[np.float64]:
    """Raw draws (N, 2) in cells of the window, wherever they fell."""
    noise = torch.from_numpy(np.random.default_rng(1).standard_normal((DRAWS, 2))).float()
    velocity = flow.velocity()
    with torch.no_grad():
        times = time_grid(MAP_STEPS, flow.lateness)
        ends = [integrate(velocity, some, times, RK4) for some in torch.split(noise, STRIP)]
        return flow.network.to_window(torch.cat(ends)).double().numpy() * SIZE


def density(flow: SmallFlow, cells: NDArray[np.float64], steps: int) -> NDArray[np.float64]:
    """Per cell, at points (N, 2) in cells."""
    network = flow.network
    position = network.to_flow(torch.from_numpy(cells / SIZE).float())
    times = time_grid(steps, flow.lateness)
    per_flow_area = log_density(flow.velocity(), position, times, RK4).double().exp().numpy()
    found: NDArray[np.float64] = per_flow_area * (network.scale / SIZE) ** 2
    return found


@pytest.fixture(scope="module")
def lattice(flow: SmallFlow) -> NDArray[np.float64]:
    """On the window and a margin, at the centres of a cell's quarters."""
    side = np.arange(-MARGIN, SIZE + MARGIN, 1 / PER_CELL) + 0.5 / PER_CELL
    points = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    return density(flow, points, MAP_STEPS).reshape(len(side), len(side))


def counts_of(drawn: NDArray[np.float64], per_cell: int) -> NDArray[np.float64]:
    edges = np.linspace(-MARGIN, SIZE + MARGIN, per_cell * (SIZE + 2 * MARGIN) + 1)
    return np.histogram2d(drawn[:, 1], drawn[:, 0], bins=(edges, edges))[0] / len(drawn)


def test_it_integrates_to_one_over_a_box_that_holds_the_draws(
    flow: SmallFlow, drawn: NDArray[np.float64], lattice: NDArray[np.float64]
) -> None:
    least, most = np.floor(drawn.min(axis=0)), np.ceil(drawn.max(axis=0))
    sides = [
        np.arange(low, high, 1 / PER_CELL) + 0.5 / PER_CELL
        for low, high in zip(least, most, strict=True)
    ]
    points = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    integral = density(flow, points, EXACT_STEPS).sum() / PER_CELL**2
    assert integral == pytest.approx(1, abs=0.01)
    assert lattice.max() > 8 * lattice.mean()  # the model has learned something


def test_it_is_where_the_draws_are(
    drawn: NDArray[np.float64], lattice: NDArray[np.float64]
) -> None:
    cells = SIZE + 2 * MARGIN
    exact = lattice.reshape(cells, PER_CELL, cells, PER_CELL).mean(axis=(1, 3))
    counted = counts_of(drawn, 1)

    def apart(found: NDArray[np.float64]) -> float:
        return float(np.abs(found - counted).sum() / 2)

    chance = np.sqrt(exact / DRAWS).sum() * math.sqrt(2 / math.pi) / 2
    assert apart(exact) < chance + 0.02
    assert np.corrcoef(exact.ravel(), counted.ravel())[0, 1] > 0.995
    # what is only nearly right is told from what is
    assert apart(np.roll(exact, 1, axis=0)) > 5 * apart(exact)
    assert apart(gaussian_filter(exact, 1.5)) > 4 * apart(exact)


def test_it_agrees_with_a_kde_of_the_draws(flow: SmallFlow, drawn: NDArray[np.float64]) -> None:
    at = drawn[:200]
    narrow = 0.3 / drawn.std(axis=0).mean()  # a kernel of a third of a cell
    by_kde = gaussian_kde(drawn[200:].T, narrow).logpdf(at.T)
    difference = np.log(density(flow, at, EXACT_STEPS)) - by_kde
    dense = by_kde > np.quantile(by_kde, 0.1)  # elsewhere too few draws are near
    assert np.abs(difference[dense]).mean() < 0.12
    assert difference[dense].mean() == pytest.approx(0, abs=0.04)


def test_it_no_longer_changes_with_more_steps(flow: SmallFlow, drawn: NDArray[np.float64]) -> None:
    at = drawn[:150]
    reference = np.log(density(flow, at, 100))
    exact, quick = (
        np.log(density(flow, at, steps)) - reference for steps in (EXACT_STEPS, MAP_STEPS)
    )
    assert np.abs(exact).mean() < 0.01
    assert np.abs(quick).mean() < 0.1
    assert abs(quick.mean()) < 0.02
