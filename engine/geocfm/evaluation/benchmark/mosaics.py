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

SQUARE = 64  # cells along the side of what a spectrum is told of
BARREN, MOSTLY = 0.3, 0.95  # of the mean density; so much of a square is below it


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
    lattice: float  # see lattice_peak
    shifted: float  # nats: mean difference from the map of a grid that begins one cell further


def score_map(
    title: str,
    seconds: float,
    density: Map,
    truth: Map,
    held_out: NDArray[np.bool_],
    shifted: Map | None = None,
    period: int = 4,
) -> MosaicScore:
    """density, truth: (H, W), of any scale; NaN is no data.

    shifted: the map (H - 1, W - 1) of a grid that begins one cell further.
    period: cells along the side of a cell of the network.
    """
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
        lattice=lattice_peak(density, period),
        shifted=np.nan if shifted is None else mean_difference(density[1:, 1:], shifted),
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


def lattice_peak(density: Map, period: int) -> float:
    """How much the cells of a network show in a map (H, W) of its density, where that is low.

    The power of the log density at the period of the cells, over that at neighbouring
    frequencies, in squares of barren ground; 1 is none. NaN if there is no such square.
    """
    logs = np.log(np.maximum(density / np.nanmean(density), 1e-30))
    taper = np.outer(np.hanning(SQUARE), np.hanning(SQUARE))
    power, squares = np.zeros((SQUARE, SQUARE)), 0
    for row in range(0, logs.shape[0] - SQUARE + 1, SQUARE // 2):
        for col in range(0, logs.shape[1] - SQUARE + 1, SQUARE // 2):
            square = logs[row : row + SQUARE, col : col + SQUARE]
            if np.isfinite(square).all() and np.quantile(square, MOSTLY) < np.log(BARREN):
                power += np.abs(np.fft.fft2(taper * (square - square.mean()))) ** 2
                squares += 1
    if not squares:
        return float("nan")
    at, beside = SQUARE // period, np.array([-5, -4, -3, 3, 4, 5])
    along = power[at, 0] + power[0, at]
    around = (power[at + beside, 0] + power[0, at + beside]).mean()
    return float(along / around)


def mean_difference(first: Map, second: Map) -> float:
    """Of two maps of one place, (H, W): the mean difference of their log densities, without sign.

    Each is taken relative to its mean over the cells that both have.
    """
    both = np.isfinite(first) & np.isfinite(second)
    logs = [np.log(np.maximum(one[both] / one[both].mean(), 1e-30)) for one in (first, second)]
    return float(np.abs(logs[0] - logs[1]).mean())
