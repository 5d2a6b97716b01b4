"""A random forest of single cells as plain tensors: how a cell's values speak for an occurrence.

No tree is walked through. Its leaves are numbered from left to right, and each split that a cell
passes to the right rules out the leaves on its left; the first leaf that no split rules out is the
cell's. With at most 64 leaves that is one integer for each channel and tree, looked up by where the
channel's value lies among the forest's edges (Lucchese et al. 2015, "QuickScorer").
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from geocfm.model.precision import full_precision

TREES, LEAVES, EDGES = 64, 64, 63  # of a channel's values, between which trees split
CELLS_AT_ONCE = 2**15
SUREST = 0.999  # chance of an occurrence, beyond which odds say no more
_ALL = -1  # 64 bits that are set
_DE_BRUIJN = 0x03F79D71B4CB0A89  # multiplied by a power of two it has another six bits on top


def _positions() -> Tensor:
    """Which bit a product with that number tells of (64,)."""
    found = torch.zeros(64, dtype=torch.long)
    for bit in range(64):
        found[(_DE_BRUIJN << bit & 2**64 - 1) >> 58] = bit
    return found


_POSITIONS = _positions()


class CellForest(nn.Module):
    """Log odds of an occurrence in a cell, against a background drawn evenly from all cells.

    edges (C, E) rise, or repeat the last one. A split of a tree sends a cell to the right where its
    channel's value is more than the edge of that number. channel -1: there is no such split.
    """

    edges: Tensor
    channel: Tensor
    edge: Tensor
    left: Tensor
    chances: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("edges", torch.zeros(channels, EDGES))
        self.register_buffer("channel", torch.full((TREES, LEAVES - 1), -1, dtype=torch.int16))
        self.register_buffer("edge", torch.zeros(TREES, LEAVES - 1, dtype=torch.int16))
        # the leaves on the left of a split, as bits of bytes
        self.register_buffer("left", torch.zeros(TREES, LEAVES - 1, LEAVES // 8, dtype=torch.uint8))
        self.register_buffer("chances", torch.full((TREES, LEAVES), 0.5))
        self._remaining: Tensor | None = None  # made of the buffers when they are first used
        self._used: list[int] = []

    def forward(self, images: Tensor) -> Tensor:
        """Channels (B, C, H, W) to log odds (B, H, W)."""
        with full_precision(images.device):
            found = [self.log_odds(image.float().flatten(1)) for image in images]
        return torch.stack(found).view(len(images), *images.shape[2:])

    def log_odds(self, cells: Tensor) -> Tensor:
        """Cells (C, N) to their log odds (N,)."""
        chance = torch.cat(
            [self._chance(some) for some in torch.split(cells, CELLS_AT_ONCE, dim=1)]
        )
        return torch.logit(chance, 1 - SUREST)

    def changed(self) -> None:
        """To be called after the buffers were changed by hand."""
        self._remaining = None

    def _load_from_state_dict(self, *arguments: object) -> None:
        super()._load_from_state_dict(*arguments)
        self.changed()

    def _chance(self, cells: Tensor) -> Tensor:
        remaining = self._tables(cells.device)
        place = [
            torch.bucketize(cells[channel].contiguous(), self.edges[channel])
            for channel in self._used
        ]  # how many edges a value is more than
        total = torch.zeros(cells.shape[1], device=cells.device)
        for tables, chances in zip(remaining, self.chances, strict=True):
            leaves = torch.full_like(total, _ALL, dtype=torch.int64)
            for table, at in zip(tables, place, strict=True):
                leaves &= table.index_select(0, at)
            total += chances.index_select(0, _lowest_bit(leaves))
        return total / len(self.chances)

    def _tables(self, device: torch.device) -> Tensor:
        """Leaves that remain (T, U, E + 1) by tree, used channel, and place among its edges."""
        if self._remaining is None or self._remaining.device != device:
            channel, edge = self.channel.cpu().long(), self.edge.cpu().long().clamp(0, EDGES - 1)
            channel = channel.clamp(-1, len(self.edges) - 1)
            self._used = sorted(set(channel[channel >= 0].tolist()))
            found = torch.full((len(channel), len(self._used), EDGES + 1), _ALL, dtype=torch.int64)
            places = torch.arange(EDGES + 1)
            shifts = 8 * torch.arange(LEAVES // 8)
            left = (self.left.cpu().long() << shifts).sum(dim=-1)
            for number, used in enumerate(self._used):
                for tree, split in (channel == used).nonzero().tolist():
                    right = places > edge[tree, split]
                    found[tree, number] &= torch.where(right, ~left[tree, split], _ALL)
            self._remaining = found.to(device)
        return self._remaining


def _lowest_bit(numbers: Tensor) -> Tensor:
    """The number of the lowest bit that is set in each of (N,); 0 where none is."""
    lowest = numbers & -numbers
    top = (lowest * _DE_BRUIJN) >> 58 & 63
    return _POSITIONS.to(numbers.device).index_select(0, top)
