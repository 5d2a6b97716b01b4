"""What is learned from a batch: the flow, or a score per pixel. Means over the whole batch.

Where points have weights, these are means weighted by them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from geocfm.data.patches import Batch
from geocfm.model.flow import LEAST_WEIGHT, flow_matching_loss
from geocfm.model.network import VelocityNetwork
from geocfm.model.score import ScoreNetwork, log_density, log_mass

POSITIVE_WEIGHT = 50.0  # of a pixel that holds an occurrence (paper, "UNet-Seg")
ROUNDING = 2e-7  # of a window's side: points are float32, and 7 / 220 * 220 may be less than 7


def flow_loss(
    network: VelocityNetwork,
    batch: Batch,
    density_weight: float = 1.0,
) -> Tensor:
    """Flow matching (paper, Eq. 7), and the density head's loss; means over all points.

    The density is normalised over each window, or over all windows of the batch together.
    """
    maps = network.encode(batch.images, batch.footprints, batch.start)

    def velocity(position: Tensor, t: Tensor) -> Tensor:
        return network.velocity(maps, position, t, batch.image)

    points = network.to_flow(batch.points)
    loss = flow_matching_loss(velocity, points, batch.noise, batch.t, batch.weights)
    if maps.log_density is not None and maps.log_intensity is not None:
        logs = maps.log_density
        if batch.log_shares is not None:
            logs = log_density_over_all(maps.log_intensity, batch.footprints, batch.log_shares)
        loss = loss + density_weight * likelihood_loss(logs, batch)
    return loss


def losses_by_share(network: VelocityNetwork, batch: Batch, shares: Sequence[float]) -> list[float]:
    """The density's loss if the network corrected its start by so large a share each time."""
    maps = network.encode(batch.images, batch.footprints)
    start = network.start(batch.images)
    margin = (batch.images.shape[-1] - batch.footprints.shape[-1]) // 2
    inner = slice(margin, margin + batch.footprints.shape[-1])
    start = start[:, inner, inner]
    assert maps.log_intensity is not None
    correction = maps.log_intensity - start
    found = []
    for share in shares:
        intensity = start + share * correction
        if batch.log_shares is not None:
            logs = log_density_over_all(intensity, batch.footprints, batch.log_shares)
        else:
            logs = log_density(intensity, batch.footprints)
        found.append(likelihood_loss(logs, batch).item())
    return found


def log_density_over_all(log_intensity: Tensor, footprints: Tensor, log_shares: Tensor) -> Tensor:
    """Log intensities (B, H, W) less the log of what all ground holds by the batch's windows.

    The sum over windows, each for the share (B,) that it stands for, is what all ground holds on
    average; its logarithm is too small on average, the less the more windows there are.
    """
    masses = log_mass(log_intensity, footprints)
    total = (masses + log_shares.to(masses.dtype)).logsumexp(dim=0)
    return log_intensity - total


def density_loss(network: ScoreNetwork, batch: Batch) -> Tensor:
    """Exact negative log likelihood, nats per point and px^2: mean over all points."""
    return likelihood_loss(log_density(_inside(network, batch), batch.footprints), batch)


def likelihood_loss(log_densities: Tensor, batch: Batch) -> Tensor:
    """Minus the mean log density (B, H, W) of the pixels that points lie in.

    A point on the very edge of no-data may be rounded onto it; such a point has no say.
    """
    pixels = point_pixels(batch)
    weights = batch.weights * batch.footprints.flatten()[pixels]
    total = weights.sum().clamp(min=LEAST_WEIGHT)
    return -(log_densities.flatten()[pixels] * weights).sum() / total


def segmentation_loss(network: ScoreNetwork, batch: Batch) -> Tensor:
    """Binary cross-entropy of "holds an occurrence": mean over the valid pixels of all images."""
    logits = _inside(network, batch)
    holds = torch.zeros_like(logits).flatten()
    holds[point_pixels(batch)] = 1.0
    valid = batch.footprints
    return functional.binary_cross_entropy_with_logits(
        logits[valid],
        holds.view_as(logits)[valid],
        pos_weight=logits.new_tensor(POSITIVE_WEIGHT),
    )


def _inside(network: ScoreNetwork, batch: Batch) -> Tensor:
    """Logits (B, H, W) of the windows, without the margin that their images show."""
    height, width = batch.footprints.shape[-2:]
    margin = (batch.images.shape[-1] - width) // 2
    return network(batch.images)[:, margin : margin + height, margin : margin + width]


def point_pixels(batch: Batch) -> Tensor:
    """The pixel (N,) that each point lies in, as an index into the flattened (B, H, W)."""
    height, width = batch.footprints.shape[-2:]
    inside = batch.points + ROUNDING
    col = (inside[:, 0] * width).long().clamp(0, width - 1)
    row = (inside[:, 1] * height).long().clamp(0, height - 1)
    return (batch.image * height + row) * width + col
