"""Drawing from encoded images, the mass on their valid cells, and the density on a lattice."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from geocfm.inference import flow_sampler
from geocfm.inference.flow_sampler import (
    EXACT_STEPS,
    MAP_STEPS,
    EncodedImages,
    FlowSampler,
    Noise,
)
from geocfm.model.anchor import anchor_flow
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import NetworkSettings, SamplingSettings
from numpy.typing import NDArray
from scipy.stats import kstest, norm
from small_flow import SIZE, trained_flow

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = torch.device("cpu")
EVERYWHERE = np.ones((SIZE, SIZE), dtype=bool)
LEFT = EVERYWHERE & (np.arange(SIZE) < SIZE // 2)
HOLE = EVERYWHERE.copy()
HOLE[4:20, 12:28] = False  # over much of the arc


@pytest.fixture(scope="module")
def sampler() -> FlowSampler:
    return FlowSampler(trained_flow().network, SamplingSettings(), CPU)


def encode(sampler: FlowSampler, *footprints: NDArray[np.bool_]) -> EncodedImages:
    """The image the flow knows, turned a little more in each place of the batch."""
    channels = [np.rot90(trained_flow().channels, turn, (1, 2)) for turn in range(len(footprints))]
    return sampler.encode(np.ascontiguousarray(np.stack(channels)), np.stack(footprints))


def noise_of(seed: int, number: int, count: int, attempt: int) -> NDArray[np.float32]:
    generator = np.random.default_rng([seed, number, attempt])
    return generator.standard_normal((count, 2), dtype=np.float32)


def still(coordinates: str, **sampling: str) -> FlowSampler:
    """Of a new network, which moves no point."""
    settings = NetworkSettings.model_validate(
        {
            "coordinates": coordinates,
            "width": 8,
            "depth": 1,
            "features": 4,
            "head_width": 8,
            "time_dim": 2,
        }
    )
    chosen = SamplingSettings.model_validate(sampling)
    return FlowSampler(VelocityNetwork(2, settings), chosen, CPU)


def own_noise(sampler: FlowSampler, seed: int) -> Noise:
    """As its settings say."""
    return lambda number, count, attempt: sampler.noise(
        count, np.random.default_rng([seed, number, attempt]), attempt
    )


@pytest.mark.parametrize("noise", ["independent", "even"])
def test_every_point_of_a_draw_begins_normal(noise: str) -> None:
    """Whichever of its places: moved at random, the net is no net to a single point."""
    sampling = SamplingSettings.model_validate({"noise": noise})
    sampler = FlowSampler(trained_flow().network, sampling, CPU)
    starts = np.stack([sampler.noise(5, np.random.default_rng(seed), 0) for seed in range(2000)])
    for place in range(5):
        for axis in (0, 1):
            assert kstest(starts[:, place, axis], "norm").statistic < 0.035  # 1 % by chance: 0.036
    assert np.abs(np.corrcoef(starts[:, 0].T)[0, 1]) < 0.06


def test_even_noise_covers_the_density_more_evenly() -> None:
    """A block's share of a draw strays less from its mean over draws, with the same mean."""
    shares = {}
    for noise in ("independent", "even"):
        sampling = SamplingSettings.model_validate({"noise": noise, "steps": 10})
        sampler = FlowSampler(trained_flow().network, sampling, CPU)
        encoded = encode(sampler, EVERYWHERE)
        found = []
        for seed in range(40):
            (drawn,) = sampler.draw(encoded, [256], own_noise(sampler, seed))
            col, row = np.floor(drawn.points * 4).astype(int).T
            found.append(np.bincount(4 * row + col, minlength=16) / 256)
        shares[noise] = np.stack(found)
    strays = {noise: float(found.std(axis=0).sum()) for noise, found in shares.items()}
    assert strays["even"] < 0.6 * strays["independent"]
    means = [found.mean(axis=0) for found in shares.values()]
    assert np.abs(means[0] - means[1]).sum() / 2 < 0.02  # total variation


def test_points_of_even_noise_that_miss_the_data_do_not_crowd_one_place() -> None:
    """Half of the base misses: drawn again as the same part of another net, it would be a band."""
    sampler = still("centred", noise="even")
    encoded = sampler.encode(np.zeros((1, 2, SIZE, SIZE), np.float32), LEFT[None])
    edges = norm.cdf((np.linspace(0, 0.5, 5) - 0.5) * math.sqrt(12))
    expected = np.diff(edges) / (edges[-1] - edges[0])
    for seed in range(5):
        (drawn,) = sampler.draw(encoded, [2000], own_noise(sampler, seed))
        shares = np.histogram(drawn.points[:, 0], 4, (0, 0.5))[0] / 2000
        assert shares == pytest.approx(expected, abs=0.03)


def test_an_image_has_its_draws_whatever_else_is_in_the_batch(sampler: FlowSampler) -> None:
    footprints = (EVERYWHERE, HOLE, LEFT)
    encoded = encode(sampler, *footprints)
    together = sampler.draw(encoded, [50, 80, 30], lambda *asked: noise_of(1, *asked))
    for number, count in enumerate([50, 80, 30]):
        channels = np.ascontiguousarray(np.rot90(trained_flow().channels, number, (1, 2)))
        alone = sampler.encode(channels[None], footprints[number][None])
        (drawn,) = sampler.draw(
            alone, [count], lambda _, *asked, number=number: noise_of(1, number, *asked)
        )
        assert np.abs(drawn.points - together[number].points).max() < 1e-4
        assert drawn.share_on_data == together[number].share_on_data
        col, row = np.floor(drawn.points * SIZE).astype(int).T
        assert footprints[number][row, col].all()


def test_noise_is_asked_for_image_by_image_until_all_lie_on_data(sampler: FlowSampler) -> None:
    asked: list[tuple[int, int, int]] = []

    def noise(number: int, count: int, attempt: int) -> NDArray[np.float32]:
        asked.append((number, count, attempt))
        return noise_of(1, number, count, attempt)

    sampler.draw(encode(sampler, HOLE, HOLE), [40, 7], noise)
    assert asked[:4] == [(0, 40, 0), (1, 7, 0), (0, 40, 1), (1, 7, 1)]
    clipping = FlowSampler(trained_flow().network, SamplingSettings(outside="clip"), CPU)
    asked.clear()
    clipping.draw(encode(clipping, HOLE), [40], noise)
    assert asked == [(0, 40, 0)]


def test_the_mass_of_the_base_is_known() -> None:
    centred, unit = still("centred"), still("unit")
    inside = 1 - 2 * norm.cdf(-math.sqrt(3))
    channels, footprints = np.zeros((3, 2, SIZE, SIZE), np.float32), (EVERYWHERE, LEFT, ~EVERYWHERE)
    found = centred.mass(centred.encode(channels, np.stack(footprints)))
    assert found == pytest.approx([inside**2, inside**2 / 2, 0], abs=0.002)
    found = unit.mass(unit.encode(channels, np.stack(footprints)))
    across = norm.cdf(1) - 0.5
    assert found == pytest.approx([across**2, across * (norm.cdf(0.5) - 0.5), 0], abs=0.002)


def test_the_mass_is_the_share_of_many_draws_that_fall_on_data(sampler: FlowSampler) -> None:
    encoded = encode(sampler, EVERYWHERE, HOLE)
    many = FlowSampler(
        trained_flow().network, SamplingSettings(steps=12, solver="heun", outside="clip"), CPU
    )
    drawn = many.draw(encoded, [10_000, 10_000], lambda *asked: noise_of(2, *asked))
    found = sampler.mass(encoded)
    assert found == pytest.approx([one.share_on_data for one in drawn], abs=0.015)
    assert found[0] > found[1] + 0.2
    fine = sampler.mass(encoded, count=8192)
    assert found == pytest.approx(fine, abs=0.003)


def test_the_density_on_valid_cells_sums_to_the_mass(sampler: FlowSampler) -> None:
    encoded = encode(sampler, EVERYWHERE)
    on_cells = np.exp(sampler.log_density_map(encoded, 0))
    assert on_cells.shape == (SIZE, SIZE)
    assert on_cells.sum() == pytest.approx(sampler.mass(encoded)[0], abs=0.03)
    with_hole = encode(sampler, HOLE)
    assert on_cells[HOLE].sum() == pytest.approx(sampler.mass(with_hole)[0], abs=0.03)


@pytest.mark.parametrize("stride", [2, 3])
def test_a_stride_leaves_out_cells_and_changes_none(sampler: FlowSampler, stride: int) -> None:
    encoded = encode(sampler, EVERYWHERE, EVERYWHERE)
    every = sampler.log_density_map(encoded, 1, steps=6)
    some = sampler.log_density_map(encoded, 1, stride, steps=6)
    first = stride // 2
    assert np.abs(some - every[first::stride, first::stride]).max() < 1e-3
    assert np.abs(every - sampler.log_density_map(encoded, 0, steps=6)).max() > 0.1
    # rows are y: the value at (column 9, row 4) stands in row 4
    at = np.array([[9.5, 4.5]]) / SIZE
    exact = sampler.log_density(encoded, at, np.array([1]), steps=6)
    assert every[4, 9] == pytest.approx(exact[0], abs=1e-3)


def test_a_lattice_too_large_for_memory_is_done_in_parts(
    sampler: FlowSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded = encode(sampler, EVERYWHERE)
    whole = sampler.log_density_map(encoded, 0, 2, steps=6)
    monkeypatch.setattr(flow_sampler, "POINTS_AT_ONCE", 100)  # 256 points
    assert np.abs(sampler.log_density_map(encoded, 0, 2, steps=6) - whole).max() < 1e-3


@pytest.mark.parametrize(("coordinates", "scale"), [("centred", math.sqrt(12)), ("unit", 1.0)])
def test_the_density_of_the_base_is_per_cell(coordinates: str, scale: float) -> None:
    sampler = still(coordinates)
    encoded = sampler.encode(np.zeros((1, 2, SIZE, SIZE), np.float32), EVERYWHERE[None])
    points = np.random.default_rng(0).random((20, 2))
    place = (points - 0.5) * scale if coordinates == "centred" else points
    expected = norm.logpdf(place).sum(axis=1) + 2 * math.log(scale / SIZE)
    for steps in (MAP_STEPS, EXACT_STEPS):
        found = sampler.log_density(encoded, points, np.zeros(20, dtype=np.int64), steps)
        assert found == pytest.approx(expected, abs=1e-5)


def test_the_density_does_not_depend_on_the_solver_of_the_draws(sampler: FlowSampler) -> None:
    encoded = encode(sampler, EVERYWHERE)
    points, image = np.random.default_rng(0).random((50, 2)), np.zeros(50, dtype=np.int64)
    coarse = FlowSampler(trained_flow().network, SamplingSettings(solver="euler", steps=2), CPU)
    for given in ((), (EXACT_STEPS,)):
        exact = [s.log_density(encoded, points, image, *given) for s in (sampler, coarse)]
        assert np.array_equal(*exact)
    drawn = [s.draw(encoded, [50], own_noise(s, 1))[0].points for s in (sampler, coarse)]
    assert np.abs(drawn[0] - drawn[1]).max() > 0.02


@pytest.mark.parametrize(("steps", "allowed"), [(EXACT_STEPS, 0.005), (MAP_STEPS, 0.02)])
def test_an_anchored_flows_density_is_its_density_heads(steps: int, allowed: float) -> None:
    """At the pixels' centres, but for what a grid of Gaussians blurs; none of it on no-data."""
    torch.manual_seed(2)
    settings = NetworkSettings(
        norm="position",
        width=8,
        depth=1,
        features=4,
        head_width=8,
        head_depth=1,
        density=True,
        anchor=1,
    )
    network = VelocityNetwork(2, settings).eval().requires_grad_(False)
    network.score.cells.weight.uniform_(-3, 3)  # not as flat as a new one
    sampler = FlowSampler(network, SamplingSettings(lateness=3.0), CPU)
    encoded = encode(sampler, EVERYWHERE, HOLE)
    assert sampler.mass(encoded) == pytest.approx([1, 1], abs=0.04)  # the rest at the edges
    for number in (0, 1):
        points = (np.argwhere(HOLE)[::7, ::-1] + 0.5) / SIZE
        image = np.full(len(points), number)
        found = sampler.log_density(encoded, points, image, steps)
        _, anchored = anchor_flow(
            encoded.maps.anchor,
            network.to_flow(torch.from_numpy(points).float()),
            torch.ones(len(points)),
            torch.from_numpy(image),
        )
        expected = anchored.numpy() - 2 * np.log(SIZE / network.scale)
        assert np.abs(found - expected).mean() < allowed
        head = encoded.maps.log_density[number].numpy()[HOLE][::7]
        inner = (np.abs(points - 0.5) < 0.4).all(axis=1)
        assert np.corrcoef(found[inner], head[inner])[0, 1] > 0.9
    middle = np.array([[20 / SIZE, 12 / SIZE]])  # of the hole
    assert sampler.log_density(encoded, middle, np.array([1]), steps)[0] < -2 * np.log(SIZE) - 5
