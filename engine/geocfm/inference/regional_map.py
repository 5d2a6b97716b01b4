"""The prospectivity map: relative density over a region, written strip by strip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Protocol

import numpy as np

from geocfm.errors import UserError
from geocfm.events import Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.geo.writing import ensure_complete, open_raster_for_blocks
from geocfm.inference.density import density_from_draws
from geocfm.inference.mosaic import LEVELS, MappedWindow, Mosaic, blend
from geocfm.inference.parts import Parts
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


class WindowDensities(Protocol):
    """Densities of windows that make a map: GeoCFM's, or those of a method it is compared with."""

    @property
    def mosaic(self) -> Mosaic:
        """How windows cover the grid."""

    @property
    def windows(self) -> list[Window]:
        """Those that are mapped, row by row."""

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        """The densities of some windows of one row, in their order."""


class FlowDensities:
    """GeoCFM's own: smoothed counts of draws, at each window's level."""

    def __init__(self, predictor: Predictor, area: Area | None, combine: str, seed: int) -> None:
        self.mosaic, self.windows = region_mosaic(predictor, area)
        self._predictor, self._seed = predictor, seed
        self._levels = dict(zip(self.windows, LEVELS[combine](self.windows), strict=True))

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        """Densities that depend on the seed and the window alone."""
        encoded = self._predictor.encode(batch)
        densities = density_from_draws(self._predictor, encoded, self._seed)
        for window, density, footprint in zip(batch, densities, encoded.footprints, strict=True):
            yield MappedWindow(window, self._levels[window] * density, footprint)


def region_mosaic(predictor: Predictor, area: Area | None) -> tuple[Mosaic, list[Window]]:
    """The mosaic over the predictor's grid, and its windows that touch the area.

    An area is mapped by the windows of the whole grid, so that it shows what the whole map shows.
    """
    grid, size = predictor.layers.grid, predictor.window_size
    mosaic = Mosaic.over(grid, size, max(1, size // OVERLAP))
    return mosaic, [w for w in mosaic.windows() if area is None or _touches(area, w)]


def batches_of(windows: list[Window]) -> list[list[Window]]:
    """Batches that never cross rows of windows: what a row gives then depends on that row alone."""
    found = []
    for _, same_row in groupby(windows, key=lambda window: window.row):
        row = list(same_row)
        count = -(-len(row) // BATCH)
        cuts = [len(row) * number // count for number in range(count + 1)]
        found += [row[start:end] for start, end in pairwise(cuts)]
    return found


def map_windows(densities: WindowDensities, first_row: int, stage: Stage) -> Iterator[MappedWindow]:
    """The windows' densities in their order from a row on, skipping windows without data."""
    done, total = 0, len(densities.windows)
    for batch in batches_of(densities.windows):
        if batch[0].row >= first_row:
            stage(done, total)
            for number, mapped in enumerate(densities.of(batch)):
                stage(done + number, total)
                if mapped.footprint.any():
                    yield mapped
        done += len(batch)
    stage(total, total)


def write_raw_map(
    path: Path, densities: WindowDensities, area: Area | None, parts: Parts, stage: Stage
) -> RawMap:
    """Map the grid, or the area's part of it, into a raster at ``path``.

    Finished strips of the map are kept in ``parts``; those that are there already are not redone.
    """
    grid = densities.mosaic.grid
    shown = grid.window() if area is None else area.bounds
    strips = [strip for strip in densities.mosaic.strips() if strip.intersection(shown)]
    _finish_strips(densities, area, strips, parts, stage)
    total, area_km2, cells, summed = 0.0, 0.0, 0, 0.0
    with open_raster_for_blocks(path, grid.subgrid(shown)) as raster:
        for strip in strips:
            part = parts.load(_part_name(strip))
            inside = strip.intersection(shown)
            if part is None or inside is None:
                raise RuntimeError(f"the strip {strip} of the map is missing")
            total += float(part["total"])
            area_km2 += float(part["area_km2"])
            valid = np.isfinite(part["values"])
            cells += int(valid.sum())
            summed += float(part["values"][valid].sum(dtype=np.float64))
            place = Window(inside.row - shown.row, inside.col - shown.col, *part["values"].shape)
            raster.write(part["values"], 1, window=place.to_rasterio())
    ensure_complete(path, (cells, summed))
    if not area_km2:
        raise UserError(
            "No cell of the region has data in any layer, so there is nothing to map.",
            "Check that the rasters and the area of interest overlap.",
        )
    return RawMap(path, total / area_km2, area_km2, len(densities.windows))


def _finish_strips(
    densities: WindowDensities,
    area: Area | None,
    strips: list[Window],
    parts: Parts,
    stage: Stage,
) -> None:
    """Make the strips that are missing; they are finished in order, so from the first one on."""
    missing = next((strip for strip in strips if parts.load(_part_name(strip)) is None), None)
    if missing is None:
        return
    mosaic = densities.mosaic
    grid = mosaic.grid
    shown = grid.window() if area is None else area.bounds
    first = mosaic.first_row_into(missing)
    mapped = map_windows(densities, mosaic.row_starts[first], stage)
    for strip, values in blend(mosaic, mapped, first):
        inside = strip.intersection(shown)
        if inside is None or strip.row < missing.row:
            continue
        values = values[inside.slices_in(strip)]
        if area is not None:
            values = np.where(area.mask(inside), values, np.float32(np.nan))
        cells = np.broadcast_to(grid.cell_areas(inside), values.shape)
        valid = np.isfinite(values)
        parts.save(
            _part_name(strip),
            values=(values / cells).astype(np.float32),
            total=values[valid].sum(dtype=np.float64),  # the densities are per cell
            area_km2=cells[valid].sum(),
        )


def _part_name(strip: Window) -> str:
    return f"rows-{strip.row}"


def _touches(area: Area, window: Window) -> bool:
    inside = window.intersection(area.bounds)
    return inside is not None and bool(area.mask(inside).any())
