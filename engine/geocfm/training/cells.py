"""Cells of the training tiles to learn single-cell methods from: a sample, and occurrences.

Tiles are put into groups, so that what learns from some can be judged on others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.region import Region
from geocfm.data.split import TRAIN
from geocfm.data.windows import blocks
from geocfm.geo.grid import Window

MOST_BLOCKS = 1024  # that cells are drawn from, spread evenly over all there are
CELLS = 60_000  # drawn from them at most
GROUPS = 4  # of tiles, if so many hold occurrences
CELLS_STREAM = 2**31 + 2  # keeps this chance apart from that of every training step

Rows = NDArray[np.float32]
Floats = NDArray[np.float64]
Groups = NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Channels (N, C) of a sample of all cells, and (M, C) of those that hold occurrences.

    weights (M,): how much each occurrence counts; groups: of tiles, by number, of both.
    """

    sample: Rows
    sample_group: Groups
    present: Rows
    present_group: Groups
    weights: Floats
    groups: int

    def kept(self, without: int | None) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which cells of the sample, and which occurrences, are not of a group."""
        if without is None:
            return np.ones(len(self.sample), dtype=bool), np.ones(len(self.present), dtype=bool)
        return self.sample_group != without, self.present_group != without


def training_tiles(region: Region) -> list[Window]:
    """Row by row."""
    return [tile for tile, role in region.split.tiles() if role == TRAIN]


def tile_groups(region: Region) -> Groups:
    """The group of each training tile; each has about as many occurrences. One group, if few do.

    The richest tiles are dealt out first, each to the group that has least; then the empty ones.
    """
    tiles = training_tiles(region)
    held = np.array([region.weights[region.inside(tile)].sum() for tile in tiles])
    groups = min(GROUPS, int((held > 0).sum()))
    found = np.zeros(len(tiles), dtype=np.int64)
    if groups < 2:
        return found
    weight, count = np.zeros(groups), np.zeros(groups)
    for tile in np.argsort(-held, kind="stable"):
        chosen = int(np.lexsort((count, weight))[0] if held[tile] > 0 else np.argmin(count))
        found[tile] = chosen
        weight[chosen] += held[tile]
        count[chosen] += 1
    return found


def read_cells(region: Region, groups: Groups, seed: int) -> Cells:
    """The cells of the training tiles, whose groups these are."""
    generator = np.random.default_rng([seed, CELLS_STREAM])
    pieces = [
        (piece, int(group))
        for tile, group in zip(training_tiles(region), groups, strict=True)
        for piece in blocks(tile, 1, region.plan.size)
    ]
    chosen = np.linspace(0, len(pieces) - 1, min(len(pieces), MOST_BLOCKS)).astype(int)
    drawn = set(chosen.tolist())
    share = CELLS / max(sum(pieces[number][0].cells for number in drawn), 1)
    channels, _ = region.encoder.encode(region.read(Window(0, 0, 1, 1)))
    none = np.zeros((0, len(channels)), np.float32)
    sample, present = [none], [none]
    sample_group, present_group = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    weights = [np.zeros(0)]
    for number, (piece, group) in enumerate(pieces):
        inside = region.inside(piece)
        inside = inside[region.weights[inside] > 0]
        if number not in drawn and not len(inside):
            continue
        channels, footprint = region.encoder.encode(region.read(piece))
        if number in drawn:
            kept = footprint & (generator.random(footprint.shape) < share)
            sample.append(channels[:, kept].T)
            sample_group.append(np.full(int(kept.sum()), group))
        col, row = (region.points[inside].astype(np.int64) - (piece.col, piece.row)).T
        present.append(channels[:, row, col].T)
        present_group.append(np.full(len(inside), group))
        weights.append(region.weights[inside])
    return Cells(
        np.concatenate(sample),
        np.concatenate(sample_group),
        np.concatenate(present),
        np.concatenate(present_group),
        np.concatenate(weights),
        int(groups.max(initial=-1)) + 1,
    )


def nats(cells: Cells, everywhere: Floats, there: Floats) -> float:
    """What an occurrence gains over an even density, by log intensities at the sample and there."""
    gains = there - log_mean(everywhere)
    return float((cells.weights * gains).sum() / cells.weights.sum())


def log_mean(logs: Floats) -> float:
    """The logarithm of the mean intensity, of log intensities (N,)."""
    highest = logs.max()
    return float(highest + np.log(np.exp(logs - highest).mean()))
