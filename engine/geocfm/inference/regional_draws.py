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
from geocfm.inference.mosaic import Mosaic
from geocfm.inference.parts import Arrays, Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.region_windows import BATCH, batches_of, region_mosaic
from geocfm.inference.window_survey import region_levels

PROBES = 128  # draws per window that tell which share of its density lies on data
SPARE = 2.0  # propose so much more than evenly spread occurrences would need
PASSES = 10
LEAST = 1000  # points of a member, of which its mean density is told
THINNING = 2**31  # keeps this chance apart from every window's noise


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
    parts: Parts,
    reporter: Reporter,
) -> Draws:
    """``draws`` independent sets of ``points`` occurrences over the predictor's grid.

    Members of an ensemble have an equal part in each of them. What is finished is kept in
    ``parts``; what is there already is not redone.
    """
    mosaic, windows = region_mosaic(predictor, area)
    levels = region_levels(*(predictor, mosaic, windows, combine, "kde", seed, parts, reporter))
    wanted = points * draws
    samplers = [
        _RegionSampler(member, mosaic, windows, levels.by_member[number], area, seed, parts, number)
        for number, member in enumerate(predictor.members)
    ]
    whose = np.arange(wanted) % len(samplers)
    chosen = np.empty((wanted, 2))
    for number, sampler in enumerate(samplers):
        mine = whose == number
        _gather(sampler, int(mine.sum()), reporter)
        shuffle = np.random.default_rng([seed + number, THINNING])
        chosen[mine] = shuffle.permutation(np.concatenate(sampler.kept))[: mine.sum()]
    stage = reporter.stage("Densities of the points")
    logs = [sampler.log_relative_density(chosen, stage) for sampler in samplers]
    mean = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    return Draws(chosen, np.repeat(np.arange(1, draws + 1), points), mean)


def _gather(sampler: _RegionSampler, wanted: int, reporter: Reporter) -> None:
    """Passes over the windows until there are as many points as wanted."""
    kept_per_rate = float(sampler.shown.height * sampler.shown.width)  # as if all cells had data
    for number in range(1, PASSES + 1):
        name = "Drawing points" if number == 1 else f"Drawing points, pass {number}"
        aim = max(wanted, LEAST) - sampler.found
        sampler.propose(SPARE * aim / kept_per_rate, reporter.stage(name))
        if sampler.found >= wanted:
            return
        if not sampler.weights:
            raise UserError(
                "No cell of the region has data in any layer, so no point can be drawn.",
                "Check that the rasters and the area of interest overlap.",
            )
        kept_per_rate = max(sampler.found, 1) / sampler.rate
    raise UserError(
        f"Only {sampler.found} of {wanted} points fell into the area of interest.",
        "Ask for fewer points, or choose a larger area.",
    )


class _RegionSampler:
    """Gathers points of one member in passes over the windows, and what their density needs."""

    def __init__(
        self,
        predictor: Predictor,
        mosaic: Mosaic,
        windows: list[Window],
        levels: dict[Window, float],
        area: Area | None,
        seed: int,
        parts: Parts,
        member: int,
    ) -> None:
        self._predictor, self._area, self._seed, self._parts = predictor, area, seed, parts
        self._mosaic, self._windows, self._levels = mosaic, windows, levels
        self._name = f"member-{member}"
        self.shown = predictor.layers.grid.window() if area is None else area.bounds
        self.kept: list[NDArray[np.float64]] = []
        self.found = 0
        self.rate = 0.0  # proposals asked for per cell of data, all passes together
        self.weights: dict[Window, float] = {}  # level times cells with data
        self._on_data: dict[Window, float] = {}  # share of the window's raw density on data
        self._mapped_km2 = 0.0
        self._passes = 0

    def propose(self, rate: float, stage: Stage) -> None:
        """One pass: every window proposes a Poisson number of points, thinned by the blend."""
        done = 0
        for batch in batches_of(self._windows):
            stage(done, len(self._windows))
            name = f"{self._name}-pass-{self._passes}-{batch[0].row}-{batch[0].col}"
            part = self._parts.load(name)
            if part is None:
                part = self._propose_batch(batch, rate)
                self._parts.save(name, **part)
            self.kept.append(part["points"])
            self.found += len(part["points"])
            if not self._passes:
                self._mapped_km2 += float(part["mapped_km2"].sum())
                for number in np.nonzero(part["weights"])[0]:
                    self.weights[batch[number]] = float(part["weights"][number])
                    self._on_data[batch[number]] = float(part["on_data"][number])
            done += len(batch)
        self.rate += rate
        self._passes += 1
        stage(len(self._windows), len(self._windows))

    def _propose_batch(self, batch: list[Window], rate: float) -> Arrays:
        """What windows propose; chance comes from (seed, pass, place), not from other batches."""
        seeds = [self._seed, THINNING, self._passes, batch[0].row, batch[0].col]
        generator = np.random.default_rng(seeds)
        encoded = self._predictor.encode(batch)
        cells = encoded.footprints.sum(axis=(1, 2))
        weights = cells * np.array([self._levels[window] for window in batch])
        asked = generator.poisson(rate * weights)
        counts = np.where(weights > 0, np.maximum(asked, PROBES), 0)
        drawn = self._predictor.draw(encoded, counts.tolist(), self._seed, self._passes)
        kept = [np.empty((0, 2))]
        mapped_km2 = np.zeros(len(batch))
        for number in np.nonzero(weights)[0]:
            window = batch[number]
            mapped = self._mapped_cells(window, encoded.footprints[number])
            mapped_km2[number] = self._mapped_part_km2(window, mapped)
            points = _inside(window, mapped, drawn[number].points[: asked[number]])
            kept.append(points[generator.random(len(points)) < self._mosaic.share(window, points)])
        on_data = [max(draws.share_on_data, 1 / PROBES) for draws in drawn]
        return {
            "points": np.concatenate(kept),
            "weights": weights,
            "on_data": np.array(on_data),
            "mapped_km2": mapped_km2,
        }

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
            group = {window: over[window] for window in windows[first : first + BATCH]}
            name = f"{self._name}-density-{first}"
            part = self._parts.load(name)
            if part is None:
                part = {"density": self._density(points, group)}
                self._parts.save(name, **part)
            np.add.at(density, np.concatenate(list(group.values())), part["density"])
        stage(len(windows), len(windows))
        grid = self._predictor.layers.grid
        cells = [Window(int(row), int(col), 1, 1) for col, row in points]
        km2 = np.array([grid.cell_areas(cell).item() for cell in cells])
        mean_per_km2 = self.found / self.rate / self._mapped_km2
        return np.log(np.maximum(density, 1e-300) / km2 / mean_per_km2)

    def _density(
        self, points: NDArray[np.float64], group: dict[Window, NDArray[np.int64]]
    ) -> NDArray[np.float64]:
        """What each window of the group adds to the density at its points, one after another."""
        encoded = self._predictor.encode(list(group))
        which = np.concatenate(list(group.values()))
        image = np.repeat(np.arange(len(group)), [len(numbers) for numbers in group.values()])
        corners = np.array([(window.col, window.row) for window in group])[image]
        local = (points[which] - corners) / self._predictor.window_size
        exact = np.exp(self._predictor.log_density(encoded, local, image))
        weight = [self._weight(window, points[numbers]) for window, numbers in group.items()]
        added: NDArray[np.float64] = np.concatenate(weight) * exact
        return added

    def _weight(self, window: Window, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """How much the window's exact density counts at points in it."""
        share = self._mosaic.share(window, points)
        return share * self.weights[window] / self._on_data[window]


def _inside(
    window: Window, mapped: NDArray[np.bool_], proposals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Proposals (N, 2) in [0, 1]^2 of a window that lie on its mapped cells, on the grid."""
    local = proposals * window.width
    col, row = np.floor(local).astype(np.int64).T
    points: NDArray[np.float64] = local[mapped[row, col]] + (window.col, window.row)
    return points
