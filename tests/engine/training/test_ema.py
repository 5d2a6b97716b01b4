from __future__ import annotations

import pytest
import torch
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import NetworkSettings
from geocfm.training.ema import AveragedNetwork

SMALL = NetworkSettings(width=8, depth=1, features=4, head_width=8, head_depth=1)


def filled(network: VelocityNetwork, value: float) -> VelocityNetwork:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(value)
    return network


def weight(averaged: AveragedNetwork) -> float:
    values = torch.cat([p.flatten() for p in averaged.network.parameters()])
    assert values.min() == values.max()
    return values[0].item()


def test_with_decay_0_the_average_is_the_network_itself() -> None:
    network = VelocityNetwork(2, SMALL)
    averaged = AveragedNetwork(network, decay=0.0)
    for seed in range(3):
        torch.manual_seed(seed)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_()
        averaged.update(network)
        for own, theirs in zip(averaged.network.parameters(), network.parameters(), strict=True):
            assert torch.equal(own, theirs)


@pytest.mark.parametrize("decay", [0.5, 0.998])
def test_the_decay_warms_up_from_a_tenth_to_its_value(decay: float) -> None:
    network = filled(VelocityNetwork(2, SMALL), 1.0)
    averaged = AveragedNetwork(network, decay)
    expected = 1.0
    for update in range(30):
        value = float(update % 3)
        averaged.update(filled(network, value))
        kept = min(decay, (1 + update) / (10 + update))
        expected = kept * expected + (1 - kept) * value
        assert weight(averaged) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_early_weights_are_soon_forgotten() -> None:
    network = filled(VelocityNetwork(2, SMALL), 1000.0)
    averaged = AveragedNetwork(network, decay=0.999)
    filled(network, 0.0)
    for _ in range(20):
        averaged.update(network)
    assert weight(averaged) < 1  # without the warm-up it would still be 980


def test_the_average_neither_trains_nor_shares_memory() -> None:
    network = filled(VelocityNetwork(2, SMALL), 1.0)
    averaged = AveragedNetwork(network, decay=0.9)
    filled(network, 5.0)
    assert weight(averaged) == 1.0
    assert not any(p.requires_grad for p in averaged.network.parameters())
    assert all(p.requires_grad for p in network.parameters())
