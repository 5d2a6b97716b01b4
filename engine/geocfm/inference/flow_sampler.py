"""A flow at work on images: encoded once, drawn from, and its exact density."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc
from torch import Tensor

from geocfm.model.flow import RK4, SOLVERS, Tableau, integrate, log_density, time_grid
from geocfm.model.network import FeatureMap, VelocityNetwork
from geocfm.model.settings import SamplingSettings

REJECTION_ROUNDS = 10
EDGE = 1e-9  # of an image: nearer to its end, a point would round into the next cell
# Steps of RK4, chosen by trial (docs/benchmarks.md): 20, 40 and 80 were worse at single points,
# probably because they meet sin 1000 t of the time embedding at nearly the same phase.
EXACT_STEPS = 50  # log-density right to 0.01 to 0.03 nats at a point
MAP_STEPS = 19  # to about 0.1 nats at a point and 3 % in the sum: enough to rank cells
MASS_POINTS = 4096
POINTS_AT_ONCE = 16_384  # whose gradients are in memory together
LEAST_CHANCE = 1e-7  # whose normal is 5.2; that of 0 would be infinite

Noise = Callable[[int, int, int], NDArray[np.float32]]
"""(image of the batch, count, attempt) -> (count, 2) standard normal, of that image alone."""


@dataclass(frozen=True)
class EncodedImages:
    """Images after the UNet: what points read, and where there is data (B, P, P)."""

    maps: FeatureMap
    footprints: NDArray[np.bool_]


@dataclass(frozen=True)
class WindowDraws:
    """Points (N, 2) in [0, 1]^2 of one image, and the share of raw draws that fell on data."""

    points: NDArray[np.float64]
    share_on_data: float


class FlowSampler:
    """A network at work on images of any one size."""

    def __init__(
        self, network: VelocityNetwork, sampling: SamplingSettings, device: torch.device
    ) -> None:
        self.sampling = sampling
        self._network, self._device = network, device
        self._tableau = SOLVERS[sampling.solver]

    @torch.no_grad()
    def encode(self, channels: NDArray[np.float32], footprints: NDArray[np.bool_]) -> EncodedImages:
        """Channels (B, C, Q, Q) and where there is data (B, P, P), to what points read.

        Images that are larger than the footprints show a margin around them.
        """
        images = torch.from_numpy(channels).to(self._device)
        valid = torch.from_numpy(footprints).to(self._device)
        return EncodedImages(self._network.encode(images, valid), footprints)

    @torch.no_grad()
    def look(self, channels: NDArray[np.float32]) -> tuple[list[Tensor], Tensor | None]:
        """Features and log intensity of images (B, C, H, W) as a whole, as the network has them."""
        return self._network.look(torch.from_numpy(channels).to(self._device))

    def log_intensity(self, channels: NDArray[np.float32]) -> NDArray[np.float64]:
        """Log intensity (H, W) of one image (C, H, W), by a network with a density head."""
        _, intensity = self.look(channels[None])
        assert intensity is not None
        return intensity[0].cpu().double().numpy()

    @torch.no_grad()
    def window_map(
        self, levels: list[Tensor], intensity: Tensor | None, footprints: NDArray[np.bool_]
    ) -> EncodedImages:
        """Windows (B, P, P), cut out of a look, as what points read."""
        valid = torch.from_numpy(footprints).to(self._device)
        return EncodedImages(self._network.window_map(levels, intensity, valid), footprints)

    def noise(
        self, count: int, generator: np.random.Generator, attempt: int
    ) -> NDArray[np.float32]:
        """(count, 2) standard normals to begin a draw with, even if the settings say so."""
        if self.sampling.noise == "even":
            return even_noise(count, generator, attempt)
        return generator.standard_normal((count, 2), dtype=np.float32)

    @torch.no_grad()
    def draw(
        self, encoded: EncodedImages, counts: Sequence[int], noise: Noise
    ) -> list[WindowDraws]:
        """So many points in each image, each from its own noise whatever the batch holds."""
        image = np.repeat(np.arange(len(counts)), counts)
        points = np.zeros((len(image), 2))
        share = np.zeros(len(counts))
        pending = np.arange(len(image))
        for attempt in range(REJECTION_ROUNDS):
            start = np.concatenate(
                [noise(number, count, attempt) for number, count in enumerate(counts)]
            )
            points[pending] = self._move(
                encoded, start[pending], image[pending], self.sampling.steps, self._tableau
            )
            good = on_data(points[pending], encoded.footprints, image[pending])
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
        self,
        encoded: EncodedImages,
        points: NDArray[np.float64],
        image: NDArray[np.int64],
        steps: int = MAP_STEPS,
    ) -> NDArray[np.float64]:
        """Exact log of the flow's density per cell at points (N, 2) in [0, 1]^2 of images (N,).

        It integrates to one over the plane: to be divided by ``mass`` where cells have no data.
        Solved by RK4, whatever solver the draws have.
        """
        position = self._network.to_flow(
            torch.from_numpy(points.astype(np.float32)).to(self._device)
        )
        times = time_grid(steps, self.sampling.lateness)
        per_flow_area = log_density(self._velocity(encoded, image), position, times, RK4)
        cells_per_flow_unit = encoded.footprints.shape[-1] / self._network.scale
        exact = per_flow_area.cpu().double().numpy()
        return exact - 2 * np.log(cells_per_flow_unit)

    def log_density_map(
        self, encoded: EncodedImages, number: int, stride: int = 1, steps: int = MAP_STEPS
    ) -> NDArray[np.float64]:
        """``log_density`` of one image at the centres of every ``stride``-th pixel each way."""
        rows = np.arange(stride // 2, encoded.footprints.shape[-1], stride)
        pixels = np.stack(np.meshgrid(rows, rows, indexing="ij"), axis=-1).reshape(-1, 2)
        found = self.log_density_of_pixels(encoded, number, pixels, steps)
        return found.reshape(len(rows), len(rows))

    def log_density_of_pixels(
        self, encoded: EncodedImages, number: int, pixels: NDArray[np.int64], steps: int = MAP_STEPS
    ) -> NDArray[np.float64]:
        """``log_density`` of one image at the centres of pixels (N, 2), each a row and a column."""
        points = (pixels[:, ::-1] + 0.5) / encoded.footprints.shape[-1]
        parts = [
            self.log_density(encoded, some, np.full(len(some), number), steps)
            for some in np.split(points, range(POINTS_AT_ONCE, len(points), POINTS_AT_ONCE))
        ]
        return np.concatenate(parts)

    @torch.no_grad()
    def mass(
        self, encoded: EncodedImages, count: int = MASS_POINTS, steps: int = MAP_STEPS
    ) -> NDArray[np.float64]:
        """Share (B,) of all draws that fall on data, from ``count`` (a power of two) even ones."""
        start = even_normal(count)
        share = np.zeros(len(encoded.footprints))
        for number in range(len(share)):
            image = np.full(count, number)
            moved = self._move(encoded, start, image, steps, RK4)
            share[number] = on_data(moved, encoded.footprints, image).mean()
        return share

    def _velocity(
        self, encoded: EncodedImages, image: NDArray[np.int64]
    ) -> Callable[[Tensor, Tensor], Tensor]:
        index = torch.from_numpy(image).to(self._device)

        def velocity(where: Tensor, t: Tensor) -> Tensor:
            return self._network.velocity(encoded.maps, where, t, index)

        return velocity

    def _move(
        self,
        encoded: EncodedImages,
        noise: NDArray[np.float32],
        image: NDArray[np.int64],
        steps: int,
        tableau: Tableau,
    ) -> NDArray[np.float64]:
        start = torch.from_numpy(noise).to(self._device)
        times = time_grid(steps, self.sampling.lateness)
        end = integrate(self._velocity(encoded, image), start, times, tableau)
        return self._network.to_window(end).cpu().double().numpy()


def on_data(
    points: NDArray[np.float64], footprints: NDArray[np.bool_], image: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Which points (N, 2) in [0, 1]^2 of images (N,) lie on cells of the footprints (B, P, P)."""
    size = footprints.shape[-1]
    cells = np.floor(points * size)
    inside: NDArray[np.bool_] = ((cells >= 0) & (cells < size)).all(axis=1)
    col, row = np.clip(cells, 0, size - 1).astype(np.int64).T
    return inside & footprints[image, row, col]


def even_noise(count: int, generator: np.random.Generator, attempt: int) -> NDArray[np.float32]:
    """(count, 2) standard normals: a net moved at random, but each by itself if drawn again.

    The points of a net that missed the data lie side by side, and would miss it together again,
    or crowd one place.
    """
    if attempt:
        return generator.standard_normal((count, 2), dtype=np.float32)
    return even_normal(count, generator.random(2))


def even_normal(count: int, shift: NDArray[np.float64] | None = None) -> NDArray[np.float32]:
    """(count, 2) points of a Sobol net as standard normals.

    shift: (2,) moves the net around the unit square, where it stays as even; none: every point
    lies in the middle of its stratum.
    """
    net = qmc.Sobol(2, scramble=False).random_base2(max(count - 1, 0).bit_length())[:count]
    moved = (net + (0.5 / max(count, 1) if shift is None else shift)) % 1
    return ndtri(moved.clip(LEAST_CHANCE, 1 - LEAST_CHANCE)).astype(np.float32)
