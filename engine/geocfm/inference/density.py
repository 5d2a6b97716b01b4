"""The density of one window on its cells: from draws, or exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom

from geocfm.inference.predictor import EncodedWindows, Predictor

SMALLEST_BANDWIDTH = 1.0  # cells
EXACT_STRIDE = 2  # the exact density is computed on every second cell and interpolated

WindowDensity = Callable[[Predictor, EncodedWindows, int], list[NDArray[np.float64]]]
"""(predictor, windows, seed) -> relative density (P, P) per window: mean 1 over its data cells."""


def smoothed_counts(points: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """A Gaussian KDE on the cells: points (N, 2) in [0, 1]^2, bandwidth by Scott's rule."""
    cells = np.clip((points * size).astype(np.int64), 0, size - 1)
    counts = np.zeros((size, size))
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1.0)
    spread = size * np.sqrt(points.var(axis=0).mean())
    bandwidth = max(spread * len(points) ** (-1 / 6), SMALLEST_BANDWIDTH)
    smooth: NDArray[np.float64] = gaussian_filter(counts, bandwidth, mode="reflect")
    return smooth


def relative(density: NDArray[np.float64], footprint: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Scaled to mean 1 over the cells with data, 0 elsewhere."""
    masked = np.where(footprint, density, 0.0)
    mass = masked.sum()
    if mass <= 0:
        return footprint.astype(np.float64)
    return masked * (footprint.sum() / mass)


def density_from_draws(
    predictor: Predictor, encoded: EncodedWindows, seed: int
) -> list[NDArray[np.float64]]:
    """KDE of ``sampling.points`` draws in each window."""
    counts = [predictor.sampling.points] * len(encoded.windows)
    draws = predictor.draw(encoded, counts, seed)
    return [
        relative(smoothed_counts(draw.points, predictor.window_size), footprint)
        for draw, footprint in zip(draws, encoded.footprints, strict=True)
    ]


def density_exactly(
    predictor: Predictor, encoded: EncodedWindows, seed: int
) -> list[NDArray[np.float64]]:
    """The flow's own density, integrated backwards from every second cell; no noise, no seed."""
    size = predictor.window_size
    centres = (np.arange(0, size, EXACT_STRIDE) + EXACT_STRIDE / 2) / size
    x, y = np.meshgrid(centres, centres)
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    many = len(encoded.windows)
    logs = predictor.log_density(
        encoded, np.tile(points, (many, 1)), np.repeat(np.arange(many), len(points))
    )
    densities = []
    for coarse, footprint in zip(
        logs.reshape(many, len(centres), -1), encoded.footprints, strict=True
    ):
        fine = zoom(coarse, EXACT_STRIDE, order=1, mode="nearest", grid_mode=True)
        fine = fine[:size, :size]
        densities.append(relative(np.exp(fine - fine.max()), footprint))
    return densities


DENSITIES: dict[str, WindowDensity] = {"kde": density_from_draws, "exact": density_exactly}
