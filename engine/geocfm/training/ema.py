"""Averaged weights: smoother than the last step's, and what is validated and kept."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


class AveragedNetwork(Generic[Network]):
    """Exponential moving average with a warm-up, so that early weights are soon forgotten."""

    def __init__(self, network: Network, decay: float) -> None:
        self.network = copy.deepcopy(network).eval().requires_grad_(False)
        self._decay = decay
        self.updates = 0

    @torch.no_grad()
    def update(self, network: Network) -> None:
        """Move towards the network's weights; with decay 0, become them."""
        decay = min(self._decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        torch._foreach_lerp_(
            list(self.network.parameters()), list(network.parameters()), 1.0 - decay
        )
