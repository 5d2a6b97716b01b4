"""Draws over a region: points that follow the same blended density as the map.

A window proposes points from its own flow, as many as its level and its data ask for; a proposal
is kept with the window's share in the blend at that place. What remains follows the mosaic's
density exactly, without making the map.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.events import Reporter, Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference.mosaic import LEVELS, Mosaic
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import BATCH, region_mosaic

PROBES = 128  # draws per window that tell which share of its density lies on data
SPARE = 1.3  # propose so much more than is expected to be needed
PASSES = 10


@dataclass(frozen=True)
class Draws:
    """points (N, 2) as (column, row); draw (N,) from 1; log_relative_density (N,)."""

    points: NDArray[np.float64]
    draw: NDArray[np.int64]
    log_relative_density: NDArray[np.float64]


@dataclass
class _Proposals:
    """What the passes over the windows have gathered."""

    kept: list[NDArray[np.float64]] = field(default_factory=list)
    found: int = 0
    rate: float = 0.0  # proposals asked for per cell of data, all passes together
    mapped_km2: float = 0.0
    weights: dict[Window, float] = field(default_factory=dict)  # level times cells with data
    on_data: dict[Window, float] = field(default_factory=dict)  # share of the window's density


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
    grid = predictor.layers.grid
    mosaic, windows = region_mosaic(predictor, area)
    generator = np.random.default_rng([seed, 0])
    wanted = points * draws
    gathered = _Proposals()
    kept_per_rate = float(grid.height * grid.width)  # as if all cells had data
    for attempt in range(PASSES):
        rate = SPARE * (wanted - gathered.found) / kept_per_rate
        stage = reporter.stage(
            f"Drawing points, pass {attempt + 1}" if attempt else "Drawing points"
        )
        _propose(
            gathered,
            predictor,
            mosaic,
            windows,
            area,
            combine,
            rate,
            seed + attempt,
            generator,
            stage,
        )
        if gathered.found >= wanted:
            break
        if not gathered.weights:
            raise UserError(
                "No cell of the region has data in any layer, so no point can be drawn.",
                "Check that the rasters and the area of interest overlap.",
            )
        kept_per_rate = max(gathered.found, 1) / gathered.rate
    else:
        raise UserError(
            f"Only {gathered.found} of {wanted} points fell into the area of interest.",
            "Ask for fewer points, or choose a larger area.",
        )
    chosen = generator.permutation(np.concatenate(gathered.kept))[:wanted]
    logs = _log_relative_density(gathered, predictor, mosaic, chosen, reporter)
    return Draws(chosen, np.repeat(np.arange(1, draws + 1), points), logs)


def _propose(
    gathered: _Proposals,
    predictor: Predictor,
    mosaic: Mosaic,
    windows: list[Window],
    area: Area | None,
    combine: str,
    rate: float,
    seed: int,
    generator: np.random.Generator,
    stage: Stage,
) -> None:
    """One pass: every window proposes a Poisson number of points, thinned by the blend."""
    levels = LEVELS[combine](windows)
    first_pass = not gathered.rate
    for first in range(0, len(windows), BATCH):
        stage(first, len(windows))
        encoded = predictor.encode(windows[first : first + BATCH])
        cells = encoded.footprints.sum(axis=(1, 2))
        weights = cells * levels[first : first + BATCH]
        asked = generator.poisson(rate * weights)
        counts = np.where(weights > 0, np.maximum(asked, PROBES), 0)
        drawn = predictor.draw(encoded, counts.tolist(), seed)
        for number, window in enumerate(encoded.windows):
            if not weights[number]:
                continue
            mapped = _mapped_cells(predictor, window, encoded.footprints[number], area)
            gathered.weights[window] = float(weights[number])
            gathered.on_data.setdefault(window, max(drawn[number].share_on_data, 1 / PROBES))
            if first_pass:
                gathered.mapped_km2 += _mapped_km2(predictor, mosaic, window, mapped)
            local = drawn[number].points[: asked[number]] * predictor.window_size
            col, row = np.floor(local).astype(np.int64).T
            points = local[mapped[row, col]] + (window.col, window.row)
            points = points[generator.random(len(points)) < mosaic.share(window, points)]
            gathered.kept.append(points)
            gathered.found += len(points)
    gathered.rate += rate
    stage(len(windows), len(windows))


def _mapped_cells(
    predictor: Predictor, window: Window, footprint: NDArray[np.bool_], area: Area | None
) -> NDArray[np.bool_]:
    """Cells of the window that the map shows: on the grid, on data, in the area."""
    mapped = np.zeros_like(footprint)
    inside = window.intersection(predictor.layers.grid.window())
    if inside is not None:
        here = inside.slices_in(window)
        mapped[here] = footprint[here] if area is None else footprint[here] & area.mask(inside)
    return mapped


def _mapped_km2(
    predictor: Predictor, mosaic: Mosaic, window: Window, mapped: NDArray[np.bool_]
) -> float:
    """The window's part of the mapped area: parts of all windows sum to the whole."""
    row, col = np.nonzero(mapped)
    centres = np.stack([col + (window.col + 0.5), row + (window.row + 0.5)], axis=1)
    sizes = np.broadcast_to(predictor.layers.grid.cell_areas(window), mapped.shape)[row, col]
    return float((mosaic.share(window, centres) * sizes).sum())


def _log_relative_density(
    gathered: _Proposals,
    predictor: Predictor,
    mosaic: Mosaic,
    points: NDArray[np.float64],
    reporter: Reporter,
) -> NDArray[np.float64]:
    """Log of the map's value at the points, by the exact density of every window over each."""
    density = np.zeros(len(points))
    over = {w: n for w, n in mosaic.windows_over(points).items() if w in gathered.weights}
    windows = list(over)
    stage = reporter.stage("Densities of the points")
    for first in range(0, len(windows), BATCH):
        stage(first, len(windows))
        group = windows[first : first + BATCH]
        encoded = predictor.encode(group)
        image = np.repeat(np.arange(len(group)), [len(over[w]) for w in group])
        which = np.concatenate([over[w] for w in group])
        local = [(points[over[w]] - (w.col, w.row)) / predictor.window_size for w in group]
        exact = np.exp(predictor.log_density(encoded, np.concatenate(local), image))
        factor = np.concatenate(
            [
                gathered.weights[w] / gathered.on_data[w] * mosaic.share(w, points[over[w]])
                for w in group
            ]
        )
        np.add.at(density, which, exact * factor)
    stage(len(windows), len(windows))
    grid = predictor.layers.grid
    cell_km2 = np.array([grid.cell_areas(Window(int(y), int(x), 1, 1)).item() for x, y in points])
    mean_per_km2 = gathered.found / gathered.rate / gathered.mapped_km2
    logs: NDArray[np.float64] = np.log(np.maximum(density, 1e-300) / cell_km2 / mean_per_km2)
    return logs
