"""What a logit depends on: what lies around its cell, and not where windows lie."""

import numpy as np
import pytest
import torch
from geocfm.model.network import VelocityNetwork
from geocfm.model.process import QUANTILES
from geocfm.model.settings import PRESETS, NetworkSettings
from torch import nn

NARROW = {"width": 8, "features": 8, "start": "process"}  # none changes what is seen from where
PRESET_NETWORKS = [
    pytest.param(PRESETS[name].network.model_copy(update=NARROW), id=name)
    for name in ("quick", "full")
]
SMALL = NetworkSettings(norm="position", stem=2, depth=1, density=True, **NARROW)
CHANNELS = 2


def told(settings: NetworkSettings) -> VelocityNetwork:
    """A network whose head and process say something, as if trained."""
    torch.manual_seed(7)
    network = VelocityNetwork(CHANNELS, settings)
    nn.init.normal_(network.score.cells.weight)
    nn.init.normal_(network.score.pixels.weight)
    network.start.process.values.copy_(torch.linspace(-9, 9, QUANTILES).expand(CHANNELS, -1))
    network.start.process.ranks.copy_(network.start.process.values)
    network.start.process.linear.copy_(torch.tensor([0.5, -1.0]))
    network.start.process.highest.fill_(99.0)
    return network.eval().requires_grad_(False)


def touched(slope: torch.Tensor, row: int, col: int) -> int:
    """How far away (1, C, H, W) is not zero, in pixels."""
    rows, cols = np.nonzero(slope[0].abs().amax(dim=0).numpy())
    return int(max(np.abs(rows - row).max(), np.abs(cols - col).max()))


@pytest.mark.parametrize("settings", [*PRESET_NETWORKS, pytest.param(SMALL, id="small")])
def test_nothing_beyond_the_reach_counts_for_a_pixel_and_nearly_all_within_does(settings):
    network = told(settings)
    side = -(-(2 * settings.reach + 3 * settings.period) // settings.period) * settings.period
    images = torch.randn(1, CHANNELS, side, side, requires_grad=True)
    levels, intensity = network.look(images)
    middle = side // 2 // settings.period * settings.period
    farthest = 0
    for row, col in ((0, 0), (0, settings.period - 1), (settings.stem - 1, 1)):  # of a cell
        row, col = middle + row, middle + col
        of_logit = intensity[0, row, col]
        of_features = levels[0][0, :, row // settings.stem, col // settings.stem].sum()
        for found in (of_logit, of_features):
            (slope,) = torch.autograd.grad(found, images, retain_graph=True)
            farthest = max(farthest, touched(slope, row, col))
    assert farthest <= settings.reach
    assert farthest > settings.reach - 3 * settings.period  # so margins are no wider than need be


@pytest.mark.parametrize("settings", PRESET_NETWORKS)
def test_the_reach_does_not_depend_on_how_wide_the_network_is(settings):
    assert (settings.period, settings.reach) == (
        settings.stem * 2**settings.depth,
        NetworkSettings(stem=settings.stem, depth=settings.depth).reach,
    )


def inner_gap(network: VelocityNetwork, moved: int) -> float:
    """Between the logits of an image and those of its part from a pixel on, where both see all."""
    reach = network.settings.reach
    side = 2 * reach + 40 * network.settings.stem
    images = torch.randn(1, CHANNELS, side, side, generator=torch.Generator().manual_seed(1))
    whole = network.look(images)[1][0]
    part = network.look(images[..., moved:, moved:])[1][0]
    inside = slice(reach, side - reach - moved)
    gap = whole[moved:, moved:] - part
    return gap[inside, inside].abs().max().item() / part[inside, inside].std().item()


@pytest.mark.parametrize("settings", [*PRESET_NETWORKS, pytest.param(SMALL, id="small")])
def test_an_image_that_begins_a_period_later_has_the_same_logits(settings):
    network = told(settings)
    for periods in (1, 2):
        assert inner_gap(network, periods * settings.period) < 1e-5
    assert inner_gap(network, settings.stem + 1) > 0.01  # elsewhere its cells are others


def test_with_group_norms_they_depend_on_the_whole_window():
    settings = SMALL.model_copy(update={"norm": "group"})
    assert inner_gap(told(settings), settings.period) > 0.01


@pytest.mark.parametrize("settings", [*PRESET_NETWORKS, pytest.param(SMALL, id="small")])
def test_even_ground_has_even_logits(settings):
    """Whatever the weights: no lattice of pixels or cells is left."""
    network = told(settings)
    reach, side = settings.reach, 2 * settings.reach + 3 * settings.period
    even = torch.tensor([0.7, -1.2])[:, None, None].expand(1, CHANNELS, side, side).contiguous()
    levels, intensity = network.look(even)
    inside = intensity[0, reach:-reach, reach:-reach]
    assert inside.max() - inside.min() < 1e-4
    pixels = network.score.pixels(levels[0])[0, :, -1, -1]
    assert pixels.std() > 0.01  # a logit of its own for each pixel of a cell would leave one
