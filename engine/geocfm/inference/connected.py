"""Connected parts of a set of cells, found strip by strip; a cell has eight neighbours."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import label
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Labels = NDArray[np.int32]
Numbers = NDArray[np.int64]

EIGHT = np.ones((3, 3), dtype=bool)


@dataclass(frozen=True)
class Strip:
    """A strip that was added: its rows, its cells as bits, and its pieces among all, from 0."""

    rows: slice
    bits: NDArray[np.uint8]
    pieces: slice


@dataclass
class ConnectedParts:
    """A set of cells in strips from top to bottom, and the pieces that it has within each.

    Pieces of several strips that touch are one part. Of the cells only bits are kept.
    """

    width: int
    _strips: list[Strip] = field(default_factory=list)
    _touching: list[Numbers] = field(default_factory=list)  # pairs of pieces
    _last_row: Numbers | None = None  # the piece of each of its cells, -1 for none

    def add(self, cells: NDArray[np.bool_]) -> tuple[Labels, int]:
        """Add the next strip, (height, width).

        Gives the piece of each cell, 1 to the count of the strip's pieces or 0, and that count.
        """
        labels, count = _label(cells)
        row = self._strips[-1].rows.stop if self._strips else 0
        before = self.pieces
        first, last = (
            np.where(ends > 0, ends.astype(np.int64) - 1 + before, -1)
            for ends in (labels[0], labels[-1])
        )
        if self._last_row is not None:
            self._touching += _touching(self._last_row, first)
        self._last_row = last
        rows, pieces = slice(row, row + len(cells)), slice(before, before + count)
        self._strips.append(Strip(rows, np.packbits(cells, axis=1), pieces))
        return labels, count

    @property
    def pieces(self) -> int:
        """How many pieces there are in all strips."""
        return self._strips[-1].pieces.stop if self._strips else 0

    def strips(self) -> list[Strip]:
        """All that were added."""
        return self._strips

    def labels(self, strip: Strip) -> Labels:
        """The pieces of a strip's cells as `add` gave them."""
        return _label(np.unpackbits(strip.bits, axis=1, count=self.width).astype(bool))[0]

    def parts(self) -> Numbers:
        """For each piece, (pieces,), the number of the first piece of its part."""
        part = np.arange(self.pieces)
        if self._touching:
            pieces, ends = np.unique(np.concatenate(self._touching), return_inverse=True)
            first, second = ends.reshape(-1, 2).T
            edges = np.ones(len(first), dtype=bool)
            graph = coo_array((edges, (first, second)), shape=(len(pieces), len(pieces)))
            _, group = connected_components(graph, directed=False)
            _, least = np.unique(group, return_index=True)  # the pieces are in order
            part[pieces] = pieces[least][group]
        return part


def _label(cells: NDArray[np.bool_]) -> tuple[Labels, int]:
    labels, count = label(cells, structure=EIGHT, output=np.int32)
    return labels, int(count)


def _touching(above: Numbers, below: Numbers) -> list[Numbers]:
    """Pairs (N, 2) of pieces that touch where one row lies on another, also at corners."""
    found = []
    for upper, lower in ((above, below), (above[:-1], below[1:]), (above[1:], below[:-1])):
        both = (upper >= 0) & (lower >= 0)
        if both.any():
            found.append(np.unique(np.stack([upper[both], lower[both]], axis=1), axis=0))
    return found
