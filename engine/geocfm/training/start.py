"""What single cells say, found before a network learns to correct it; and what to correct.

The shares of process and forest are those that predict best what groups of tiles hold that neither
has seen. On the training tiles the network is shown what they say of a tile that they have not
learned from: else it would learn to trust a forest that knows its own occurrences by heart.

Parts of the training tiles without occurrences count as searched. Without the effort of surveys the
start says where people have found much, which is also where they have looked.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize

from geocfm.data.region import Region
from geocfm.geo.grid import Window
from geocfm.model.start import Start
from geocfm.training.cells import (
    Cells,
    Floats,
    Groups,
    log_mean,
    nats,
    read_cells,
    tile_groups,
    training_tiles,
)
from geocfm.training.forest import fit_forest, forest_edges
from geocfm.training.process import USUAL_RIDGE, ProcessFit


@dataclass(frozen=True)
class FittedStart:
    """A start, and those that each have not learned from a group of training tiles."""

    start: Start
    crossed: CrossedStart | None  # none where all occurrences lie on one tile
    nats: dict[str, float]  # that an occurrence gains over an even density, on tiles left out

    def sentence(self) -> str:
        """What it is worth; empty where that is not known."""
        if not self.nats:
            return ""
        process, forest, both = (self.nats[part] for part in ("process", "forest", "start"))
        return (
            f"What single cells say gains {both:.2f} nats per occurrence over an even density, on "
            f"tiles left out (its process alone {process:.2f}, its forest alone {forest:.2f})."
        )


def fit_process(region: Region, channels: int, seed: int) -> FittedStart:
    """A process alone, with the usual ridge; the network is shown what it says of all tiles."""
    cells = read_cells(region, tile_groups(region), seed)
    start = Start(channels, with_forest=False).eval().requires_grad_(False)
    if len(cells.present) and len(cells.sample):
        fit = ProcessFit(cells, region.encoder.presence_channels())
        fit.give(start.process, USUAL_RIDGE)
    return FittedStart(start, None, {})


def fit_stack(region: Region, channels: int, seed: int) -> FittedStart:
    """Learn from the training tiles; without an occurrence that counts the start is even."""
    groups = tile_groups(region)
    cells = read_cells(region, groups, seed)
    start = Start(channels).eval().requires_grad_(False)
    if not len(cells.present) or not len(cells.sample):
        return FittedStart(start, None, {})
    presence = region.encoder.presence_channels()
    process = ProcessFit(cells, presence)
    ridge = process.best_ridge()
    valued = np.flatnonzero(presence != np.arange(len(presence)))
    edges = forest_edges(cells.sample, valued, channels)

    def fit(found: Start, without: int | None) -> Start:
        process.give(found.process, ridge, without)
        sample, present = cells.kept(without)
        given = cells.present[present], cells.weights[present], cells.sample[sample]
        fit_forest(found.forest, edges, *given, seed)
        return found

    fit(start, None)
    if cells.groups < 2:
        return FittedStart(start, None, {})
    left_out = [
        fit(Start(channels).eval().requires_grad_(False), group) for group in range(cells.groups)
    ]
    shares, worth = _best_shares(cells, left_out)
    for one in (start, *left_out):
        one.shares.copy_(torch.from_numpy(shares))
    levels = [log_mean(shares @ _logs(one, cells.sample)) for one in left_out]
    return FittedStart(start, CrossedStart(region, left_out, levels, groups), worth)


def _best_shares(
    cells: Cells, left_out: list[Start]
) -> tuple[NDArray[np.float32], dict[str, float]]:
    """The shares (2,) of process and forest, and what each and both are worth on tiles left out."""
    everywhere, there = np.empty((2, len(cells.sample))), np.empty((2, len(cells.present)))
    for group, start in enumerate(left_out):
        at_all = _logs(start, cells.sample)
        level = np.array([[log_mean(logs)] for logs in at_all])
        mine = cells.sample_group == group
        everywhere[:, mine] = at_all[:, mine] - level
        mine = cells.present_group == group
        there[:, mine] = _logs(start, cells.present[mine]) - level

    def loss(shares: Floats) -> float:
        return -nats(cells, shares @ everywhere, shares @ there)

    starts = [np.array(one) for one in ((0.5, 0.5), (1.0, 0.0), (0.0, 1.0))]
    found = minimize(loss, min(starts, key=loss), method="L-BFGS-B", bounds=[(0, None)] * 2)
    worth = {"process": -loss(starts[1]), "forest": -loss(starts[2]), "start": -float(found.fun)}
    return np.asarray(found.x, np.float32), worth


def _logs(start: Start, rows: NDArray[np.float32]) -> Floats:
    """Log intensities (2, N) of cells (N, C), by the process and by the forest."""
    images = torch.from_numpy(np.ascontiguousarray(rows.T))[None, :, None]
    process, forest = start.process(images), start.forest(images)
    return np.stack([one[0, 0].double().numpy() for one in (process, forest)])


class CrossedStart:
    """On each training tile what a start says that has not learned from it; kept when computed.

    levels: the log mean intensities of these starts, which are made to have one mean.
    """

    def __init__(
        self, region: Region, left_out: list[Start], levels: list[float], groups: Groups
    ) -> None:
        self._region, self._levels = region, levels
        self._tiles = list(zip(training_tiles(region), groups.tolist(), strict=True))
        self._left_out = left_out
        self._found: dict[Window, NDArray[np.float32]] = {}
        self._finding = threading.Lock()

    def read(self, window: Window) -> NDArray[np.float32]:
        """Log intensities (h, w) of a window of training tiles; 0 beyond them."""
        found = np.zeros((window.height, window.width), np.float32)
        for tile, group in self._tiles:
            inside = window.intersection(tile)
            if inside is not None:
                said = self._of_tile(tile, group)
                found[inside.slices_in(window)] = said[inside.slices_in(tile)]
        return found

    def _of_tile(self, tile: Window, group: int) -> NDArray[np.float32]:
        with self._finding:
            if tile not in self._found:
                channels, _ = self._region.encoder.encode(self._region.read(tile))
                said = self._left_out[group](torch.from_numpy(channels)[None])[0].numpy()
                self._found[tile] = said - np.float32(self._levels[group])
            return self._found[tile]
