"""A score for every pixel: the paper's encoder with a linear head instead of the flow."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from geocfm.model.precision import full_precision
from geocfm.model.seeding import seeded
from geocfm.model.settings import NetworkSettings
from geocfm.model.unet import UNet


def make_unet(channels: int, settings: NetworkSettings) -> UNet:
    """The encoder that the flow and the scores share."""
    return UNet(
        *(channels, settings.width, settings.depth, settings.features, settings.stem),
        norm=settings.norm,
    )


class PixelScore(nn.Module):
    """A logit per pixel: one for each cell of the features, and how its pixels differ from it.

    A cell's own logit, interpolated between cells, rounds off what is narrower than a cell: 0.2
    nats on thin arcs. The stem put the pixels' values into channels, so the features know them
    apart; but a logit of its own for each pixel of a cell leaves a lattice, since on even ground
    its pixels would differ by chance. So pixels differ by what sets their cell apart from those
    around it, which on even ground is nothing.
    At first all logits are 0: a new head says nothing, and what it corrects stays as it is.
    """

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__()
        self.cells = nn.Conv2d(settings.features, 1, 1)
        self.pixels = nn.Conv2d(settings.features, settings.stem**2, 1, bias=False)
        self._stem = settings.stem
        for parameter in self.parameters():
            nn.init.zeros_(parameter)

    def forward(self, features: Tensor, size: torch.Size) -> Tensor:
        """Features (B, D, h, w) to logits (B, H, W) of the pixels."""
        with full_precision(features.device):  # a likelihood is a difference of logits
            features = features.float()
            bordered = functional.pad(features, (1, 1, 1, 1), mode="replicate")
            around = functional.avg_pool2d(bordered, 3, stride=1)
            pixels = functional.pixel_shuffle(self.pixels(features - around), self._stem)
            cells = functional.interpolate(
                self.cells(features), scale_factor=self._stem, mode="bilinear", align_corners=False
            )
            logits: Tensor = (cells + pixels)[:, 0, : size[0], : size[1]]
        return logits


class ScoreNetwork(nn.Module):
    """UNet features of the image and one logit per pixel of them."""

    def __init__(self, channels: int, settings: NetworkSettings) -> None:
        super().__init__()
        self.channels, self.settings = channels, settings
        self.unet = make_unet(channels, settings)
        self.score = PixelScore(settings)

    def forward(self, images: Tensor) -> Tensor:
        """Geo-images (B, C, H, W) to logits (B, H, W)."""
        logits: Tensor = self.score(self.unet(images), images.shape[-2:])
        return logits


def new_score_network(channels: int, settings: NetworkSettings, seed: int) -> ScoreNetwork:
    """A network whose first weights depend on the seed alone."""
    return seeded(lambda: ScoreNetwork(channels, settings), seed)


def log_density(logits: Tensor, footprints: Tensor) -> Tensor:
    """Log softmax (B, H, W) of logits over the valid pixels of each image."""
    return _masked(logits, footprints).flatten(1).log_softmax(dim=1).view_as(logits)


def log_mass(logits: Tensor, footprints: Tensor) -> Tensor:
    """Log (B,) of the intensity that images hold: of what a softmax over each divides by."""
    return _masked(logits, footprints).flatten(1).logsumexp(dim=1)


def _masked(logits: Tensor, footprints: Tensor) -> Tensor:
    never = torch.finfo(logits.dtype).min  # finite, as an image without data must give no NaN
    return logits.masked_fill(~footprints, never)
