"""Models with a density head that say something at once, and maps of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import rasterio
import torch
from geocfm.events import JsonSink, Reporter
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import MapSource, RawMap, write_raw_map
from geocfm.model.checkpoint import (
    Checkpoint,
    GridCard,
    LayerCard,
    ModelCard,
    OccurrenceCard,
    SplitCard,
)
from geocfm.model.network import VelocityNetwork
from geocfm.model.process import QUANTILES
from geocfm.model.settings import NetworkSettings, SamplingSettings, Settings, WindowSettings
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine
from scipy.ndimage import gaussian_filter
from torch import nn

CPU = torch.device("cpu")
LAYERS = 2
SPREAD = 1.2  # of the log intensity
LATE = SamplingSettings(solver="midpoint", steps=24, lateness=3.0)
TINY = {"width": 8, "features": 8, "head_width": 8, "head_depth": 1, "time_dim": 8}


def network_settings(stem: int, depth: int, *, start: str = "process") -> NetworkSettings:
    """Tiny, and anchored as the presets are; its reach is that of its stem and depth."""
    return NetworkSettings(
        norm="position",
        stem=stem,
        depth=depth,
        density=True,
        anchor=1,
        anchor_variance=1 / 4,
        start=start,
        **TINY,
    )


def grid_of(height: int, width: int) -> Grid:
    transform = Affine(100, 0, 500_000, 0, -100, 7_000_000)
    return Grid(CRS.from_epsg(32750), transform, height, width)


class Planes:
    """Layers (L, H, W) in memory."""

    def __init__(self, values: NDArray[np.float32], grid: Grid) -> None:
        self.values, self.grid = values, grid

    def read(self, window: Window) -> NDArray[np.float32]:
        found = np.full((len(self.values), window.height, window.width), np.nan, np.float32)
        inside = window.intersection(self.grid.window())
        if inside is not None:
            here = (slice(None), *inside.slices_in(self.grid.window()))
            found[(slice(None), *inside.slices_in(window))] = self.values[here]
        return found


def planes(
    height: int, width: int, holes: Sequence[Window] = (), seed: int = 1, smooth: float = 2.5
) -> Planes:
    """Smooth fields of variance 1; in the holes no layer has data, and one has gaps of its own."""
    generator = np.random.default_rng(seed)
    fields = gaussian_filter(
        generator.standard_normal((LAYERS, height, width)), (0, smooth, smooth)
    )
    fields /= fields.std(axis=(1, 2), keepdims=True)
    fields[1, height // 3 : height // 2, : width // 4] = np.nan
    for hole in holes:
        fields[(slice(None), *hole.slices_in(Window(0, 0, height, width)))] = np.nan
    return Planes(fields.astype(np.float32), grid_of(height, width))


def card_of(layers: Planes, network: NetworkSettings, size: int, margin: int = 0) -> ModelCard:
    grid = layers.grid
    split = SplitCard(row_edges=(0, grid.height), col_edges=(0, grid.width), roles=(("train",),))
    return ModelCard(
        settings=Settings(network=network, windows=WindowSettings(size=size, margin=margin)),
        layers=tuple(LayerCard(name=f"layer {number}") for number in range(LAYERS)),
        window_size=size,
        grid=GridCard.model_validate(grid.to_dict()),
        split=split,
        occurrences=OccurrenceCard(source="points.gpkg"),
        seed=0,
        iterations=1,
        created="",
        versions={},
    )


def telling_network(network: NetworkSettings, channels: int, seed: int = 3) -> VelocityNetwork:
    """Its head, and its process, have random weights; its flow is the anchor's."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = VelocityNetwork(channels, network)
        nn.init.normal_(made.score.cells.weight)
        nn.init.normal_(made.score.pixels.weight)
        if network.begins:
            made.start.process.values.copy_(torch.linspace(-9, 9, QUANTILES).expand(channels, -1))
            made.start.process.ranks.copy_(made.start.process.values)
            nn.init.normal_(made.start.process.linear)
            made.start.process.highest.fill_(99.0)
    return made.eval().requires_grad_(False)


def predictor_of(
    layers: Planes,
    networks: Sequence[nn.Module] | int = 1,
    network: NetworkSettings | None = None,
    size: int = 18,
    sampling: SamplingSettings = LATE,
    margin: int = 0,
) -> Predictor:
    """A model at work on the layers; networks: those it has, or how many random ones.

    The log intensities of random ones have a standard deviation of ``SPREAD`` over the grid.
    """
    network = network or network_settings(4, 1)
    card = card_of(layers, network, size, margin)
    if isinstance(networks, int):
        networks = [telling_network(network, card.channels, 3 + n) for n in range(networks)]
        for made in networks:
            alone = Predictor(Checkpoint((made,), card), layers, sampling, CPU)
            spread = float(np.nanstd(alone.look(layers.grid.window()).log_intensity))
            for weights in made.score.parameters():
                weights *= SPREAD / spread
            if network.begins:
                made.start.process.linear *= SPREAD / spread
    checkpoint = Checkpoint(tuple(networks), card)  # type: ignore[arg-type]
    return Predictor(checkpoint, layers, sampling, CPU)


def quiet() -> Reporter:
    return Reporter(JsonSink(io.StringIO()))


def raw_map(
    path: Path,
    source: MapSource,
    area: Area | None = None,
    parts: Parts | None = None,
    temperature: float = 1.0,
) -> RawMap:
    with TemporaryDirectory() as folder:
        kept = parts or Parts(Path(folder))
        return write_raw_map(path, source, area, kept, quiet().stage("Mapping"), temperature)


def values_of(raw: RawMap) -> NDArray[np.float64]:
    """Relative density (h, w) of the mapped part."""
    with rasterio.open(raw.path) as source:
        values: NDArray[np.float64] = source.read(1).astype(np.float64) / raw.mean
        return values


def bands_of(raw: RawMap) -> dict[str, NDArray[np.float64]]:
    with rasterio.open(raw.path) as source:
        values = source.read().astype(np.float64)
    return dict(zip(raw.bands, values, strict=True))
