"""The losses against hand computations and other implementations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from geocfm.data.patches import Batch
from geocfm.model.network import VelocityNetwork
from geocfm.model.score import ScoreNetwork
from geocfm.model.settings import NetworkSettings
from geocfm.training.losses import (
    density_loss,
    flow_loss,
    likelihood_loss,
    log_density_over_all,
    point_pixels,
    segmentation_loss,
)
from scipy.special import log_softmax
from torch import Tensor

SMALL = NetworkSettings(width=8, depth=1, features=4, head_width=8, head_depth=1)
ANCHORED = SMALL.model_copy(update={"norm": "position", "density": True, "anchor": 2})


class Fixed(ScoreNetwork):
    """Gives the same logits whatever the images are."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__(1, SMALL)
        self.logits = logits

    def forward(self, images: Tensor) -> Tensor:
        return self.logits


def batch_of(footprints: Tensor, points: list[tuple[float, float]], image: list[int]) -> Batch:
    """Points in pixels, as (column, row)."""
    height, width = footprints.shape[-2:]
    return Batch(
        images=torch.zeros(len(footprints), 1, height, width),
        footprints=footprints,
        points=torch.tensor(points) / torch.tensor([width, height]),
        noise=torch.zeros(len(points), 2),
        t=torch.zeros(len(points)),
        image=torch.tensor(image),
        weights=torch.ones(len(points)),
    )


@pytest.fixture
def scattered() -> tuple[Tensor, Batch]:
    """Logits (3, 6, 6) and a batch whose points all lie on valid pixels."""
    generator = np.random.default_rng(4)
    footprints = generator.random((3, 6, 6)) < 0.7
    where = np.argwhere(footprints)[generator.choice(footprints.sum(), 40)]
    points = where[:, [2, 1]] + generator.uniform(0.01, 0.99, (40, 2))
    batch = batch_of(torch.from_numpy(footprints), points.tolist(), where[:, 0].tolist())
    return torch.from_numpy(generator.normal(0, 3, (3, 6, 6))).float(), batch


def test_the_pixel_of_a_point() -> None:
    points = [(0.0, 0.0), (2.9, 1.5), (3.0, 0.5), (1.0, 3.99), (4.0, 4.0)]
    batch = batch_of(torch.ones(2, 4, 4, dtype=torch.bool), points, [0, 0, 0, 1, 1])
    assert point_pixels(batch).tolist() == [0, 6, 3, 16 + 13, 16 + 15]


@pytest.mark.parametrize("size", [32, 49, 100, 128, 220])
def test_a_point_on_a_cells_corner_belongs_to_that_cell(size: int) -> None:
    corners = [(float(k), float(k)) for k in range(size)]
    batch = batch_of(torch.ones(1, size, size, dtype=torch.bool), corners, [0] * size)
    assert point_pixels(batch).tolist() == [k * size + k for k in range(size)]


def test_density_loss_by_hand() -> None:
    # image 0: three valid pixels with weights 1, 2, 5; image 1: two with weights 1, 3
    logits = torch.log(torch.tensor([[[1.0, 2.0], [5.0, 99.0]], [[1.0, 77.0], [88.0, 3.0]]]))
    valid = torch.tensor([[[True, True], [True, False]], [[True, False], [False, True]]])
    batch = batch_of(valid, [(0.5, 1.5), (1.5, 0.5), (0.2, 1.1), (1.9, 1.9)], [0, 0, 0, 1])
    # the mean over all points, not of the images' means
    expected = -(2 * math.log(5 / 8) + math.log(2 / 8) + math.log(3 / 4)) / 4
    assert density_loss(Fixed(logits), batch).item() == pytest.approx(expected, rel=1e-5)


def test_density_loss_is_scipys_log_softmax_at_the_points(scattered: tuple[Tensor, Batch]) -> None:
    logits, batch = scattered
    total = 0.0
    for (x, y), image in zip(batch.points.numpy() * 6, batch.image.tolist(), strict=True):
        valid = batch.footprints[image].numpy()
        logs = np.full((6, 6), np.nan)
        logs[valid] = log_softmax(logits[image].double().numpy()[valid])
        total -= logs[int(y), int(x)]
    assert density_loss(Fixed(logits), batch).item() == pytest.approx(total / 40, rel=1e-5)


def test_a_point_of_weight_three_counts_as_three_points(scattered: tuple[Tensor, Batch]) -> None:
    logits, batch = scattered
    batch = replace(batch, t=torch.linspace(0, 1, 40), noise=torch.randn(40, 2))
    often = torch.tensor([1, 3, 1, 2] * 10)
    repeated = replace(
        batch,
        **{
            name: getattr(batch, name).repeat_interleave(often, dim=0)
            for name in ("points", "noise", "t", "image", "weights")
        },
    )
    weighted = replace(batch, weights=0.7 * often.float())  # only their ratios matter
    torch.manual_seed(1)
    network = VelocityNetwork(1, ANCHORED)
    for loss in (lambda b: density_loss(Fixed(logits), b), lambda b: flow_loss(network, b)):
        assert loss(weighted).item() == pytest.approx(loss(repeated).item(), rel=1e-5)
        assert loss(weighted).item() != pytest.approx(loss(batch).item(), rel=1e-3)


def test_density_loss_of_equal_logits_is_the_log_of_the_valid_pixels() -> None:
    valid = torch.zeros(1, 8, 8, dtype=torch.bool)
    valid[0, 2:5, 1:7] = True
    batch = batch_of(valid, [(1.5, 2.5), (6.5, 4.5)], [0, 0])
    loss = density_loss(Fixed(torch.full((1, 8, 8), 3.0)), batch)
    assert loss.item() == pytest.approx(math.log(18), rel=1e-5)


def test_a_point_on_no_data_has_no_say_and_an_image_without_data_breaks_nothing() -> None:
    valid = torch.ones(2, 4, 4, dtype=torch.bool)
    valid[0, 0, 0] = False
    valid[1] = False
    logits = torch.zeros(2, 4, 4, requires_grad=True)
    batch = batch_of(valid, [(0.5, 0.5), (1.5, 0.5), (1.5, 0.5)], [0, 0, 1])
    loss = density_loss(Fixed(logits), batch)
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == pytest.approx(math.log(15), rel=1e-5)
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert not logits.grad[1].any()


def test_segmentation_loss_is_torchs_with_a_mask_by_hand(scattered: tuple[Tensor, Batch]) -> None:
    logits, batch = scattered
    holds = torch.zeros(3, 6, 6)
    for (x, y), image in zip(batch.points.tolist(), batch.image.tolist(), strict=True):
        holds[image, int(y * 6), int(x * 6)] = 1
    assert 0 < holds.sum() < 40  # several points in a pixel count once
    sigmoid = logits.double().sigmoid()
    each = -(50 * holds * sigmoid.log() + (1 - holds) * (1 - sigmoid).log())
    expected = each[batch.footprints].mean().item()
    assert segmentation_loss(Fixed(logits), batch).item() == pytest.approx(expected, rel=1e-5)
    repeated = replace(
        batch,
        points=batch.points.repeat(3, 1),
        image=batch.image.repeat(3),
        weights=batch.weights.repeat(3),
    )  # as points_per_step does
    assert segmentation_loss(Fixed(logits), repeated).item() == pytest.approx(expected, rel=1e-5)


def test_segmentation_loss_by_hand() -> None:
    valid = torch.tensor([[[True, True], [True, False]]])
    batch = batch_of(valid, [(1.5, 0.5)], [0])
    logits = torch.tensor([[[0.0, math.log(3.0)], [math.log(0.25), 9.0]]])
    expected = (math.log(2) - 50 * math.log(3 / 4) - math.log(1 / 1.25)) / 3
    assert segmentation_loss(Fixed(logits), batch).item() == pytest.approx(expected, rel=1e-5)


def test_flow_loss_of_a_new_network_is_the_mean_squared_target() -> None:
    """A new network moves no point, so what is left is the mean of |p - z|^2 over all points."""
    torch.manual_seed(2)
    network = VelocityNetwork(1, SMALL)
    batch = batch_of(
        torch.ones(2, 8, 8, dtype=torch.bool), [(1.0, 2.0), (7.0, 3.0), (4, 4)], [0, 1, 1]
    )
    batch = replace(batch, noise=torch.randn(3, 2), t=torch.rand(3))
    flow = (batch.points - 0.5) * math.sqrt(12)
    expected = (
        sum(math.dist(p, z) ** 2 for p, z in zip(flow.tolist(), batch.noise.tolist(), strict=True))
        / 3
    )
    assert flow_loss(network, batch).item() == pytest.approx(expected, rel=1e-5)


def test_score_networks_give_one_logit_for_every_pixel_of_any_image() -> None:
    network = ScoreNetwork(3, NetworkSettings(width=8, depth=3, features=4))
    assert network(torch.randn(2, 3, 27, 20)).shape == (2, 27, 20)


@pytest.mark.parametrize("weight", [0.1, 1.0])
def test_the_density_heads_likelihood_is_added_to_the_flows_loss(
    scattered: tuple[Tensor, Batch], weight: float
) -> None:
    _, batch = scattered
    batch = replace(batch, t=torch.linspace(0, 1, 40), noise=torch.randn(40, 2))
    torch.manual_seed(1)
    network = VelocityNetwork(1, ANCHORED)
    maps = network.encode(batch.images, batch.footprints)
    logs = maps.log_density.double().detach().numpy()
    point = batch.points.numpy() * 6
    at = logs[batch.image, point[:, 1].astype(int), point[:, 0].astype(int)]
    place = (batch.points - 0.5) * math.sqrt(12)
    where = batch.t[:, None] * place + (1 - batch.t)[:, None] * batch.noise
    moved = network.velocity(maps, where, batch.t, batch.image)
    flow = (moved - (place - batch.noise)).square().sum(dim=1).mean().item()
    found = flow_loss(network, batch, weight)
    assert found.item() == pytest.approx(flow - weight * at.mean(), rel=1e-5)
    found.backward()
    assert network.score.cells.weight.grad.abs().sum() > 0
    assert network.score.pixels.weight.grad.abs().sum() > 0


def test_the_density_over_all_ground_by_hand(scattered: tuple[Tensor, Batch]) -> None:
    logits, batch = scattered
    shares = np.array([3.0, 40.0, 0.5])
    log_shares = torch.from_numpy(shares).log().float()
    weight, valid = np.exp(logits.double().numpy()), batch.footprints.numpy()
    total = 0.0
    for image in range(3):
        for row, col in np.argwhere(valid[image]):
            total += shares[image] * weight[image, row, col]
    found = log_density_over_all(logits, batch.footprints, log_shares)
    np.testing.assert_allclose(found[batch.footprints], np.log(weight / total)[valid], atol=1e-5)
    # the same windows alike are all there is: together their density has sum one
    even = log_density_over_all(logits, batch.footprints, torch.zeros(3))
    assert even.exp()[batch.footprints].sum().item() == pytest.approx(1, rel=1e-5)


def test_a_window_without_data_adds_nothing_to_all_ground(scattered: tuple[Tensor, Batch]) -> None:
    logits, batch = scattered
    footprints = batch.footprints.clone()
    footprints[1] = False
    shares, others = torch.tensor([0.3, 1.0, -0.5]), [0, 2]
    found = log_density_over_all(logits, footprints, shares)[others]
    without = log_density_over_all(logits[others], footprints[others], shares[others])
    torch.testing.assert_close(found, without)


def test_what_all_ground_holds_is_told_too_small_the_less_the_more_windows_there_are() -> None:
    """The mean of a logarithm is less than the logarithm of the mean."""
    generator = torch.Generator().manual_seed(2)
    ground = (
        torch.randn(500, 1, 4, 4, generator=generator)
        .mul(0.5)
        .add(torch.randn(500, 1, 1, 1, generator=generator).mul(1.5))[:, 0]
    )
    exact = ground.double().exp().sum().log().item()

    def bias(windows: int) -> float:
        found = []
        for _ in range(2000):
            some = torch.randint(500, (windows,), generator=generator)
            footprints = torch.ones(windows, 4, 4, dtype=torch.bool)
            shares = torch.full((windows,), math.log(500 / windows))
            logs = log_density_over_all(ground[some], footprints, shares)
            found.append((ground[some] - logs)[0, 0, 0].item())
        return float(np.mean(found)) - exact

    few, more, many = bias(2), bias(8), bias(64)
    assert few < 2 * more < 4 * many < 0
    assert many > -0.1


def test_over_all_ground_a_rich_window_is_learned_to_be_rich(
    scattered: tuple[Tensor, Batch],
) -> None:
    """Within each window by itself a constant says nothing; over all ground it does."""
    logits, batch = scattered
    batch = replace(batch, image=torch.zeros_like(batch.image))
    batch.footprints[0] = True
    rich = torch.zeros(3, requires_grad=True)
    raised = logits + rich[:, None, None]
    logs = log_density_over_all(raised, batch.footprints, torch.zeros(3))
    likelihood_loss(logs, batch).backward()
    assert rich.grad is not None
    assert rich.grad[0] < -0.01
    assert (rich.grad[1:] > 0.001).all()
    assert rich.grad.sum().item() == pytest.approx(0, abs=1e-5)  # but for a constant of all


@pytest.mark.parametrize("shares", [None, (0.0, 1.0, 2.0)], ids=["each", "together"])
def test_the_loss_is_over_each_window_or_over_all_that_have_shares(
    scattered: tuple[Tensor, Batch], shares: tuple[float, ...] | None
) -> None:
    _, batch = scattered
    batch = replace(batch, log_shares=None if shares is None else torch.tensor(shares))
    torch.manual_seed(1)
    network = VelocityNetwork(1, ANCHORED)
    torch.nn.init.normal_(network.score.cells.weight)
    batch = replace(batch, images=torch.randn(3, 1, 6, 6))
    maps = network.encode(batch.images, batch.footprints)
    assert maps.log_intensity is not None
    logs = maps.log_density
    if batch.log_shares is not None:
        logs = log_density_over_all(maps.log_intensity, batch.footprints, batch.log_shares)
    light, heavy = (flow_loss(network, batch, weight).item() for weight in (1.0, 3.0))
    assert (heavy - light) / 2 == pytest.approx(likelihood_loss(logs, batch).item(), rel=1e-4)


def test_a_margin_is_seen_but_nothing_is_learned_on_it() -> None:
    """The loss is that of the same windows inside what a larger look finds."""
    torch.manual_seed(3)
    network = VelocityNetwork(2, ANCHORED.model_copy(update={"stem": 2}))
    torch.nn.init.normal_(network.score.cells.weight)
    torch.nn.init.normal_(network.score.pixels.weight)
    wide = torch.randn(2, 2, 36, 36)
    batch = batch_of(torch.rand(2, 12, 12) > 0.2, [(1.0, 2.0), (7.0, 3.0), (4.5, 11.5)], [0, 1, 1])
    batch = replace(batch, images=wide, t=torch.rand(3), noise=torch.randn(3, 2))
    maps = network.encode(wide, batch.footprints)
    with torch.no_grad():
        levels, intensity = network.look(wide)
        inside = network.window_map(
            [level[..., 6:12, 6:12] for level in levels[:1]],
            intensity[:, 12:24, 12:24],
            batch.footprints,
        )
    assert maps.pixels == (12, 12)
    assert maps.cells == (6, 6)
    torch.testing.assert_close(maps.rows, inside.rows)
    torch.testing.assert_close(maps.log_intensity, inside.log_intensity)
    torch.testing.assert_close(maps.log_density, inside.log_density)
    alone = replace(batch, images=wide[..., 12:24, 12:24])
    seen, unseen = (flow_loss(network, one).item() for one in (batch, alone))
    assert seen != pytest.approx(unseen, rel=1e-3)
    slope = torch.autograd.grad(likelihood_loss(maps.log_density, batch), maps.log_density)[0]
    places = [(0, 2, 1), (1, 3, 7), (1, 11, 4)]
    wanted = {place for place in places if batch.footprints[place]}
    assert {tuple(place) for place in slope.nonzero().tolist()} == wanted
