"""The closed-form flow from N(0, I) to a density on a grid: what the velocity head corrects.

A density with weight w_j on square cells with centres c_j, each a Gaussian of variance s^2, is
reached along p_t = t p + (1 - t) z by the velocity

    v(x, t) = sum_j g_j [c_j + k (x - t c_j)] = m + k (x - t m),    m = sum_j g_j c_j,
    k = (t s^2 - (1 - t)) / S,    S = t^2 s^2 + (1 - t)^2,    g_j ~ w_j N(x; t c_j, S I),

which is finite on all of [0, 1]. A Gaussian is a product over the axes, so the sums over all cells
are two matrix products, and a fine grid costs little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from geocfm.model.precision import full_precision

FLOOR = 1e-6  # of the mass, spread evenly: far from all mass a point still knows where to go


@dataclass(frozen=True)
class Anchor:
    """Weights (B, H, W) of the cells, their centres (H,) and (W,), and the variance s^2 of one."""

    weights: Tensor
    rows: Tensor
    columns: Tensor
    variance: float


def make_anchor(density: Tensor, cell: int, variance: float, scale: float) -> Anchor:
    """From a density (B, H, W) on pixels: cells of ``cell`` pixels, in centred flow coordinates.

    variance: s^2 of a cell of side 1. A linear interpolation between the cells has 1 / 6; that of
    the cell itself, 1 / 12, leaves a lattice of bumps: 0.08 nats worse on a smooth density.
    scale: flow units in the image's side. Of a cell that reaches beyond the image, the part inside
    counts.
    """
    height, width = density.shape[-2:]
    padded = functional.pad(density, (0, -width % cell, 0, -height % cell))
    masses = functional.avg_pool2d(padded.unsqueeze(1), cell).squeeze(1) * cell**2
    masses = masses / masses.sum(dim=(1, 2), keepdim=True)
    weights = torch.lerp(masses, torch.full_like(masses, 1 / masses[0].numel()), FLOOR)
    rows, columns = (_centres(size, cell, density) * scale for size in (height, width))
    side = cell * scale / max(height, width)
    return Anchor(weights, rows, columns, variance * side**2)


def _centres(size: int, cell: int, like: Tensor) -> Tensor:
    """Of cells along a side of so many pixels, as shares of it from its middle."""
    low = torch.arange(0, size, cell, device=like.device, dtype=like.dtype)
    return (low + (low + cell).clamp(max=size)) / (2 * size) - 0.5


def anchor_flow(
    anchor: Anchor, position: Tensor, t: Tensor, image: Tensor
) -> tuple[Tensor, Tensor]:
    """Velocity (N, 2) and log density (N,) of the flow at positions (N, 2), t (N,), image (N,)."""
    with full_precision(position.device):  # near t = 1 a small difference of places, over 1 - t
        return _anchor_flow(anchor, position, t, image)


def _anchor_flow(
    anchor: Anchor, position: Tensor, t: Tensor, image: Tensor
) -> tuple[Tensor, Tensor]:
    spread = t.square() * anchor.variance + (1 - t).square()
    column, from_column = _axis(anchor.columns, position[:, 0], t, spread)
    row, from_row = _axis(anchor.rows, position[:, 1], t, spread)
    mean, evidence = _posterior(anchor, column, row, image)
    pull = (t * anchor.variance - (1 - t)) / spread
    velocity = mean + pull.unsqueeze(1) * (position - t.unsqueeze(1) * mean)
    log_density = evidence.log() + from_column + from_row - torch.log(2 * math.pi * spread)
    return velocity, log_density


def _axis(centres: Tensor, position: Tensor, t: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    """exp(-(x - t c)^2 / 2 S) (N, cells) with its largest made 1, and the logarithm of that."""
    away = position.unsqueeze(1) - t.unsqueeze(1) * centres
    exponent = away.square() * (-0.5 / spread).unsqueeze(1)
    nearest = exponent.detach().amax(dim=1, keepdim=True)
    return (exponent - nearest).exp(), nearest.squeeze(1)


def _posterior(anchor: Anchor, column: Tensor, row: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Mean m (N, 2) of the centres by g, and the sum (N,) that g is normalised by."""
    both = torch.stack([column, column * anchor.columns], dim=1)  # (N, 2, W)
    if len(anchor.weights) == 1:
        summed = both @ anchor.weights[0].T
    else:
        order = image.argsort()
        counts = torch.bincount(image, minlength=len(anchor.weights)).tolist()
        parts = [
            some @ weights.T
            for some, weights in zip(torch.split(both[order], counts), anchor.weights, strict=True)
        ]
        summed = torch.cat(parts)[order.argsort()]
    over_columns, moment = summed.unbind(dim=1)  # (N, H) each
    weighted = row * over_columns
    total = weighted.sum(dim=1)
    x = (row * moment).sum(dim=1) / total
    y = (weighted * anchor.rows).sum(dim=1) / total
    return torch.stack([x, y], dim=1), total
