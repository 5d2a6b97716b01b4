"""How near a map is to a region's true intensity, and to what can be known of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from geocfm.data.split import TEST, Split
from geocfm.evaluation.capture import CaptureCurve
from geocfm.geo.grid import Grid

Map = NDArray[np.float64]


@dataclass(frozen=True)
class MosaicScore:
    """How near a map is to the truth, over the region and over its held-out tiles."""

    title: str
    seconds: float  # that the map took
    kl: float  # nats: of the truth from the map
    kl_held_out: float
    rank: float  # Spearman's correlation over all cells
    capture: float  # area under the curve that the true intensity gives
    capture_held_out: float


def score_map(
    title: str, seconds: float, density: Map, truth: Map, held_out: NDArray[np.bool_]
) -> MosaicScore:
    """density, truth: (H, W), of any scale; NaN is no data."""
    everywhere = np.isfinite(density) & np.isfinite(truth)
    there = everywhere & held_out
    return MosaicScore(
        title=title,
        seconds=seconds,
        kl=divergence(truth[everywhere], density[everywhere]),
        kl_held_out=divergence(truth[there], density[there]),
        rank=float(np.corrcoef(rankdata(truth[everywhere]), rankdata(density[everywhere]))[0, 1]),
        capture=captured_area(truth[everywhere], density[everywhere]),
        capture_held_out=captured_area(truth[there], density[there]),
    )


def divergence(truth: Map, density: Map) -> float:
    """Kullback-Leibler: sum of t log(t / d), both (N,) scaled to sum 1."""
    t, d = truth / truth.sum(), np.maximum(density / density.sum(), 1e-300)
    return float((t[t > 0] * np.log(t[t > 0] / d[t > 0])).sum())


def captured_area(truth: Map, density: Map) -> float:
    """Area under the capture curve of occurrences that follow the truth exactly."""
    curve = CaptureCurve()
    curve.add_cells(density / density.mean(), np.ones(len(density)))
    curve.add_occurrences(density / density.mean(), truth / truth.mean())
    return curve.under_curve()


def held_out_cells(grid: Grid, split: Split) -> NDArray[np.bool_]:
    """(H, W), whether a cell lies on a test tile."""
    rows, columns = (np.arange(n, dtype=np.float64) + 0.5 for n in (grid.height, grid.width))
    return split.role_of_cells(rows, columns) == TEST
