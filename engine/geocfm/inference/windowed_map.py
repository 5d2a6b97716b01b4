"""A map of windows that overlap: each by itself, blended without seams.

So are mapped the models of the presets ``paper-*``, whose windows each have a density of their own,
and other methods that look around. A window's density has mean 1 over its own data: windows are
averaged as if all of them were equally rich, since nothing tells how they compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import Protocol

import numpy as np

from geocfm.events import Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.inference.density import density_from_draws
from geocfm.inference.mosaic import MappedWindow, Mosaic, blend
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import Values

OVERLAP = 3  # windows step by about this part of their size
BATCH = 32  # windows at a time: many points a step, so that threads are worth their cost


class WindowDensities(Protocol):
    """Densities of windows that are to be blended: a flow's, or those of another method."""

    @property
    def mosaic(self) -> Mosaic:
        """How windows cover the grid."""

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        """The densities of some windows of one row, in their order."""


class FlowDensities:
    """A flow's, from draws: (members, repetitions, P, P).

    Repetitions differ by their chance alone, and tell the Monte-Carlo error of the map.
    """

    def __init__(self, predictor: Predictor, seed: int, repetitions: int = 1) -> None:
        self.mosaic = window_mosaic(predictor)
        self._predictor, self._seed, self._repetitions = predictor, seed, repetitions

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        """Densities that depend on the seed and the window alone."""
        found, footprints = [], np.zeros((0, 0, 0), dtype=np.bool_)
        for member in self._predictor.members:
            encoded = member.encode(batch)
            footprints = encoded.footprints
            for stream in range(self._repetitions):
                found.append(np.stack(density_from_draws(member, encoded, self._seed, stream)))
        shape = (len(self._predictor.members), self._repetitions, *footprints.shape)
        together = np.stack(found).reshape(shape)
        for number, (window, footprint) in enumerate(zip(batch, footprints, strict=True)):
            yield MappedWindow(window, together[:, :, number], footprint)


class BlendedWindows:
    """A source of a map (regional_map.MapSource) from densities of windows.

    An area is mapped by the windows of the whole grid, so that it shows what the whole map shows.
    """

    def __init__(self, densities: WindowDensities, area: Area | None = None) -> None:
        self.grid: Grid = densities.mosaic.grid
        self._densities, self._mosaic = densities, densities.mosaic
        self._windows = windows_touching(self._mosaic, area)

    def strips(self, shown: Window) -> list[Window]:
        """What is finished with each row of windows."""
        inside = (strip.intersection(shown) for strip in self._mosaic.strips())
        return [strip for strip in inside if strip is not None]

    def values(self, strips: Sequence[Window], first: int, stage: Stage) -> Iterator[Values]:
        """Beginning with the first row of windows that reaches into the first strip."""
        wanted = iter(strips[first:])
        inside = next(wanted)
        row = self._mosaic.first_row_into(inside)
        mapped = self._mapped(self._mosaic.row_starts[row], stage)
        for strip, values in blend(self._mosaic, mapped, row):
            if strip.row <= inside.row < strip.row_stop:
                shown = values[(..., *inside.slices_in(strip))]
                yield shown if shown.ndim == 4 else shown[None, None]
                following = next(wanted, None)
                if following is None:
                    return
                inside = following

    def _mapped(self, first_row: int, stage: Stage) -> Iterator[MappedWindow]:
        """The windows' densities in their order from a row on, skipping windows without data."""
        done, total = 0, len(self._windows)
        for batch in batches_of(self._windows):
            if batch[0].row >= first_row:
                stage(done, total)
                for number, mapped in enumerate(self._densities.of(batch)):
                    stage(done + number, total)
                    if mapped.footprint.any():
                        yield mapped
            done += len(batch)
        stage(total, total)


def window_mosaic(predictor: Predictor) -> Mosaic:
    """The mosaic of the model's windows over the predictor's grid."""
    size = predictor.window_size
    return Mosaic.over(predictor.layers.grid, size, window_step(size))


def window_step(size: int) -> int:
    """Cells from one window to the next: odd, so that windows over a place see it at different
    places of the network's cells, and what is chance in those averages out.
    """
    step = max(1, size // OVERLAP)
    return step - 1 + step % 2


def windows_touching(mosaic: Mosaic, area: Area | None) -> list[Window]:
    """All windows, or those that touch the area."""
    return [window for window in mosaic.windows() if area is None or _touches(area, window)]


def batches_of(windows: list[Window]) -> list[list[Window]]:
    """Batches that never cross rows of windows: what a row gives then depends on that row alone."""
    found = []
    for _, same_row in groupby(windows, key=lambda window: window.row):
        row = list(same_row)
        count = -(-len(row) // BATCH)
        cuts = [len(row) * number // count for number in range(count + 1)]
        found += [row[start:end] for start, end in pairwise(cuts)]
    return found


def _touches(area: Area, window: Window) -> bool:
    inside = window.intersection(area.bounds)
    return inside is not None and bool(area.mask(inside).any())
