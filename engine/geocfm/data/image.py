"""A geo-image with its occurrences: what every method learns from and is asked about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from geocfm.data.patches import BatchSource


@dataclass(frozen=True)
class Image:
    """Channels (C, H, W), where there is data (H, W), and occurrences (N, 2) in pixels."""

    channels: NDArray[np.float32]
    footprint: NDArray[np.bool_]
    points: NDArray[np.float64]
    origin: tuple[int, int] = (0, 0)  # (column, row) of its corner in the region


class TrainingImages(Protocol):
    """What a method may learn from, in the two ways that methods learn."""

    @property
    def channels(self) -> int:
        """How many channels each image has."""

    def disjoint(self) -> Iterator[Image]:
        """Every place once, for methods that look at cells."""

    @property
    def source(self) -> BatchSource:
        """Batches without end, for methods that learn step by step."""
