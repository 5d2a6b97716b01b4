"""The density of windows on their cells, from draws: what a model without a density head has.

It is relative: mean 1 over a window's data, 0 elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from geocfm.inference.predictor import EncodedWindows, Predictor

DRAWS_PER_WINDOW = 512  # a power of two: that many points of a Sobol net are even
SMALLEST_BANDWIDTH = 1.0  # cells
SCOTT_SHARE = 0.5  # of Scott's rule, which is for one hill: belts are narrower than their spread

WindowDensities = list[NDArray[np.float64]]


def smoothed_counts(points: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """A Gaussian KDE on the cells: points (N, 2) in [0, 1]^2, bandwidth half of Scott's."""
    cells = np.clip((points * size).astype(np.int64), 0, size - 1)
    counts = np.zeros((size, size))
    np.add.at(counts, (cells[:, 1], cells[:, 0]), 1.0)
    spread = size * np.sqrt(points.var(axis=0).mean())
    bandwidth = max(SCOTT_SHARE * spread * len(points) ** (-1 / 6), SMALLEST_BANDWIDTH)
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
    predictor: Predictor, encoded: EncodedWindows, seed: int, stream: int = 0
) -> WindowDensities:
    """A smoothed count of even draws in each window; zero in a window without data."""
    counts = [DRAWS_PER_WINDOW if footprint.any() else 0 for footprint in encoded.footprints]
    draws = predictor.draw_evenly(encoded, counts, seed, stream)
    return [
        relative(smoothed_counts(draw.points, predictor.window_size), footprint)
        if count
        else np.zeros(footprint.shape)
        for draw, footprint, count in zip(draws, encoded.footprints, counts, strict=True)
    ]
