"""Which windows a region is seen through, and in which batches."""

from __future__ import annotations

from itertools import groupby, pairwise

from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference.mosaic import Mosaic
from geocfm.inference.predictor import Predictor

OVERLAP = 3  # windows step by about this part of their size
BATCH = 32  # windows at a time: many points a step, so that threads are worth their cost


def region_mosaic(predictor: Predictor, area: Area | None) -> tuple[Mosaic, list[Window]]:
    """The mosaic over the predictor's grid, and its windows that touch the area.

    An area is mapped by the windows of the whole grid, so that it shows what the whole map shows.
    """
    grid, size = predictor.layers.grid, predictor.window_size
    mosaic = Mosaic.over(grid, size, window_step(size))
    return mosaic, [w for w in mosaic.windows() if area is None or _touches(area, w)]


def window_step(size: int) -> int:
    """Cells from one window to the next: odd, so that windows over a place see it at different
    places of the network's cells, and what is chance in those averages out.
    """
    step = max(1, size // OVERLAP)
    return step - 1 + step % 2


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
