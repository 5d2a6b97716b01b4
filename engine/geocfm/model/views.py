"""A window looked at from several sides: turned, mirrored, and moved by half a cell of the UNet.

Geology has no preferred side of a window, yet a network answers a little differently from each, and
its cells lie elsewhere on the ground. In the mean density over the views chance patterns of the
cells average out, and on real regions it was the more likely one; on the synthetic images, which
are not turned in training, it gains nothing (docs/benchmarks.md).
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def view_of(images: Tensor, view: int, cell: int) -> Tensor:
    """Images (..., H, W) from another side; every other view begins half a cell earlier."""
    if view & 1:
        images = images.flip(-1)
    if view & 2:
        images = images.flip(-2)
    if view & 4:
        images = images.transpose(-1, -2)
    before = _before(view, cell)
    return functional.pad(images, (before, 0, before, 0), mode="replicate") if before else images


def from_view(values: Tensor, view: int, cell: int) -> Tensor:
    """What was found of such a view (..., h, w), back at its place (..., H, W)."""
    before = _before(view, cell)
    values = values[..., before:, before:]
    if view & 4:
        values = values.transpose(-1, -2)
    if view & 2:
        values = values.flip(-2)
    if view & 1:
        values = values.flip(-1)
    return values


def _before(view: int, cell: int) -> int:
    return cell // 2 if view.bit_count() % 2 else 0
