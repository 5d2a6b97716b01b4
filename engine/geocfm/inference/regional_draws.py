"""Draws over a region: points that follow the same blended density as the map.

A window proposes points from its own flow, as many as its level and its data ask for; a proposal
is kept with the window's share in the blend at that place. What remains follows the mosaic's
density exactly, without making the map.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.events import Reporter, Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference.mosaic import LEVELS
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import BATCH, region_mosaic

PROBES = 128  # draws per window that tell which share of its density lies on data
SPARE = 2.0  # propose so much more than evenly spread occurrences would need
PASSES = 10


@dataclass(frozen=True)
class Draws:
    """points (N, 2) as (column, row); draw (N,) from 1; log_relative_density (N,)."""

    points: NDArray[np.float64]
    draw: NDArray[np.int64]
    log_relative_density: NDArray[np.float64]


def draw_region(
    predictor: Predictor,
    area: Area | None,
    points: int,
    draws: int,
    combine: str,
    seed: int,
    reporter: Reporter,
) -> Draws:
    """``draws`` independent sets of ``points`` occurrences over the predictor's grid."""
    sampler = _RegionSampler(predictor, area, combine, seed)
    wanted = points * draws
    shown = predictor.layers.grid.window() if area is None else area.bounds
    kept_per_rate = float(shown.height * shown.width)  # as if all cells had data
    for number in range(1, PASSES + 1):
        name = "Drawing points" if number == 1 else f"Drawing points, pass {number}"
        sampler.propose(SPARE * (wanted - sampler.found) / kept_per_rate, reporter.stage(name))
        if sampler.found >= wanted:
            break
        if not sampler.weights:
            raise UserError(
                "No cell of the region has data in any layer, so no point can be drawn.",
                "Check that the rasters and the area of interest overlap.",
            )
        kept_per_rate = max(sampler.found, 1) / sampler.rate
    else:
        raise UserError(
            f"Only {sampler.found} of {wanted} points fell into the area of interest.",
            "Ask for fewer points, or choose a larger area.",
        )
    chosen = sampler.generator.permutation(np.concatenate(sampler.kept))[:wanted]
    logs = sampler.log_relative_density(chosen, reporter.stage("Densities of the points"))
    return Draws(chosen, np.repeat(np.arange(1, draws + 1), points), logs)


class _RegionSampler:
    """Gathers points in passes over the windows, and what their density needs."""

    def __init__(self, predictor: Predictor, area: Area | None, combine: str, seed: int) -> None:
        self._predictor, self._area, self._seed = predictor, area, seed
        self._mosaic, self._windows = region_mosaic(predictor, area)
        self._levels = LEVELS[combine](self._windows)
        self.generator = np.random.default_rng([seed, 0])
        self.kept: list[NDArray[np.float64]] = []
        self.found = 0
        self.rate = 0.0  # proposals asked for per cell of data, all passes together
        self.weights: dict[Window, float] = {}  # level times cells with data
        self._on_data: dict[Window, float] = {}  # share of the window's raw density on data
        self._mapped_km2 = 0.0
        self._passes = 0

    def propose(self, rate: float, stage: Stage) -> None:
        """One pass: every window proposes a Poisson number of points, thinned by the blend."""
        for first in range(0, len(self._windows), BATCH):
            stage(first, len(self._windows))
            encoded = self._predictor.encode(self._windows[first : first + BATCH])
            cells = encoded.footprints.sum(axis=(1, 2))
            weights = cells * self._levels[first : first + BATCH]
            asked = self.generator.poisson(rate * weights)
            counts = np.where(weights > 0, np.maximum(asked, PROBES), 0)
            drawn = self._predictor.draw(encoded, counts.tolist(), self._seed, self._passes)
            for number in np.nonzero(weights)[0]:
                window = encoded.windows[number]
                mapped = self._mapped_cells(window, encoded.footprints[number])
                if not self._passes:
                    self.weights[window] = float(weights[number])
                    self._on_data[window] = max(drawn[number].share_on_data, 1 / PROBES)
                    self._mapped_km2 += self._mapped_part_km2(window, mapped)
                self._keep(window, mapped, drawn[number].points[: asked[number]])
        self.rate += rate
        self._passes += 1
        stage(len(self._windows), len(self._windows))

    def _keep(
        self, window: Window, mapped: NDArray[np.bool_], proposals: NDArray[np.float64]
    ) -> None:
        local = proposals * window.width
        col, row = np.floor(local).astype(np.int64).T
        points = local[mapped[row, col]] + (window.col, window.row)
        lucky = self.generator.random(len(points)) < self._mosaic.share(window, points)
        self.kept.append(points[lucky])
        self.found += int(lucky.sum())

    def _mapped_cells(self, window: Window, footprint: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Cells of the window that the map shows: on the grid, on data, in the area."""
        mapped = np.zeros_like(footprint)
        inside = window.intersection(self._predictor.layers.grid.window())
        if inside is not None:
            here = inside.slices_in(window)
            shown = True if self._area is None else self._area.mask(inside)
            mapped[here] = footprint[here] & shown
        return mapped

    def _mapped_part_km2(self, window: Window, mapped: NDArray[np.bool_]) -> float:
        """The window's part of the mapped area: parts of all windows sum to the whole."""
        row, col = np.nonzero(mapped)
        centres = np.stack([col + (window.col + 0.5), row + (window.row + 0.5)], axis=1)
        sizes = self._predictor.layers.grid.cell_areas(window)
        km2 = np.broadcast_to(sizes, mapped.shape)[row, col]
        return float((self._mosaic.share(window, centres) * km2).sum())

    def log_relative_density(
        self, points: NDArray[np.float64], stage: Stage
    ) -> NDArray[np.float64]:
        """Log of the map's value at the points, by the exact density of every window over each."""
        density = np.zeros(len(points))
        over = {w: n for w, n in self._mosaic.windows_over(points).items() if w in self.weights}
        windows = list(over)
        for first in range(0, len(windows), BATCH):
            stage(first, len(windows))
            group = windows[first : first + BATCH]
            encoded = self._predictor.encode(group)
            which = np.concatenate([over[window] for window in group])
            image = np.repeat(np.arange(len(group)), [len(over[window]) for window in group])
            corners = np.array([(window.col, window.row) for window in group])[image]
            local = (points[which] - corners) / self._predictor.window_size
            exact = np.exp(self._predictor.log_density(encoded, local, image))
            weight = np.concatenate([self._weight(w, points[over[w]]) for w in group])
            np.add.at(density, which, weight * exact)
        stage(len(windows), len(windows))
        grid = self._predictor.layers.grid
        cells = [Window(int(row), int(col), 1, 1) for col, row in points]
        km2 = np.array([grid.cell_areas(cell).item() for cell in cells])
        mean_per_km2 = self.found / self.rate / self._mapped_km2
        return np.log(np.maximum(density, 1e-300) / km2 / mean_per_km2)

    def _weight(self, window: Window, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much the window's exact density counts at points in it."""
        share = self._mosaic.share(window, points)
        return share * self.weights[window] / self._on_data[window]
