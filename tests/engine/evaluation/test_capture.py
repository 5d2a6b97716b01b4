from __future__ import annotations

import numpy as np
import pytest
from geocfm.evaluation.capture import CaptureCurve
from numpy.typing import NDArray


def curve_of(
    density: NDArray[np.float64], km2: NDArray[np.float64], at: NDArray[np.float64]
) -> CaptureCurve:
    curve = CaptureCurve()
    curve.add_cells(density, km2)
    curve.add_occurrences(at)
    return curve


def captured_by_sorting(
    density: NDArray[np.float64],
    km2: NDArray[np.float64],
    held: NDArray[np.int64],
    area_share: float,
) -> float:
    """Walk through the cells, best first; cells of one density are entered all at once, evenly."""
    budget, captured = area_share * km2.sum(), 0.0
    for level in sorted(set(density.tolist()), reverse=True):
        same = density == level
        part = min(1.0, budget / km2[same].sum())
        captured += part * held[same].sum()
        budget -= part * km2[same].sum()
        if budget <= 0:
            break
    return captured / held.sum()


@pytest.mark.parametrize("levels", [3, 12, 400])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.37, 0.9, 1.0])
def test_against_sorting_all_cells(levels: int, share: float) -> None:
    generator = np.random.default_rng(levels)
    density = np.exp(generator.normal(size=levels))[generator.integers(0, levels, 900)]
    km2 = generator.uniform(0.2, 3, 900)
    held = generator.poisson(0.1 * density)
    curve = curve_of(density, km2, density.repeat(held))
    assert curve.count == held.sum()
    exact = captured_by_sorting(density, km2, held, share)
    # of many levels some differ by less than a bin, a thousandth of an octave, and count as ties
    assert curve.captured(share) == pytest.approx(exact, abs=1e-9 if levels < 100 else 0.01)


def test_area_under_the_curve_is_the_chance_that_an_occurrence_outranks_a_place() -> None:
    generator = np.random.default_rng(5)
    density = np.exp(generator.normal(size=30))[generator.integers(0, 30, 500)]
    km2 = generator.uniform(0.2, 3, 500)
    at = generator.choice(density, 40, p=density / density.sum())
    better = (at[:, None] > density) + 0.5 * (at[:, None] == density)
    expected = (better * km2).sum() / km2.sum() / len(at)
    assert curve_of(density, km2, at).under_curve() == pytest.approx(expected, abs=1e-9)


def test_a_uniform_density_gives_the_diagonal() -> None:
    curve = curve_of(np.ones(1000), np.ones(1000), np.ones(17))
    for share in (0.1, 0.25, 0.9):
        assert curve.captured(share) == pytest.approx(share)
    assert curve.under_curve() == pytest.approx(0.5)


def test_best_and_worst_possible_maps() -> None:
    density = np.array([8.0, *[1.0] * 99])
    assert curve_of(density, np.ones(100), np.array([8.0])).captured(0.01) == 1
    worst = curve_of(density[::-1] * [*[1.0] * 99, 1.0], np.ones(100), np.array([1.0]))
    assert worst.captured(0.01) == pytest.approx(0)


def test_cells_count_by_their_area() -> None:
    curve = curve_of(np.array([4.0, 1.0]), np.array([9.0, 1.0]), np.array([4.0, 1.0]))
    assert curve.captured(0.9) == pytest.approx(0.5)
    assert curve.captured(0.45) == pytest.approx(0.25)


def test_blocks_add_up_to_the_whole() -> None:
    generator = np.random.default_rng(6)
    density, km2 = np.exp(generator.normal(size=200)), generator.uniform(1, 2, 200)
    whole = curve_of(density, km2, density[:20])
    parts = CaptureCurve()
    for piece in np.split(np.arange(200), 8):
        parts.add_cells(density[piece], km2[piece])
    parts.add_occurrences(density[10:20])
    parts.add_occurrences(density[:10])
    assert parts.captured(0.1) == pytest.approx(whole.captured(0.1))
    assert parts.under_curve() == pytest.approx(whole.under_curve())


def test_densities_beyond_the_bins_still_rank() -> None:
    density = np.array([0.0, 1e-30, 1e-5, 1.0, 1e12])
    curve = curve_of(density, np.ones(5), np.array([1e12]))
    assert curve.captured(0.2) == 1
    assert curve_of(density, np.ones(5), np.array([0.0])).captured(0.6) == 0


def test_no_occurrences_is_no_figure() -> None:
    empty = curve_of(np.ones(4), np.full(4, 2.5), np.zeros(0))
    assert empty.to_dict() == {"occurrences": 0, "area_km2": 10.0}


def test_the_reported_curve_runs_from_nothing_to_all() -> None:
    generator = np.random.default_rng(8)
    density = np.exp(generator.normal(size=5000))
    told = curve_of(density, np.ones(5000), density[:50]).to_dict()
    curve = told["curve"]
    assert isinstance(curve, dict)
    area, captured = curve["area_share"], curve["captured_share"]
    assert (area[0], captured[0], area[-1], captured[-1]) == (0, 0, 1, 1)
    assert len(area) == len(captured) <= 201
    assert area == sorted(area)
    assert captured == sorted(captured)
