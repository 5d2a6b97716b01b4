"""A region ready to learn from: aligned layers, occurrences, tiles and windows with their roles."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from geocfm.data.encoding import Encoder
from geocfm.data.scan import Progress, Scan, scan_layers
from geocfm.data.split import ROLES, TRAIN, Split, split_tiles
from geocfm.data.survey_effort import SurveyEffort, survey_effort
from geocfm.data.windows import Starts, WindowPlan, lattice_starts, lattice_sums, plan_windows
from geocfm.geo.grid import Grid, Window
from geocfm.geo.occurrences import Occurrences
from geocfm.geo.rasters import Stack
from geocfm.model.checkpoint import LayerCard, ModelCard
from geocfm.model.settings import WindowSettings


@dataclass(frozen=True)
class Region:
    """All that training needs, and all that the pre-flight report tells."""

    grid: Grid
    stack: Stack
    occurrences: Occurrences
    points: NDArray[np.float64]  # occurrences on data, (N, 2) as (column, row)
    ids: NDArray[np.int64]  # of their features, (N,)
    weights: NDArray[np.float64]  # how much each counts, (N,); 1 without a raster of effort
    effort: SurveyEffort | None
    settings: WindowSettings
    plan: WindowPlan
    split: Split
    scan: Scan
    layer_cards: tuple[LayerCard, ...]
    starts: dict[str, Starts]  # windows that hold an occurrence, by role
    ground: dict[str, Starts]  # all windows with data enough, by role
    _reading: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def encoder(self) -> Encoder:
        """How this region's values become channels."""
        return Encoder(self.layer_cards, self.settings)

    def read(self, window: Window) -> NDArray[np.floating]:
        """Layer values (L, h, w), from memory if the scan could keep them."""
        if self.scan.cache is None:
            with self._reading:  # GDAL's datasets serve one thread at a time
                return self.stack.read(window)
        whole = self.grid.window()
        inside = window.intersection(whole)
        if inside == window:
            return self.scan.cache[(slice(None), *window.slices_in(whole))]
        shape = (len(self.stack.layers), window.height, window.width)
        values = np.full(shape, np.nan, self.stack.dtype)
        if inside is not None:
            source = self.scan.cache[(slice(None), *inside.slices_in(whole))]
            values[(slice(None), *inside.slices_in(window))] = source
        return values

    def inside(self, window: Window) -> NDArray[np.int64]:
        """Which occurrences lie in the window, by their number."""
        local = self.points - (window.col, window.row)
        within = ((local >= 0) & (local < (window.width, window.height))).all(axis=1)
        return np.flatnonzero(within)

    def points_in(self, window: Window) -> NDArray[np.float64]:
        """Occurrences in the window as (x, y) in [0, 1]^2."""
        local = self.points[self.inside(window)] - (window.col, window.row)
        return local / (window.width, window.height)

    def window(self, start: NDArray[np.int64]) -> Window:
        """The window that begins at (row, column)."""
        return Window(int(start[0]), int(start[1]), self.plan.size, self.plan.size)

    def with_split(self, split: Split) -> Region:
        """The same tiles with other roles: statistics, windows and weights follow them."""
        effort = self.effort
        if effort is not None:
            effort = effort.learned_from(split.role_of_points(self.points) == TRAIN)
        ground = _ground(self.grid, self.plan, split, self.scan, self.settings)
        return replace(
            self,
            split=split,
            weights=self.weights if effort is None else effort.weights,
            effort=effort,
            layer_cards=self.scan.layer_cards(self.stack.layers, split),
            starts=_learning_windows(ground, self.grid, self.plan, self.points),
            ground=ground,
        )

    def with_weights(self, weights: NDArray[np.float64]) -> Region:
        """Occurrences that count otherwise (N,); windows where none counts are not learned from."""
        starts = _learning_windows(self.ground, self.grid, self.plan, self.points[weights > 0])
        return replace(self, weights=weights, starts={**self.starts, "train": starts["train"]})

    def points_by_role(self) -> dict[str, int]:
        """How many occurrences lie on tiles of each role."""
        roles = self.split.role_of_points(self.points)
        return {name: int((roles == number).sum()) for number, name in enumerate(ROLES)}


def prepare_region(
    stack: Stack,
    occurrences: Occurrences,
    settings: WindowSettings,
    progress: Progress,
    effort: Stack | None = None,
) -> Region:
    """Plan the windows, split the tiles, read every layer once.

    effort: a layer on the same grid that occurrences are weighted by.
    """
    plan = plan_windows(stack.grid, len(occurrences.points), settings)
    split = split_tiles(stack.grid, plan.tile, occurrences.points, settings)
    return _read_region(stack, occurrences, settings, plan, split, None, effort, progress)


def region_as_learned(
    stack: Stack, occurrences: Occurrences, card: ModelCard, progress: Progress
) -> Region:
    """The region as a model saw it: its windows, its tiles, its statistics of the layers.

    The stack lies on the grid that the model was trained on. Every occurrence counts alike.
    """
    settings = card.settings.windows.model_copy(update={"size": card.window_size})
    plan = plan_windows(stack.grid, len(occurrences.points), settings)
    split = Split.from_card(card.split)
    return _read_region(stack, occurrences, settings, plan, split, card.layers, None, progress)


def _read_region(
    stack: Stack,
    occurrences: Occurrences,
    settings: WindowSettings,
    plan: WindowPlan,
    split: Split,
    layer_cards: tuple[LayerCard, ...] | None,
    effort: Stack | None,
    progress: Progress,
) -> Region:
    scan = scan_layers(
        stack, split, plan.stride, occurrences.points, settings.zero_is_nodata, progress
    )
    points = occurrences.points[scan.on_data]
    training = split.role_of_points(points) == TRAIN
    weighed = None if effort is None else survey_effort(effort, points, training)
    ground = _ground(stack.grid, plan, split, scan, settings)
    return Region(
        grid=stack.grid,
        stack=stack,
        occurrences=occurrences,
        points=points,
        ids=occurrences.ids[scan.on_data],
        weights=np.ones(len(points)) if weighed is None else weighed.weights,
        effort=weighed,
        settings=settings,
        plan=plan,
        split=split,
        scan=scan,
        layer_cards=layer_cards or scan.layer_cards(stack.layers, split),
        starts=_learning_windows(ground, stack.grid, plan, points),
        ground=ground,
    )


def _ground(
    grid: Grid, plan: WindowPlan, split: Split, scan: Scan, settings: WindowSettings
) -> dict[str, Starts]:
    """Windows with enough data, by role."""
    starts = lattice_starts(grid, plan.size, plan.stride)
    starts = starts[scan.footprint_share(starts, plan.size) >= settings.footprint]
    roles = split.role_of_windows(starts, plan.size)
    return {name: starts[roles == number] for number, name in enumerate(ROLES)}


def _learning_windows(
    ground: dict[str, Starts], grid: Grid, plan: WindowPlan, points: NDArray[np.float64]
) -> dict[str, Starts]:
    """Of these windows those with an occurrence; the others have no loss to give."""
    col, row = (points // plan.stride).astype(np.int64).T
    shape = -(-grid.height // plan.stride), -(-grid.width // plan.stride)
    counts = np.zeros(shape, dtype=np.int64)
    np.add.at(counts, (row, col), 1)
    return {
        name: starts[lattice_sums(counts, starts, plan.size, plan.stride) > 0]
        for name, starts in ground.items()
    }
