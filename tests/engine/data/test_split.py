"""Tiles and roles against cells painted one by one."""

import numpy as np
import pytest
from geocfm.data.split import (
    NO_ROLE,
    ROLES,
    TEST,
    TRAIN,
    VALIDATION,
    Split,
    fold_splits,
    split_tiles,
    tile_edges,
)
from geocfm.data.windows import lattice_starts
from geocfm.geo.grid import Grid
from geocfm.model.settings import WindowSettings
from rasterio.crs import CRS
from rasterio.transform import Affine


def make_grid(height: int, width: int) -> Grid:
    return Grid(CRS.from_epsg(32750), Affine(100, 0, 0, 0, -100, 0), height, width)


def scattered(grid: Grid, count: int, seed: int = 0) -> np.ndarray:
    """More in one corner than in the others, as occurrences are."""
    return np.random.default_rng(seed).random((count, 2)) ** 2 * (grid.width, grid.height)


def paint(split: Split, height: int, width: int) -> np.ndarray:
    """The role of every cell, from the tiles; NO_ROLE where there is no tile."""
    painted = np.full((height, width), NO_ROLE)
    for tile, role in split.tiles():
        painted[tile.row : tile.row_stop, tile.col : tile.col_stop] = role
    return painted


@pytest.mark.parametrize(
    ("height", "width", "tile", "size", "stride"),
    [(96, 80, 24, 16, 4), (100, 90, 20, 32, 4), (61, 130, 16, 16, 8), (50, 50, 48, 16, 2)],
)
@pytest.mark.parametrize("seed", [0, 42])
def test_no_window_touches_a_tile_of_another_role(height, width, tile, size, stride, seed):
    grid = make_grid(height, width)
    split = split_tiles(grid, tile, scattered(grid, 60), WindowSettings(split_seed=seed))
    painted = paint(split, height, width)
    starts = lattice_starts(grid, size, stride)
    roles = split.role_of_windows(starts, size)
    seen = {role: np.zeros((height, width), dtype=bool) for role in (TRAIN, VALIDATION, TEST)}
    for (row, col), role in zip(starts, roles, strict=True):
        inside = np.unique(painted[row : row + size, col : col + size])
        assert role == (inside[0] if len(inside) == 1 else NO_ROLE)
        if role != NO_ROLE:
            seen[role][row : row + size, col : col + size] = True
    assert seen[TRAIN].any()
    for role, cells in seen.items():
        assert (painted[cells] == role).all()
    assert not (seen[TRAIN] & (seen[TEST] | seen[VALIDATION])).any()


def test_buffer_rule_by_hand():
    """Windows of 4 on tiles of 8: from 13 on, by one cell, they reach into the third tile."""
    one, three = np.array([0, 8]), np.array([0, 8, 16, 24])
    roles = np.array([[0, 0, 2]], dtype=np.int8)
    starts = np.array([[0, start] for start in (0, 4, 5, 8, 12, 13, 15, 16, 20)])
    expected = [0, 0, 0, 0, 0, NO_ROLE, NO_ROLE, TEST, TEST]
    assert Split(one, three, roles).role_of_windows(starts, 4).tolist() == expected
    assert Split(three, one, roles.T).role_of_windows(starts[:, ::-1], 4).tolist() == expected


def test_a_window_larger_than_the_grid_has_the_role_of_its_tile():
    split = Split(np.array([0, 10]), np.array([0, 12]), np.array([[0]], dtype=np.int8))
    assert split.role_of_windows(np.array([[0, 0]]), 32).tolist() == [TRAIN]
    assert split.role_of_windows(np.zeros((0, 2), dtype=np.int64), 32).tolist() == []


@pytest.mark.parametrize(
    ("length", "tile", "edges"),
    [
        (96, 24, [0, 24, 48, 72, 96]),
        (80, 24, [0, 24, 48, 80]),  # the last 8 join their neighbour
        (84, 24, [0, 24, 48, 72, 84]),  # the last 12 are half a tile
        (10, 24, [0, 10]),
        (24, 24, [0, 24]),
        (25, 24, [0, 25]),
    ],
)
def test_tile_edges(length, tile, edges):
    assert tile_edges(length, tile).tolist() == edges


@pytest.mark.parametrize("length", [1, 16, 17, 47, 160, 201])
@pytest.mark.parametrize("tile", [16, 17, 64])
def test_tiles_are_neither_thin_nor_much_too_thick(length, tile):
    edges = tile_edges(length, tile)
    assert (edges[0], edges[-1]) == (0, length)
    assert (edges[:-1] % tile == 0).all()
    widths = np.diff(edges)
    assert (widths < 1.5 * tile).all()
    assert (widths >= tile / 2).all() or len(widths) == 1


def test_every_cell_belongs_to_one_tile():
    grid = make_grid(100, 71)
    split = split_tiles(grid, 16, scattered(grid, 30), WindowSettings())
    covered = np.zeros((100, 71), dtype=int)
    for tile, _ in split.tiles():
        covered[tile.row : tile.row_stop, tile.col : tile.col_stop] += 1
    assert (covered == 1).all()


@pytest.mark.parametrize("balanced", [True, False])
def test_shares_of_tiles(balanced):
    grid = make_grid(160, 160)
    settings = WindowSettings(balanced=balanced, test_share=0.2, validation_share=0.1)
    split = split_tiles(grid, 16, scattered(grid, 200), settings)
    counts = [int((split.roles == role).sum()) for role in (TRAIN, VALIDATION, TEST)]
    assert counts == [70, 10, 20]


@pytest.mark.parametrize("tiles", [1, 2, 3, 5])
def test_few_tiles(tiles):
    """With three or more, each wanted role has one; with fewer, training comes first."""
    grid = make_grid(16, 16 * tiles)
    roles = split_tiles(grid, 16, scattered(grid, 9), WindowSettings()).roles
    assert roles.shape == (1, tiles)
    assert set(roles.ravel().tolist()) == ({0} if tiles < 3 else {0, 1, 2})
    none = WindowSettings(test_share=0, validation_share=0)
    assert not split_tiles(grid, 16, scattered(grid, 9), none).roles.any()


def points_share(split: Split, points: np.ndarray) -> dict[int, float]:
    roles = split.role_of_points(points)
    return {role: float((roles == role).mean()) for role in (TRAIN, VALIDATION, TEST)}


@pytest.mark.parametrize("seed", range(4))
def test_balanced_splits_hold_their_share_of_occurrences(seed):
    grid = make_grid(120, 140)
    points = scattered(grid, 150, seed)
    gaps = {}
    for balanced in (True, False):
        settings = WindowSettings(
            balanced=balanced, split_seed=seed, test_share=0.2, validation_share=0.15
        )
        share = points_share(split_tiles(grid, 20, points, settings), points)
        gaps[balanced] = abs(share[TEST] - 0.2) + abs(share[VALIDATION] - 0.15)
    assert gaps[True] < 0.03
    assert gaps[True] < gaps[False]


def test_the_seed_decides():
    grid = make_grid(120, 120)
    points = scattered(grid, 50)
    first, again, other = (
        split_tiles(grid, 20, points, WindowSettings(split_seed=seed)).roles for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_without_occurrences_there_is_still_a_split():
    grid = make_grid(80, 80)
    split = split_tiles(grid, 16, np.zeros((0, 2)), WindowSettings())
    assert {int(role) for role in split.roles.ravel()} == {TRAIN, VALIDATION, TEST}


def test_roles_of_points_and_cells_are_the_painted_ones():
    grid = make_grid(70, 54)
    split = split_tiles(grid, 16, scattered(grid, 30), WindowSettings())
    rows, cols = np.arange(-3, 74) + 0.5, np.arange(-2, 57) + 0.5
    cells = split.role_of_cells(rows, cols)
    col, row = np.meshgrid(cols, rows)
    points = np.stack([col.ravel(), row.ravel()], axis=1)
    np.testing.assert_array_equal(split.role_of_points(points).reshape(cells.shape), cells)
    np.testing.assert_array_equal(cells[3:73, 2:56], paint(split, 70, 54))
    beyond = np.ones(cells.shape, dtype=bool)
    beyond[3:73, 2:56] = False
    assert (cells[beyond] == NO_ROLE).all()


def test_points_on_an_edge_belong_to_the_tile_that_begins_there():
    split = Split(np.array([0, 8]), np.array([0, 8, 16]), np.array([[0, 2]], dtype=np.int8))
    points = np.array([[0, 0], [7.999, 7.999], [8, 0], [15.999, 0], [16, 0], [3, 8], [-1e-9, 3]])
    assert split.role_of_points(points).tolist() == [0, 0, 2, 2, NO_ROLE, NO_ROLE, NO_ROLE]


def test_card_round_trip():
    grid = make_grid(90, 130)
    split = split_tiles(grid, 16, scattered(grid, 40), WindowSettings())
    card = split.to_card()
    assert card.roles[0][0] == ROLES[split.roles[0, 0]]
    back = Split.from_card(type(card).model_validate_json(card.model_dump_json()))
    for name in ("row_edges", "col_edges", "roles"):
        before, after = getattr(split, name), getattr(back, name)
        np.testing.assert_array_equal(before, after)
        assert before.dtype == after.dtype


@pytest.mark.parametrize("folds", [2, 3, 5])
def test_in_folds_every_tile_is_held_out_once(folds):
    grid = make_grid(400, 300)
    points = scattered(grid, 300)
    whole = split_tiles(grid, 50, points, WindowSettings())
    splits = fold_splits(whole, points, folds, WindowSettings())
    assert len(splits) == folds
    held_out = np.sum([split.roles == TEST for split in splits], axis=0)
    assert (held_out == 1).all()
    for split in splits:
        assert np.array_equal(split.row_edges, whole.row_edges)
        roles = split.role_of_points(points)
        assert (roles == TEST).sum() == pytest.approx(300 / folds, abs=25)
        chooses = (split.roles == VALIDATION).sum()
        assert chooses == round(0.15 * (split.roles != TEST).sum())
        assert (split.roles == TRAIN).any()
    again = fold_splits(whole, points, folds, WindowSettings())
    assert all(np.array_equal(a.roles, b.roles) for a, b in zip(splits, again, strict=True))
