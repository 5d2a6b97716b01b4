"""The loss, the path and the exact log-density against closed forms.

For a target N(mu, S) and the base N(0, I), p_t is Gaussian and so is p - z given p_t: the best
velocity is E[p - z | p_t], linear in p_t, and in the plane with S = s^2 I its loss is pi s.
"""

import math

import numpy as np
import pytest
import torch
from geocfm.model.flow import (
    EULER,
    HEUN,
    MIDPOINT,
    flow_matching_loss,
    integrate,
    log_density,
    path_position,
    path_velocity,
    time_grid,
)
from torch.distributions import MultivariateNormal

MEAN = torch.tensor([0.7, -0.4], dtype=torch.float64)
COVARIANCE = torch.tensor([[0.36, 0.15], [0.15, 0.25]], dtype=torch.float64)


def normal(count: int, seed: int) -> torch.Tensor:
    values = np.random.default_rng(seed).standard_normal((count, 2))
    return torch.from_numpy(values)


def times(count: int, seed: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).random(count))


def still(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(position)


def gaussian_velocity(mean: torch.Tensor, covariance: torch.Tensor):
    """E[p - z | p_t] = mu + (t S - (1 - t) I) (t^2 S + (1 - t)^2 I)^-1 (p_t - t mu)."""
    variances, axes = torch.linalg.eigh(covariance)

    def velocity(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        t = t[:, None]
        gain = (t * variances - (1 - t)) / (t**2 * variances + (1 - t) ** 2)
        return mean + (gain * ((position - t * mean) @ axes)) @ axes.T

    return velocity


class Mixture:
    """Round Gaussians: the flow's velocity is theirs, weighted by who p_t probably comes from."""

    weights = (0.3, 0.7)
    means = ((-1.0, 0.4), (0.9, -0.2))
    deviations = (0.35, 0.5)

    def log_parts(self, position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        parts = []
        for weight, mean, deviation in zip(self.weights, self.means, self.deviations, strict=True):
            variance = (t * deviation) ** 2 + (1 - t) ** 2
            offset = position - t[:, None] * torch.tensor(mean, dtype=torch.float64)
            square = offset.square().sum(dim=1) / variance
            parts.append(math.log(weight) - 0.5 * square - torch.log(2 * math.pi * variance))
        return torch.stack(parts, dim=1)

    def velocity(self, position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        share = self.log_parts(position, t).softmax(dim=1)
        total = torch.zeros_like(position)
        for number, (mean, deviation) in enumerate(zip(self.means, self.deviations, strict=True)):
            middle = torch.tensor(mean, dtype=torch.float64)
            gain = (t * deviation**2 - (1 - t)) / ((t * deviation) ** 2 + (1 - t) ** 2)
            moved = middle + gain[:, None] * (position - t[:, None] * middle)
            total = total + share[:, number : number + 1] * moved
        return total

    def log_density(self, position: torch.Tensor) -> torch.Tensor:
        end = torch.ones(len(position), dtype=torch.float64)
        return torch.logsumexp(self.log_parts(position, end), dim=1)


def test_path_goes_straight_from_noise_to_point():
    points, noise = normal(5, 1), normal(5, 2)
    assert torch.equal(path_position(points, noise, torch.zeros(5, dtype=torch.float64)), noise)
    assert torch.equal(path_position(points, noise, torch.ones(5, dtype=torch.float64)), points)
    t = times(5, 3)
    expected = t[:, None] * points + (1 - t[:, None]) * noise
    torch.testing.assert_close(path_position(points, noise, t), expected)


def test_path_velocity_is_the_slope_of_the_path():
    points, noise, t = normal(5, 1), normal(5, 2), times(5, 3)
    slope = torch.autograd.functional.jvp(
        lambda at: path_position(points, noise, at), t, torch.ones_like(t)
    )[1]
    torch.testing.assert_close(path_velocity(points, noise), slope)


def test_loss_is_the_mean_over_points_of_the_squared_length():
    points = torch.tensor([[1.0, 0.0], [0.0, 0.0], [2.0, 2.0]])
    noise = torch.tensor([[0.0, 0.0], [0.0, 3.0], [1.0, 1.0]])
    t = torch.tensor([0.0, 0.25, 1.0])
    assert flow_matching_loss(still, points, noise, t).item() == pytest.approx((1 + 9 + 2) / 3)
    # v = p_t: the noise, (0, 2.25) and the point, against p - z
    moving = flow_matching_loss(lambda position, t: position, points, noise, t)
    assert moving.item() == pytest.approx((1 + 5.25**2 + 2) / 3)


def test_loss_of_no_motion_for_a_gaussian_target():
    """E |p - z|^2 = |mu|^2 + tr S + 2."""
    count = 200_000
    spread = torch.linalg.cholesky(COVARIANCE)
    points = MEAN + normal(count, 4) @ spread.T
    loss = flow_matching_loss(still, points, normal(count, 5), times(count, 6))
    expected = MEAN.square().sum() + COVARIANCE.trace() + 2
    assert loss.item() == pytest.approx(expected.item(), rel=0.01)


@pytest.mark.parametrize("deviation", [0.4, 1.0])
def test_best_loss_for_a_gaussian_target(deviation):
    """The integral over t of 2 s^2 / (t^2 s^2 + (1 - t)^2) is pi s; any other motion costs more."""
    count = 200_000
    points, noise, t = MEAN + deviation * normal(count, 7), normal(count, 8), times(count, 9)
    best = gaussian_velocity(MEAN, deviation**2 * torch.eye(2, dtype=torch.float64))
    loss = flow_matching_loss(best, points, noise, t).item()
    assert loss == pytest.approx(math.pi * deviation, rel=0.01)

    def shifted(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return best(position, t) + torch.tensor([0.3, -0.4], dtype=torch.float64)

    worse = flow_matching_loss(shifted, points, noise, t).item()
    assert worse - loss == pytest.approx(0.25, abs=0.01)


def test_the_best_velocity_carries_the_base_to_the_target():
    """The flow of a linear field is affine: a Gaussian's moments follow from three points."""
    velocity = gaussian_velocity(MEAN, COVARIANCE)
    start = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    middle, right, up = integrate(velocity, start, time_grid(200, 0), MIDPOINT)
    torch.testing.assert_close(middle, MEAN, atol=1e-4, rtol=0)
    turn = torch.stack([right - middle, up - middle], dim=1)
    torch.testing.assert_close(turn @ turn.T, COVARIANCE, atol=1e-4, rtol=0)


@pytest.mark.parametrize("tableau", [MIDPOINT, HEUN], ids=["midpoint", "heun"])
def test_log_density_of_a_gaussian(tableau):
    target = MultivariateNormal(MEAN, COVARIANCE)
    velocity = gaussian_velocity(MEAN, COVARIANCE)
    position = MEAN + normal(64, 10)
    exact = target.log_prob(position)
    error = [
        (log_density(velocity, position, time_grid(steps, 0), tableau) - exact).abs().max().item()
        for steps in (40, 80, 160)
    ]
    assert error[2] < 5e-3
    assert error[0] > 3 * error[1] > 9 * error[2]  # it falls with the square of the step


def test_log_density_of_no_motion_is_that_of_the_base():
    position = normal(16, 11)

    def motionless(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return 0 * position

    exact = MultivariateNormal(torch.zeros(2).double(), torch.eye(2).double()).log_prob(position)
    torch.testing.assert_close(log_density(motionless, position, [0, 0.3, 1], EULER), exact)


def test_log_density_of_a_mixture_and_that_it_integrates_to_one():
    mixture = Mixture()
    side = torch.linspace(-4, 4, 65, dtype=torch.float64)
    position = torch.cartesian_prod(side, side)
    with torch.no_grad():  # as inference calls it
        found = log_density(mixture.velocity, position, time_grid(40, 0), HEUN)
    assert not found.requires_grad
    cell = (side[1] - side[0]).item() ** 2
    assert found.exp().sum().item() * cell == pytest.approx(1, abs=2e-3)
    inside = mixture.log_density(position) > -8
    assert inside.sum() > 300
    difference = (found - mixture.log_density(position))[inside].abs()
    assert difference.max() < 0.05


def test_log_density_agrees_with_the_motion_of_the_same_points():
    """Change of variables: log pi(x_1) = log N(x_0) - log |det dx_1 / dx_0|."""
    mixture = Mixture()
    start = normal(20, 12)

    start.requires_grad_()
    end = integrate(mixture.velocity, start, time_grid(80, 0), MIDPOINT)
    (x_slope,) = torch.autograd.grad(end[:, 0].sum(), start, retain_graph=True)
    (y_slope,) = torch.autograd.grad(end[:, 1].sum(), start)
    stretch = torch.stack([x_slope, y_slope], dim=1).det().log()
    start, end = start.detach(), end.detach()
    base = -0.5 * start.square().sum(dim=1) - math.log(2 * math.pi)
    found = log_density(mixture.velocity, end, time_grid(80, 0), MIDPOINT)
    torch.testing.assert_close(found, base - stretch, atol=2e-3, rtol=0)
