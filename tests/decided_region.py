"""A region where one layer and one class decide where points lie, and a network that knows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import shapely
import torch
from geocfm.data.region import Region, prepare_region
from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import read_occurrences
from geocfm.geo.rasters import Stack, find_layers
from geocfm.inference.predictor import Predictor
from geocfm.model.anchor import anchor_flow, make_anchor
from geocfm.model.checkpoint import Checkpoint, GridCard, ModelCard, OccurrenceCard
from geocfm.model.network import FeatureMap
from geocfm.model.score import log_density
from geocfm.model.settings import (
    CENTRED_SCALE,
    NetworkSettings,
    SamplingSettings,
    Settings,
    WindowSettings,
)
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine
from scipy.ndimage import gaussian_filter
from small_data import NO_DATA, write_raster, write_shapes
from torch import Tensor, nn

SIDE, SIZE, POINTS = 160, 16, 300
GRID = Grid(CRS.from_epsg(32750), Affine(100, 0, 500_000, 0, -100, 7_000_000), SIDE, SIDE)
NAMES = ("belt", "rock", "noise")
RICH = 2  # the class that points prefer
BELT_WEIGHT, RICH_WEIGHT = 1.5, 2.0  # of a standard deviation, and of the class, in nats
NOISE_WEIGHT = 0.1  # what the network makes of a layer that says nothing
ANCHOR_VARIANCE = 1 / 4
HOLE = (slice(60, 90), slice(100, 130))  # cells without the belt's data; the others have some


def layer_values() -> dict[str, NDArray[np.float32]]:
    """A smooth field with a hole, three classes, and noise as smooth as the field."""
    generator = np.random.default_rng(11)

    def smooth(width: float) -> NDArray[np.float64]:
        field = gaussian_filter(generator.standard_normal((SIDE, SIDE)), width, mode="wrap")
        scaled: NDArray[np.float64] = field / field.std()
        return scaled

    belt, noise, kind = smooth(3), smooth(3), smooth(4)
    belt[HOLE] = NO_DATA
    rock = np.where(kind > 0.8, RICH, np.where(kind > 0, 5, 1))
    return {
        "belt": belt.astype(np.float32),
        "rock": rock.astype(np.float32),
        "noise": noise.astype(np.float32),
    }


@contextmanager
def decided_region(folder: Path) -> Iterator[Region]:
    """The region from files, in windows of 16 cells and tiles of 32."""
    folder.mkdir(parents=True, exist_ok=True)
    layers = layer_values()
    for name, values in layers.items():
        write_raster(folder / f"{name}.tif", values, GRID)
    belt = np.where(layers["belt"] == NO_DATA, 0, layers["belt"])
    rate = np.exp(BELT_WEIGHT * belt + RICH_WEIGHT * (layers["rock"] == RICH)).ravel()
    generator = np.random.default_rng(5)
    cells = generator.choice(SIDE**2, POINTS, p=rate / rate.sum())
    points = np.stack([cells % SIDE, cells // SIDE], axis=1) + generator.random((POINTS, 2))
    path = write_shapes(folder / "p.gpkg", shapely.points(GRID.to_world(points)), GRID.crs)
    rasters = [str(folder / f"{name}.tif") for name in NAMES]
    with Stack(find_layers(rasters, ["rock"]), GRID) as stack:
        settings = WindowSettings(size=SIZE, stride=4, tile=32)
        found = read_occurrences(path, GRID)
        yield prepare_region(stack, found, settings, lambda done, total: None)


class KnowingNetwork(nn.Module):
    """Logits that are a weighted sum of the channels; its flow is the density's closed form."""

    scale = CENTRED_SCALE

    def __init__(self, weights: NDArray[np.float64]) -> None:
        super().__init__()
        self.weights = torch.from_numpy(weights).float()

    def encode(self, images: Tensor, footprints: Tensor) -> FeatureMap:
        """The density alone; images have no margin."""
        return self.window_map(*self.look(images), footprints)

    def look(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """No features, and a log intensity."""
        return [], (self.weights[:, None, None] * images).sum(dim=1)

    def window_map(self, levels: list[Tensor], intensity: Tensor, footprints: Tensor) -> FeatureMap:
        """What the flow is anchored on."""
        nothing, size = torch.zeros(0), (footprints.shape[1], footprints.shape[2])
        logs = log_density(intensity, footprints)
        anchor = make_anchor(logs.exp(), 1, ANCHOR_VARIANCE, self.scale)
        return FeatureMap(
            *(nothing, nothing, size, size),
            log_intensity=intensity,
            log_density=logs,
            anchor=anchor,
        )

    def velocity(self, maps: FeatureMap, position: Tensor, t: Tensor, image: Tensor) -> Tensor:
        """Of the anchor alone."""
        assert maps.anchor is not None
        return anchor_flow(maps.anchor, position, t, image)[0]

    def to_window(self, position: Tensor) -> Tensor:
        """From flow coordinates to the window's [0, 1]^2."""
        return position / self.scale + 0.5


def channel_weights(region: Region) -> NDArray[np.float64]:
    """Of the belt, the three classes, noise, and the three layers' validity, in this order."""
    belt, rock, _ = region.layer_cards
    assert rock.classes == (1, RICH, 5)
    return np.array([BELT_WEIGHT * belt.std, 0, RICH_WEIGHT, 0, NOISE_WEIGHT, 0, 0, 0])


def card_of(region: Region, network: NetworkSettings | None = None) -> ModelCard:
    """A card of a model of the region."""
    network = network or NetworkSettings(norm="position", density=True)
    settings = Settings(windows=region.settings, network=network)
    return ModelCard(
        settings=settings,
        layers=region.layer_cards,
        window_size=region.plan.size,
        grid=GridCard.model_validate(region.grid.to_dict()),
        split=region.split.to_card(),
        occurrences=OccurrenceCard(source="p.gpkg"),
        seed=1,
        iterations=0,
        created="",
        versions={},
    )


def knowing_predictor(region: Region, weights: NDArray[np.float64] | None = None) -> Predictor:
    """A model that knows what decides, at work on the region."""
    chosen = channel_weights(region) if weights is None else weights
    example = Checkpoint((KnowingNetwork(chosen),), card_of(region))  # type: ignore[arg-type]
    return Predictor(example, region, SamplingSettings(), torch.device("cpu"))
