"""The density of windows on their cells: from draws, exactly by the flow, or by the density head.

Three estimators of one thing, each relative: mean 1 over a window's data, 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from geocfm.errors import UserError
from geocfm.inference.predictor import EncodedWindows, Predictor
from geocfm.model.settings import NetworkSettings

DRAWS_PER_WINDOW = 512  # a power of two: that many points of a Sobol net are even
SMALLEST_BANDWIDTH = 1.0  # cells
SCOTT_SHARE = 0.5  # of Scott's rule, which is for one hill: belts are narrower than their spread

WindowDensities = list[NDArray[np.float64]]


def choose_density(asked: str, network: NetworkSettings) -> str:
    """How densities are found: as asked, or by the head where the model has one."""
    if asked == "auto":
        return "head" if network.density else "kde"
    if asked == "head" and not network.density:
        raise UserError(
            "This model has no density head.",
            "Use --density kde or exact, or train again with the preset quick or full.",
        )
    return asked


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


def exact_density(
    predictor: Predictor, encoded: EncodedWindows, seed: int = 0, stream: int = 0
) -> WindowDensities:
    """The flow's own density at the cells' centres, by integrating it backwards: no chance."""
    return [
        relative(_exact_window(predictor, encoded, number), footprint)
        if footprint.any()
        else np.zeros(footprint.shape)
        for number, footprint in enumerate(encoded.footprints)
    ]


def _exact_window(
    predictor: Predictor, encoded: EncodedWindows, number: int
) -> NDArray[np.float64]:
    logs = predictor.sampler.log_density_map(encoded, number)
    return np.exp(logs - logs.max())


def head_density(
    predictor: Predictor, encoded: EncodedWindows, seed: int = 0, stream: int = 0
) -> WindowDensities:
    """What the density head says in its one pass: no chance either."""
    logs = encoded.maps.log_density
    assert logs is not None  # choose_density has seen to it
    densities = logs.double().exp().cpu().numpy()
    return [relative(*pair) for pair in zip(densities, encoded.footprints, strict=True)]


DENSITIES: dict[str, Callable[[Predictor, EncodedWindows, int, int], WindowDensities]] = {
    "kde": density_from_draws,
    "exact": exact_density,
    "head": head_density,
}
"""(predictor, encoded windows, seed, stream) -> a density (P, P) for each of the windows."""
