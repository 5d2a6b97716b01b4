"""Tiles held out as a whole, and the buffer rule (paper, appendix "Spatially disjoint split")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from geocfm.data.windows import Starts, box_sums
from geocfm.geo.grid import Grid, Window
from geocfm.model.checkpoint import SplitCard
from geocfm.model.settings import WindowSettings

ROLES = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = range(3)
NO_ROLE = -1  # of windows that touch tiles of two roles, and of places outside all tiles
TRIALS = 500  # random assignments among which the most balanced is taken


@dataclass(frozen=True)
class Split:
    """Tile edges in cells and the role of each tile (rows, columns)."""

    row_edges: NDArray[np.int64]
    col_edges: NDArray[np.int64]
    roles: NDArray[np.int8]

    def tiles(self) -> list[tuple[Window, int]]:
        """Every tile with its role, row by row."""
        rows, cols = self.row_edges, self.col_edges
        return [
            (
                Window(
                    int(rows[i]),
                    int(cols[j]),
                    int(rows[i + 1] - rows[i]),
                    int(cols[j + 1] - cols[j]),
                ),
                int(self.roles[i, j]),
            )
            for i in range(len(rows) - 1)
            for j in range(len(cols) - 1)
        ]

    def role_of_points(self, points: NDArray[np.float64]) -> NDArray[np.int8]:
        """Roles (N,) of points (N, 2) as (column, row); NO_ROLE outside all tiles."""
        col, inside_col = _tile_index(self.col_edges, points[:, 0])
        row, inside_row = _tile_index(self.row_edges, points[:, 1])
        return np.where(inside_col & inside_row, self.roles[row, col], NO_ROLE).astype(np.int8)

    def tile_of_points(self, points: NDArray[np.float64]) -> NDArray[np.int64]:
        """Numbers (N,) of the tiles, row by row, that points (N, 2) inside of them lie on."""
        col, _ = _tile_index(self.col_edges, points[:, 0])
        row, _ = _tile_index(self.row_edges, points[:, 1])
        return row * self.roles.shape[1] + col

    def role_of_cells(
        self, rows: NDArray[np.float64], cols: NDArray[np.float64]
    ) -> NDArray[np.int8]:
        """Roles (R, C) of the cells with these row and column centres."""
        row, inside_row = _tile_index(self.row_edges, rows)
        col, inside_col = _tile_index(self.col_edges, cols)
        inside = inside_row[:, None] & inside_col[None, :]
        return np.where(inside, self.roles[row[:, None], col[None, :]], NO_ROLE).astype(np.int8)

    def role_of_windows(self, starts: Starts, size: int) -> NDArray[np.int8]:
        """The role of each window, or NO_ROLE: all tiles it touches must have one role."""
        rows, cols = starts[:, 0], starts[:, 1]
        top = np.searchsorted(self.row_edges, rows, "right") - 1
        left = np.searchsorted(self.col_edges, cols, "right") - 1
        last = len(self.row_edges) - 1, len(self.col_edges) - 1
        bottom = np.minimum(np.searchsorted(self.row_edges, rows + size, "left"), last[0])
        right = np.minimum(np.searchsorted(self.col_edges, cols + size, "left"), last[1])
        touched = (bottom - top) * (right - left)
        role = np.full(len(starts), NO_ROLE, dtype=np.int8)
        for candidate in (TRAIN, VALIDATION, TEST):
            same = box_sums((self.roles == candidate).astype(np.int64), top, left, bottom, right)
            role[same == touched] = candidate
        return role

    def on_grid(self, grid: Grid, own: Grid) -> Split:
        """The same tiles in cells of ``grid``, which lies on the lattice of ``own``, theirs."""
        col, row = grid.to_pixel(*own.to_world([(0, 0)])[0])[0].round().astype(np.int64)
        return Split(self.row_edges + row, self.col_edges + col, self.roles)

    def to_card(self) -> SplitCard:
        """For the checkpoint."""
        return SplitCard.model_validate(
            {
                "row_edges": self.row_edges.tolist(),
                "col_edges": self.col_edges.tolist(),
                "roles": [[ROLES[role] for role in row] for row in self.roles],
            }
        )

    @classmethod
    def from_card(cls, card: SplitCard) -> Split:
        """The split a checkpoint was trained on."""
        roles = [[ROLES.index(role) for role in row] for row in card.roles]
        return cls(
            np.array(card.row_edges, dtype=np.int64),
            np.array(card.col_edges, dtype=np.int64),
            np.array(roles, dtype=np.int8),
        )


def _tile_index(
    edges: NDArray[np.int64], position: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    index = np.searchsorted(edges, position, "right") - 1
    inside = (index >= 0) & (index < len(edges) - 1)
    return np.clip(index, 0, len(edges) - 2), inside


def tile_edges(length: int, tile: int) -> NDArray[np.int64]:
    """Edges every ``tile`` cells; a remainder thinner than half a tile joins its neighbour."""
    edges = list(range(0, length, tile))
    if len(edges) > 1 and length - edges[-1] < tile / 2:
        edges.pop()
    return np.array([*edges, length], dtype=np.int64)


def split_tiles(
    grid: Grid, tile: int, points: NDArray[np.float64], settings: WindowSettings
) -> Split:
    """Assign tiles at random (seeded); ``balanced`` also gives each role its share of points.

    Tiles without any occurrence are assigned like the others: nothing known is not nothing there.
    """
    row_edges, col_edges = tile_edges(grid.height, tile), tile_edges(grid.width, tile)
    shape = (len(row_edges) - 1, len(col_edges) - 1)
    count = shape[0] * shape[1]
    shares = {VALIDATION: settings.validation_share, TEST: settings.test_share}
    sizes = {role: round(share * count) for role, share in shares.items()}
    if count > 2:  # with three tiles or more every role that is wanted gets one
        sizes = {role: max(size, 1) if shares[role] else 0 for role, size in sizes.items()}
    empty = Split(row_edges, col_edges, np.full(shape, TRAIN, dtype=np.int8))
    held = _share_of_points(empty, points)
    generator = np.random.default_rng(settings.split_seed)
    trials = TRIALS if settings.balanced and len(points) else 1
    roles = _assigned(np.arange(count), held, sizes, shares, trials, generator)
    return Split(row_edges, col_edges, roles.reshape(shape).astype(np.int8))


def fold_splits(
    split: Split, points: NDArray[np.float64], folds: int, settings: WindowSettings
) -> list[Split]:
    """The same tiles split anew so often: each is a test tile once, in folds of as many points.

    Of the other tiles some choose the model, as many as the settings ask for.
    """
    count = split.roles.size
    held = _share_of_points(split, points)
    generator = np.random.default_rng(settings.split_seed)
    sizes = {fold: count // folds + (fold < count % folds) for fold in range(1, folds)}
    shares = dict.fromkeys(sizes, 1 / folds)
    fold_of = _assigned(np.arange(count), held, sizes, shares, TRIALS, generator, rest=0)
    found = []
    for fold in range(folds):
        test = fold_of == fold
        others = np.flatnonzero(~test)
        share = settings.validation_share
        size = max(1, round(share * len(others))) if share and len(others) > 1 else 0
        wanted = {VALIDATION: share * held[others].sum()}
        chosen = _assigned(others, held, {VALIDATION: size}, wanted, TRIALS, generator)
        roles = np.where(test, TEST, chosen)
        found.append(replace(split, roles=roles.reshape(split.roles.shape).astype(np.int8)))
    return found


def _share_of_points(split: Split, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of each tile, row by row."""
    counts = np.bincount(split.tile_of_points(points), minlength=split.roles.size)
    return counts / max(len(points), 1)


def _assigned(
    among: NDArray[np.int64],
    held: NDArray[np.float64],
    sizes: dict[int, int],
    shares: dict[int, float],
    trials: int,
    generator: np.random.Generator,
    rest: int = TRAIN,
) -> NDArray[np.int64]:
    """A role (tiles,) for some tiles, so many of each and the rest; of the trials the one whose
    roles hold most nearly their shares of the points.
    """
    best, best_gap = np.full(len(held), rest), np.inf
    for _ in range(trials):
        order = generator.permutation(among)
        roles, first = np.full(len(held), rest), 0
        for role, size in reversed(sizes.items()):
            roles[order[first : first + size]] = role
            first += size
        gap = sum(abs(held[roles == role].sum() - share) for role, share in shares.items())
        if gap < best_gap:
            best, best_gap = roles, gap
    return best
