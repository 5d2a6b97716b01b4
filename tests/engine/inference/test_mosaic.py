from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from geocfm.geo.grid import Grid, Window
from geocfm.inference.mosaic import MappedWindow, Mosaic, blend
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine

# height, width, window, stride: multiples of the stride or not, smaller than a window or not
SHAPES = [
    (96, 64, 32, 16),
    (101, 77, 32, 16),
    (33, 200, 32, 16),
    (20, 90, 32, 16),
    (12, 9, 32, 16),
    (32, 32, 32, 16),
    (70, 45, 16, 5),
    (50, 50, 16, 16),
]


def mosaic_over(height: int, width: int, size: int, stride: int) -> Mosaic:
    grid = Grid(CRS.from_epsg(32750), Affine(100, 0, 5e5, 0, -100, 7e6), height, width)
    return Mosaic.over(grid, size, stride)


def cut(
    mosaic: Mosaic, field: NDArray[np.float64], valid: NDArray[np.bool_]
) -> Iterator[MappedWindow]:
    """The field as windows, as if each had been mapped on its own; 0 beyond it."""
    for window in mosaic.windows():
        values, footprint = np.zeros((2, mosaic.size, mosaic.size))
        inside = window.intersection(mosaic.grid.window())
        assert inside is not None
        there, here = inside.slices_in(mosaic.grid.window()), inside.slices_in(window)
        footprint[here] = valid[there]
        values[here] = np.where(valid[there], field[there], 0)
        if footprint.any():
            yield MappedWindow(window, values, footprint.astype(bool))


def blended(
    mosaic: Mosaic, field: NDArray[np.float64], valid: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """All strips as one array, each cell written once."""
    result = np.full((mosaic.grid.height, mosaic.grid.width), -1.0, dtype=np.float32)
    written = np.zeros(result.shape, dtype=int)
    for strip, values in blend(mosaic, cut(mosaic, field, valid)):
        there = strip.slices_in(mosaic.grid.window())
        result[there] = values
        written[there] += 1
    assert (written == 1).all()
    return result


def inside(points: NDArray[np.float64], window: Window) -> NDArray[np.bool_]:
    first, end = (window.col, window.row), (window.col_stop, window.row_stop)
    found: NDArray[np.bool_] = ((points >= first) & (points < end)).all(axis=1)
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_the_parts_of_all_windows_sum_to_1_everywhere(shape: tuple[int, int, int, int]) -> None:
    mosaic = mosaic_over(*shape)
    points = np.random.default_rng(0).random((2000, 2)) * (shape[1], shape[0])
    total, covered = np.zeros(len(points)), np.zeros(len(points), dtype=int)
    for window in mosaic.windows():
        which = inside(points, window)
        share = mosaic.share(window, points[which])
        assert (share > 0).all()
        total[which] += share
        covered[which] += 1
    assert np.abs(total - 1).max() < 1e-12
    assert covered.min() >= 1


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_cover_every_cell_and_stay_on_the_grid(shape: tuple[int, int, int, int]) -> None:
    mosaic = mosaic_over(*shape)
    covered = np.zeros(shape[:2], dtype=bool)
    for window in mosaic.windows():
        covered[window.row : window.row_stop, window.col : window.col_stop] = True
        assert window.height == window.width == shape[2]
        assert window.row >= 0 <= window.col
        assert window.row_stop <= max(shape[0], shape[2])
        assert window.col_stop <= max(shape[1], shape[2])
    assert covered.all()


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_row_of_windows_that_reaches_into_a_strip(
    shape: tuple[int, int, int, int],
) -> None:
    mosaic = mosaic_over(*shape)
    for strip in mosaic.strips():
        reaching = [n for n, row in enumerate(mosaic.row_starts) if row + mosaic.size > strip.row]
        assert mosaic.first_row_into(strip) == reaching[0]


def test_a_window_fades_in_and_out_smoothly() -> None:
    mosaic = mosaic_over(160, 160, 32, 16)
    window = Window(64, 64, 32, 32)
    assert window in mosaic.windows()
    across = np.stack([np.arange(64, 96) + 0.5, np.full(32, 80.5)], axis=1)
    for points in (across, across[:, ::-1]):
        share = mosaic.share(window, points)
        assert share[0] < 0.01
        assert share[-1] < 0.01
        assert share.max() > 0.95
        # sin^2 over 32 cells rises by no more than pi / 32 from cell to cell
        assert np.abs(np.diff(share)).max() <= np.pi / 32
        assert np.allclose(share, share[::-1])


@pytest.mark.parametrize("shape", SHAPES)
def test_windows_of_density_1_make_a_map_of_exactly_1(shape: tuple[int, int, int, int]) -> None:
    ones = np.ones(shape[:2])
    result = blended(mosaic_over(*shape), ones, ones.astype(bool))
    assert (result == 1).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_smooth_field_comes_back_without_seams(shape: tuple[int, int, int, int]) -> None:
    row, col = np.mgrid[: shape[0], : shape[1]]
    field = 1.5 + np.sin(row / 11) * np.cos(col / 7)
    result = blended(mosaic_over(*shape), field, np.ones(shape[:2], dtype=bool))
    assert np.abs(result - field).max() < 1e-6


def test_windows_that_disagree_are_blended_without_a_step() -> None:
    mosaic = mosaic_over(96, 96, 32, 16)
    levels = np.random.default_rng(2).uniform(0.5, 1.5, len(mosaic.windows()))
    everywhere = np.ones((32, 32), dtype=bool)
    mapped = (
        MappedWindow(window, np.full((32, 32), level), everywhere)
        for window, level in zip(mosaic.windows(), levels, strict=True)
    )
    result = np.concatenate([values for _, values in blend(mosaic, mapped)])
    steps = max(np.abs(np.diff(result, axis=axis)).max() for axis in (0, 1))
    assert result.min() >= levels.min()
    assert result.max() <= levels.max()
    assert steps <= np.ptp(levels) * np.pi / 32 + 1e-6


def test_cells_without_data_are_nan_and_their_neighbours_unharmed() -> None:
    mosaic = mosaic_over(101, 77, 32, 16)
    field = np.random.default_rng(3).random((101, 77)) + 0.5
    valid = np.random.default_rng(4).random((101, 77)) > 0.3
    valid[40:90, 30:77] = False  # some windows have no data at all and never come
    result = blended(mosaic, field, valid)
    assert np.array_equal(np.isnan(result), ~valid)
    assert np.abs(result - field)[valid].max() < 1e-6


def test_a_region_without_data_is_nan_throughout() -> None:
    mosaic = mosaic_over(40, 50, 32, 16)
    assert np.isnan(blended(mosaic, np.ones((40, 50)), np.zeros((40, 50), dtype=bool))).all()


def test_a_strip_is_ready_after_one_row_of_windows() -> None:
    mosaic = mosaic_over(400, 64, 32, 16)
    taken: list[Window] = []

    def counted() -> Iterator[MappedWindow]:
        for mapped in cut(mosaic, np.ones((400, 64)), np.ones((400, 64), dtype=bool)):
            taken.append(mapped.window)
            yield mapped

    in_a_row = len(mosaic.col_starts)
    for number, _ in enumerate(blend(mosaic, counted()), start=1):
        assert len(taken) <= number * in_a_row + 1  # and one that tells the row is over


def test_memory_does_not_grow_with_the_height() -> None:
    def peak(height: int) -> int:
        mosaic = mosaic_over(height, 256, 32, 16)
        ones, everywhere = np.ones((32, 32)), np.ones((32, 32), dtype=bool)
        windows = mosaic.windows()
        tracemalloc.start()
        for _ in blend(mosaic, (MappedWindow(w, ones, everywhere) for w in windows)):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    small, large = peak(160), peak(3200)
    assert large < 1.5 * small


def test_members_are_blended_side_by_side() -> None:
    mosaic = mosaic_over(101, 77, 32, 16)
    generator = np.random.default_rng(3)
    fields = generator.random((2, 3, 101, 77))
    valid = generator.random((101, 77)) > 0.1
    together = [list(cut(mosaic, field, valid)) for field in fields.reshape(6, 101, 77)]

    def side_by_side() -> Iterator[MappedWindow]:
        for same in zip(*together, strict=True):
            density = np.stack([one.density for one in same]).reshape(2, 3, 32, 32)
            yield MappedWindow(same[0].window, density, same[0].footprint)

    values = np.concatenate([part for _, part in blend(mosaic, side_by_side())], axis=-2)
    for number, field in enumerate(fields.reshape(6, 101, 77)):
        alone = blended(mosaic, field, valid)
        assert np.array_equal(values[number // 3, number % 3], alone, equal_nan=True)
