"""The window lattice, covering a length, sums over boxes, and the sizes that are chosen."""

import itertools

import numpy as np
import pytest
from geocfm.data.windows import (
    ENOUGH_CONTEXT,
    LARGEST,
    POINTS_IN_WINDOW,
    SMALLEST,
    TILES_WANTED,
    WINDOWS_ACROSS,
    blocks,
    box_sums,
    covering_starts,
    lattice_starts,
    lattice_sums,
    plan_windows,
)
from geocfm.errors import UserError
from geocfm.geo.grid import Grid, Window
from geocfm.model.settings import PRESETS, WindowSettings
from rasterio.crs import CRS
from rasterio.transform import Affine


def make_grid(height: int, width: int, cell: float = 100) -> Grid:
    return Grid(CRS.from_epsg(32750), Affine(cell, 0, 0, 0, -cell, 0), height, width)


@pytest.mark.parametrize(("height", "width"), [(96, 80), (97, 83), (32, 40), (20, 100)])
def test_lattice_holds_every_window_inside_and_no_other(height, width):
    found = {tuple(start) for start in lattice_starts(make_grid(height, width), 32, 8).tolist()}
    expected = {
        (row, col)
        for row in range(0, height, 8)
        for col in range(0, width, 8)
        if (row + 32 <= height or row == 0) and (col + 32 <= width or col == 0)
    }
    assert found == expected


def test_covering_starts_cover_every_cell_and_stay_inside():
    for length, size, part in itertools.product(range(1, 70), (16, 32, 48), (1, 2, 4, 8)):
        stride = size // part
        starts = covering_starts(length, size, stride)
        covered = np.zeros(max(length, size), dtype=bool)
        for start in starts:
            covered[start : start + size] = True
        assert covered.all(), (length, size, stride)
        assert starts == sorted(set(starts))
        assert starts[0] == 0
        assert starts[-1] == max(length - size, 0)
        assert all(b - a <= stride for a, b in itertools.pairwise(starts))


def test_box_sums():
    generator = np.random.default_rng(2)
    cells = generator.integers(0, 9, (13, 9))
    top, left = generator.integers(0, 14, 200), generator.integers(0, 10, 200)
    bottom, right = generator.integers(top, 14), generator.integers(left, 10)
    found = box_sums(cells, top, left, bottom, right)
    boxes = zip(top, left, bottom, right, strict=True)
    assert found.tolist() == [cells[a:c, b:d].sum() for a, b, c, d in boxes]


@pytest.mark.parametrize(("height", "width"), [(64, 48), (67, 50), (10, 40)])
def test_lattice_sums_are_sums_of_cells(height, width):
    """Counts by lattice cell, also by the narrow ones at the far edges."""
    size, stride = 16, 4
    cells = np.random.default_rng(3).integers(0, 5, (height, width))
    padded = np.pad(cells, ((0, -height % stride), (0, -width % stride)))
    counts = padded.reshape(-(-height // stride), stride, -1, stride).sum(axis=(1, 3))
    starts = lattice_starts(make_grid(height, width), size, stride)
    found = lattice_sums(counts, starts, size, stride)
    expected = [cells[row : row + size, col : col + size].sum() for row, col in starts]
    assert found.tolist() == expected


@pytest.mark.parametrize(("step", "largest"), [(1, 7), (4, 10), (4, 3), (16, 1024)])
def test_blocks_are_a_partition_on_the_lattice(step, largest):
    window = Window(16, 32, 45, 38)
    covered = np.zeros((100, 100), dtype=int)
    for block in blocks(window, step, largest):
        assert (block.row - window.row) % step == (block.col - window.col) % step == 0
        assert max(block.height, block.width) <= max(step, largest)
        covered[block.row : block.row_stop, block.col : block.col_stop] += 1
    expected = np.zeros_like(covered)
    expected[16:61, 32:70] = 1
    np.testing.assert_array_equal(covered, expected)


def test_sizes_as_set():
    plan = plan_windows(make_grid(500, 500, 250), 100, WindowSettings(size=48, stride=12, tile=96))
    assert (plan.size, plan.stride, plan.tile) == (48, 12, 96)
    assert "48 x 48 cells (12000 m across), as set, every 12 cells" in plan.sentence
    assert "tiles of 96 cells" in plan.sentence


def test_sizes_of_the_paper():
    plan = plan_windows(make_grid(1300, 3000), 9000, PRESETS["paper-earthmri"].windows)
    assert (plan.size, plan.stride, plan.tile) == (128, 16, 384)
    plan = plan_windows(make_grid(220, 220), 500, PRESETS["paper-synthetic"].windows)
    assert (plan.size, plan.tile) == (220, 660)
    assert len(lattice_starts(make_grid(220, 220), plan.size, plan.stride)) == 1


def occurrences_for(size: int) -> int:
    """So many on 2000 x 2000 cells that windows of this size hold the wanted number."""
    return round(POINTS_IN_WINDOW * 2000**2 / size**2)


@pytest.mark.parametrize(
    ("height", "width", "occurrences", "size"),
    [
        (2000, 2000, 0, LARGEST),
        (2000, 2000, occurrences_for(1000), LARGEST),
        (2000, 2000, occurrences_for(96), 96),
        (2000, 2000, occurrences_for(10), ENOUGH_CONTEXT),  # it would see too little
        (WINDOWS_ACROSS * 64, 2000, 100, 64),  # the shorter side decides
        (2000, WINDOWS_ACROSS * 64, 100, 64),
        (96, 80, 40, SMALLEST),
    ],
)
def test_sizes_chosen(height, width, occurrences, size):
    plan = plan_windows(make_grid(height, width), occurrences, WindowSettings())
    assert plan.size == size
    assert plan.stride == size // 8
    assert "chosen from the grid and the occurrences" in plan.sentence


def test_tiles_chosen_are_about_as_many_as_wanted():
    grid = make_grid(1000, 1500)
    plan = plan_windows(grid, 4000, WindowSettings(size=128))
    assert 1000 * 1500 / plan.tile**2 == pytest.approx(TILES_WANTED, rel=0.15)


@pytest.mark.parametrize("height", [40, 95, 300, 1001, 4000])
@pytest.mark.parametrize("width", [60, 257, 2000])
@pytest.mark.parametrize("occurrences", [3, 250, 50_000])
def test_chosen_sizes_fit_together(height, width, occurrences):
    plan = plan_windows(make_grid(height, width), occurrences, WindowSettings())
    assert plan.size % plan.stride == 0
    assert plan.tile % plan.stride == 0
    assert plan.size <= plan.tile <= 3 * plan.size


@pytest.mark.parametrize(
    "settings",
    [
        {"size": 48, "stride": 10, "tile": 100},
        {"size": 48, "stride": 16, "tile": 100},
        {"size": 48, "stride": 64, "tile": 96},
    ],
)
def test_a_stride_that_does_not_fit(settings):
    with pytest.raises(UserError, match="multiples of the stride"):
        plan_windows(make_grid(500, 500), 100, WindowSettings(**settings))
