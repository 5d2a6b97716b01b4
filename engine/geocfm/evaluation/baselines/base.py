"""What a baseline is: fitted on images, it gives a density over an image's cells to draw from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.image import Image, TrainingImages
from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.model.settings import Settings

FLOOR = 1e-6  # of an image's mean score: the paper's small epsilon, whatever the scores' unit


@dataclass(frozen=True)
class Effort:
    """What a baseline may spend, and where it says how far it is."""

    settings: Settings  # of the model it is compared with: networks and training follow them
    seed: int
    device: torch.device
    reporter: Reporter
    folder: Path | None = None  # where a network leaves its log and what it goes on from


class Baseline(ABC):
    """A method with scores for cells; drawing from them and judging them is the same for all."""

    title: ClassVar[str]
    comparable: ClassVar[bool]  # whether scores of different images compare
    context: ClassVar[bool] = True  # whether a cell's score depends on the image around it

    @abstractmethod
    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Learn from the images."""

    @abstractmethod
    def scores(self, image: Image) -> NDArray[np.float64]:
        """A score (H, W) for every cell, at least 0; what it says off the footprint is not used."""

    def settings(self) -> dict[str, object]:
        """What was chosen for it, for the records."""
        return {}

    def density(self, image: Image) -> NDArray[np.float64]:
        """Scores (H, W) as a density that sums to 1 over the footprint and is 0 off it.

        (paper, appendix "From score maps to point sets"). Without any footprint it is 0.
        """
        return normalised(self.scores(image), image.footprint)


def normalised(scores: NDArray[np.float64], footprint: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Scores (H, W), floored on the footprint, to sum 1 over it; equal where all scores are 0."""
    inside = scores[footprint]
    highest = float(inside.max(initial=0.0))
    if highest > 0:  # divided by it, the sum of tiny and of huge scores stays a number
        inside = np.maximum(inside / highest, FLOOR * float((inside / highest).mean()))
    else:
        inside = np.ones_like(inside)
    density = np.zeros(scores.shape)
    density[footprint] = inside / max(float(inside.sum()), 1.0)
    return density


def draw_from(
    density: NDArray[np.float64], count: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    """Points (count, 2) in pixels: cells by their density, with replacement, and U(0, 1) in each.

    (paper, appendix "From score maps to point sets"). A density of 0 everywhere gives no point.
    """
    heights = density.ravel().cumsum()
    if not heights[-1] > 0:
        return np.zeros((0, 2))
    # below the last step at all times: a cell with density 0 is never chosen
    chosen = np.searchsorted(heights, generator.random(count) * heights[-1], side="right")
    row, col = np.divmod(np.minimum(chosen, np.flatnonzero(density)[-1]), density.shape[1])
    return np.stack([col, row], axis=1) + generator.random((count, 2))


def points_on_data(image: Image) -> NDArray[np.float64]:
    """Occurrences (N, 2) of the image that lie on its footprint."""
    cells = np.floor(image.points).astype(np.int64)
    points = image.points[((cells >= 0) & (cells < image.footprint.shape[::-1])).all(axis=1)]
    col, row = np.floor(points).astype(np.int64).T
    return points[image.footprint[row, col]]


def occurrence_counts(image: Image) -> NDArray[np.int64]:
    """Occurrences per cell (H, W) on the footprint."""
    counts = np.zeros(image.footprint.shape, dtype=np.int64)
    col, row = np.floor(points_on_data(image)).astype(np.int64).T
    np.add.at(counts, (row, col), 1)
    return counts


def nothing_to_learn(title: str) -> UserError:
    """The sentence for training images without an occurrence on data."""
    return UserError(
        f"{title} has nothing to learn from: no occurrence lies on data of the training images.",
        "Give the occurrences that the model was trained with.",
    )
