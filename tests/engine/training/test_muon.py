"""Muon against the singular value decomposition, and its other half against torch's Adam."""

import pytest
import torch
from geocfm.training.muon import LEAST_SIDE, MATRIX_RATE, Muon, is_matrix, orthogonalised
from torch import nn

RATE = 1e-2


@pytest.mark.parametrize("shape", [(32, 32), (16, 80), (80, 16)])
def test_the_singular_vectors_stay_and_the_values_come_near_one(shape: tuple[int, int]) -> None:
    torch.manual_seed(0)
    left, _, right = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    values = torch.logspace(0, -1.5, min(shape))
    found = orthogonalised(left @ torch.diag(values) @ right)
    turned = left.T @ found @ right.T
    reached = turned.diagonal()
    torch.testing.assert_close(turned, torch.diag(reached), atol=1e-4, rtol=0)
    assert 0.6 < reached.min() <= reached.max() < 1.3


def test_a_matrix_moves_by_its_orthogonalised_gradient_at_first() -> None:
    torch.manual_seed(1)
    weight = nn.Parameter(torch.randn(48, 4, 3, 3))
    before = weight.detach().clone()
    weight.grad = torch.randn_like(weight)
    Muon([weight], RATE, weight_decay=0.0).step()
    moved = (before - weight.detach()).flatten(1)
    size = RATE * MATRIX_RATE * (48 / 36) ** 0.5
    torch.testing.assert_close(moved, size * orthogonalised(weight.grad.flatten(1)))


def test_what_is_no_matrix_goes_as_by_adam_without_decay() -> None:
    torch.manual_seed(2)
    shapes = [(7,), (2, 64), (LEAST_SIDE - 1, 40), (64, 2)]
    ours = [nn.Parameter(torch.randn(shape)) for shape in shapes]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    assert not any(map(is_matrix, ours))
    assert is_matrix(torch.empty(LEAST_SIDE, LEAST_SIDE))
    pair = (Muon(ours, RATE, 0.1), torch.optim.Adam(theirs, RATE))
    for _ in range(5):
        for own, other in zip(ours, theirs, strict=True):
            own.grad = torch.randn_like(own)
            other.grad = own.grad.clone()
        for optimiser in pair:
            optimiser.step()
    torch.testing.assert_close(ours, theirs)


def test_without_a_gradient_nothing_moves() -> None:
    weight, bias = nn.Parameter(torch.ones(20, 20)), nn.Parameter(torch.ones(20))
    Muon([weight, bias], RATE, 0.1).step()
    assert (weight == 1).all()
    assert (bias == 1).all()


def test_decay_bounds_the_singular_values_of_a_matrix() -> None:
    """Pulled the same way for ever, they come to rest at MATRIX_RATE / weight_decay."""
    torch.manual_seed(4)
    weight, decay = nn.Parameter(torch.zeros(20, 20)), 5.0
    optimiser = Muon([weight], RATE, decay)
    pull = torch.randn(20, 20)
    for _ in range(300):
        weight.grad = pull
        optimiser.step()
    values = torch.linalg.svdvals(weight.detach()) * decay / MATRIX_RATE
    assert 0.6 < values[-5] <= values[0] < 1.3
