"""Batches: windows as images, their occurrences concatenated with an image index (paper, A.3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtri
from scipy.stats import qmc

from geocfm.data.augmentation import SYMMETRIES, turn_image, turn_points
from geocfm.model.settings import TrainingSettings

ROUNDING = 1e-9  # cells; 7 / 220 * 220 is a little less than 7
LEAST_CHANCE = 1e-7  # whose normal is 5.2; that of 0 would be infinite
MOST_COUPLED = 512  # points whose noise is exchanged by optimal transport: cubic in their number


@dataclass(frozen=True)
class Batch:
    """images (B, C, Q, Q); footprints (B, P, P) bool; points, noise (N, 2); t, image, weights (N,).

    points lie in [0, 1]^2 of the P x P cells inside an image's margin; weights say how much each of
    them counts. log_shares (B,): how much of all ground a window stands for, if they are judged
    together; none: each is by itself. start (B, P, P): what single cells say, if not what the
    network's own start says.
    """

    images: torch.Tensor
    footprints: torch.Tensor
    points: torch.Tensor
    noise: torch.Tensor
    t: torch.Tensor
    image: torch.Tensor
    weights: torch.Tensor
    log_shares: torch.Tensor | None = None
    start: torch.Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """The one copy between devices of a training step."""
        return Batch(
            **{name: t.to(device, non_blocking=True) for name, t in self.tensors().items()}
        )

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that there are, by name."""
        there = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: tensor for name, tensor in there.items() if tensor is not None}


class BatchSource(Protocol):
    """Where a training run gets its batches from."""

    @property
    def workers(self) -> int:
        """Threads that make batches ahead of training."""

    def batch(self, step: int) -> Batch:
        """The batch of a training step, which depends on the seed and the step alone."""

    def validation(self) -> list[Batch]:
        """Batches with fixed noise, so that losses compare along a run; none if there are none."""


@dataclass(frozen=True)
class Example:
    """One window: channels (C, Q, Q) with its margin, footprint (P, P), points (N, 2) in [0, 1]^2,
    weights (N,), what share of all ground it stands for, if windows are judged together, and what
    single cells say of it (P, P), if not what the network's own start says."""

    channels: NDArray[np.float32]
    footprint: NDArray[np.bool_]
    points: NDArray[np.float64]
    weights: NDArray[np.float64]
    share: float | None = None
    start: NDArray[np.float32] | None = None

    @property
    def inside(self) -> NDArray[np.float32]:
        """The channels (C, P, P) without the margin."""
        margin = (self.channels.shape[-1] - self.footprint.shape[-1]) // 2
        own = slice(margin, margin + self.footprint.shape[-1])
        return self.channels[:, own, own]

    def turned(self, generator: np.random.Generator) -> Example:
        """One of its eight turns and mirrors."""
        symmetry = int(generator.integers(SYMMETRIES))
        return Example(
            np.ascontiguousarray(turn_image(self.channels, symmetry)),
            np.ascontiguousarray(turn_image(self.footprint, symmetry)),
            turn_points(self.points, symmetry),
            self.weights,
            self.share,
            None if self.start is None else np.ascontiguousarray(turn_image(self.start, symmetry)),
        )


def count_image(points: NDArray[np.float64], size: int) -> NDArray[np.int64]:
    """Occurrences per cell (size, size) of points (N, 2) in [0, 1]^2 (paper, C.4)."""
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, _cells(points, size), 1)
    return counts


def repeated_weights(
    counts: NDArray[np.int64], points: NDArray[np.float64], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Weights (N,) in the order of ``repeated_points``: the mean of each cell's own."""
    sums = np.zeros(counts.shape)
    np.add.at(sums, _cells(points, len(counts)), weights)
    often = counts[counts > 0]
    return (sums[counts > 0] / often).repeat(often)


def _cells(points: NDArray[np.float64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns (N,) of the cells that points (N, 2) in [0, 1]^2 lie in."""
    cells = np.minimum((points * size + ROUNDING).astype(np.int64), size - 1)
    return cells[:, 1], cells[:, 0]


def repeated_points(
    counts: NDArray[np.int64], generator: np.random.Generator
) -> NDArray[np.float64]:
    """Counts back to points in [0, 1]^2, repeated and spread over their cell by U(0, 1)."""
    rows, cols = np.nonzero(counts)
    cells = np.stack([cols, rows], axis=1).repeat(counts[rows, cols], axis=0)
    spread: NDArray[np.float64] = (cells + generator.random(cells.shape)) / counts.shape[0]
    return spread


def make_batch(
    examples: Iterable[Example], settings: TrainingSettings, generator: np.random.Generator
) -> Batch:
    """Examples of one size together, with noise and time drawn for their points."""
    windows = list(examples)
    points = [window.points for window in windows]
    repeats = max(1, settings.points_per_step // max(sum(map(len, points)), 1))
    index = np.repeat(np.arange(len(points)), [len(p) for p in points])
    index = np.tile(index, repeats)
    where = np.tile(np.concatenate(points), (repeats, 1)).astype(np.float32)
    weights = np.tile(np.concatenate([window.weights for window in windows]), repeats)
    noise, t = _noise_and_times(len(where), settings, generator)
    shares = [window.share for window in windows if window.share is not None]
    starts = [window.start for window in windows if window.start is not None]
    if settings.coupling == "transport":
        noise = _transported(where, noise, index)
    return Batch(
        images=torch.from_numpy(np.stack([window.channels for window in windows])),
        footprints=torch.from_numpy(np.stack([window.footprint for window in windows])),
        points=torch.from_numpy(where),
        noise=torch.from_numpy(noise),
        t=torch.from_numpy(t),
        image=torch.from_numpy(index),
        weights=torch.from_numpy(weights.astype(np.float32)),
        log_shares=torch.tensor(shares).log() if len(shares) == len(windows) else None,
        start=torch.from_numpy(np.stack(starts)) if len(starts) == len(windows) else None,
    )


def _noise_and_times(
    count: int, settings: TrainingSettings, generator: np.random.Generator
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Standard normal noise (count, 2) and times (count,)."""
    if settings.noise == "even":
        net = qmc.Sobol(3, scramble=False).random_base2(max(count - 1, 0).bit_length())
        net = (net[:count] + generator.random(3)) % 1  # another one at every step
        net = net[generator.permutation(count)]  # else its order would be that of the points
        inner = net.clip(LEAST_CHANCE, 1 - LEAST_CHANCE)
        noise, t = ndtri(inner[:, 1:]).astype(np.float32), net[:, 0].astype(np.float32)
    else:
        noise = generator.standard_normal((count, 2), dtype=np.float32)
        t = generator.random(count, dtype=np.float32)
    if settings.late_times != 1:
        t = 1 - (1 - t) ** np.float32(settings.late_times)
    return noise, t


def _transported(
    points: NDArray[np.float32], noise: NDArray[np.float32], image: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The noise (N, 2) of each image handed to its points (N, 2) at the least squared distance.

    sum |p - z|^2 is least where sum p z is most, whatever the scale and the origin of p. Never
    across images: given the image, the coupling keeps both marginals.
    """
    handed = np.empty_like(noise)
    for number in np.unique(image):
        mine = np.flatnonzero(image == number)
        for some in np.split(mine, range(MOST_COUPLED, len(mine), MOST_COUPLED)):
            _, chosen = linear_sum_assignment(points[some] @ noise[some].T, maximize=True)
            handed[some] = noise[some[chosen]]
    return handed
