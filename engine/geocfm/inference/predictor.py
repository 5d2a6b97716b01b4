"""A checkpoint at work on a region: windows read, encoded, drawn from, and their densities."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.encoding import Encoder
from geocfm.geo.grid import Grid, Window, bounding_window
from geocfm.inference.flow_sampler import (
    EncodedImages,
    FlowSampler,
    WindowDraws,
    even_noise,
)
from geocfm.inference.look import Look, seen_around
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
class WindowImages:
    """Windows as a network sees them: channels (B, C, P, P) and where there is data (B, P, P)."""

    channels: NDArray[np.float32]
    footprints: NDArray[np.bool_]


class WindowReader:
    """Reads windows as images, and remembers the last batch: members of an ensemble share it."""

    def __init__(self, layers: Layers, encoder: Encoder) -> None:
        self._layers, self._encoder = layers, encoder
        self._class_cells: dict[str, NDArray[np.int64]] = {}  # unknown and all, per class layer
        self._last: tuple[tuple[Window, ...], WindowImages] | None = None

    def read(self, windows: tuple[Window, ...]) -> WindowImages:
        """The windows' channels and footprints."""
        if self._last is None or self._last[0] != windows:
            values = self._values(windows)
            for window_values in values:
                for name, cells in self._encoder.unknown_classes(window_values).items():
                    self._class_cells[name] = self._class_cells.get(name, 0) + np.array(cells)
            read = [self._encoder.encode(window_values) for window_values in values]
            channels, footprints = (
                arrays[0][None] if len(arrays) == 1 else np.stack(arrays)
                for arrays in zip(*read, strict=True)
            )
            self._last = windows, WindowImages(channels, footprints)
        return self._last[1]

    def _values(self, windows: tuple[Window, ...]) -> list[NDArray[np.float32]]:
        """Values (L, h, w) of each window; of a row of windows that overlap all in one reading."""
        around = bounding_window(windows)
        if around.cells > sum(window.cells for window in windows):
            return [self._layers.read(window) for window in windows]
        values = self._layers.read(around)
        return [values[(slice(None), *window.slices_in(around))] for window in windows]

    def warnings(self) -> list[str]:
        """What the layers read so far hold that the model has never seen."""
        return [
            f"Layer {name}: {100 * unknown / total:.0f} % of its cells hold classes the model "
            "never learned; it knows nothing of them."
            for name, (unknown, total) in self._class_cells.items()
            if unknown
        ]


@dataclass(frozen=True)
class EncodedWindows(EncodedImages):
    """Windows after the UNet, and which they are."""

    windows: tuple[Window, ...]


class Predictor:
    """A checkpoint's first network at work; ``members`` are all of them, each by itself."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        layers: Layers,
        sampling: SamplingSettings,
        device: torch.device,
    ) -> None:
        self.card, self.layers, self.sampling = checkpoint.card, layers, sampling
        self.encoder = Encoder(self.card.layers, self.card.settings.windows)
        self._reader = WindowReader(layers, self.encoder)
        samplers = [FlowSampler(network, sampling, device) for network in checkpoint.networks]
        self.sampler = samplers[0]
        self.members: tuple[Predictor, ...] = (self,)
        if len(samplers) > 1:
            self.members = tuple(self._with(sampler) for sampler in samplers)

    def _with(self, sampler: FlowSampler) -> Predictor:
        """The same with another network."""
        other = copy(self)
        other.sampler, other.members = sampler, (other,)
        return other

    @property
    def window_size(self) -> int:
        """Cells of a window's side."""
        return self.card.window_size

    def encode(self, windows: Sequence[Window]) -> EncodedWindows:
        """Read the windows, with a margin as in training, and make their features."""
        margin = self.card.settings.windows.margin
        images = self._reader.read(tuple(window.grown(margin) for window in windows))
        inner = [
            footprint[window.slices_in(window.grown(margin))]
            for window, footprint in zip(windows, images.footprints, strict=True)
        ]
        encoded = self.sampler.encode(images.channels, np.stack(inner))
        return EncodedWindows(encoded.maps, encoded.footprints, tuple(windows))

    def look(self, window: Window) -> Look:
        """A part of the grid with all that counts for it around it, in one pass."""
        network = self.card.settings.network
        seen = seen_around(window, network, self.layers.grid.window())
        images = self._reader.read((seen,))
        levels, intensity = self.sampler.look(images.channels)
        if intensity is None:
            raise ValueError("a network without a density head knows windows alone")
        footprint = np.zeros((window.height, window.width), dtype=np.bool_)
        inside = window.intersection(seen)
        if inside is not None:
            footprint[inside.slices_in(window)] = images.footprints[0][inside.slices_in(seen)]
        return Look(window, seen, network.stem, levels, intensity, footprint)

    def cut(
        self, look: Look, windows: Sequence[Window], wanted: NDArray[np.bool_]
    ) -> EncodedWindows:
        """Windows of one size within a look, as what points read; nothing is computed again.

        wanted: cells (B, P, P) of theirs that points may lie in, if there is data.
        """
        levels, intensity, footprints = look.cut(windows)
        encoded = self.sampler.window_map(levels, intensity, footprints & wanted)
        return EncodedWindows(encoded.maps, encoded.footprints, tuple(windows))

    def warnings(self) -> list[str]:
        """What the layers read so far hold that the model has never seen."""
        return self._reader.warnings()

    def draw(
        self, encoded: EncodedWindows, counts: Sequence[int], seed: int, stream: int = 0
    ) -> list[WindowDraws]:
        """So many points in each window; noise depends on (seed, stream, window) alone."""

        def noise(number: int, count: int, attempt: int) -> NDArray[np.float32]:
            generator = _generator(seed, stream, encoded.windows[number], attempt)
            return self.sampler.noise(count, generator, attempt)

        return self.sampler.draw(encoded, counts, noise)

    def draw_evenly(
        self, encoded: EncodedWindows, counts: Sequence[int], seed: int, stream: int = 0
    ) -> list[WindowDraws]:
        """Like ``draw``, always from even noise: for densities, with less chance."""

        def noise(number: int, count: int, attempt: int) -> NDArray[np.float32]:
            generator = _generator(seed, stream, encoded.windows[number], attempt)
            return even_noise(count, generator, attempt)

        return self.sampler.draw(encoded, counts, noise)

    def log_density(
        self, encoded: EncodedWindows, points: NDArray[np.float64], image: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Exact log of the flow's density per cell at points (N, 2) in [0, 1]^2 of windows (N,)."""
        return self.sampler.log_density(encoded, points, image)


def _generator(seed: int, stream: int, window: Window, attempt: int) -> np.random.Generator:
    place = (
        coordinate % 2**32 for coordinate in (window.row, window.col)
    )  # may be before the grid
    return np.random.default_rng([seed, stream, *place, attempt])
