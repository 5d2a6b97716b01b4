"""A checkpoint at work on a region: windows read, encoded, drawn from, and their densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.encoding import Encoder
from geocfm.geo.grid import Grid, Window
from geocfm.inference.flow_sampler import EncodedImages, FlowSampler, WindowDraws
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.settings import SamplingSettings


class Layers(Protocol):
    """Aligned layers that can be read: a Stack, or a Region that holds them in memory."""

    @property
    def grid(self) -> Grid:
        """The grid they lie on."""

    def read(self, window: Window) -> NDArray[np.float32]:
        """Values (L, h, w), NaN for no-data."""


@dataclass(frozen=True)
class EncodedWindows(EncodedImages):
    """Windows after the UNet, and which they are."""

    windows: tuple[Window, ...]


class Predictor:
    """Windows have the training size: GroupNorm makes the features depend on it."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        layers: Layers,
        sampling: SamplingSettings,
        device: torch.device,
    ) -> None:
        self.card, self.layers, self.sampling = checkpoint.card, layers, sampling
        self.sampler = FlowSampler(checkpoint.network, sampling, device)
        self.encoder = Encoder(self.card.layers, self.card.settings.windows)
        self._class_cells: dict[str, NDArray[np.int64]] = {}  # unknown and all, per class layer

    @property
    def window_size(self) -> int:
        """Cells of a window's side."""
        return self.card.window_size

    def encode(self, windows: Sequence[Window]) -> EncodedWindows:
        """Read the windows and make their features."""
        values = [self.layers.read(window) for window in windows]
        for window_values in values:
            for name, cells in self.encoder.unknown_classes(window_values).items():
                self._class_cells[name] = self._class_cells.get(name, 0) + np.array(cells)
        read = [self.encoder.encode(window_values) for window_values in values]
        channels = np.stack([channels for channels, _ in read])
        encoded = self.sampler.encode(channels, np.stack([footprint for _, footprint in read]))
        return EncodedWindows(encoded.maps, encoded.footprints, tuple(windows))

    def warnings(self) -> list[str]:
        """What the layers read so far hold that the model has never seen."""
        return [
            f"Layer {name}: {100 * unknown / total:.0f} % of its cells hold classes the model "
            "never learned; it knows nothing of them."
            for name, (unknown, total) in self._class_cells.items()
            if unknown
        ]

    def draw(
        self, encoded: EncodedWindows, counts: Sequence[int], seed: int, stream: int = 0
    ) -> list[WindowDraws]:
        """So many points in each window; noise depends on (seed, stream, window) alone."""

        def noise(number: int, count: int, attempt: int) -> NDArray[np.float32]:
            window = encoded.windows[number]
            return _noise([seed, stream, window.row, window.col, attempt], count)

        return self.sampler.draw(encoded, counts, noise)

    def log_density(
        self, encoded: EncodedWindows, points: NDArray[np.float64], image: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Exact log of the flow's density per cell at points (N, 2) in [0, 1]^2 of windows (N,)."""
        return self.sampler.log_density(encoded, points, image)


def _noise(seeds: Sequence[int], count: int) -> NDArray[np.float32]:
    return np.random.default_rng(seeds).standard_normal((count, 2), dtype=np.float32)
