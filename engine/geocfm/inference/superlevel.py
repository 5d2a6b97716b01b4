"""Where a map is highest: its density smoothed, and the level above which a share of it lies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from geocfm.errors import UserError
from geocfm.events import Stage
from geocfm.geo.grid import Floats, Grid, Window
from geocfm.geo.rasters import Stack

TRUNCATE = 4.0  # standard deviations; farther away a cell has no part in the smoothing
BINS = 131_072
LOWEST, HIGHEST = -64.0, 64.0  # log2 of density, in whatever unit
BIN = (HIGHEST - LOWEST) / BINS  # a thousandth of an octave
ROUNDING = 1e-9  # of the area: so much over the share that is asked for is no more than it


def strips(grid: Grid, cells: int) -> list[Window]:
    """The grid from top to bottom in strips of its whole width, of about so many cells."""
    rows = max(1, cells // grid.width)
    starts = range(0, grid.height, rows)
    return [Window(row, 0, min(rows, grid.height - row), grid.width) for row in starts]


@dataclass(frozen=True)
class MapStrip:
    """A strip of a map. density, smoothed and km2: (height, width); no data is NaN."""

    window: Window
    density: NDArray[np.float32]
    smoothed: Floats
    km2: Floats


def read_strips(map_: Stack, smooth: float, cells: int) -> Iterator[MapStrip]:
    """A map of one layer strip by strip; what a cell holds does not depend on the strips.

    smooth: the standard deviation of the Gaussian, in cells; 0 leaves the map as it is.
    """
    halo = int(TRUNCATE * smooth + 0.5) if smooth else 0
    for strip in strips(map_.grid, cells):
        around = Window(strip.row - halo, 0, strip.height + 2 * halo, strip.width)
        (density,) = map_.read(around)
        inside = strip.slices_in(around)
        smoothed = _smoothed(density, smooth)[inside]
        km2 = np.broadcast_to(map_.grid.cell_areas(strip), smoothed.shape)
        yield MapStrip(strip, density[inside], smoothed, km2)


def _smoothed(density: NDArray[np.float32], smooth: float) -> Floats:
    """A Gaussian mean of the cells with data; cells without stay so."""
    if not smooth:
        return density.astype(np.float64)
    valid = np.isfinite(density)

    def blur(values: NDArray[np.floating]) -> Floats:
        return gaussian_filter(
            values, smooth, output=np.float64, mode="constant", truncate=TRUNCATE
        )

    total = blur(np.where(valid, density, np.float32(0)))
    weight = blur(valid.astype(np.float32))
    total /= np.where(valid, weight, np.nan)
    return total


@dataclass
class AreaByDensity:
    """Area by density, gathered strip by strip in constant memory."""

    area: Floats = field(default_factory=lambda: np.zeros(BINS))

    def add(self, density: Floats, km2: Floats) -> None:
        """Cells with data, (N,), and their areas."""
        logs = np.log2(np.maximum(density, 2.0**LOWEST))
        # round numbers stand in the middle of a bin, so that rounding does not divide a plateau
        position = (logs - LOWEST) / BIN + 0.5
        chosen = np.clip(position.astype(np.int64), 0, BINS - 1)
        self.area += np.bincount(chosen, weights=km2, minlength=BINS)

    def level(self, share: float) -> float | None:
        """The lowest density above which at most this share of the area lies, None if none does.

        None means that the cells of the highest density alone are more than that.
        """
        above = np.cumsum(self.area[::-1])[::-1]
        fitting = above <= share * above[0] * (1 + ROUNDING)
        first = int(np.argmax(fitting)) if fitting.any() else BINS
        if first == BINS or not above[first]:
            return None
        return float(2.0 ** (LOWEST + (first - 0.5) * BIN))

    def share_of_highest(self) -> float:
        """The share of the area that the cells of the highest density have."""
        return float(self.area[np.nonzero(self.area)[0][-1]] / self.area.sum())


@dataclass(frozen=True)
class MapTotals:
    """The map as a whole; density is in the unit of its file."""

    area_km2: float
    mass: float
    highest_smoothed: float
    by_density: AreaByDensity

    @property
    def mean(self) -> float:
        """The regional mean."""
        return self.mass / self.area_km2

    def level_of(self, share: float) -> float:
        """The lowest density above which at most this share of the map lies, in its unit."""
        level = self.by_density.level(share)
        if level is None:
            highest = self.by_density.share_of_highest()
            raise UserError(
                f"The cells of the highest density cover {100 * highest:.3g} % of the map, more "
                f"than the {100 * share:.3g} % asked for.",
                "Give a larger --area-share, or a --threshold.",
            )
        return level


def measure_map(density: Stack, smooth: float, cells: int, stage: Stage) -> MapTotals:
    """Read the whole map once; one that is no density is refused."""
    area = mass = 0.0
    lowest = highest = 0.0
    by_density = AreaByDensity()
    height = density.grid.height
    for strip in read_strips(density, smooth, cells):
        stage(strip.window.row, height)
        valid = np.isfinite(strip.density)
        if not valid.any():
            continue
        values, km2 = strip.density[valid].astype(np.float64), strip.km2[valid]
        smoothed = strip.smoothed[valid]
        area += float(km2.sum())
        mass += float((values * km2).sum())
        lowest, highest = min(lowest, values.min()), max(highest, smoothed.max())
        by_density.add(smoothed, km2)
    stage(height, height)
    path = density.layers[0].path
    if not area:
        raise UserError(f"No cell of the map '{path}' has data.", "Give another map.")
    if lowest < 0:
        raise UserError(
            f"The map '{path}' holds values below 0 (down to {lowest:.4g}), so it is no density.",
            "Give a map made by 'geocfm map', or a density that is not a logarithm.",
        )
    if not mass:
        raise UserError(f"The map '{path}' is 0 everywhere.", "Give another map.")
    return MapTotals(area, mass, highest, by_density)
