"""First weights that depend on a seed alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

Network = TypeVar("Network", bound=nn.Module)


def seeded(make: Callable[[], Network], seed: int) -> Network:
    """The network that ``make`` gives with this seed; torch's own generator stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()
