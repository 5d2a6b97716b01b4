"""The density of windows from draws, held against the exact one and against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.geo.grid import Window
from geocfm.inference.density import density_from_draws, relative, smoothed_counts
from geocfm.inference.flow_sampler import even_normal
from geocfm.inference.predictor import EncodedWindows, Predictor
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import ndtr
from small_data import HOLE

ALL = Window(60, 15, 32, 32)
BESIDE_THE_HOLE = Window(HOLE.row - 10, HOLE.col - 10, 32, 32)


@pytest.fixture(scope="module")
def encoded(predictor: Predictor) -> EncodedWindows:
    return predictor.encode([ALL, BESIDE_THE_HOLE])


@pytest.fixture(scope="module")
def exact(predictor: Predictor, encoded: EncodedWindows) -> list[NDArray[np.float64]]:
    """The flow's own density at the centres of cells, as the densities by draws are scaled."""
    return [
        relative(np.exp(predictor.sampler.log_density_map(encoded, number)), footprint)
        for number, footprint in enumerate(encoded.footprints)
    ]


@pytest.mark.parametrize("model", ["predictor", "windowed"])
def test_a_density_has_mean_1_on_data_and_is_0_elsewhere(
    model: str, request: pytest.FixtureRequest
) -> None:
    predictor: Predictor = request.getfixturevalue(model)
    encoded = predictor.encode([ALL, BESIDE_THE_HOLE])
    assert not encoded.footprints[1].all()
    found = density_from_draws(predictor, encoded, 1)
    for values, footprint in zip(found, encoded.footprints, strict=True):
        assert values[footprint].mean() == pytest.approx(1)
        assert (values[footprint] >= 0).all()
        assert (values[~footprint] == 0).all()


def test_a_window_without_data_has_no_density(windowed: Predictor) -> None:
    nothing = windowed.encode([ALL, Window(500, 500, 32, 32)])
    found = density_from_draws(windowed, nothing, 1)
    assert found[0].any()
    assert not found[1].any()


def test_another_stream_or_seed_is_another_chance(windowed: Predictor) -> None:
    encoded = windowed.encode([ALL])
    first, same = (density_from_draws(windowed, encoded, 1)[0] for _ in range(2))
    assert np.array_equal(first, same)
    for seed, stream in ((2, 0), (1, 1)):
        assert not np.array_equal(density_from_draws(windowed, encoded, seed, stream)[0], first)


def test_counts_are_smoothed_by_half_of_scotts_rule_or_by_a_cell() -> None:
    generator = np.random.default_rng(3)
    for spread, count in ((0.2, 64), (0.01, 5000)):
        points = np.clip(generator.normal(0.5, spread, (count, 2)), 0.001, 0.999)
        counts = np.histogram2d(points[:, 1], points[:, 0], bins=40, range=((0, 1), (0, 1)))[0]
        scott = 40 * np.sqrt((points[:, 0].var() + points[:, 1].var()) / 2) / count ** (1 / 6)
        width = max(scott / 2, 1)
        assert (width > 1) == (spread == 0.2)
        found = smoothed_counts(points, 40)
        assert found == pytest.approx(gaussian_filter(counts, width, mode="reflect"), abs=1e-9)
        assert found.sum() == pytest.approx(count)


def test_draws_and_exact_density_agree(
    predictor: Predictor, encoded: EncodedWindows, exact: list[NDArray[np.float64]]
) -> None:
    """The exact density, smoothed as draws are, is what very many draws show."""
    drawn = predictor.draw_evenly(encoded, [8192, 8192], 1)
    for values, points, footprint in zip(exact, drawn, encoded.footprints, strict=True):
        counts = np.zeros((32, 32))
        col, row = np.floor(points.points * 32).astype(int).T
        np.add.at(counts, (row, col), 1.0)
        one, other = (
            gaussian_filter(np.where(footprint, v, 0) / v[footprint].sum(), 1.0)[footprint]
            for v in (values, counts)
        )
        assert 0.5 * np.abs(one - other).sum() < 0.05  # total variation
        assert np.corrcoef(one, other)[0, 1] > 0.97


def test_densities_of_a_map_by_draws_and_exactly_agree(
    predictor: Predictor, encoded: EncodedWindows, exact: list[NDArray[np.float64]]
) -> None:
    """As maps have them: what is left between them is the kernel's width and 512 draws' chance."""
    kde = density_from_draws(predictor, encoded, 1)
    both = encoded.footprints.all(axis=0)
    for number, other in ((0, 1), (1, 0)):
        here = encoded.footprints[number]
        assert apart(kde[number], exact[number], here) < 0.3
        assert apart(kde[number], exact[other], both) > 0.5
        assert apart(kde[number], exact[number].T, here & here.T) > 0.5
        assert apart(kde[number], here.astype(np.float64), here) > 0.5


def apart(one: NDArray[np.float64], other: NDArray[np.float64], where: NDArray[np.bool_]) -> float:
    """Total variation between two densities on some cells."""
    shares = (density[where] / density[where].sum() for density in (one, other))
    return 0.5 * float(np.abs(np.subtract(*shares)).sum())


def test_even_draws_depend_on_seed_stream_and_window_alone(
    predictor: Predictor, encoded: EncodedWindows
) -> None:
    first = predictor.draw_evenly(encoded, [64, 64], 1)
    alone = predictor.draw_evenly(predictor.encode([BESIDE_THE_HOLE]), [64], 1)
    assert first[1].points == pytest.approx(alone[0].points, abs=1e-5)
    for seed, stream in ((2, 0), (1, 1)):
        other = predictor.draw_evenly(encoded, [64, 64], seed, stream)
        assert np.abs(other[0].points - first[0].points).max() > 0.01


@pytest.mark.parametrize("count", [0, 1, 3, 64, 500])
def test_even_noise_fills_its_strata(count: int) -> None:
    noise = even_normal(count, np.array([0.3, 0.8]))
    assert noise.shape == (count, 2)
    assert np.isfinite(noise).all()
    if count == 64:
        for axis in (0, 1):
            strata = np.floor(ndtr(noise[:, axis].astype(np.float64)) * 64 + 0.2)
            assert len(np.unique(strata % 64)) == 64
