"""A Poisson process of single cells: what the values of a cell alone say of its intensity.

It is learned from the whole region at once, and the density head corrects it: what a few hundred
occurrences cannot teach a UNet, they can teach some dozens of coefficients. Found before the
network learns (training/process.py).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from geocfm.model.precision import full_precision

QUANTILES = 65  # of a channel, between which its ranks are interpolated
CELLS_AT_ONCE = 2**15  # more would go through the main memory again and again


class CellProcess(nn.Module):
    """Log intensity: intercept + linear . r + r . pairs r, at most highest.

    Its mean is 1 where it was learned. r are the channels' ranks among the cells that were learned
    from, of mean 0 and variance 1: what lies beyond them is the highest or lowest there was, and a
    few extreme values have no pull. A layer without data has rank 0, its mean. Ranks that never met
    there meet in other ground, and their products may be anything: none is richer than the richest
    cell that was learned from.
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
            found = [
                self._log_intensity(self.ranked(some))
                for image in images
                for some in torch.split(image.float().flatten(1), CELLS_AT_ONCE, dim=1)
            ]
        return torch.cat(found).view(len(images), *images.shape[2:])

    def _log_intensity(self, ranks: Tensor) -> Tensor:
        """Ranks (C, N) to log intensities (N,)."""
        weights = torch.addmm(self.linear.unsqueeze(1), self.pairs.T, ranks)
        logs = self.intercept + (weights * ranks).sum(dim=0)
        return logs.minimum(self.highest)

    def ranked(self, channels: Tensor) -> Tensor:
        """Channels (C, ...) to their ranks; those of a layer without data are 0."""
        found = []
        for number, beside in enumerate(self.presence.clamp(-1, len(channels) - 1).tolist()):
            if beside == number:  # it says whether there is data: 0 or 1
                found.append(channels[number])
                continue
            ranks = _interpolated(channels[number], self.values[number], self.ranks[number])
            found.append(ranks * channels[beside] if beside >= 0 else ranks)
        return torch.stack(found)


def _interpolated(at: Tensor, values: Tensor, ranks: Tensor) -> Tensor:
    """Linearly between values (Q,) that rise, or repeat the last one; beyond them the outermost."""
    slopes = ranks.diff() / values.diff().clamp(min=torch.finfo(values.dtype).tiny)
    slopes = slopes.where(values.diff() > 0, 0)
    within = at.clamp(values[0], values[-1])
    below = torch.bucketize(within, values[1:-1], right=True, out_int32=True).flatten()
    begin = (ranks[:-1] - slopes * values[:-1]).index_select(0, below).view_as(within)
    return begin.addcmul_(slopes.index_select(0, below).view_as(within), within)
