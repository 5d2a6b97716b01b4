"""The prospectivity map: relative density over a region, written strip by strip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np

from geocfm.errors import UserError
from geocfm.events import Reporter
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


def map_windows(
    predictor: Predictor,
    windows: list[Window],
    combine: str,
    seed: int,
    first_row: int,
    reporter: Reporter,
) -> Iterator[MappedWindow]:
    """The windows' densities in their order from a row on, skipping windows without data."""
    stage = reporter.stage("Mapping")
    levels = dict(zip(windows, LEVELS[combine](windows), strict=True))
    done = 0
    for batch in batches_of(windows):
        if batch[0].row >= first_row:
            stage(done, len(windows))
            encoded = predictor.encode(batch)
            densities = density_from_draws(predictor, encoded, seed)
            for window, density, footprint in zip(
                batch, densities, encoded.footprints, strict=True
            ):
                if footprint.any():
                    yield MappedWindow(window, levels[window] * density, footprint)
        done += len(batch)
    stage(len(windows), len(windows))


def write_raw_map(
    path: Path,
    predictor: Predictor,
    area: Area | None,
    combine: str,
    seed: int,
    parts: Parts,
    reporter: Reporter,
) -> RawMap:
    """Map the predictor's grid, or the area's part of it, into a raster at ``path``.

    Finished strips of the map are kept in ``parts``; those that are there already are not redone.
    """
    grid = predictor.layers.grid
    mosaic, windows = region_mosaic(predictor, area)
    shown = grid.window() if area is None else area.bounds
    strips = [strip for strip in mosaic.strips() if strip.intersection(shown)]
    _finish_strips(predictor, area, combine, seed, mosaic, windows, strips, parts, reporter)
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
    return RawMap(path, total / area_km2, area_km2, len(windows))


def _finish_strips(
    predictor: Predictor,
    area: Area | None,
    combine: str,
    seed: int,
    mosaic: Mosaic,
    windows: list[Window],
    strips: list[Window],
    parts: Parts,
    reporter: Reporter,
) -> None:
    """Make the strips that are missing; they are finished in order, so from the first one on."""
    missing = next((strip for strip in strips if parts.load(_part_name(strip)) is None), None)
    if missing is None:
        return
    grid = predictor.layers.grid
    shown = grid.window() if area is None else area.bounds
    first = mosaic.first_row_into(missing)
    mapped = map_windows(predictor, windows, combine, seed, mosaic.row_starts[first], reporter)
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
            total=values[valid].sum(dtype=np.float64),  # the flow's density is per cell
            area_km2=cells[valid].sum(),
        )


def _part_name(strip: Window) -> str:
    return f"rows-{strip.row}"


def _touches(area: Area, window: Window) -> bool:
    inside = window.intersection(area.bounds)
    return inside is not None and bool(area.mask(inside).any())
