"""The prospectivity map: relative density over a region, written strip by strip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.events import Reporter, Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.geo.writing import ensure_complete, open_raster_for_blocks
from geocfm.inference.density import DENSITIES
from geocfm.inference.mosaic import MappedWindow, Mosaic, blend
from geocfm.inference.parts import Arrays, Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.region_windows import batches_of, region_mosaic
from geocfm.inference.window_survey import region_levels

UNIT = "relative density, 1 = regional mean"
MEANING = (
    "Density of occurrence locations, learned from where occurrences are known, relative to the "
    "mean of the mapped area: 2 means twice as many occurrences expected as on average. It is no "
    "probability of a deposit. Cells where no layer has data are no-data."
)
DENSITY = "relative density"
VARIATION, INFORMATION = "coefficient of variation", "mutual information"
MONTE_CARLO = "Monte-Carlo error"


@dataclass(frozen=True)
class RawMap:
    """A map on disk before its scale is known: divide band 1 by ``mean`` for relative density.

    bands: what the raster holds; beside the density its uncertainty, if there is an ensemble, and
    its Monte-Carlo error, if it was repeated. combine: how its windows were put side by side, if
    they are a flow's. warnings: what to know before comparing its parts.
    """

    path: Path
    mean: float
    area_km2: float
    windows: int
    bands: tuple[str, ...] = (DENSITY,)
    combine: str | None = None
    warnings: tuple[str, ...] = ()


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
    """GeoCFM's own, at each window's level: (members, repetitions, P, P).

    Repetitions differ by their chance alone, and tell the Monte-Carlo error of densities from
    draws.
    """

    def __init__(
        self,
        predictor: Predictor,
        area: Area | None,
        combine: str,
        density: str,
        seed: int,
        parts: Parts,
        reporter: Reporter,
        repetitions: int = 1,
    ) -> None:
        self.mosaic, self.windows = region_mosaic(predictor, area)
        self._predictor, self._seed, self._repetitions = predictor, seed, repetitions
        self._density = DENSITIES[density]
        levels = region_levels(
            *(predictor, self.mosaic, self.windows, combine, density, seed, parts, reporter)
        )
        self._levels, self.warnings = levels.by_member, levels.warnings()

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        """Densities that depend on the seed and the window alone."""
        found, footprints = [], np.zeros((0, 0, 0), dtype=np.bool_)
        for member, levels in zip(self._predictor.members, self._levels, strict=True):
            encoded = member.encode(batch)
            footprints = encoded.footprints
            scale = np.array([levels[window] for window in batch])[:, None, None]
            for stream in range(self._repetitions):
                densities = self._density(member, encoded, self._seed, stream)
                found.append(scale * np.stack(densities))
        shape = (len(self._levels), self._repetitions, *footprints.shape)
        together = np.stack(found).reshape(shape)
        for number, (window, footprint) in enumerate(zip(batch, footprints, strict=True)):
            yield MappedWindow(window, together[:, :, number], footprint)


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
    path: Path,
    densities: WindowDensities,
    area: Area | None,
    parts: Parts,
    stage: Stage,
    temperature: float = 1.0,
) -> RawMap:
    """Map the grid, or the area's part of it, into a raster at ``path``.

    Finished strips of the map are kept in ``parts``; those that are there already are not redone.
    temperature: the exponent of the density, which is then scaled anew.
    """
    grid = densities.mosaic.grid
    shown = grid.window() if area is None else area.bounds
    strips = [strip for strip in densities.mosaic.strips() if strip.intersection(shown)]
    _finish_strips(densities, area, strips, parts, stage)
    area_km2 = sum(float(_strip(parts, strip)["area_km2"]) for strip in strips)
    if not area_km2:
        raise UserError(
            "No cell of the region has data in any layer, so there is nothing to map.",
            "Check that the rasters and the area of interest overlap.",
        )
    total = sum(_strip(parts, strip)["total"] for strip in strips)  # (members, repetitions)
    means = np.asarray(total).mean(axis=1) / area_km2
    bands = _bands(np.asarray(total).shape)
    mapped, cells, summed = 0.0, 0, 0.0
    with open_raster_for_blocks(path, grid.subgrid(shown), count=len(bands)) as raster:
        for strip in strips:
            inside = strip.intersection(shown)
            assert inside is not None
            values = _assembled(_strip(parts, strip)["values"], means)
            values[0] **= np.float32(temperature)
            valid = np.isfinite(values[0])
            km2 = np.broadcast_to(grid.cell_areas(inside), valid.shape)
            mapped += float((values[0][valid] * km2[valid]).sum(dtype=np.float64))
            cells += int(valid.sum())
            summed += float(values[0][valid].sum(dtype=np.float64))
            place = Window(inside.row - shown.row, inside.col - shown.col, *valid.shape)
            raster.write(values, window=place.to_rasterio())
    ensure_complete(path, [(cells, summed)])
    return RawMap(path, mapped / area_km2, area_km2, len(densities.windows), bands)


def _bands(shape: tuple[int, ...]) -> tuple[str, ...]:
    """What is told of a map with so many members and repetitions."""
    members, repetitions = shape
    uncertain = (VARIATION, INFORMATION) if members > 1 else ()
    return (DENSITY, *uncertain, *((MONTE_CARLO,) if repetitions > 1 else ()))


def _assembled(values: NDArray[np.float32], means: NDArray[np.float64]) -> NDArray[np.float32]:
    """Bands (B, h, w) from densities (members, repetitions, h, w) and the members' means.

    Of an ensemble: the mean density, the standard deviation of its members over that, and the
    mutual information between the member and the place, in nats by occurrence: each cell's share of
    how much one would learn of where occurrences lie by being told which member is right.
    """
    scaled = values / means[:, None, None, None].astype(np.float32)
    by_member = scaled.mean(axis=1)
    density = by_member.mean(axis=0)
    found = [density]
    with np.errstate(invalid="ignore", divide="ignore"):
        if len(by_member) > 1:
            ratio = np.where(density > 0, by_member / density, np.float32(1))
            ratio[:, np.isnan(density)] = np.nan
            logs = np.where(ratio > 0, np.log(np.where(ratio > 0, ratio, 1)), 0)
            found += [ratio.std(axis=0), (ratio * logs).mean(axis=0)]
        repetitions = scaled.shape[1]
        if repetitions > 1:
            error = (scaled.var(axis=1, ddof=1) / repetitions).mean(axis=0) / len(scaled)
            found.append(np.where(density > 0, np.sqrt(error) / density, np.nan * density))
    return np.stack(found).astype(np.float32)


def _strip(parts: Parts, strip: Window) -> Arrays:
    part = parts.load(_part_name(strip))
    if part is None:
        raise RuntimeError(f"the strip {strip} of the map is missing")
    return part


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
        values = values[(..., *inside.slices_in(strip))]
        if area is not None:
            values = np.where(area.mask(inside), values, np.float32(np.nan))
        if values.ndim == 2:  # of a method without members and repetitions
            values = values[None, None]
        cells = np.broadcast_to(grid.cell_areas(inside), values.shape[-2:])
        valid = np.isfinite(values[0, 0])
        parts.save(
            _part_name(strip),
            values=(values / cells).astype(np.float32),
            total=values[..., valid].sum(axis=-1, dtype=np.float64),  # the densities are per cell
            area_km2=cells[valid].sum(),
        )


def _part_name(strip: Window) -> str:
    return f"rows-{strip.row}"
