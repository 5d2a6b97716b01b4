"""Conditional flow matching: the path, the loss, the solvers and the exact log-density."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

Velocity = Callable[[Tensor, Tensor], Tensor]
"""(positions (N, 2), t (N,)) -> velocities (N, 2)."""
LEAST_WEIGHT = 1e-6  # of all points of a batch together: it may be that none counts


def path_position(points: Tensor, noise: Tensor, t: Tensor) -> Tensor:
    """p_t = t p + (1 - t) z (paper, Eq. 5). points, noise: (N, 2); t: (N,)."""
    return torch.lerp(noise, points, t.unsqueeze(1))


def path_velocity(points: Tensor, noise: Tensor) -> Tensor:
    """The target p - z (paper, Eq. 6): constant along the path."""
    return points - noise


def flow_matching_loss(
    velocity: Velocity, points: Tensor, noise: Tensor, t: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Mean over all points of the batch of ||v - (p - z)||^2 (paper, Eq. 7).

    weights: (N,), how much each point counts; none: all count alike.
    """
    predicted = velocity(path_position(points, noise, t), t)
    squares = (predicted - path_velocity(points, noise)).square().sum(dim=1)
    if weights is None:
        return squares.mean()
    return (squares * weights).sum() / weights.sum().clamp(min=LEAST_WEIGHT)


@dataclass(frozen=True)
class Tableau:
    """An explicit Runge-Kutta method: nodes c, matrix a, weights b, and its order."""

    nodes: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    order: int


EULER = Tableau((0.0,), ((),), (1.0,), order=1)
MIDPOINT = Tableau((0.0, 0.5), ((), (0.5,)), (0.0, 1.0), order=2)
HEUN = Tableau((0.0, 1.0), ((), (1.0,)), (0.5, 0.5), order=2)
RK4 = Tableau(
    (0.0, 0.5, 0.5, 1.0),
    ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)),
    (1 / 6, 1 / 3, 1 / 3, 1 / 6),
    order=4,
)
SOLVERS = {"euler": EULER, "midpoint": MIDPOINT, "heun": HEUN}


def time_grid(steps: int, lateness: float) -> list[float]:
    """Times 0 = t_0 < ... < t_steps = 1, whose steps shorten by exp(-lateness) towards 1.

    A flow into a narrow density turns within 1 - t of the width of what it flows into.
    """
    shares = [k / steps for k in range(steps + 1)]
    if not lateness:
        return shares
    return [math.expm1(-lateness * share) / math.expm1(-lateness) for share in shares]


def integrate(
    velocity: Velocity, state: Tensor, times: Sequence[float], tableau: Tableau
) -> Tensor:
    """Solve dx/dt = velocity(x, t) along ``times``, up or down (paper, Eq. 11). state: (N, D)."""
    for now, then in pairwise(times):
        step = then - now
        slopes: list[Tensor] = []
        for node, row in zip(tableau.nodes, tableau.matrix, strict=True):
            inner = state
            for factor, slope in zip(row, slopes, strict=True):
                if factor:
                    inner = inner + (step * factor) * slope
            t = state.new_full((state.shape[0],), now + node * step)
            slopes.append(velocity(inner, t))
        for weight, slope in zip(tableau.weights, slopes, strict=True):
            if weight:
                state = state + (step * weight) * slope
    return state


def _velocity_and_divergence(velocity: Velocity, position: Tensor, t: Tensor) -> Tensor:
    """(N, 3): velocity and its exact divergence, by one reverse-mode product per coordinate."""
    with torch.enable_grad():
        position = position.detach().requires_grad_()
        moved = velocity(position, t)
        (x_slope,) = torch.autograd.grad(moved[:, 0].sum(), position, retain_graph=True)
        (y_slope,) = torch.autograd.grad(moved[:, 1].sum(), position)
    divergence = x_slope[:, 0] + y_slope[:, 1]
    return torch.cat([moved.detach(), divergence.unsqueeze(1)], dim=1)


def log_density(
    velocity: Velocity, position: Tensor, times: Sequence[float], tableau: Tableau
) -> Tensor:
    """Exact log pi(x) (N,) at positions (N, 2): back along the flow, from 1 to 0, to N(0, I).

    d log pi / dt = - div v along a path, so log pi(x_1) = log N(x_0) - integral of div v.
    """

    def augmented(state: Tensor, t: Tensor) -> Tensor:
        return _velocity_and_divergence(velocity, state[:, :2], t)

    state = torch.cat([position, torch.zeros_like(position[:, :1])], dim=1)
    base = integrate(augmented, state, times[::-1], tableau)
    log_base = -0.5 * base[:, :2].square().sum(dim=1) - math.log(2 * math.pi)
    return log_base + base[:, 2]
