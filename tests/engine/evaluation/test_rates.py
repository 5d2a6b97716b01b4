"""Success and prediction rates with bands by tile, and the prediction-area plot."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.data.split import TEST, TRAIN, VALIDATION, Split
from geocfm.evaluation.capture import CaptureCurve
from geocfm.evaluation.comparison import tile_interval
from geocfm.evaluation.evaluate import Evaluation
from geocfm.evaluation.prediction_area import prediction_area
from geocfm.evaluation.rates import rate_curve, role_rates
from numpy.typing import NDArray

Values = NDArray[np.float64]


def curve_of(density: Values, km2: Values, at: Values) -> CaptureCurve:
    curve = CaptureCurve()
    curve.add_cells(density, km2)
    curve.add_occurrences(at)
    return curve


@pytest.fixture(scope="module")
def measured() -> tuple[CaptureCurve, Values, NDArray[np.int64]]:
    """A curve with ties and cells of unlike area, densities at 80 occurrences, their 7 tiles."""
    generator = np.random.default_rng(2)
    density = np.exp2(generator.integers(-30, 20, 3000) / 7)
    at = generator.choice(density, 80, p=density / density.sum())
    curve = curve_of(density, generator.uniform(0.3, 2.0, 3000), at)
    return curve, at, generator.integers(0, 7, 80)


def test_the_curve_is_the_capture_curve(
    measured: tuple[CaptureCurve, Values, NDArray[np.int64]],
) -> None:
    curve, at, tile = measured
    found = rate_curve(curve, at, tile)
    assert found is not None
    expected = [curve.captured(share) for share in found.area_share]
    assert found.captured == pytest.approx(expected, abs=1e-9)
    assert found.under_curve.value == pytest.approx(curve.under_curve(), abs=1e-9)
    assert [one.area_share for one in found.at] == [0.01, 0.05, 0.1, 0.2]
    for one in found.at:
        assert one.captured.value == pytest.approx(curve.captured(one.area_share), abs=1e-9)
    assert curve.captured(found.area_of_half) == pytest.approx(0.5)
    assert curve.captured(0.99 * found.area_of_half) < 0.5
    assert (found.occurrences, found.tiles) == (80, 7)
    assert found.area_km2 == pytest.approx(curve.area.sum())


def test_bands_are_those_of_whole_tiles_drawn_anew(
    measured: tuple[CaptureCurve, Values, NDArray[np.int64]],
) -> None:
    curve, at, tile = measured
    found = rate_curve(curve, at, tile)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    generator = np.random.default_rng(9)
    drawn = []
    for _ in range(3000):
        chosen = generator.integers(0, 7, 7)
        some = np.concatenate([at[tile == one] for one in chosen])
        again = CaptureCurve(curve.area.copy())
        again.add_occurrences(some)
        drawn.append([again.captured(0.05), again.captured(0.3), again.under_curve()])
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    number = found.area_share.index(0.3)
    assert found.at[1].captured.low == pytest.approx(low[0], abs=0.015)
    assert found.at[1].captured.high == pytest.approx(high[0], abs=0.015)
    assert (found.low[number], found.high[number]) == pytest.approx((low[1], high[1]), abs=0.015)
    assert found.under_curve.low == pytest.approx(low[2], abs=0.01)
    assert found.under_curve.high == pytest.approx(high[2], abs=0.01)
    # and the interval of one number is the same as it ever was
    alone = tile_interval(curve.credit(at, 0.05), tile)
    estimate = found.at[1].captured
    assert alone == (pytest.approx(estimate.low), pytest.approx(estimate.high), 7)


def test_one_tile_has_no_band(measured: tuple[CaptureCurve, Values, NDArray[np.int64]]) -> None:
    curve, at, _ = measured
    found = rate_curve(curve, at, np.full(80, 3))
    assert found is not None
    assert (found.low, found.high, found.tiles) == (None, None, 1)
    assert (found.under_curve.low, found.at[0].captured.high) == (None, None)


def test_each_role_has_its_own_tiles_and_no_data_does_not_count() -> None:
    split = Split(np.array([0, 10]), np.array([0, 10, 20, 30]), np.array([[2, 0, 2]], np.int8))
    points = np.array([[1.0, 1.0], [5.0, 5.0], [25.0, 5.0], [15.0, 5.0], [12.0, 2.0]])
    at = np.array([100.0, np.nan, 40.0, 70.0, 100.0])
    cells, km2 = np.arange(1.0, 101.0), np.ones(100)
    test, train = curve_of(cells, km2, at[[0, 2]]), curve_of(cells, km2, at[[3, 4]])
    evaluation = Evaluation(test, CaptureCurve(), train, 1, at)
    held_out = role_rates(evaluation, points, split, TEST)
    assert held_out is not None
    assert (held_out.occurrences, held_out.tiles) == (2, 2)
    assert held_out.at[2].captured.value == pytest.approx(0.5)
    trained = role_rates(evaluation, points, split, TRAIN)
    assert trained is not None
    assert (trained.occurrences, trained.tiles, trained.low) == (2, 1, None)
    assert role_rates(evaluation, points, split, VALIDATION) is None


def test_prediction_and_area_cross_where_sorting_says() -> None:
    generator = np.random.default_rng(3)
    density = np.sort(np.exp(generator.normal(size=500)))[::-1].copy()
    km2 = generator.uniform(0.5, 2.0, 500)
    at = generator.choice(density, 70, p=density**2 / (density**2).sum())
    found = prediction_area(curve_of(density, km2, at))
    assert found is not None
    area = np.cumsum(km2) / km2.sum()
    captured = np.array([(at >= level).mean() for level in density])
    crossing = int(np.searchsorted(area + captured, 1.0))
    assert found.crossing == pytest.approx(density[crossing], rel=2e-3)
    assert found.prediction_rate == pytest.approx(captured[crossing], abs=0.03)
    assert found.prediction_rate + found.occupied_area == pytest.approx(1)
    assert found.normalised_density == pytest.approx(found.prediction_rate / found.occupied_area)
    assert found.normalised_density > 1
    threshold, inside, outside = map(np.array, (found.threshold, found.captured, found.outside))
    assert (np.diff(threshold) > 0).all()
    for level, one, other in zip(threshold[::10], inside[::10], outside[::10], strict=True):
        at_or_above = density >= level * 0.999
        assert one == pytest.approx((at >= level * 0.999).mean(), abs=1e-9)
        assert other == pytest.approx(km2[~at_or_above].sum() / km2.sum(), abs=1e-9)


def test_an_even_map_crosses_in_the_middle() -> None:
    found = prediction_area(curve_of(np.ones(10), np.ones(10), np.ones(4)))
    assert found is not None
    assert found.prediction_rate == pytest.approx(0.5)
    assert found.normalised_density == pytest.approx(1)
    assert prediction_area(curve_of(np.ones(10), np.ones(10), np.zeros(0))) is None
