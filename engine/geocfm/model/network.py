"""The velocity v(p_t, t | d) = h([phi(p_t), p_t, e(t)]) of the paper (Eq. 10)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from geocfm.model.settings import NetworkSettings
from geocfm.model.unet import UNet

CENTRED_SCALE = math.sqrt(12.0)  # a uniform window then has unit variance, as the base has
TIME_SCALE = 1000.0  # sinusoids of raw t in [0, 1] would be nearly constant
LONGEST_PERIOD = 10_000.0


@dataclass(frozen=True)
class FeatureMap:
    """What points read: features as rows (B * H * W, D), and the windows' means (B, D)."""

    rows: Tensor
    context: Tensor
    height: int
    width: int


def sample_features(maps: FeatureMap, points: Tensor, image: Tensor) -> Tensor:
    """Bilinear features at points (paper, Eq. 9): points (N, 2) in [0, 1]^2, image (N,) -> (N, D).

    Pixel-area convention with border padding: what grid_sample does with align_corners=False,
    for points of all images of a batch at once and without padding them to one count.
    """
    size = (maps.width, maps.height)
    low: list[Tensor] = []
    high: list[Tensor] = []
    fraction: list[Tensor] = []
    for axis in (0, 1):
        position = (points[:, axis] * size[axis] - 0.5).clamp(0, size[axis] - 1)
        below = position.floor()
        low.append(below.long())
        high.append((below.long() + 1).clamp(max=size[axis] - 1))
        fraction.append((position - below).unsqueeze(1))
    start = image * (maps.height * maps.width)
    top, bottom = start + low[1] * maps.width, start + high[1] * maps.width
    x, y = fraction
    upper = torch.lerp(maps.rows[top + low[0]], maps.rows[top + high[0]], x)
    lower = torch.lerp(maps.rows[bottom + low[0]], maps.rows[bottom + high[0]], x)
    return torch.lerp(upper, lower, y)


class TimeEmbedding(nn.Module):
    """Sinusoids of 1000 t at log-spaced frequencies."""

    frequencies: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        half = size // 2
        exponents = torch.arange(half) / max(half - 1, 1)
        self.register_buffer("frequencies", LONGEST_PERIOD**-exponents, persistent=False)

    def forward(self, t: Tensor) -> Tensor:
        """(N,) to (N, size)."""
        phase = TIME_SCALE * t.unsqueeze(1) * self.frequencies
        return torch.cat([phase.sin(), phase.cos()], dim=1)


class _HeadBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        inner = self.first(functional.silu(self.norm(hidden)))
        return hidden + self.second(functional.silu(inner))


def _zero_linear(width: int) -> nn.Linear:
    """The last layer: a new model moves no point, so training starts from the base."""
    layer = nn.Linear(width, 2)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def residual_head(inputs: int, width: int, depth: int) -> nn.Sequential:
    """Projection, residual blocks LN-SiLU-Linear-SiLU-Linear, LayerNorm, Linear to R^2."""
    blocks = [_HeadBlock(width) for _ in range(depth)]
    return nn.Sequential(
        nn.Linear(inputs, width), *blocks, nn.LayerNorm(width), _zero_linear(width)
    )


def mlp_head(inputs: int, width: int, depth: int) -> nn.Sequential:
    """``depth`` hidden layers with SiLU, Linear to R^2."""
    layers: list[nn.Module] = []
    for layer in range(depth):
        layers += [nn.Linear(width if layer else inputs, width), nn.SiLU()]
    return nn.Sequential(*layers, _zero_linear(width))


class VelocityNetwork(nn.Module):
    """UNet features of the window and the velocity of points in it."""

    def __init__(self, channels: int, settings: NetworkSettings) -> None:
        super().__init__()
        self.settings = settings
        self.unet = UNet(channels, settings.width, settings.depth, settings.features)
        self.embed = TimeEmbedding(settings.time_dim)
        inputs = settings.features + 2 + settings.time_dim
        if settings.context == "pooled":
            inputs += settings.features
        make = residual_head if settings.head == "residual" else mlp_head
        self.head = make(inputs, settings.head_width, settings.head_depth)

    def encode(self, images: Tensor) -> FeatureMap:
        """Geo-images (B, C, H, W) to what the points read; once per window."""
        features = self.unet(images.contiguous(memory_format=torch.channels_last))
        height, width = features.shape[-2:]
        rows = features.permute(0, 2, 3, 1).reshape(-1, features.shape[1])
        return FeatureMap(rows.float(), features.float().mean(dim=(2, 3)), height, width)

    def velocity(self, maps: FeatureMap, position: Tensor, t: Tensor, image: Tensor) -> Tensor:
        """Velocity (N, 2) at positions (N, 2) in flow coordinates, t (N,), image index (N,)."""
        parts = [
            sample_features(maps, self.to_window(position), image),
            position,
            self.embed(t),
        ]
        if self.settings.context == "pooled":
            parts.append(maps.context[image])
        return self.head(torch.cat(parts, dim=1))

    @property
    def scale(self) -> float:
        """Flow units in a window's side."""
        return CENTRED_SCALE if self.settings.coordinates == "centred" else 1.0

    def to_flow(self, points: Tensor) -> Tensor:
        """From the window's [0, 1]^2 to flow coordinates."""
        return (points - 0.5) * self.scale if self.settings.coordinates == "centred" else points

    def to_window(self, position: Tensor) -> Tensor:
        """From flow coordinates to the window's [0, 1]^2."""
        return position / self.scale + 0.5 if self.settings.coordinates == "centred" else position
