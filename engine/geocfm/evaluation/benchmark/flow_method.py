"""GeoCFM as rows: its flow, whose exact density is divided by its mass inside, and its head."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates

from geocfm.data.image import Image
from geocfm.data.synthetic import SyntheticImage
from geocfm.evaluation.benchmark.kde_map import kde_map
from geocfm.evaluation.benchmark.methods import (
    HEAD,
    Density,
    DensityView,
    Method,
    Points,
    View,
    title_of,
)
from geocfm.evaluation.metrics import top_share
from geocfm.inference.flow_sampler import (
    EXACT_STEPS,
    MAP_STEPS,
    MASS_POINTS,
    FlowSampler,
)
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import SamplingSettings

STRIDE = 2  # pixels between the places where the density is computed
SMALL = 96  # pixels; smaller images are computed on every pixel
DENSEST = 0.15  # of the pixels are computed each by itself: those that the best 5 % are among


class _NetworkMethod(Method):
    def __init__(
        self, network: VelocityNetwork, sampling: SamplingSettings, device: torch.device
    ) -> None:
        self._sampler = FlowSampler(network, sampling, device)


class FlowMethod(_NetworkMethod):
    """A trained flow."""

    title = "GeoCFM"

    def look(self, image: Image, truth: SyntheticImage | None, seed: int = 0) -> FlowView:
        """The image encoded, once for draws and density."""
        return FlowView(self._sampler, image)

    def choices(self) -> dict[str, object]:
        """How its density is computed."""
        return {
            "density": {
                "solver": "rk4",
                "nll_steps": EXACT_STEPS,
                "map_and_mass_steps": MAP_STEPS,
                "map_stride_px": f"{STRIDE}; 1 up to {SMALL} px, and on the densest {DENSEST:.0%}",
            },
            "sampling": self._sampler.sampling.model_dump(),
        }


class HeadMethod(_NetworkMethod):
    """The density head of a trained flow's network, by itself."""

    title = title_of(HEAD)

    def look(self, image: Image, truth: SyntheticImage | None, seed: int = 0) -> DensityView:
        """Its density, in one pass."""
        return head_view(self._sampler, image)


def head_view(sampler: FlowSampler, image: Image) -> DensityView:
    """The answer of a network's density head, which it must have, to an image."""
    logs = sampler.encode(image.channels[None], image.footprint[None]).maps.log_density
    assert logs is not None
    return DensityView(logs[0].cpu().double().exp().numpy())


class FlowView(View):
    """A flow and one image."""

    def __init__(self, sampler: FlowSampler, image: Image, mass_points: int = MASS_POINTS) -> None:
        self._sampler, self._image, self._mass_points = sampler, image, mass_points
        self._size = image.footprint.shape[0]
        self._encoded = sampler.encode(image.channels[None], image.footprint[None])

    def draws(self, count: int, number: int, seed: tuple[int, ...]) -> Points:
        """All from one integration, each from noise of its own."""

        def noise(_: int, __: int, attempt: int) -> NDArray[np.float32]:
            generator = np.random.default_rng([*seed, attempt])
            parts = [self._sampler.noise(count, generator, attempt) for _ in range(number)]
            return np.concatenate(parts)

        (drawn,) = self._sampler.draw(self._encoded, [count * number], noise)
        return (drawn.points * self._size).reshape(number, count, 2)

    @cached_property
    def mass(self) -> float:
        """Share of the flow on the image's valid pixels."""
        return float(self._sampler.mass(self._encoded, self._mass_points, MAP_STEPS)[0])

    def density(self) -> Density:
        """The exact density, log-linear between its places where it is low, normalised."""
        return self._density

    @cached_property
    def _lattice(self) -> Density:
        stride = 1 if self._size <= SMALL else STRIDE
        logs = self._sampler.log_density_map(self._encoded, 0, stride, MAP_STEPS)
        places = (np.arange(self._size) - stride // 2) / stride
        rows, cols = np.meshgrid(places, places, indexing="ij")
        smooth = map_coordinates(logs, [rows, cols], order=1, mode="nearest")
        found = np.where(self._image.footprint, smooth, -np.inf)
        if stride > 1:
            dense = smooth > np.quantile(smooth, 1 - DENSEST)
            densest = np.argwhere(dense & self._image.footprint)
            exact = self._sampler.log_density_of_pixels(self._encoded, 0, densest, MAP_STEPS)
            found[tuple(densest.T)] = exact
        return np.exp(found)

    @cached_property
    def _density(self) -> Density:
        total = float(self._lattice.sum())
        return self._lattice / total if total > 0 else self._lattice

    def log_density(self, points: Points) -> NDArray[np.float64]:
        """Exact at the very points, divided by the mass on the image.

        NaN where no draw falls on it: the least mass would make the best likelihood of all.
        """
        if not self.mass > 0:
            return np.full(len(points), np.nan)
        image = np.zeros(len(points), dtype=np.int64)
        inside = self._sampler.log_density(self._encoded, points / self._size, image, EXACT_STEPS)
        return inside - np.log(self.mass)

    def more(self, points: Points, draws: Points) -> dict[str, float]:
        """Top-5 % by a KDE of all draws together, and what the flow keeps inside the image.

        ``integral``: the exact density summed over the pixels, which should be the mass.
        """
        pooled = kde_map(draws.reshape(-1, 2), self._size)
        return {
            "top5_kde": top_share(pooled, self._image.footprint, points),
            "mass": self.mass,
            "integral": float(self._lattice.sum()),
        }
