"""The image encoder F of the paper (Eq. 8): geo-images (B, C, H, W) to features (B, D, H, W).

With GroupNorm, as the paper has it, what a pixel's features are depends on the whole image. With
channels normalised at each place by themselves they depend on what lies around the pixel alone:
the encoder is one function of the ground, wherever an image of it begins and ends.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

GROUPS = 8
Norm = Literal["position", "group"]


class PositionNorm(nn.LayerNorm):
    """LayerNorm over the channels of each place of (B, C, H, W)."""

    def forward(self, images: Tensor) -> Tensor:
        """The same shape; at once where channels lie last in memory."""
        return super().forward(images.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def make_norm(kind: Norm, channels: int) -> nn.Module:
    """The normalisation of so many channels."""
    return nn.GroupNorm(GROUPS, channels) if kind == "group" else PositionNorm(channels)


class ResidualBlock(nn.Module):
    """Two normalised 3x3 convolutions with SiLU, and a skip (1x1 where the width changes)."""

    def __init__(self, channels_in: int, channels_out: int, norm: Norm) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.first_norm = make_norm(norm, channels_out)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.second_norm = make_norm(norm, channels_out)
        self.skip: nn.Module = (
            nn.Identity()
            if channels_in == channels_out
            else nn.Conv2d(channels_in, channels_out, 1)
        )

    def forward(self, images: Tensor) -> Tensor:
        """(B, channels_in, H, W) to (B, channels_out, H, W)."""
        hidden = functional.silu(self.first_norm(self.first(images)))
        hidden = self.second_norm(self.second(hidden))
        return functional.silu(hidden + self.skip(images))


class UNet(nn.Module):
    """Widths nf * (1, 2, 4, ...), average pooling down, bilinear up to the skip's own size.

    Upsampling goes to the size of the skip, because 220 = 8 * 27.5 does not come back by doubling.
    With a ``stem`` of s the finest level has cells of s x s pixels, whose values become channels:
    (B, C, H, W) to (B, D, ceil(H / s), ceil(W / s)), or a few more with norms of each place.
    """

    def __init__(
        self,
        channels: int,
        width: int,
        depth: int,
        features: int,
        stem: int = 1,
        norm: Norm = "group",
    ) -> None:
        super().__init__()
        self.stem = stem
        # with whole cells of all levels, each is twice as large as the one above, wherever it ends
        self._whole = stem * 2**depth if norm == "position" else stem
        channels *= stem**2
        widths = [width * 2**level for level in range(depth + 1)]
        inputs = [channels, *widths[:-1]]
        self.down = nn.ModuleList(
            ResidualBlock(i, o, norm) for i, o in zip(inputs, widths, strict=True)
        )
        self.project = nn.ModuleList(
            nn.Conv2d(widths[level + 1], widths[level], 1) for level in range(depth)
        )
        self.up = nn.ModuleList(
            ResidualBlock(2 * widths[level], widths[level], norm) for level in range(depth)
        )
        self.final = nn.Conv2d(width, features, 1)

    def forward(self, images: Tensor) -> Tensor:
        """(B, C, H, W) to (B, D, H, W)."""
        return self.pyramid(images)[0]

    def pyramid(self, images: Tensor) -> list[Tensor]:
        """The features, and what the levels below them hold on the way up, coarser and wider."""
        skips: list[Tensor] = []
        hidden = self._cells(images)
        for level, block in enumerate(self.down):
            hidden = block(functional.avg_pool2d(hidden, 2) if level else hidden)
            skips.append(hidden)
        coarser = [hidden]
        for level in reversed(range(len(self.up))):
            skip = skips[level]
            hidden = functional.interpolate(
                hidden, size=skip.shape[-2:], mode="bilinear", align_corners=False
            )
            hidden = self.up[level](torch.cat([self.project[level](hidden), skip], dim=1))
            coarser.insert(0, hidden)
        return [functional.silu(self.final(hidden)), *coarser[1:]]

    def _cells(self, images: Tensor) -> Tensor:
        """Pixels as channels of the cells they lie in; the border is repeated to fill the last."""
        height, width = images.shape[-2:]
        beyond = (0, -width % self._whole, 0, -height % self._whole)
        if any(beyond):
            images = functional.pad(images, beyond, mode="replicate")
        if self.stem == 1:
            return images.contiguous(memory_format=torch.channels_last)
        cells = functional.pixel_unshuffle(images, self.stem)
        return cells.contiguous(memory_format=torch.channels_last)
