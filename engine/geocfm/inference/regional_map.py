"""The prospectivity map: relative density over a region, written strip by strip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.geo.writing import open_raster_for_blocks
from geocfm.inference.density import density_from_draws
from geocfm.inference.mosaic import LEVELS, MappedWindow, Mosaic, blend
from geocfm.inference.predictor import Predictor

UNIT = "relative density, 1 = regional mean"
MEANING = (
    "Density of occurrence locations learned from known occurrences only, relative to the mean of "
    "the mapped area: 2 means twice as many occurrences expected as on average. It is no "
    "probability of a deposit. Cells where no layer has data are no-data."
)
OVERLAP = 3  # windows step by this part of their size
BATCH = 32  # windows at a time: many points a step, so that threads are worth their cost


@dataclass(frozen=True)
class RawMap:
    """A map on disk before its scale is known: divide by ``mean`` to get relative density."""

    path: Path
    mean: float
    area_km2: float
    windows: int


def region_mosaic(predictor: Predictor, area: Area | None) -> tuple[Mosaic, list[Window]]:
    """The mosaic over the predictor's grid, and its windows that touch the area.

    An area is mapped by the windows of the whole grid, so that it shows what the whole map shows.
    """
    grid, size = predictor.layers.grid, predictor.window_size
    mosaic = Mosaic.over(grid, size, max(1, size // OVERLAP))
    return mosaic, [w for w in mosaic.windows() if area is None or _touches(area, w)]


def map_windows(
    predictor: Predictor,
    mosaic: Mosaic,
    windows: list[Window],
    combine: str,
    seed: int,
    reporter: Reporter,
) -> Iterator[MappedWindow]:
    """The windows' densities in their order, skipping windows without data."""
    stage = reporter.stage("Mapping")
    levels = LEVELS[combine](windows)
    for first in range(0, len(windows), BATCH):
        stage(first, len(windows))
        encoded = predictor.encode(windows[first : first + BATCH])
        mapped = density_from_draws(predictor, encoded, seed)
        for offset, values in enumerate(mapped):
            footprint = encoded.footprints[offset]
            if footprint.any():
                level = levels[first + offset]
                yield MappedWindow(encoded.windows[offset], level * values, footprint)
    stage(len(windows), len(windows))


def write_raw_map(
    path: Path,
    predictor: Predictor,
    area: Area | None,
    combine: str,
    seed: int,
    reporter: Reporter,
) -> RawMap:
    """Map the predictor's grid, or the area's part of it, into a raster at ``path``."""
    grid = predictor.layers.grid
    mosaic, windows = region_mosaic(predictor, area)
    total, area_km2 = 0.0, 0.0
    mapped = map_windows(predictor, mosaic, windows, combine, seed, reporter)
    shown = grid.window() if area is None else area.bounds
    with open_raster_for_blocks(path, grid.subgrid(shown)) as raster:
        for strip, values in blend(mosaic, mapped):
            inside = strip.intersection(shown)
            if inside is None:
                continue
            values = values[inside.slices_in(strip)]
            if area is not None:
                values = np.where(area.mask(inside), values, np.float32(np.nan))
            cells = np.broadcast_to(grid.cell_areas(inside), values.shape)
            valid = np.isfinite(values)
            total += float(values[valid].sum(dtype=np.float64))  # the flow's density is per cell
            area_km2 += float(cells[valid].sum())
            place = Window(inside.row - shown.row, inside.col - shown.col, *values.shape)
            raster.write((values / cells).astype(np.float32), 1, window=place.to_rasterio())
    if not area_km2:
        raise UserError(
            "No cell of the region has data in any layer, so there is nothing to map.",
            "Check that the rasters and the area of interest overlap.",
        )
    return RawMap(path, total / area_km2, area_km2, len(windows))


def _touches(area: Area, window: Window) -> bool:
    inside = window.intersection(area.bounds)
    return inside is not None and bool(area.mask(inside).any())
