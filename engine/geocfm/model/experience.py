"""What a model has seen: some cells of its training, and how far from them others may lie.

The idea is the area of applicability of Meyer and Pebesma (2021), with equal weights: a cell whose
layers, all together, are farther from every training cell than training cells are from each other
is outside the model's experience, and nothing has tested what the model says there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

PREFIX = "experience."  # of the names of its tensors in a checkpoint
_REFERENCES, _RADIUS = f"{PREFIX}references", f"{PREFIX}radius"

# distances, in standard deviations of a layer's values
FAR = 100.0  # values farther from the mean are equally far: float32 keeps its digits
OTHER_CLASS = 1.0  # between two classes that the model knows
NEVER_SEEN = 30.0  # of layers missing, or classes unknown, in a way that no reference has

CELLS_AT_ONCE = 2048  # whose distances to all references stay in a processor's cache


@dataclass(frozen=True)
class ChannelLayout:
    """What the channels of a cell are: of each layer its values or classes, then validity."""

    classes: tuple[int | None, ...]  # of each layer: how many classes; none: a channel of values
    validity: bool  # a channel for each layer: is there data?

    @property
    def channels(self) -> int:
        """How many there are."""
        return sum(self._widths) + (len(self.classes) if self.validity else 0)

    @property
    def _widths(self) -> list[int]:
        return [1 if count is None else count for count in self.classes]

    def comparable(self, cells: Tensor) -> Tensor:
        """Cells (N, C) as vectors (N, D) whose Euclidean distance says how alike they are.

        An unknown class has no channel set, so it would be as near to every class as one class to
        another; a missing layer would be as near as one standard deviation. With dimensions of
        their own, another set of missing layers or unknown classes is always NEVER_SEEN.
        """
        widths = [*self._widths, self.channels - sum(self._widths)]
        *layers, valid = torch.split(cells, widths, dim=1)
        parts = []
        for number, (count, mine) in enumerate(zip(self.classes, layers, strict=True)):
            if count is None:
                parts.append(mine.clamp(-FAR, FAR))
                continue
            has_data = valid[:, number] if self.validity else 1.0
            unknown = has_data - mine.sum(dim=1)
            parts += [mine * (OTHER_CLASS / math.sqrt(2)), NEVER_SEEN * unknown.unsqueeze(1)]
        return torch.cat([*parts, NEVER_SEEN * (1 - valid)], dim=1)


@dataclass(frozen=True)
class Experience:
    """References (K, C): cells as the model sees them; whatever is within the radius is like one.

    radius: of the comparable vectors, in standard deviations.
    """

    references: Tensor
    radius: float
    layout: ChannelLayout

    def dissimilarity(
        self, channels: NDArray[np.float32], footprint: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        """The distance (h, w) of cells (C, h, w) to the nearest reference, in radii.

        1 is the border of experience, more is outside; NaN off the footprint (h, w).
        """
        found = np.full(footprint.shape, np.nan, dtype=np.float32)
        cells = torch.from_numpy(np.ascontiguousarray(channels[:, footprint].T))
        found[footprint] = (self.distances(cells) / self.radius).numpy()
        return found

    def distances(self, cells: Tensor) -> Tensor:
        """The distance (N,) of cells (N, C) to the nearest reference."""
        known, squares = self._known
        found = []
        for some in torch.split(cells, CELLS_AT_ONCE):
            here = self.layout.comparable(some)
            # |a - b|^2 = |a|^2 + |b|^2 - 2 ab, so that the work is one matrix product
            nearest = torch.addmm(squares, here, known.T, alpha=-2).amin(dim=1)
            found.append((nearest + here.square().sum(dim=1)).clamp(min=0).sqrt())
        return torch.cat(found)

    @cached_property
    def _known(self) -> tuple[Tensor, Tensor]:
        """The references as comparable vectors (K, D), and their squares (K,)."""
        known = self.layout.comparable(self.references)
        return known, known.square().sum(dim=1)

    def to_tensors(self) -> dict[str, Tensor]:
        """For the checkpoint."""
        radius = torch.tensor(self.radius, dtype=torch.float64)
        return {_REFERENCES: self.references.contiguous(), _RADIUS: radius}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, Tensor], layout: ChannelLayout) -> Experience:
        """As it was kept; a ValueError says that these are not what ``to_tensors`` gives."""
        if tensors.keys() != {_REFERENCES, _RADIUS}:
            raise ValueError(f"there are {', '.join(tensors)}")
        references, radius = tensors[_REFERENCES], tensors[_RADIUS]
        if references.dtype != torch.float32 or radius.dtype != torch.float64:
            raise ValueError(f"they are {references.dtype} and {radius.dtype}")
        if references.ndim != 2 or not len(references) or references.shape[1] != layout.channels:
            raise ValueError(f"the references are {tuple(references.shape)}")
        if radius.ndim or not 0 < radius.item() < math.inf or not references.isfinite().all():
            raise ValueError("some are no numbers")
        return cls(references, radius.item(), layout)
