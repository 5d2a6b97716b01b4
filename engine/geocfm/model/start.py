"""What single cells say of their intensity, before a network looks around them.

A Poisson process, smooth and good where few occurrences are known; or a log-linear stack of it and
a forest, which finds what no quadratic form does. What a few hundred occurrences cannot teach a
UNet, they can teach these. Found before the network learns (training/start.py); the density head
corrects it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from geocfm.model.forest import CellForest
from geocfm.model.process import CellProcess


class Start(nn.Module):
    """Log intensity but for a constant: shares[0] * process + shares[1] * forest, if it has one."""

    shares: Tensor

    def __init__(self, channels: int, *, with_forest: bool = True) -> None:
        super().__init__()
        self.process = CellProcess(channels)
        self.register_buffer("shares", torch.tensor([1.0, 0.0]))
        if with_forest:
            self.forest = CellForest(channels)

    def forward(self, images: Tensor) -> Tensor:
        """Channels (B, C, H, W) to log intensities (B, H, W)."""
        process, forest = self.shares.tolist()
        found = process * self.process(images)
        return found + forest * self.forest(images) if forest else found
