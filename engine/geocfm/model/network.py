"""The velocity v(p_t, t | d) = h([phi(p_t), p_t, e(t)]) of the paper (Eq. 10).

Ours may have a density head as well, and then be what that density's closed-form velocity lacks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from geocfm.model.anchor import Anchor, anchor_flow, make_anchor
from geocfm.model.score import PixelScore, log_density, make_unet
from geocfm.model.seeding import seeded
from geocfm.model.settings import NetworkSettings, Settings
from geocfm.model.start import Start

TIME_SCALE = 1000.0  # sinusoids of raw t in [0, 1] would be nearly constant
LONGEST_PERIOD = 10_000.0
ATTENTIONS = 4  # places a window's context looks at
LOG_DENSITIES = 10.0  # the head sees an anchor's log density up to this far from 0, scaled to 1


@dataclass(frozen=True)
class FeatureMap:
    """What points read: features as rows (B * h * w, D), and what is known of whole windows.

    A cell of theirs has ``cell`` pixels each way; the windows have (H, W) pixels.
    """

    rows: Tensor
    context: Tensor
    cells: tuple[int, int]  # (h, w)
    pixels: tuple[int, int]  # (H, W)
    cell: int = 1
    log_intensity: Tensor | None = None  # (B, H, W) of the density head
    log_density: Tensor | None = None  # (B, H, W) the same, normalised within each window
    anchor: Anchor | None = None
    coarser: tuple[FeatureMap, ...] = ()  # levels below, if the head reads them too


def _feature_map(
    features: Tensor, context: Tensor, pixels: tuple[int, int], cell: int
) -> FeatureMap:
    rows = features.permute(0, 2, 3, 1).reshape(-1, features.shape[1]).float()
    return FeatureMap(rows, context, (features.shape[2], features.shape[3]), pixels, cell)


def _inside(images: Tensor, margin: int, cell: int, size: tuple[int, int]) -> Tensor:
    """What of images (..., h, w), with cells of so many pixels, lies within a margin of pixels."""
    first = margin // cell
    height, width = (-(-length // cell) for length in size)
    return images[..., first : first + height, first : first + width]


def mean_features(features: Tensor) -> Tensor:
    """(B, D, h, w) to (B, D)."""
    return features.float().mean(dim=(2, 3))


def sample_features(maps: FeatureMap, points: Tensor, image: Tensor) -> Tensor:
    """Bilinear features at points (paper, Eq. 9): points (N, 2) in [0, 1]^2, image (N,) -> (N, D).

    Pixel-area convention with border padding: what grid_sample does with align_corners=False,
    for points of all images of a batch at once and without padding them to one count.
    """
    cells = maps.cells[::-1]
    low: list[Tensor] = []
    high: list[Tensor] = []
    fraction: list[Tensor] = []
    for axis in (0, 1):
        extent = maps.pixels[1 - axis] / maps.cell  # the last cell may reach beyond the window
        position = (points[:, axis] * extent - 0.5).clamp(0, cells[axis] - 1)
        below = position.floor()
        low.append(below.long())
        high.append((below.long() + 1).clamp(max=cells[axis] - 1))
        fraction.append((position - below).unsqueeze(1))
    start = image * (cells[0] * cells[1])
    top, bottom = start + low[1] * cells[0], start + high[1] * cells[0]
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
        self.unet = make_unet(channels, settings)
        self.embed = TimeEmbedding(settings.time_dim)
        inputs = settings.features + 2 + settings.time_dim
        if settings.context == "pooled":
            inputs += settings.features
        if settings.context == "film":
            self.film = nn.Linear(settings.features, 2 * settings.head_width)
            nn.init.zeros_(self.film.weight)  # at first nothing is scaled or shifted
            nn.init.zeros_(self.film.bias)
        if settings.context == "attention":
            self.attend = nn.Conv2d(settings.features, ATTENTIONS, 1)
            inputs += ATTENTIONS * settings.features
        if settings.levels == "all":
            widths = [settings.width * 2**level for level in range(1, settings.depth + 1)]
            self.coarser = nn.ModuleList(nn.Conv2d(w, settings.features, 1) for w in widths)
            inputs += settings.depth * settings.features
        if settings.density:
            self.score = PixelScore(settings)
        if settings.anchor:
            inputs += 3
        make = residual_head if settings.head == "residual" else mlp_head
        self.head = make(inputs, settings.head_width, settings.head_depth)
        if settings.begins:
            self.start = Start(channels, with_forest=settings.start == "stack")

    def encode(
        self, images: Tensor, footprints: Tensor | None = None, start: Tensor | None = None
    ) -> FeatureMap:
        """Geo-images (B, C, H, W) to what the points read; once per window.

        footprints: (B, h, w), where there is data; none: everywhere. If the images are larger, they
        show a margin around windows of h x w, which is seen and then cut off.
        start: (B, h, w), what single cells say, if not what the network's own start says.
        """
        levels, intensity = self._seen(images) if start is not None else self.look(images)
        if footprints is None:
            footprints = torch.ones_like(images[:, 0], dtype=torch.bool)
        height, width = footprints.shape[-2:]
        margin = (images.shape[-1] - width) // 2
        inner = [
            _inside(level, margin, self.settings.stem * 2**number, (height, width))
            for number, level in enumerate(levels)
        ]
        if intensity is not None:
            intensity = _inside(intensity, margin, 1, (height, width))
            intensity = intensity if start is None else intensity + start
        return self.window_map(inner, intensity, footprints)

    def look(self, images: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """Features (B, D, h, w), with those of coarser levels if the head reads them, and the log
        intensity (B, H, W) if there is a density head; both of the whole images (B, C, H, W)."""
        levels, intensity = self._seen(images)
        if intensity is not None and self.settings.begins:
            intensity = intensity + self.start(images)
        return levels, intensity

    def _seen(self, images: Tensor) -> tuple[list[Tensor], Tensor | None]:
        """The same without what single cells say."""
        levels = self.unet.pyramid(images)
        intensity = self.score(levels[0], images.shape[-2:]) if self.settings.density else None
        return (levels if self.settings.levels == "all" else levels[:1]), intensity

    def window_map(
        self, levels: list[Tensor], intensity: Tensor | None, footprints: Tensor
    ) -> FeatureMap:
        """What the points of windows read, of what a look found in them."""
        features, *below = levels
        height, width = footprints.shape[-2:]
        logs, anchor = None, None
        if intensity is not None:
            logs = log_density(intensity, footprints)
            if self.settings.anchor:
                cell, variance = self.settings.anchor, self.settings.anchor_variance
                anchor = make_anchor(logs.detach().exp(), cell, variance, self.scale)
        context = self._context(features.float())
        coarser: list[FeatureMap] = []
        for number, level in enumerate(below):
            cell = self.settings.stem * 2 ** (number + 1)
            read = functional.silu(self.coarser[number](level))
            coarser.append(_feature_map(read, context, (height, width), cell))
        finest = _feature_map(features, context, (height, width), self.settings.stem)
        return replace(
            finest,
            log_intensity=intensity,
            log_density=logs,
            anchor=anchor,
            coarser=tuple(coarser),
        )

    def _context(self, features: Tensor) -> Tensor:
        """What the head knows of the window as a whole: (B, D), or (B, ATTENTIONS * D)."""
        if self.settings.context != "attention":
            return mean_features(features)
        looks = self.attend(features).flatten(2).softmax(dim=2)  # (B, A, h * w)
        return (looks @ features.flatten(2).transpose(1, 2)).flatten(1)

    def velocity(self, maps: FeatureMap, position: Tensor, t: Tensor, image: Tensor) -> Tensor:
        """Velocity (N, 2) at positions (N, 2) in flow coordinates, t (N,), image index (N,)."""
        parts = [
            sample_features(maps, self.to_window(position), image),
            position,
            self.embed(t),
        ]
        if self.settings.context in ("pooled", "attention"):
            parts.append(maps.context[image])
        parts += [sample_features(m, self.to_window(position), image) for m in maps.coarser]
        if maps.anchor is None:
            return self._answer(parts, maps, image)
        anchored, logs = anchor_flow(maps.anchor, position, t, image)
        shown = logs.clamp(-LOG_DENSITIES, LOG_DENSITIES) / LOG_DENSITIES
        return anchored + self._answer([*parts, anchored, shown.unsqueeze(1)], maps, image)

    def _answer(self, parts: list[Tensor], maps: FeatureMap, image: Tensor) -> Tensor:
        """What the head makes of its inputs (N, ...): (N, 2)."""
        inputs = torch.cat(parts, dim=1)
        if self.settings.context != "film":
            answer: Tensor = self.head(inputs)
            return answer
        scale, shift = self.film(maps.context)[image].chunk(2, dim=1)
        modulated: Tensor = self.head[1:](torch.addcmul(shift, self.head[0](inputs), 1 + scale))
        return modulated

    @property
    def scale(self) -> float:
        """Flow units in a window's side."""
        return self.settings.scale if self.settings.coordinates == "centred" else 1.0

    def to_flow(self, points: Tensor) -> Tensor:
        """From the window's [0, 1]^2 to flow coordinates."""
        return (points - 0.5) * self.scale if self.settings.coordinates == "centred" else points

    def to_window(self, position: Tensor) -> Tensor:
        """From flow coordinates to the window's [0, 1]^2."""
        return position / self.scale + 0.5 if self.settings.coordinates == "centred" else position


def new_network(channels: int, settings: Settings, seed: int) -> VelocityNetwork:
    """A network whose first weights depend on the seed alone."""
    return seeded(lambda: VelocityNetwork(channels, settings.network), seed)
