"""The prediction-area plot (Yousefi & Carranza 2015, Computers & Geosciences 79, 69-81).

Over the density as a threshold, the share of the occurrences above it falls and the share of the
area below it rises. Where the two curves cross, a map is summed up in one number: the share of the
occurrences there over the share of the area.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from geocfm.evaluation.capture import CaptureCurve, bin_logs

MOST_POINTS = 200  # of the reported curves


@dataclass(frozen=True)
class PredictionArea:
    """Both curves over rising thresholds of relative density, and where they cross."""

    threshold: tuple[float, ...]
    captured: tuple[float, ...]  # share of the occurrences at or above the threshold
    outside: tuple[float, ...]  # share of the area below it
    crossing: float  # relative density
    prediction_rate: float  # share of the occurrences at or above the crossing
    occupied_area: float  # share of the area there: 1 - prediction_rate
    normalised_density: float  # Nd = prediction rate / occupied area; chance gives 1
    occurrences: int


def prediction_area(curve: CaptureCurve) -> PredictionArea | None:
    """The plot of a map on the tiles of one role; None without occurrences."""
    if not curve.count:
        return None
    used = np.nonzero((curve.area > 0) | (curve.occurrences > 0))[0][::-1]
    densities = np.exp(bin_logs()[used])  # best first, as the points after the first
    area, captured = curve.points()
    both = area + captured  # from 0 to 2; 1 where the curves cross
    after = int(np.searchsorted(both, 1.0))
    part = (1.0 - both[after - 1]) / (both[after] - both[after - 1])  # of cells that tie
    occupied = float(area[after - 1] + part * (area[after] - area[after - 1]))
    rate = float(captured[after - 1] + part * (captured[after] - captured[after - 1]))
    # spread evenly along both curves, so that neither steep part is lost
    chosen = np.searchsorted(both[1:], np.linspace(0, 2, MOST_POINTS)).clip(0, len(used) - 1)
    chosen = np.unique(chosen)[::-1]
    return PredictionArea(
        threshold=tuple(densities[chosen].tolist()),
        captured=tuple(captured[1:][chosen].tolist()),
        outside=tuple((1.0 - area[1:][chosen]).clip(0.0).tolist()),
        crossing=float(densities[after - 1]),
        prediction_rate=rate,
        occupied_area=occupied,
        normalised_density=rate / max(occupied, 1e-300),
        occurrences=curve.count,
    )
