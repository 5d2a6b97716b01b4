"""Whether a map's density means what it says: each region holds as many occurrences as it claims.

The region of highest density that holds a share of the map's mass should hold that share of the
occurrences: its nominal share. All of it is told from a capture curve's histograms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from geocfm.evaluation.capture import CaptureCurve, bin_logs
from geocfm.evaluation.comparison import tile_band

LEAST, MOST = 0.05, 10.0  # temperatures that are looked through: all that a map can be made with
LEVELS = np.linspace(0.0, 1.0, 101)  # nominal shares of the reported curve
# E of the mean |Brownian bridge|: what so many independent occurrences give a perfect map, times
# the root of their number
BY_LUCK = float(np.sqrt(np.pi / 32))


@dataclass(frozen=True)
class CalibrationCurve:
    """Shares of the occurrences in the regions that should hold the nominal shares."""

    nominal: tuple[float, ...]
    observed: tuple[float, ...]
    distance: float  # mean absolute distance from the diagonal, exact
    excess: float  # mean of observed less nominal; below 0 the map is too sharp
    by_luck: float  # the distance to expect of a perfect map and independent occurrences
    occurrences: int
    temperature: float  # the map's density is taken to this power


@dataclass(frozen=True)
class Calibration:
    """How the held-out tiles are calibrated, and what a temperature makes of it.

    The temperature is fitted on the validation tiles; without occurrences there, there is none.
    """

    before: CalibrationCurve
    low: tuple[float, ...] | None  # 95 % band of the observed shares by tiles; None with one tile
    high: tuple[float, ...] | None
    after: CalibrationCurve | None
    gain: float | None  # in log likelihood by the temperature, nats per held-out occurrence
    fitted_on: int  # occurrences on validation tiles


def calibrate(
    test: CaptureCurve,
    validation: CaptureCurve,
    densities: NDArray[np.float64],
    tile: NDArray[np.int64],
) -> Calibration | None:
    """The calibration of the held-out tiles; None without any occurrence there.

    densities: (N,), at the held-out occurrences; tile: (N,), a number for the tile of each.
    """
    before = calibration_curve(test)
    if before is None:
        return None
    mass = mass_curve(test)
    credits = np.stack([mass.credit(densities, share) for share in LEVELS], axis=1)
    credits[:, -1] = 1.0  # all of the mass holds all occurrences, even those where there is none
    band = tile_band(credits, tile)
    temperature = fit_temperature(validation)
    after = None if temperature is None else calibration_curve(test, temperature)
    return Calibration(
        before=before,
        low=None if band is None else tuple(band.low.tolist()),
        high=None if band is None else tuple(band.high.tolist()),
        after=after,
        gain=log_likelihood(test, after.temperature) - log_likelihood(test) if after else None,
        fitted_on=validation.count,
    )


def mass_curve(curve: CaptureCurve, temperature: float = 1.0) -> CaptureCurve:
    """The curve with shares of the map's mass where it has area, by density ** temperature.

    So the share that it captures is the observed share, and that of its "area" the nominal one.
    """
    mass = np.exp(_log_mass(curve, temperature))
    return CaptureCurve(mass, curve.occurrences)


def calibration_curve(curve: CaptureCurve, temperature: float = 1.0) -> CalibrationCurve | None:
    """Observed against nominal shares; cells of equal density share credit. None without any."""
    if not curve.count or not curve.area.sum():
        return None
    nominal, observed = mass_curve(curve, temperature).points()
    distance, excess = _from_diagonal(nominal, observed)
    return CalibrationCurve(
        nominal=tuple(LEVELS.tolist()),
        observed=tuple(np.interp(LEVELS, nominal, observed).tolist()),
        distance=distance,
        excess=excess,
        by_luck=BY_LUCK / float(np.sqrt(curve.count)),
        occurrences=curve.count,
        temperature=temperature,
    )


def log_likelihood(curve: CaptureCurve, temperature: float = 1.0) -> float:
    """Mean log of density ** temperature at the occurrences, relative to its mean by area, nats.

    A density of zero counts as that of the lowest bin.
    """
    at = (curve.occurrences * bin_logs()).sum() / curve.count
    return float(temperature * at - _log_mean(curve, temperature))


def fit_temperature(curve: CaptureCurve) -> float | None:
    """The temperature between LEAST and MOST under which the occurrences are likeliest.

    None without occurrences, or where the density is the same everywhere. The likelihood is
    concave, and its slope is how far the occurrences' mean log density lies above the map's own.
    """
    logs = bin_logs()
    if not curve.count or np.count_nonzero(curve.area) < 2:
        return None
    at = float((curve.occurrences * logs).sum() / curve.count)

    def slope(temperature: float) -> float:
        return at - float((np.exp(_log_mass(curve, temperature)) * logs).sum())

    if slope(LEAST) <= 0:
        return LEAST
    if slope(MOST) >= 0:
        return MOST
    return float(brentq(slope, LEAST, MOST, xtol=1e-6))


def _log_mass(curve: CaptureCurve, temperature: float) -> NDArray[np.float64]:
    """Logarithm of each bin's share of the mass; -inf where it has no area."""
    with np.errstate(divide="ignore"):
        logs = temperature * bin_logs() + np.log(curve.area)
    highest = logs.max()
    return logs - highest - np.log(np.exp(logs - highest).sum())


def _log_mean(curve: CaptureCurve, temperature: float) -> float:
    used = curve.area > 0
    logs = temperature * bin_logs()[used]
    highest = logs.max()
    mean = (np.exp(logs - highest) * curve.area[used]).sum() / curve.area.sum()
    return float(highest + np.log(mean))


def _from_diagonal(
    nominal: NDArray[np.float64], observed: NDArray[np.float64]
) -> tuple[float, float]:
    """Integrals of |observed - nominal| and of observed - nominal over the nominal shares."""
    gap, width = observed - nominal, np.diff(nominal)
    first, last = gap[:-1], gap[1:]
    either = np.abs(first) + np.abs(last)
    crossing = (first**2 + last**2) / np.maximum(either, 1e-300)  # two triangles
    absolute = np.where(first * last < 0, crossing, either) / 2
    return float((absolute * width).sum()), float(((first + last) / 2 * width).sum())
