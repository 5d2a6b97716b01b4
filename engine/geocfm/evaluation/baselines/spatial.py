"""Baselines of places alone: no cell's values are learned from, only where points lay."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geocfm.data.image import Image, TrainingImages
from geocfm.evaluation.baselines.base import (
    Baseline,
    Effort,
    nothing_to_learn,
    points_on_data,
)
from geocfm.evaluation.baselines.cells import one_by_one

BANDWIDTH = 5.0  # pixels, isotropic
REACH = 8.0  # bandwidths; beyond, a kernel is below 1e-14 of its height
POINTS_AT_ONCE = 20_000
THUMBNAIL = 16  # pixels of a side
NEIGHBOURS = 10


class Uniform(Baseline):
    """Every cell with data is as good as any other."""

    title: ClassVar[str] = "Uniform"
    comparable: ClassVar[bool] = True
    context: ClassVar[bool] = False

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """There is nothing to learn."""

    def scores(self, image: Image) -> NDArray[np.float64]:
        """One everywhere."""
        return np.ones(image.footprint.shape)


class GlobalKDE(Baseline):
    """A Gaussian kernel on every training occurrence, in the region's coordinates."""

    title: ClassVar[str] = "Global KDE"
    comparable: ClassVar[bool] = True
    context: ClassVar[bool] = False

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Keep where the occurrences lie."""
        every = one_by_one(images, effort.reporter)
        found = [points_on_data(image) + image.origin for image in every]
        if not sum(map(len, found)):
            raise nothing_to_learn(self.title)
        self._points = np.concatenate(found)
        self._last: tuple[tuple[int, ...], NDArray[np.float64]] | None = None

    def settings(self) -> dict[str, object]:
        """The bandwidth."""
        return {"bandwidth_px": BANDWIDTH, "reach_bandwidths": REACH}

    def scores(self, image: Image) -> NDArray[np.float64]:
        """The kernels' sum at the cells' centres, over the number of occurrences; per pixel."""
        place = (*image.origin, *image.footprint.shape)
        if self._last is None or self._last[0] != place:  # images of one place share it
            local = self._points - image.origin
            summed = kernel_sum(local, image.footprint.shape) / len(self._points)
            self._last = place, summed
        return self._last[1]


class RetrievalKDE(Baseline):
    """A Gaussian kernel on every occurrence of the training images that look most alike."""

    title: ClassVar[str] = "Retrieval-KDE"
    comparable: ClassVar[bool] = False

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Keep a thumbnail and the occurrences of every image that has some."""
        thumbnails: list[NDArray[np.float64]] = []
        self._points: list[NDArray[np.float64]] = []  # in [0, 1]^2 of their image
        for image in one_by_one(images, effort.reporter):
            points = points_on_data(image)
            if len(points):
                thumbnails.append(thumbnail(image))
                self._points.append(points / image.footprint.shape[::-1])
        if not thumbnails:
            raise nothing_to_learn(self.title)
        self._thumbnails = np.stack(thumbnails)

    def settings(self) -> dict[str, object]:
        """The thumbnails, the neighbours and the bandwidth."""
        return {
            "thumbnail_px": THUMBNAIL,
            "likeness": "cosine",
            "neighbours": NEIGHBOURS,
            "bandwidth_px": BANDWIDTH,
            "reach_bandwidths": REACH,
        }

    def nearest(self, image: Image) -> NDArray[np.int64]:
        """Numbers of the most alike images among those with occurrences, best first (cosine)."""
        alike = self._thumbnails @ thumbnail(image)
        return np.argsort(-alike, kind="stable")[:NEIGHBOURS]

    def scores(self, image: Image) -> NDArray[np.float64]:
        """The kernels' sum at the cells' centres; occurrences keep their place in the image."""
        shape = image.footprint.shape
        found = np.concatenate([self._points[number] for number in self.nearest(image)])
        return kernel_sum(found * shape[::-1], shape)


def thumbnail(image: Image) -> NDArray[np.float64]:
    """Channels pooled to 16 x 16 means over data, as a vector of length 1 (C * 256,)."""
    cells = [np.arange(length) * THUMBNAIL // length for length in image.footprint.shape]
    index = (cells[0][:, None] * THUMBNAIL + cells[1][None, :])[image.footprint]
    total = THUMBNAIL * THUMBNAIL
    held = np.maximum(np.bincount(index, minlength=total), 1)
    pooled = [
        np.bincount(index, weights=plane[image.footprint], minlength=total) / held
        for plane in image.channels
    ]
    vector = np.concatenate(pooled)
    return vector / max(float(np.linalg.norm(vector)), 1e-12)


def kernel_sum(points: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Sum of Gaussian densities about points (N, 2) at the centres of cells (H, W), per pixel^2.

    A Gaussian is a product of its two axes, so the sum is a product of two matrices.
    """
    height, width = shape
    near = (points > -REACH * BANDWIDTH) & (points < np.array([width, height]) + REACH * BANDWIDTH)
    points = points[near.all(axis=1)]
    total = np.zeros((height, width))
    for start in range(0, len(points), POINTS_AT_ONCE):
        x, y = points[start : start + POINTS_AT_ONCE].T
        total += _bells(y, height).T @ _bells(x, width)
    return total


def _bells(position: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    away = (np.arange(length) + 0.5 - position[:, None]) / BANDWIDTH
    return np.exp(-0.5 * away**2) / (BANDWIDTH * np.sqrt(2 * np.pi))
