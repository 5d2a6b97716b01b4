"""How far a network may correct what single cells say: as far as validation tiles bear it out."""

from __future__ import annotations

from dataclasses import replace

import torch

from geocfm.data.patches import BatchSource
from geocfm.model.network import VelocityNetwork
from geocfm.training.losses import losses_by_share
from geocfm.training.resume import Snapshot, Tensors

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the network's correction; 0: it added nothing
SHARE = "network_share"  # its name among the figures of a card
HEAD = "score."  # of the density head's weights, which the correction is linear in


@torch.no_grad()
def shrunk(
    snapshot: Snapshot, network: VelocityNetwork, source: BatchSource, device: torch.device
) -> Snapshot:
    """The snapshot with the share of its correction of a stack that validation chooses.

    network: one that the snapshot's weights fit; it is given them.
    """
    if network.settings.start != "stack" or not snapshot.iteration:
        return snapshot
    batches = source.validation()
    if not batches:
        return snapshot
    network.load_state_dict(snapshot.weights)
    network.to(device).eval()
    losses, points = [0.0] * len(SHARES), 0.0
    for batch in batches:
        here = batch.weights.sum().item()
        found = losses_by_share(network, batch.to(device), SHARES)
        losses = [loss + one * here for loss, one in zip(losses, found, strict=True)]
        points += here
    share = SHARES[min(range(len(SHARES)), key=losses.__getitem__)]
    weights = with_share(snapshot.weights, share)
    return replace(snapshot, weights=weights, metrics={**snapshot.metrics, SHARE: share})


def with_share(weights: Tensors, share: float) -> Tensors:
    """The same weights, of a network that corrects its start by a share of what it did."""
    return {
        name: tensor * share if name.startswith(HEAD) else tensor
        for name, tensor in weights.items()
    }
