from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
from geocfm.data.split import ROLES, Split
from geocfm.evaluation.evaluate import evaluate_map
from geocfm.geo.grid import Grid, Window
from geocfm.geo.writing import open_raster_for_blocks
from geocfm.inference.regional_map import RawMap
from numpy.typing import NDArray
from small_data import DEGREES, UTM

SPLIT = Split(
    row_edges=np.array([0, 40, 80, 120]),
    col_edges=np.array([0, 50, 100]),
    roles=np.array([[0, 2], [1, 0], [2, 0]], dtype=np.int8),
)
MEAN = 0.25


def raw_map(path: Path, density: NDArray[np.float64], grid: Grid) -> RawMap:
    with open_raster_for_blocks(path, grid) as raster:
        raster.write((density * MEAN).astype(np.float32), 1)
    return RawMap(path, MEAN, 1.0)


def density_field(shape: tuple[int, int]) -> NDArray[np.float64]:
    generator = np.random.default_rng(11)
    values: NDArray[np.float64] = np.exp2(generator.integers(-6, 6, shape).astype(float))
    values[30:50, 30:60] = np.nan
    return values


def points_on(grid: Grid, count: int = 300) -> NDArray[np.float64]:
    return np.random.default_rng(12).random((count, 2)) * (grid.width, grid.height)


def captured(
    density: NDArray[np.float64], km2: NDArray[np.float64], at: NDArray[np.float64], share: float
) -> float:
    budget, found = share * km2.sum(), 0.0
    for level in np.unique(density)[::-1]:
        part = min(1.0, max(budget, 0) / km2[density == level].sum())
        found += part * (at == level).sum()
        budget -= part * km2[density == level].sum()
    return found / len(at)


@pytest.mark.parametrize("grid", [UTM, DEGREES], ids=["metres", "degrees"])
def test_each_role_is_measured_on_its_own_tiles(grid: Grid, tmp_path: Path) -> None:
    density = density_field((grid.height, grid.width))
    points = points_on(grid)
    evaluation = evaluate_map(
        raw_map(tmp_path / "raw.tif", density, grid), grid, points, SPLIT, grid
    )
    km2 = np.broadcast_to(grid.cell_areas(grid.window()), density.shape)
    tile_roles = SPLIT.roles.repeat(40, axis=0).repeat(50, axis=1)
    col, row = np.floor(points).astype(int).T
    on_data = np.isfinite(density[row, col])
    assert evaluation.on_no_data == (~on_data).sum() > 0
    for number, role in enumerate(ROLES):
        curve = getattr(evaluation, role)
        cells = (tile_roles == number) & np.isfinite(density)
        at = density[row, col][on_data & (tile_roles[row, col] == number)]
        assert curve.count == len(at) > 0
        assert curve.area.sum() == pytest.approx(km2[cells].sum())
        for share in (0.05, 0.1, 0.5):
            expected = captured(density[cells], km2[cells], at, share)
            assert curve.captured(share) == pytest.approx(expected, abs=1e-9)
    total = evaluation.test.count + evaluation.validation.count + evaluation.train.count
    assert total + evaluation.on_no_data == len(points)


def test_tiles_stay_in_place_on_a_part_of_the_training_grid(tmp_path: Path) -> None:
    part = Window(25, 30, 70, 60)
    grid = UTM.subgrid(part)
    density = density_field((120, 100))[part.slices_in(UTM.window())]
    points = points_on(grid)
    evaluation = evaluate_map(
        raw_map(tmp_path / "raw.tif", density, grid), grid, points, SPLIT, UTM
    )
    roles = SPLIT.roles.repeat(40, axis=0).repeat(50, axis=1)[part.slices_in(UTM.window())]
    col, row = np.floor(points).astype(int).T
    on_data = np.isfinite(density[row, col])
    for number, role in enumerate(ROLES):
        curve = getattr(evaluation, role)
        assert curve.count == (on_data & (roles[row, col] == number)).sum()
        assert curve.area.sum() == pytest.approx(
            ((roles == number) & np.isfinite(density)).sum() / 100
        )


def test_cells_beyond_the_training_grid_belong_to_no_role(tmp_path: Path) -> None:
    grid = UTM.subgrid(Window(-20, -10, 160, 140))
    points = points_on(grid, 2000)
    evaluation = evaluate_map(
        raw_map(tmp_path / "raw.tif", np.ones((160, 140)), grid), grid, points, SPLIT, UTM
    )
    areas = [getattr(evaluation, role).area.sum() for role in ROLES]
    assert sum(areas) == pytest.approx(120 * 100 / 100)
    on_training_grid = ((points >= (10, 20)) & (points < (110, 140))).all(axis=1)
    counts = [getattr(evaluation, role).count for role in ROLES]
    assert sum(counts) == on_training_grid.sum()


def test_the_raw_map_is_left_as_it_was(tmp_path: Path) -> None:
    density = density_field((120, 100))
    raw = raw_map(tmp_path / "raw.tif", density, UTM)
    evaluate_map(raw, UTM, points_on(UTM), SPLIT, UTM)
    with rasterio.open(raw.path) as source:
        assert np.array_equal(source.read(1), (density * MEAN).astype(np.float32), equal_nan=True)
