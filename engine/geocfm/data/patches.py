"""Batches: windows as images, their occurrences concatenated with an image index (paper, A.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.augmentation import SYMMETRIES, turn_image, turn_points
from geocfm.data.region import Region
from geocfm.geo.grid import Window
from geocfm.model.settings import TrainingSettings

ROUNDING = 1e-9  # cells; 7 / 220 * 220 is a little less than 7


@dataclass(frozen=True)
class Batch:
    """images (B, C, P, P); points, noise (N, 2); t, image (N,). points lie in [0, 1]^2."""

    images: torch.Tensor
    points: torch.Tensor
    noise: torch.Tensor
    t: torch.Tensor
    image: torch.Tensor

    def to(self, device: torch.device) -> Batch:
        """The one copy between devices of a training step."""
        return Batch(
            self.images.to(device, non_blocking=True),
            self.points.to(device, non_blocking=True),
            self.noise.to(device, non_blocking=True),
            self.t.to(device, non_blocking=True),
            self.image.to(device, non_blocking=True),
        )


def count_image(points: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Occurrences per cell (size, size) of points (N, 2) in [0, 1]^2 (paper, C.4)."""
    cells = np.minimum((points * size + ROUNDING).astype(np.int64), size - 1)
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1)
    return counts


def repeated_points(
    counts: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Counts back to points in [0, 1]^2, repeated and spread over their cell by U(0, 1)."""
    rows, cols = np.nonzero(counts)
    cells = np.stack([cols, rows], axis=1).repeat(counts[rows, cols], axis=0)
    spread: NDArray[np.float64] = (cells + generator.random(cells.shape)) / counts.shape[0]
    return spread


def make_batch(
    region: Region,
    windows: Sequence[Window],
    settings: TrainingSettings,
    generator: np.random.Generator,
    *,
    augment: bool,
) -> Batch:
    """Read windows and draw noise and time for their points; all randomness from ``generator``."""
    encoder = region.encoder
    images: list[NDArray[np.float32]] = []
    points: list[NDArray[np.float64]] = []
    for window in windows:
        channels, _ = encoder.encode(region.read(window))
        inside = region.points_in(window)
        if region.settings.positions == "counts":
            inside = repeated_points(count_image(inside, window.width), generator)
        if augment:
            symmetry = int(generator.integers(SYMMETRIES))
            channels, inside = turn_image(channels, symmetry), turn_points(inside, symmetry)
        images.append(np.ascontiguousarray(channels))
        points.append(inside)
    repeats = max(1, settings.points_per_step // max(sum(map(len, points)), 1))
    index = np.repeat(np.arange(len(points)), [len(p) for p in points])
    index = np.tile(index, repeats)
    where = np.tile(np.concatenate(points), (repeats, 1)).astype(np.float32)
    return Batch(
        images=torch.from_numpy(np.stack(images)),
        points=torch.from_numpy(where),
        noise=torch.from_numpy(generator.standard_normal(where.shape, dtype=np.float32)),
        t=torch.from_numpy(generator.random(len(where), dtype=np.float32)),
        image=torch.from_numpy(index),
    )
