"""Muon (Jordan et al., 2024): a step goes equally far in every direction of a weight matrix.

Gradients of a matrix lie mostly in a few directions. Muon replaces the averaged gradient U S V^T by
U V^T, so that the rare directions are learned too. What is no matrix is left to Adam.

A matrix's singular values grow by MATRIX_RATE times the rate at most, and decay by weight_decay
times it: none exceeds about MATRIX_RATE / weight_decay. A decay of some units so bounds how sharply
the network can answer; that of the presets is too small to.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

LEAST_SIDE = 16  # of a matrix; what is narrower, as a last layer often is, goes by Adam
MATRIX_RATE = 10.0  # times the learning rate of Adam, since a step's size means something else
MOMENTUM = 0.95
BETAS, EPSILON = (0.9, 0.999), 1e-8  # of Adam
ROUNDS = 5
POLYNOMIAL = (3.4445, -4.7750, 2.0315)  # brings singular values near 1 in few rounds


def orthogonalised(matrix: Tensor) -> Tensor:
    """About U V^T of a matrix U S V^T (rows, columns), by Newton and Schulz's iteration."""
    first, third, fifth = POLYNOMIAL
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    found = wide / (wide.norm() + 1e-7)
    for _ in range(ROUNDS):
        square = found @ found.T
        found = first * found + (third * square + fifth * square @ square) @ found
    return found if wide is matrix else found.T


def is_matrix(parameter: Tensor) -> bool:
    """Whether it is learned by Muon; a convolution is one with a row for each channel it makes."""
    return parameter.ndim >= 2 and min(len(parameter), parameter[0].numel()) >= LEAST_SIDE


class Muon(torch.optim.Optimizer):
    """Matrices by Muon with decay, the rest by Adam without; the state has Adam's names."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float, weight_decay: float) -> None:
        super().__init__(list(parameters), {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One step of every parameter that has a gradient."""
        for group in self.param_groups:
            learned = [p for p in group["params"] if p.grad is not None]
            for parameter in filter(is_matrix, learned):
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                self._turn(parameter, group["lr"] * MATRIX_RATE)
            self._adapt([p for p in learned if not is_matrix(p)], group["lr"])

    def _turn(self, parameter: nn.Parameter, rate: float) -> None:
        state, gradient = self.state[parameter], parameter.grad
        assert gradient is not None
        if not state:
            state["exp_avg"] = torch.zeros_like(parameter)
        average = state["exp_avg"].lerp_(gradient, 1 - MOMENTUM)
        ahead = torch.lerp(gradient, average, MOMENTUM).flatten(1)  # as Nesterov looks ahead
        rows, columns = ahead.shape
        size = rate * max(1.0, rows / columns) ** 0.5
        parameter.sub_(orthogonalised(ahead).view_as(parameter), alpha=size)

    def _adapt(self, parameters: list[Tensor], rate: float) -> None:
        if not parameters:
            return
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        states = [self.state[parameter] for parameter in parameters]
        gradients = [p.grad for p in parameters if p.grad is not None]  # all have one
        averages = [state["exp_avg"] for state in states]
        squares = [state["exp_avg_sq"] for state in states]
        for state in states:
            state["step"] += 1
        done = float(states[0]["step"])
        torch._foreach_lerp_(averages, gradients, 1 - BETAS[0])
        torch._foreach_mul_(squares, BETAS[1])
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - BETAS[1])
        spread = torch._foreach_sqrt(squares)
        torch._foreach_div_(spread, (1 - BETAS[1] ** done) ** 0.5)
        torch._foreach_add_(spread, EPSILON)
        torch._foreach_addcdiv_(parameters, averages, spread, -rate / (1 - BETAS[0] ** done))
