"""How far a network may correct what single cells say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geocfm.data.region import Region
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import PRESETS, change_settings
from geocfm.training.losses import flow_loss, likelihood_loss, losses_by_share
from geocfm.training.members import Member, ensemble_of
from geocfm.training.resume import Snapshot
from geocfm.training.shrink import SHARE, SHARES, shrunk, with_share
from torch import nn

TINY = change_settings(
    PRESETS["quick"],
    {"network.width": "8", "network.features": "16", "network.start": "stack"},
)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def member(region: Region) -> Member:
    channels = len(region.encoder.encode(region.read(region.window(np.array([0, 0]))))[0])
    (only,) = ensemble_of(region, TINY, channels, 1, 5)
    return only


def corrected(member: Member, size: float) -> Snapshot:
    """A network whose head says something at random."""
    network = member.network()
    torch.manual_seed(1)
    for parameter in network.score.parameters():
        nn.init.normal_(parameter, std=size)
    return Snapshot(dict(network.state_dict()), 7, {"validation_loss": 1.0})


def test_chance_is_shrunk_to_what_single_cells_say(member: Member) -> None:
    wild = corrected(member, 5.0)
    found = shrunk(wild, member.network(), member.source, CPU)
    assert found.metrics[SHARE] == 0
    assert found.metrics["validation_loss"] == 1.0
    assert (found.weights["score.cells.weight"] == 0).all()
    network = member.network()
    network.load_state_dict(found.weights)
    (batch,) = member.source.validation()
    maps = network.encode(batch.images, batch.footprints)
    assert torch.allclose(maps.log_intensity, network.start(batch.images), atol=1e-5)


def test_the_best_share_is_taken(member: Member) -> None:
    snapshot = corrected(member, 0.2)
    network = member.network()
    network.load_state_dict(snapshot.weights)
    (batch,) = member.source.validation()
    losses = losses_by_share(network, batch, SHARES)
    for share, loss in zip(SHARES, losses, strict=True):
        network.load_state_dict(with_share(snapshot.weights, share))
        maps = network.encode(batch.images, batch.footprints)
        total = torch.logsumexp(
            (maps.log_intensity.masked_fill(~batch.footprints, -1e30).flatten(1)).logsumexp(1)
            + batch.log_shares,
            0,
        )
        expected = likelihood_loss(maps.log_intensity - total, batch).item()
        assert loss == pytest.approx(expected, abs=1e-4)
    found = shrunk(snapshot, member.network(), member.source, CPU)
    assert found.metrics[SHARE] == SHARES[int(np.argmin(losses))]


def test_what_learned_nothing_or_corrects_no_stack_stays_as_it_is(
    member: Member, region: Region
) -> None:
    first = Snapshot(dict(member.network().state_dict()), 0, {})
    assert shrunk(first, member.network(), member.source, CPU) is first
    settings = change_settings(TINY, {"network.start": "process"})
    (without,) = ensemble_of(region, settings, member.channels, 1, 5)
    one = Snapshot(dict(without.network().state_dict()), 7, {})
    assert shrunk(one, without.network(), without.source, CPU) is one


def test_training_windows_show_the_crossed_start(member: Member) -> None:
    batch = member.source.batch(3)
    assert batch.start is not None
    assert batch.start.shape == batch.footprints.shape
    network: VelocityNetwork = member.network()
    other = member.start.start(batch.images)
    assert not torch.allclose(batch.start, other)
    maps = network.encode(batch.images, batch.footprints, batch.start)
    assert torch.equal(maps.log_intensity, batch.start)  # a new head adds nothing
    assert torch.isfinite(flow_loss(network, batch))
    assert all(one.start is None for one in member.source.validation())
