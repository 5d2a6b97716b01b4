"""A Poisson process of single cells: what the values of a cell alone say of its intensity.

Windows of a region compare by it, since it is learned from the whole region at once, and the
density head corrects it within a window: what a few hundred occurrences cannot teach a UNet, they
can teach some dozens of coefficients. Found before the network learns (training/process.py).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from geocfm.model.precision import full_precision

QUANTILES = 65  # of a channel, between which its ranks are interpolated


class CellProcess(nn.Module):
    """Log intensity, occurrences per cell: intercept + linear . r + r . pairs r, at most highest.

    r are the channels' ranks among the cells that were learned from, of mean 0 and variance 1: what
    lies beyond them is the highest or lowest there was, and a few extreme values have no pull. A
    layer without data has rank 0, its mean. Ranks that never met there meet in other ground, and
    their products may be anything: none is richer than the richest cell that was learned from.
    """

    intercept: Tensor
    linear: Tensor
    pairs: Tensor
    values: Tensor
    ranks: Tensor
    presence: Tensor
    highest: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("intercept", torch.zeros(()))
        self.register_buffer("linear", torch.zeros(channels))
        self.register_buffer("pairs", torch.zeros(channels, channels))
        self.register_buffer("values", torch.zeros(channels, QUANTILES))  # that rise, and
        self.register_buffer("ranks", torch.zeros(channels, QUANTILES))  # their ranks
        # which channel says whether a channel's layer has data; -1: there is always data
        self.register_buffer("presence", torch.full((channels,), -1))
        self.register_buffer("highest", torch.zeros(()))

    def forward(self, images: Tensor) -> Tensor:
        """Channels (B, C, H, W) to log intensities (B, H, W)."""
        with full_precision(images.device):
            ranks = self.ranked(images.float().movedim(1, -1))
            logs = self.intercept + ranks @ self.linear + ((ranks @ self.pairs) * ranks).sum(-1)
            return logs.minimum(self.highest)

    def ranked(self, cells: Tensor) -> Tensor:
        """Channels (..., C) to their ranks; those of a layer without data are 0."""
        found = [
            _interpolated(cells[..., number].contiguous(), values, ranks)
            for number, (values, ranks) in enumerate(zip(self.values, self.ranks, strict=True))
        ]
        beside = self.presence.clamp(0, len(found) - 1)  # whatever a stranger's model says
        present = cells[..., beside].where(self.presence >= 0, 1)
        return torch.stack(found, dim=-1) * present


def _interpolated(at: Tensor, values: Tensor, ranks: Tensor) -> Tensor:
    """Linearly between values (Q,) that rise, or repeat the last one; beyond them the outermost."""
    below = torch.bucketize(at, values[1:-1], right=True)
    gap = (values[1:] - values[:-1]).clamp(min=torch.finfo(values.dtype).tiny)
    share = ((at - values[below]) / gap[below]).clamp(0, 1)
    return torch.lerp(ranks[below], ranks[below + 1], share)
