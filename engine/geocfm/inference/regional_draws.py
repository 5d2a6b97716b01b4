"""Draws over a region: points that follow the map.

The map says how many points fall where. Of a model with a density head, each point's cell is chosen
from the map; the window around the cell, of those that the grid is divided into anew for every few
draws, proposes a point of its flow instead, which is anchored on the map's own intensity there. So
the map decides between windows, and the flow within them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import rasterio
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window, bounding_window
from geocfm.inference.look import Look
from geocfm.inference.parts import Arrays, Parts
from geocfm.inference.predictor import EncodedWindows, Predictor
from geocfm.inference.regional_map import RawMap, strip_part
from geocfm.inference.windowed_map import BATCH, batches_of, window_mosaic, windows_touching

LATTICES = 8  # ways to divide the grid into windows, which the draws take in turn
SPARE = 1.5  # of windows that are blended: propose so much more than needed
PASSES = 10
CHOOSING, PLACING, THINNING = 2**31, 2**31 + 1, 2**31 + 3  # chance apart from that of the noise

Points = NDArray[np.float64]
"""(N, 2) as (column, row) of the grid."""
Progress = Callable[[float], None]
"""Told which share is done."""


@dataclass(frozen=True)
class Draws:
    """points (N, 2) as (column, row); draw (N,) from 1; log_relative_density (N,) of the map."""

    points: Points
    draw: NDArray[np.int64]
    log_relative_density: NDArray[np.float64]


@dataclass(frozen=True)
class DrawnMap:
    """The map that draws follow, and the area it is of, if not all of the grid."""

    raw: RawMap
    area: Area | None

    def shown(self, grid: Grid) -> Window:
        """The part of the grid that is mapped."""
        return grid.window() if self.area is None else self.area.bounds

    def cells(self, grid: Grid, window: Window, footprint: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Of a window's cells with data (h, w) those that are mapped."""
        mapped = np.zeros_like(footprint)
        inside = window.intersection(self.shown(grid))
        if inside is not None:
            here = inside.slices_in(window)
            mapped[here] = footprint[here] & (True if self.area is None else self.area.mask(inside))
        return mapped

    def log_relative_density(self, grid: Grid, points: Points) -> NDArray[np.float64]:
        """Log of the map's value at points, 0 for the mean."""
        col, row = np.floor(points).astype(np.int64).T
        shown = self.shown(grid)
        found = np.empty(len(points))
        with rasterio.open(self.raw.path) as source:
            for strip in self.raw.strips:
                here = (row >= strip.row) & (row < strip.row_stop)
                if here.any():
                    at = replace(strip, row=strip.row - shown.row, col=0)
                    values = source.read(1, window=at.to_rasterio())
                    found[here] = values[row[here] - strip.row, col[here] - shown.col]
        return np.log(np.maximum(found / self.raw.mean, 1e-300))


def draw_region(
    predictor: Predictor,
    mapped: DrawnMap,
    points: int,
    draws: int,
    seed: int,
    tile: int,
    parts: Parts,
    reporter: Reporter,
) -> Draws:
    """``draws`` independent sets of ``points`` occurrences over the mapped part of the grid.

    Members of an ensemble have an equal part in each of them. What is finished is kept in
    ``parts``, as the map's strips are; what is there already is not redone.
    """
    wanted = points * draws
    draw = np.repeat(np.arange(draws), points)
    whose = np.arange(wanted) % len(predictor.members)
    drawn = np.empty((wanted, 2))
    local = predictor.card.settings.is_local
    stage = reporter.stage("Drawing points")
    for number, member in enumerate(predictor.members):
        mine = np.flatnonzero(whose == number)
        if not len(mine):
            continue

        def progress(share: float, number: int = number) -> None:
            stage(number + share, len(predictor.members))

        if local:
            sampler = _IntensityDraws(member, mapped, seed, number, tile, parts)
            drawn[mine] = sampler.draw(draw[mine], progress)
        else:
            blended = _BlendedDraws(member, mapped, seed, number, parts)
            drawn[mine] = blended.draw(len(mine), progress)
    stage(len(predictor.members), len(predictor.members))
    logs = mapped.log_relative_density(predictor.layers.grid, drawn)
    return Draws(drawn, draw + 1, logs)


class _IntensityDraws:
    """Points of one member whose map is an intensity."""

    def __init__(
        self,
        predictor: Predictor,
        mapped: DrawnMap,
        seed: int,
        member: int,
        tile: int,
        parts: Parts,
    ) -> None:
        self._predictor, self._mapped, self._parts = predictor, mapped, parts
        self._seed, self._member, self._tile = seed, member, tile
        self._grid, self._size = predictor.layers.grid, predictor.window_size
        network = predictor.card.settings.network
        self._cell = network.period if network.levels == "all" else network.stem
        self._side = self._size // self._cell * self._cell  # of a square, which windows contain

    def draw(self, draw: NDArray[np.int64], progress: Progress) -> Points:
        """A point (N, 2) for each, of draws (N,)."""
        cells = self._cells(len(draw))
        starts = self._starts(cells, draw)
        points = cells + np.random.default_rng([self._seed, PLACING, self._member]).random(
            cells.shape
        )  # where a flow finds no place on data
        done = 0
        for tile, mine in self._by_tile(starts):
            progress(done / len(draw))
            name = f"drawn-{self._member}-{tile.height}-{tile.row}-{tile.col}"
            part = self._parts.load(name)
            if part is None:
                part = self._draw_tile(starts[mine], points[mine])
                self._parts.save(name, **part)
            points[mine] = part["points"]
            done += len(mine)
        return points

    def _cells(self, count: int) -> NDArray[np.int64]:
        """Cells (N, 2) as (column, row), each by itself by the member's own map, row by row."""
        generator = np.random.default_rng([self._seed, CHOOSING, self._member])
        strips = self._mapped.raw.strips
        masses = [
            float(strip_part(self._parts, strip)["total"][self._member, 0]) for strip in strips
        ]
        wanted = np.sort(generator.random(count)) * sum(masses)
        ends = np.searchsorted(wanted, np.cumsum(masses), "right")
        ends[-1] = count
        found, first, before = [], 0, 0.0
        for strip, mass, end in zip(strips, masses, ends.tolist(), strict=True):
            if end > first:
                values = strip_part(self._parts, strip)["values"][self._member, 0]
                per_cell = np.nan_to_num(values).astype(np.float64) * self._grid.cell_areas(strip)
                up_to = np.cumsum(per_cell) + before
                picked = np.searchsorted(up_to, wanted[first:end], "right")
                last = np.flatnonzero(per_cell)[-1]  # rounding may leave a little beyond it
                row, col = np.divmod(picked.clip(max=last), strip.width)
                found.append(np.stack([col + strip.col, row + strip.row], axis=1))
            first, before = end, before + mass
        cells: NDArray[np.int64] = generator.permutation(np.concatenate(found))
        return cells

    def _starts(self, cells: NDArray[np.int64], draw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the square around each cell begins, (row, column), of those the grid falls into."""
        side, along = self._side, self._side // self._cell
        generator = np.random.default_rng([self._seed, PLACING])
        ways = generator.permutation(along**2)[:LATTICES]  # no two are alike, nor their noise
        before = self._cell * np.stack(np.divmod(ways[draw % len(ways)], along), axis=1)
        starts: NDArray[np.int64] = (cells[:, ::-1] - before) // side * side + before
        return starts

    def _by_tile(self, starts: NDArray[np.int64]) -> Iterator[tuple[Window, NDArray[np.int64]]]:
        """Squares of the grid that windows begin in, and the numbers of their points."""
        places, number = np.unique(starts // self._tile, axis=0, return_inverse=True)
        order = np.argsort(number.ravel(), kind="stable")
        cuts = np.cumsum(np.bincount(number.ravel()))[:-1]
        for place, mine in zip(places.tolist(), np.split(order, cuts), strict=True):
            row, col = place[0] * self._tile, place[1] * self._tile
            yield Window(row, col, self._tile, self._tile), mine

    def _draw_tile(self, starts: NDArray[np.int64], instead: Points) -> Arrays:
        """Points (N, 2) of squares that begin near each other."""
        places, number, counts = np.unique(starts, axis=0, return_inverse=True, return_counts=True)
        squares = [Window(row, col, self._side, self._side) for row, col in places.tolist()]
        windows = [self._window(square) for square in squares]
        look = self._look(bounding_window(windows))
        order = np.argsort(number.ravel(), kind="stable")  # by window
        points = instead.copy()
        done = 0
        for first in range(0, len(windows), BATCH):
            some = windows[first : first + BATCH]
            asked = counts[first : first + BATCH].tolist()
            own = [
                _cells_of(square, window) for square, window in zip(squares, windows, strict=True)
            ][first : first + BATCH]
            encoded = self._predictor.cut(look, some, np.stack(own))
            # several squares may lie in one window; each has noise of its own
            named = replace(encoded, windows=tuple(squares[first : first + BATCH]))
            drawn = self._predictor.draw(named, asked, self._seed, self._member)
            for image, (window, draws) in enumerate(zip(some, drawn, strict=True)):
                mine = order[done : done + len(draws.points)]
                done += len(mine)
                local = draws.points * self._size
                col, row = np.floor(local).astype(np.int64).T
                good = encoded.footprints[image][row, col]
                points[mine[good]] = local[good] + (window.col, window.row)
        return {"points": points}

    def _window(self, square: Window) -> Window:
        """The window that contains a square's part of the grid, on it as far as it is large enough.

        It begins where a cell of the features does.
        """
        whole, cell = self._grid.window(), self._cell
        row, col = (
            max(0, min(start, -(-(length - self._size) // cell) * cell))
            for start, length in ((square.row, whole.height), (square.col, whole.width))
        )
        return Window(row, col, self._size, self._size)

    def _look(self, window: Window) -> Look:
        """What the member sees, and only the mapped cells as data."""
        look = self._predictor.look(window)
        return replace(look, footprint=self._mapped.cells(self._grid, window, look.footprint))


def _cells_of(square: Window, window: Window) -> NDArray[np.bool_]:
    """Which cells (h, w) of a window lie in a square."""
    found = np.zeros((window.height, window.width), dtype=np.bool_)
    inside = square.intersection(window)
    if inside is not None:
        found[inside.slices_in(window)] = True
    return found


class _BlendedDraws:
    """Points of one member whose map is blended from windows.

    A window proposes points of its flow, by its cells with data; a proposal is kept with the
    window's share in the blend at that place.
    """

    def __init__(
        self, predictor: Predictor, mapped: DrawnMap, seed: int, member: int, parts: Parts
    ) -> None:
        self._predictor, self._mapped, self._parts = predictor, mapped, parts
        self._seed, self._member = seed, member
        self._mosaic = window_mosaic(predictor)
        self._windows = windows_touching(self._mosaic, mapped.area)

    def draw(self, wanted: int, progress: Progress) -> Points:
        """So many points (N, 2)."""
        shown = self._mapped.shown(self._mosaic.grid)
        found, rate, kept = 0, 0.0, [np.empty((0, 2))]
        per_rate = float(shown.cells)  # points found by a rate of one: as if all cells had data
        for number in range(PASSES):
            asked = SPARE * (wanted - found) / per_rate
            for batch in batches_of(self._windows):
                progress(min(1.0, found / wanted))
                name = f"drawn-{self._member}-{number}-{batch[0].row}-{batch[0].col}"
                part = self._parts.load(name)
                if part is None:
                    part = self._propose(batch, asked, number)
                    self._parts.save(name, **part)
                kept.append(part["points"])
                found += len(part["points"])
            rate += asked
            if found >= wanted:
                shuffle = np.random.default_rng([self._seed, THINNING, self._member])
                points: Points = shuffle.permutation(np.concatenate(kept))[:wanted]
                return points
            per_rate = max(found, 1) / rate
        raise UserError(
            f"Only {found} of {wanted} points fell into the area of interest.",
            "Ask for fewer points, or choose a larger area.",
        )

    def _propose(self, batch: list[Window], rate: float, number: int) -> Arrays:
        """What windows propose; chance comes from (seed, pass, place), not from other batches."""
        seeds = [self._seed, THINNING, self._member, number, batch[0].row, batch[0].col]
        generator = np.random.default_rng(seeds)
        encoded = self._predictor.encode(batch)
        counts = generator.poisson(rate * encoded.footprints.sum(axis=(1, 2)))
        drawn = self._predictor.draw(encoded, counts.tolist(), self._seed, number)
        kept = [np.empty((0, 2))]
        for image, window in enumerate(batch):
            points = self._on_map(encoded, image, drawn[image].points)
            share = self._mosaic.share(window, points)
            kept.append(points[generator.random(len(points)) < share])
        return {"points": np.concatenate(kept)}

    def _on_map(self, encoded: EncodedWindows, image: int, proposals: Points) -> Points:
        """Proposals (N, 2) in [0, 1]^2 of a window that lie on mapped cells, on the grid."""
        window, footprint = encoded.windows[image], encoded.footprints[image]
        mapped = self._mapped.cells(self._mosaic.grid, window, footprint)
        local = proposals * window.width
        col, row = np.floor(local).astype(np.int64).T
        points: Points = local[mapped[row, col]] + (window.col, window.row)
        return points
