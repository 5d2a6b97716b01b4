"""Success rates (training tiles) and prediction rates (held-out tiles), with bands by tile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.split import Split
from geocfm.evaluation.capture import REPORTED_SHARES, CaptureCurve
from geocfm.evaluation.comparison import FEW_TILES, tile_band
from geocfm.evaluation.evaluate import Evaluation

# shares of the area at which a curve is told: closer where it is steep
LEVELS = np.unique(np.concatenate([np.linspace(0, 0.1, 41), np.linspace(0.1, 1, 91)]).round(6))


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % interval by tiles; no interval where all occurrences lie on one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class CapturedAt:
    """The share of the occurrences in the best share of the area."""

    area_share: float
    captured: Estimate


@dataclass(frozen=True)
class RateCurve:
    """A capture curve, and how far it moves when other tiles are drawn."""

    occurrences: int
    tiles: int  # with occurrences
    area_km2: float
    area_share: tuple[float, ...]
    captured: tuple[float, ...]
    low: tuple[float, ...] | None  # of the 95 % band; None where all occurrences lie on one tile
    high: tuple[float, ...] | None
    at: tuple[CapturedAt, ...]
    under_curve: Estimate
    area_of_half: float  # the best share of the area that holds half of the occurrences

    @property
    def enough_tiles(self) -> bool:
        """Whether its intervals are worth showing."""
        return self.tiles >= FEW_TILES


def role_rates(
    evaluation: Evaluation, points: NDArray[np.float64], split: Split, role: int
) -> RateCurve | None:
    """The rates on the tiles of a role; None without any occurrence there.

    points: (N, 2), those that the evaluation is of, in cells that the split's tiles count.
    """
    curve = (evaluation.train, evaluation.validation, evaluation.test)[role]
    return rate_curve(curve, *densities_by_tile(evaluation, points, split, role))


def densities_by_tile(
    evaluation: Evaluation, points: NDArray[np.float64], split: Split, role: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Densities (M,) at the occurrences on data of a role's tiles, and the tile (M,) of each."""
    chosen = np.isfinite(evaluation.densities) & (split.role_of_points(points) == role)
    return evaluation.densities[chosen], split.tile_of_points(points[chosen])


def rate_curve(
    curve: CaptureCurve, densities: NDArray[np.float64], tile: NDArray[np.int64]
) -> RateCurve | None:
    """The curve with its band; None without occurrences.

    densities: (N,), at the occurrences that the curve is of; tile: (N,), a number for the tile of
    each. Tiles are drawn with replacement; the area is that of all tiles, whichever are drawn.
    """
    if not len(densities):
        return None
    shares = np.concatenate([LEVELS, REPORTED_SHARES])
    credits = np.stack([curve.credit(densities, share) for share in shares], axis=1)
    credits[:, shares >= 1] = 1.0  # where rounding may leave the last cells out
    # the area under the curve is the mean over occurrences of the share of the area they outrank
    values = np.concatenate([credits, curve.outranked(densities)[:, None]], axis=1)
    means, band = values.mean(axis=0), tile_band(values, tile)

    def estimate(number: int) -> Estimate:
        if band is None:
            return Estimate(float(means[number]), None, None)
        return Estimate(float(means[number]), float(band.low[number]), float(band.high[number]))

    told = len(LEVELS)
    return RateCurve(
        occurrences=len(densities),
        tiles=len(np.unique(tile)),
        area_km2=float(curve.area.sum()),
        area_share=tuple(LEVELS.tolist()),
        captured=tuple(means[:told].tolist()),
        low=None if band is None else tuple(band.low[:told].tolist()),
        high=None if band is None else tuple(band.high[:told].tolist()),
        at=tuple(
            CapturedAt(share, estimate(told + number))
            for number, share in enumerate(REPORTED_SHARES)
        ),
        under_curve=estimate(-1),
        area_of_half=_area_of(curve, 0.5),
    )


def _area_of(curve: CaptureCurve, captured_share: float) -> float:
    """The least share of the area, best cells first, that holds the share of the occurrences."""
    area, captured = curve.points()
    after = int(np.searchsorted(captured, captured_share))
    ends = slice(after - 1, after + 1)
    return float(np.interp(captured_share, captured[ends], area[ends]))
