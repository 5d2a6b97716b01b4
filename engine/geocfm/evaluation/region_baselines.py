"""Baselines on a user's region: they learn from a model's training tiles and map its grid."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from geocfm.data.image import Image
from geocfm.data.patches import BatchSource
from geocfm.data.region import Region
from geocfm.data.region_batches import RegionBatches
from geocfm.data.split import TRAIN
from geocfm.data.windows import BLOCK
from geocfm.evaluation.baselines import Baseline
from geocfm.events import Reporter
from geocfm.geo.grid import Window
from geocfm.inference.density import relative
from geocfm.inference.mosaic import MappedWindow, Mosaic
from geocfm.inference.windowed_map import window_step
from geocfm.model.checkpoint import ModelCard

SIDE = 256  # cells of the squares in which a map is made cell by cell
LEAST_SCORE = 1e-30  # so that a map has a mean, and float32 holds it


class RegionImages:
    """The training tiles of a region, and batches of its windows."""

    def __init__(
        self, region: Region, card: ModelCard, seed: int, reporter: Reporter, method: str
    ) -> None:
        self.channels, self._method = card.channels, method
        self._region, self._card, self._seed = region, card, seed
        self._reporter = reporter

    def disjoint(self) -> Iterator[Image]:
        """The training tiles cut into images of about the window's size; one in memory at a time.

        Images like windows are what a search for similar ones needs.
        """
        stage = self._reporter.stage(f"Reading training tiles, {self._method}")
        pieces = self._pieces()
        for number, piece in enumerate(pieces):
            stage(number, len(pieces))
            yield read_image(self._region, piece)
        stage(len(pieces), len(pieces))

    @property
    def source(self) -> BatchSource:
        """The very batches that the model learned from, but for the seed."""
        return RegionBatches(self._region, self._card.settings.training, self._seed)

    def _pieces(self) -> list[Window]:
        largest = min(self._region.plan.size, BLOCK)
        tiles = [tile for tile, role in self._region.split.tiles() if role == TRAIN]
        return [piece for tile in tiles for piece in even_pieces(tile, largest)]


def even_pieces(tile: Window, largest: int) -> list[Window]:
    """The tile cut into pieces of nearly the same size, none longer than ``largest``."""
    rows = np.linspace(tile.row, tile.row_stop, -(-tile.height // largest) + 1).astype(int)
    cols = np.linspace(tile.col, tile.col_stop, -(-tile.width // largest) + 1).astype(int)
    return [
        Window(int(top), int(left), int(bottom - top), int(right - left))
        for top, bottom in pairwise(rows)
        for left, right in pairwise(cols)
    ]


def read_image(region: Region, window: Window) -> Image:
    """Channels, footprint and occurrences of a window; points in pixels of it."""
    channels, footprint = region.encoder.encode(region.read(window))
    points = region.points_in(window) * (window.width, window.height)
    return Image(channels, footprint, points, (window.col, window.row))


class BaselineDensities:
    """A fitted baseline's densities of windows, for a map of the whole grid.

    What judges a cell by itself needs no windows that overlap; what looks around sees windows of
    the model's size. Scores that compare between windows are taken as they are, others as the
    flow's densities are: relative to the window's mean.
    """

    def __init__(self, baseline: Baseline, region: Region) -> None:
        self._baseline, self._region = baseline, region
        grid, size = region.grid, region.plan.size
        if baseline.context or region.settings.standardise == "window":
            self.mosaic = Mosaic.over(grid, size, window_step(size))
        else:
            side = min(SIDE, max(grid.height, grid.width))
            self.mosaic = Mosaic.over(grid, side, side)

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        """One window after the other: only one is in memory."""
        for window in batch:
            image = read_image(self._region, window)
            density = np.zeros(image.footprint.shape)
            if image.footprint.any():
                scores = self._baseline.scores(image)
                if not self._baseline.comparable:
                    scores = relative(scores, image.footprint)
                density = np.where(image.footprint, np.maximum(scores, LEAST_SCORE), 0.0)
            yield MappedWindow(window, density, image.footprint)
