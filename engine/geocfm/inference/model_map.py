"""GeoCFM's own map: its intensity in one pass, or its flow's densities of windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from geocfm.events import Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference.look import pieces
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import MapSource, Values
from geocfm.inference.windowed_map import BlendedWindows, FlowDensities

HIGHEST_LOG = 80.0  # whose exponential float32 holds, as it does that of its negative


def map_source(
    predictor: Predictor, area: Area | None, seed: int, tile: int, repetitions: int = 1
) -> MapSource:
    """What the model's map is made from.

    tile: side of what is looked at in one pass. repetitions and seed are of draws, if it needs any.
    """
    if predictor.card.settings.is_local:
        return Intensity(predictor, tile)
    return BlendedWindows(FlowDensities(predictor, seed, repetitions), area)


class Intensity:
    """The intensity of a model with a density head: one function, evaluated once on every cell.

    Tiles of the grid are looked at one after the other; what is found does not depend on them.
    """

    def __init__(self, predictor: Predictor, tile: int) -> None:
        self.grid = predictor.layers.grid
        self._members, self._tile = predictor.members, tile

    def strips(self, shown: Window) -> list[Window]:
        """Rows of tiles."""
        return [
            Window(tile.row, shown.col, tile.height, shown.width)
            for tile in pieces(Window(shown.row, shown.col, shown.height, 1), self._tile)
        ]

    def values(self, strips: Sequence[Window], first: int, stage: Stage) -> Iterator[Values]:
        """One look a tile and member."""
        total = sum(strip.cells for strip in strips) * len(self._members)
        done = sum(strip.cells for strip in strips[:first]) * len(self._members)
        for strip in strips[first:]:
            shape = (len(self._members), 1, strip.height, strip.width)
            found = np.empty(shape, dtype=np.float32)
            for tile in pieces(strip, self._tile):
                here = tile.slices_in(strip)
                for number, member in enumerate(self._members):
                    stage(done, total)
                    logs = member.look(tile).log_intensity
                    found[(number, 0, *here)] = np.exp(logs.clip(-HIGHEST_LOG, HIGHEST_LOG))
                    done += tile.cells
            yield found
        stage(total, total)
