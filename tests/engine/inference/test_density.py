"""Three estimators of a window's density, held against each other and against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geocfm.errors import UserError
from geocfm.geo.grid import Window
from geocfm.inference.density import DENSITIES, choose_density
from geocfm.inference.flow_sampler import even_normal
from geocfm.inference.predictor import EncodedWindows, Predictor
from geocfm.inference.window_survey import choose_combination
from geocfm.model.settings import NetworkSettings
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.special import ndtr
from small_data import HOLE

ALL = Window(60, 15, 32, 32)
BESIDE_THE_HOLE = Window(HOLE.row - 10, HOLE.col - 10, 32, 32)


@pytest.fixture(scope="module")
def encoded(predictor: Predictor) -> EncodedWindows:
    return predictor.encode([ALL, BESIDE_THE_HOLE])


@pytest.mark.parametrize("density", DENSITIES)
def test_every_density_has_mean_1_on_data_and_is_0_elsewhere(
    predictor: Predictor, encoded: EncodedWindows, density: str
) -> None:
    found = DENSITIES[density](predictor, encoded, 1, 0)
    assert not encoded.footprints[1].all()
    for values, footprint in zip(found, encoded.footprints, strict=True):
        assert values[footprint].mean() == pytest.approx(1)
        assert (values[footprint] >= 0).all()
        assert (values[~footprint] == 0).all()


@pytest.mark.parametrize("density", DENSITIES)
def test_a_window_without_data_has_no_density(predictor: Predictor, density: str) -> None:
    nothing = predictor.encode([ALL, Window(500, 500, 32, 32)])
    found = DENSITIES[density](predictor, nothing, 1, 0)
    assert found[0].any()
    assert not found[1].any()


def test_the_head_is_the_softmax_of_its_logits(predictor: Predictor) -> None:
    encoded = predictor.encode([ALL, BESIDE_THE_HOLE], views=1)
    network = predictor.sampler._network
    values = predictor._reader.read(encoded.windows)
    with torch.no_grad():
        images = torch.from_numpy(values.channels)
        score = network.score(network.unet(images), torch.Size((32, 32)))
        logits = (score + network.process(images)).double().numpy()
    for found, logit, footprint, mass in zip(
        DENSITIES["head"](predictor, encoded, 1, 0),
        logits,
        encoded.footprints,
        encoded.maps.log_mass.tolist(),
        strict=True,
    ):
        total = np.exp(logit[footprint]).sum()
        assert mass == pytest.approx(np.log(total), abs=1e-4)
        expected = np.exp(logit[footprint]) / total * footprint.sum()
        assert found[footprint] == pytest.approx(expected, rel=1e-3)


def test_draws_and_exact_density_agree(predictor: Predictor, encoded: EncodedWindows) -> None:
    """The exact density, smoothed as draws are, is what very many draws show."""
    exact = DENSITIES["exact"](predictor, encoded, 1, 0)
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
    predictor: Predictor, encoded: EncodedWindows
) -> None:
    """As maps have them: what is left between them is the kernel's width and 512 draws' chance."""
    kde, exact = (DENSITIES[name](predictor, encoded, 1, 0) for name in ("kde", "exact"))
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


def test_what_a_model_has_not_is_said() -> None:
    bare, whole = NetworkSettings(), NetworkSettings(density=True, process=True)
    assert choose_density("auto", bare) == "kde"
    assert choose_density("auto", whole) == "head"
    assert choose_density("exact", bare) == "exact"
    assert choose_combination("auto", bare) == "consistent"
    assert choose_combination("auto", whole) == "count"
    assert choose_combination("auto", NetworkSettings(count=True)) == "count"  # from before
    with pytest.raises(UserError, match="no density head"):
        choose_density("head", bare)
    for combine, said in (("head", "no density head"), ("count", "how many occurrences")):
        assert choose_combination(combine, whole) == combine
        with pytest.raises(UserError, match=said):
            choose_combination(combine, bare)
