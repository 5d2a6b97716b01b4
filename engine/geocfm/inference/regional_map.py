"""The prospectivity map: relative density over a region, written strip by strip."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.events import Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.geo.writing import ensure_complete, open_raster_for_blocks
from geocfm.inference.parts import Arrays, Parts

UNIT = "relative density, 1 = regional mean"
MEANING = (
    "Density of occurrence locations, learned from where occurrences are known, relative to the "
    "mean of the mapped area: 2 means twice as many occurrences expected as on average. It is no "
    "probability of a deposit. Cells where no layer has data are no-data."
)
DENSITY = "relative density"
VARIATION, INFORMATION = "coefficient of variation", "mutual information"
MONTE_CARLO = "Monte-Carlo error"

Values = NDArray[np.float32]
"""Densities per cell (members, repetitions, h, w), up to a factor for each member; NaN: no data."""


class MapSource(Protocol):
    """What a map is made from: GeoCFM's intensity, or densities of windows that are blended."""

    @property
    def grid(self) -> Grid:
        """The grid that is mapped."""

    def strips(self, shown: Window) -> list[Window]:
        """The shown part of the grid from top to bottom, as it will be finished."""

    def values(self, strips: Sequence[Window], first: int, stage: Stage) -> Iterator[Values]:
        """The strips' densities, from the ``first`` one on."""


@dataclass(frozen=True)
class RawMap:
    """A map on disk before its scale is known: divide band 1 by ``mean`` for relative density.

    bands: what the raster holds; beside the density its uncertainty, if there is an ensemble, and
    its Monte-Carlo error, if it was repeated. strips: those that it was made from.
    """

    path: Path
    mean: float
    area_km2: float
    bands: tuple[str, ...] = (DENSITY,)
    strips: tuple[Window, ...] = ()


def write_raw_map(
    path: Path,
    source: MapSource,
    area: Area | None,
    parts: Parts,
    stage: Stage,
    temperature: float = 1.0,
) -> RawMap:
    """Map the grid, or the area's part of it, into a raster at ``path``.

    Finished strips of the map are kept in ``parts``; those that are there already are not redone.
    temperature: the exponent of the density, which is then scaled anew.
    """
    grid = source.grid
    shown = grid.window() if area is None else area.bounds
    strips = source.strips(shown)
    _finish_strips(source, area, strips, parts, stage)
    area_km2 = sum(float(strip_part(parts, strip)["area_km2"]) for strip in strips)
    if not area_km2:
        raise UserError(
            "No cell of the region has data in any layer, so there is nothing to map.",
            "Check that the rasters and the area of interest overlap.",
        )
    total = sum(strip_part(parts, strip)["total"] for strip in strips)  # (members, repetitions)
    means = np.asarray(total).mean(axis=1) / area_km2
    bands = _bands(np.asarray(total).shape)
    mapped, cells, summed = 0.0, 0, 0.0
    with open_raster_for_blocks(path, grid.subgrid(shown), count=len(bands)) as raster:
        for strip in strips:
            values = _assembled(strip_part(parts, strip)["values"], means)
            values[0] **= np.float32(temperature)
            valid = np.isfinite(values[0])
            km2 = np.broadcast_to(grid.cell_areas(strip), valid.shape)
            mapped += float((values[0][valid] * km2[valid]).sum(dtype=np.float64))
            cells += int(valid.sum())
            summed += float(values[0][valid].sum(dtype=np.float64))
            place = Window(strip.row - shown.row, strip.col - shown.col, *valid.shape)
            raster.write(values, window=place.to_rasterio())
    ensure_complete(path, [(cells, summed)])
    return RawMap(path, mapped / area_km2, area_km2, bands, tuple(strips))


def strip_part(parts: Parts, strip: Window) -> Arrays:
    """A finished strip.

    values (members, repetitions, h, w) per km2, total (members, repetitions), area_km2.
    """
    part = parts.load(_part_name(strip))
    if part is None:
        raise RuntimeError(f"the strip {strip} of the map is missing")
    return part


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


def _finish_strips(
    source: MapSource, area: Area | None, strips: list[Window], parts: Parts, stage: Stage
) -> None:
    """Make the strips that are missing; they are finished in order, so from the first one on."""
    there = [parts.load(_part_name(strip)) is not None for strip in strips]
    if all(there):
        return
    first = there.index(False)
    grid = source.grid
    for strip, values in zip(strips[first:], source.values(strips, first, stage), strict=True):
        if area is not None:
            values = np.where(area.mask(strip), values, np.float32(np.nan))
        cells = np.broadcast_to(grid.cell_areas(strip), values.shape[-2:])
        valid = np.isfinite(values[0, 0])
        parts.save(
            _part_name(strip),
            values=(values / cells).astype(np.float32),
            total=values[..., valid].sum(axis=-1, dtype=np.float64),  # the densities are per cell
            area_km2=cells[valid].sum(),
        )


def _part_name(strip: Window) -> str:
    return f"rows-{strip.row}-{strip.row_stop}"
