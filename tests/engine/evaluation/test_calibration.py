"""Calibration, recomputed cell by cell, and a temperature that is found again."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.errors import UserError
from geocfm.evaluation.calibration import (
    LEAST,
    MOST,
    calibrate,
    calibration_curve,
    fit_temperature,
    log_likelihood,
)
from geocfm.evaluation.capture import CaptureCurve
from geocfm.job import MapJob, make_job
from numpy.typing import NDArray

Values = NDArray[np.float64]


def curve_of(density: Values, km2: Values, at: Values) -> CaptureCurve:
    curve = CaptureCurve()
    curve.add_cells(density, km2)
    curve.add_occurrences(at)
    return curve


def observed_by_sorting(density: Values, km2: Values, at: Values, nominal: float) -> float:
    """Fill the region cell by cell, densest first, until it holds the nominal share of the mass.

    Cells of one density are entered all at once and evenly.
    """
    budget, found = nominal * (density * km2).sum(), 0.0
    for level in np.unique(density)[::-1]:
        mass = level * km2[density == level].sum()
        part = min(1.0, max(budget, 0.0) / mass)
        found += part * (at == level).sum()
        budget -= mass
    return found / len(at)


@pytest.fixture(scope="module")
def cells() -> tuple[Values, Values]:
    """Densities with ties, and areas of cells that differ."""
    generator = np.random.default_rng(4)
    density = np.exp2(generator.integers(-40, 24, 4000) / 8)
    return density, generator.uniform(0.2, 3.0, 4000)


@pytest.mark.parametrize("temperature", [1.0, 0.4, 2.5])
def test_shares_of_occurrences_are_those_of_sorted_cells(
    cells: tuple[Values, Values], temperature: float
) -> None:
    density, km2 = cells
    at = np.random.default_rng(5).choice(density, 60)
    found = calibration_curve(curve_of(density, km2, at), temperature)
    assert found is not None
    heated = density**temperature
    levels = np.linspace(0, 1, 2001)
    expected = np.array(
        [observed_by_sorting(heated, km2, at**temperature, level) for level in levels]
    )
    # a density is told to a thousandth of an octave
    np.testing.assert_allclose(
        np.interp(levels, found.nominal, found.observed)[::20], expected[::20], atol=2e-3
    )
    assert found.distance == pytest.approx(np.abs(expected - levels).mean(), abs=2e-3)
    assert found.excess == pytest.approx((expected - levels).mean(), abs=2e-3)
    assert found.occurrences == 60


def test_a_map_that_says_the_truth_is_calibrated_to_what_luck_leaves(
    cells: tuple[Values, Values],
) -> None:
    density, km2 = cells
    generator = np.random.default_rng(6)
    mass = density * km2
    distances = []
    for _ in range(100):
        at = density[generator.choice(len(density), 200, p=mass / mass.sum())]
        found = calibration_curve(curve_of(density, km2, at))
        assert found is not None
        distances.append(found.distance)
    # 63 densities tie, within which credit is shared: a little less than of points apart
    assert np.mean(distances) == pytest.approx(found.by_luck, rel=0.15)


@pytest.mark.parametrize("truth", [0.35, 1.0, 2.2])
def test_the_temperature_that_occurrences_were_drawn_with_is_found(
    cells: tuple[Values, Values], truth: float
) -> None:
    density, km2 = cells
    mass = density**truth * km2
    generator = np.random.default_rng(7)
    at = density[generator.choice(len(density), (2, 20_000), p=mass / mass.sum())]
    validation, test = (curve_of(density, km2, some) for some in at)
    fitted = fit_temperature(validation)
    assert fitted == pytest.approx(truth, rel=0.04)
    # the likeliest, by trying
    tried = np.linspace(0.1, 4, 391)
    best = tried[np.argmax([log_likelihood(validation, one) for one in tried])]
    assert fitted == pytest.approx(best, abs=0.011)
    found = calibrate(test, validation, at[1], np.zeros(20_000, dtype=np.int64))
    assert found is not None
    assert found.after is not None
    assert found.after.temperature == fitted
    assert found.after.distance < 3 * found.after.by_luck
    if truth != 1:
        assert found.before.distance > 5 * found.after.distance
        assert found.gain is not None
        assert found.gain > 0.01
    # drawn from a flatter density than the map's: the map is too sharp
    assert (found.before.excess < -0.02) == (truth < 1)
    assert found.low is None  # one tile


def test_log_likelihood_is_that_of_each_occurrence(cells: tuple[Values, Values]) -> None:
    density, km2 = cells
    at = np.random.default_rng(8).choice(density, 50)
    even = density**0.7 / ((density**0.7 * km2).sum() / km2.sum())
    expected = np.mean([np.log(even[density == level][0]) for level in at])
    assert log_likelihood(curve_of(density, km2, at), 0.7) == pytest.approx(expected, abs=1e-3)


def test_the_band_is_by_tiles() -> None:
    density, km2 = np.arange(1.0, 101.0), np.ones(100)
    at = np.repeat([100.0, 60.0, 20.0, 5.0], 10)
    tile = np.repeat(np.arange(4), 10)
    curve = curve_of(density, km2, at)
    found = calibrate(curve, CaptureCurve(), at, tile)
    assert found is not None
    assert (found.after, found.gain, found.fitted_on) == (None, None, 0)
    assert found.low is not None
    assert found.high is not None
    observed = np.array(found.before.observed)
    assert (np.array(found.low) <= observed + 1e-12).all()
    assert (np.array(found.high) >= observed - 1e-12).all()
    # cells of at least 60 hold 65 % of the mass, and half of the tiles: among four tiles drawn
    # anew all or none of these are met with 1 in 16, more often than 1 in 40
    assert (found.low[70], observed[70], found.high[70]) == pytest.approx((0.0, 0.5, 1.0))
    assert (found.low[0], found.high[-1]) == (0.0, 1.0)


def test_extremes_end_at_the_limits_instead_of_running_away() -> None:
    density, km2 = np.arange(1.0, 101.0), np.ones(100)
    assert fit_temperature(curve_of(density, km2, np.full(5, 100.0))) == MOST
    assert fit_temperature(curve_of(density, km2, np.full(5, 1.0))) == LEAST
    hot = calibration_curve(curve_of(density, km2, np.full(5, 1.0)), MOST)
    assert hot is not None
    assert hot.distance == pytest.approx(0.5, abs=0.02)  # none where all of the mass is


def test_nothing_to_tell_is_none() -> None:
    density, km2 = np.arange(1.0, 101.0), np.ones(100)
    nothing = curve_of(density, km2, np.zeros(0))
    assert calibration_curve(nothing) is None
    assert fit_temperature(nothing) is None
    assert fit_temperature(curve_of(np.ones(9), np.ones(9), np.ones(3))) is None
    assert calibrate(nothing, nothing, np.zeros(0), np.zeros(0, dtype=np.int64)) is None
    flat = calibration_curve(curve_of(np.ones(9), np.ones(9), np.ones(3)))
    assert flat is not None
    assert flat.distance == pytest.approx(0, abs=1e-12)  # all cells tie


def test_every_temperature_that_is_found_can_be_given_to_a_map() -> None:
    given = {"checkpoint": "m.safetensors", "raster": ["a.tif"], "out": "map.tif"}
    for found in (LEAST, MOST):
        assert (
            make_job(MapJob, {**given, "temperature": found}).model_dump()["temperature"] == found
        )
    with pytest.raises(UserError):
        make_job(MapJob, {**given, "temperature": MOST + 0.01})
