"""Cells of many images gathered to learn from, never more in memory than asked for."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from geocfm.data.image import Image, TrainingImages
from geocfm.evaluation.baselines.base import occurrence_counts
from geocfm.events import Reporter

NEGATIVES_PER_POSITIVE = 3  # cells (paper, appendix "Baseline Details")

Rows = NDArray[np.float32]


class Reservoir:
    """At most ``most`` of all rows (N, C) offered, each as likely to be kept as any other."""

    def __init__(self, most: int, generator: np.random.Generator) -> None:
        self.most, self.offered = most, 0
        self._generator = generator
        self._rows: list[Rows] = []
        self._keys: list[NDArray[np.float64]] = []  # the rows with the least keys stay
        self._held = 0

    def add(self, rows: Rows) -> None:
        """Offer rows."""
        self.offered += len(rows)
        self._rows.append(rows)
        self._keys.append(self._generator.random(len(rows)))
        self._held += len(rows)
        if self._held > 2 * self.most:
            self._thin()

    def rows(self) -> Rows:
        """Those that were kept (N, C)."""
        if self._held > self.most:
            self._thin()
        return np.concatenate(self._rows) if self._rows else np.zeros((0, 0), np.float32)

    def _thin(self) -> None:
        rows, keys = np.concatenate(self._rows), np.concatenate(self._keys)
        kept = np.sort(np.argpartition(keys, self.most)[: self.most])
        self._rows, self._keys, self._held = [rows[kept]], [keys[kept]], self.most


def cell_rows(image: Image, chosen: NDArray[np.bool_]) -> Rows:
    """Channels (N, C) of the chosen cells (H, W)."""
    return np.ascontiguousarray(image.channels[:, chosen].T)


def one_by_one(images: TrainingImages, reporter: Reporter) -> Iterator[Image]:
    """Every place once; between images the work can be stopped."""
    for image in images.disjoint():
        reporter.check_cancelled()
        yield image


def pseudo_negatives(
    image: Image, least: int, generator: np.random.Generator
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Cells (H, W) with an occurrence, and a sample of those without one.

    Of the others min(|N|, max(3 N+, least)) are taken (paper, appendix "Baseline Details").
    """
    positive = occurrence_counts(image) > 0
    others = np.flatnonzero(image.footprint & ~positive)
    count = min(len(others), max(NEGATIVES_PER_POSITIVE * int(positive.sum()), least))
    negative = np.zeros(positive.shape, dtype=np.bool_)
    negative.flat[generator.choice(others, count, replace=False)] = True
    return positive, negative
