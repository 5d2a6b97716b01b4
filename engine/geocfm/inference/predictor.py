"""A checkpoint at work on a region: windows read, encoded, drawn from, and their densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from geocfm.data.encoding import Encoder
from geocfm.geo.grid import Grid, Window
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.flow import SOLVERS, integrate, log_density
from geocfm.model.network import FeatureMap
from geocfm.model.settings import SamplingSettings

REJECTION_ROUNDS = 10
EDGE = 1e-9  # of a window: nearer to its end, a point would round into the next cell
DENSITY_STEPS = 20  # at least: the exact density asks more of the solver than the draws do


class Layers(Protocol):
    """Aligned layers that can be read: a Stack, or a Region that holds them in memory."""

    @property
    def grid(self) -> Grid:
        """The grid they lie on."""

    def read(self, window: Window) -> NDArray[np.float32]:
        """Values (L, h, w), NaN for no-data."""


@dataclass(frozen=True)
class EncodedWindows:
    """Windows after the UNet: what points read, and where there is data (B, P, P)."""

    windows: tuple[Window, ...]
    maps: FeatureMap
    footprints: NDArray[np.bool_]


@dataclass(frozen=True)
class WindowDraws:
    """Points (N, 2) in [0, 1]^2 of one window, and the share of raw draws that fell on data."""

    points: NDArray[np.float64]
    share_on_data: float


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
        self._network, self._device = checkpoint.network, device
        self._encoder = Encoder(self.card.layers, self.card.settings.windows)
        self._tableau = SOLVERS[sampling.solver]
        self._class_cells: dict[str, NDArray[np.int64]] = {}  # unknown and all, per class layer

    @property
    def window_size(self) -> int:
        """Cells of a window's side."""
        return self.card.window_size

    @torch.no_grad()
    def encode(self, windows: Sequence[Window]) -> EncodedWindows:
        """Read the windows and make their features."""
        values = [self.layers.read(window) for window in windows]
        for window_values in values:
            for name, cells in self._encoder.unknown_classes(window_values).items():
                self._class_cells[name] = self._class_cells.get(name, 0) + np.array(cells)
        read = [self._encoder.encode(window_values) for window_values in values]
        images = torch.from_numpy(np.stack([channels for channels, _ in read]))
        footprints = np.stack([footprint for _, footprint in read])
        return EncodedWindows(
            tuple(windows), self._network.encode(images.to(self._device)), footprints
        )

    def warnings(self) -> list[str]:
        """What the layers read so far hold that the model has never seen."""
        return [
            f"Layer {name}: {100 * unknown / total:.0f} % of its cells hold classes the model "
            "never learned; it knows nothing of them."
            for name, (unknown, total) in self._class_cells.items()
            if unknown
        ]

    @torch.no_grad()
    def draw(
        self, encoded: EncodedWindows, counts: Sequence[int], seed: int, stream: int = 0
    ) -> list[WindowDraws]:
        """So many points in each window; noise depends on (seed, stream, window) alone."""
        image = np.repeat(np.arange(len(counts)), counts)
        points = np.zeros((len(image), 2))
        share = np.zeros(len(counts))
        pending = np.arange(len(image))
        for attempt in range(REJECTION_ROUNDS):
            noise = np.concatenate(
                [
                    _noise([seed, stream, window.row, window.col, attempt], count)
                    for window, count in zip(encoded.windows, counts, strict=True)
                ]
            )
            points[pending] = self._move(encoded, noise[pending], image[pending])
            good = _on_data(points[pending], encoded.footprints, image[pending])
            if attempt == 0:
                hits = np.bincount(image[pending[good]], minlength=len(counts))
                share = hits / np.maximum(counts, 1)
            pending = pending[~good]
            if self.sampling.outside == "clip" or not len(pending):
                break
        points = np.clip(points, 0, 1 - EDGE)
        ends = np.cumsum(counts)[:-1]
        return [
            WindowDraws(*row) for row in zip(np.split(points, ends), share.tolist(), strict=True)
        ]

    def log_density(
        self, encoded: EncodedWindows, points: NDArray[np.float64], image: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Exact log of the flow's density per cell at points (N, 2) in [0, 1]^2 of windows (N,)."""
        position = self._network.to_flow(
            torch.from_numpy(points.astype(np.float32)).to(self._device)
        )
        index = torch.from_numpy(image).to(self._device)

        def velocity(where: Tensor, t: Tensor) -> Tensor:
            return self._network.velocity(encoded.maps, where, t, index)

        steps = max(self.sampling.steps, DENSITY_STEPS)
        per_flow_area = log_density(velocity, position, steps, self._tableau)
        cells_per_flow_unit = self.window_size / self._network.scale
        exact = per_flow_area.cpu().double().numpy()
        return exact - 2 * np.log(cells_per_flow_unit)

    def _move(
        self, encoded: EncodedWindows, noise: NDArray[np.float32], image: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        index = torch.from_numpy(image).to(self._device)

        def velocity(where: Tensor, t: Tensor) -> Tensor:
            return self._network.velocity(encoded.maps, where, t, index)

        start = torch.from_numpy(noise).to(self._device)
        end = integrate(velocity, start, self.sampling.steps, self._tableau)
        return self._network.to_window(end).cpu().double().numpy()


def _noise(seeds: Sequence[int], count: int) -> NDArray[np.float32]:
    return np.random.default_rng(seeds).standard_normal((count, 2), dtype=np.float32)


def _on_data(
    points: NDArray[np.float64], footprints: NDArray[np.bool_], image: NDArray[np.int64]
) -> NDArray[np.bool_]:
    size = footprints.shape[-1]
    cells = np.floor(points * size)
    inside: NDArray[np.bool_] = ((cells >= 0) & (cells < size)).all(axis=1)
    col, row = np.clip(cells, 0, size - 1).astype(np.int64).T
    return inside & footprints[image, row, col]
