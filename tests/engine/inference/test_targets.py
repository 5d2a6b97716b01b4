"""Targets of tiny maps, recomputed cell by cell."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.grid import Grid, reproject_points
from geocfm.geo.rasters import Layer, Stack
from geocfm.inference import target_outlines
from geocfm.inference.superlevel import AreaByDensity
from geocfm.inference.targets import TargetRules, Targets, find_targets
from rasterio.crs import CRS
from rasterio.transform import Affine
from scipy.ndimage import gaussian_filter
from small_data import NO_DATA, write_raster

ROWS, COLUMNS = 24, 31
UTM = Grid(CRS.from_epsg(32750), Affine(500, 0, 500_000, 0, -500, 7_000_000), ROWS, COLUMNS)
DEGREES = Grid(CRS.from_epsg(4326), Affine(0.05, 0, 10, 0, -0.05, 70), ROWS, COLUMNS)
ROTATED = Grid(
    CRS.from_epsg(32750),
    Affine.translation(5e5, 7e6) @ Affine.rotation(25) @ Affine.scale(500, -500),
    ROWS,
    COLUMNS,
)
GRIDS = {"metres": UTM, "degrees": DEGREES, "rotated": ROTATED}
EVERYTHING: dict[str, Any] = {
    "number": 1000,
    "area_share": 0.05,
    "threshold": None,
    "minimum_km2": 0.0,
    "exclude_km": None,
    "smooth": 0.0,
}


class Silence:
    def emit(self, event: object) -> None:
        pass

    def close(self) -> None:
        pass


@contextmanager
def stacked(path: Path, grid: Grid, **values: np.ndarray) -> Iterator[Stack]:
    layers = []
    for name, array in values.items():
        filled = np.where(np.isnan(array), NO_DATA, array).astype(np.float32)
        layers.append(Layer(name, str(write_raster(path / f"{name}.tif", filled, grid)), 1))
    with Stack(layers, grid) as stack:
        yield stack


def targets_of(
    path: Path,
    density: np.ndarray,
    grid: Grid = UTM,
    known: np.ndarray | None = None,
    beside: dict[str, np.ndarray] | None = None,
    cells_at_once: int = 200,
    **rules: Any,
) -> Targets:
    """The targets of an array whose NaN is no data; whatever is not said of rules lets all in."""
    if density.shape != (grid.height, grid.width):
        grid = Grid(grid.crs, grid.transform, *density.shape)
    made = TargetRules(**{**EVERYTHING, **rules})
    reporter = Reporter(Silence())
    with stacked(path, grid, density=density) as stack:
        if not beside:
            return find_targets(stack, made, known, None, reporter, cells_at_once)
        with stacked(path, grid, **beside) as others:
            return find_targets(stack, made, known, others, reporter, cells_at_once)


def a_map(seed: int = 1, holes: bool = True) -> np.ndarray:
    """A smooth random density with cells and corners without data."""
    generator = np.random.default_rng(seed)
    field = gaussian_filter(generator.normal(size=(ROWS, COLUMNS)), 1.2)
    density = np.exp(1.5 * field / field.std()).astype(np.float32)
    if holes:
        density[generator.random(density.shape) < 0.05] = np.nan
        density[:5, :4] = np.nan
    return density


def cells_of(outline: Any, shape: tuple[int, int] = (ROWS, COLUMNS)) -> set[tuple[int, int]]:
    row, col = np.mgrid[: shape[0], : shape[1]]
    inside = shapely.contains_xy(outline, col + 0.5, row + 0.5)
    return set(zip(row[inside].tolist(), col[inside].tolist(), strict=True))


@dataclass
class Area:
    """A connected area as it is found by walking from cell to cell."""

    cells: set[tuple[int, int]]
    km2: float
    mass: float
    peak: float


@cache
def km2_of(grid: Grid, row: int) -> float:
    """A cell's area; of degrees as a rectangle of the lengths PROJ measures through its middle."""
    if not grid.crs.is_geographic:
        return 0.25
    longitude, latitude = grid.to_world([(0.5, row + 0.5)])[0]
    around = CRS.from_proj4(f"+proj=aeqd +lat_0={latitude} +lon_0={longitude} +datum=WGS84")
    middles = [(0, row + 0.5), (1, row + 0.5), (0.5, row), (0.5, row + 1)]
    left, right, top, bottom = reproject_points(grid.to_world(middles), grid.crs, around) / 1000
    return math.dist(left, right) * math.dist(top, bottom)


def walk(density: np.ndarray, chosen: np.ndarray, grid: Grid) -> list[Area]:
    """The 8-connected areas of the chosen cells, best first."""
    left = {(int(r), int(c)) for r, c in np.argwhere(chosen)}
    areas = []
    while left:
        todo, cells = [left.pop()], set()
        while todo:
            row, col = todo.pop()
            cells.add((row, col))
            around = {(row + i, col + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= around
            todo += around
        km2 = {cell: km2_of(grid, cell[0]) for cell in cells}
        mass = sum(density[cell] * km2[cell] for cell in cells)
        areas.append(Area(cells, sum(km2.values()), mass, max(density[cell] for cell in cells)))
    return sorted(areas, key=lambda area: -area.mass)


def smoothed(density: np.ndarray, sigma: float) -> np.ndarray:
    """A Gaussian mean over the cells with data, cell by cell."""
    result = np.full(density.shape, np.nan)
    valid = np.argwhere(np.isfinite(density))
    reach = int(4 * sigma + 0.5)
    for row, col in valid:
        near = valid[(np.abs(valid - (row, col)) <= reach).all(axis=1)]
        weights = np.exp(-((near - (row, col)) ** 2).sum(axis=1) / (2 * sigma**2))
        values = density[near[:, 0], near[:, 1]]
        result[row, col] = (weights * values).sum() / weights.sum()
    return result


@pytest.mark.parametrize("smooth", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("name", GRIDS)
def test_areas_shares_and_ranks_are_those_of_the_cells(
    name: str, smooth: float, tmp_path: Path
) -> None:
    grid, density = GRIDS[name], a_map()
    valid = np.isfinite(density)
    km2 = {(int(r), int(c)): km2_of(grid, int(r)) for r, c in np.argwhere(valid)}
    total = sum(density[cell] * area for cell, area in km2.items())
    mean = total / sum(km2.values())
    level = smoothed(density, smooth) if smooth else density
    threshold = 1.2 if smooth > 1 else 1.7
    expected = walk(density, level >= threshold * mean, grid)
    assert len(expected) >= (2 if smooth > 1 else 5)

    found = targets_of(tmp_path, density, grid, threshold=threshold, smooth=smooth)
    assert found.level == pytest.approx(threshold)
    assert found.mapped_km2 == pytest.approx(sum(km2.values()), rel=1e-5)
    assert [target.rank for target in found.targets] == list(range(1, len(expected) + 1))
    for target, area in zip(found.targets, expected, strict=True):
        assert cells_of(target.outline) == area.cells
        assert target.outline.area == len(area.cells)
        assert target.outline.is_valid
        assert target.area_km2 == pytest.approx(area.km2, rel=1e-5)
        assert target.mass_share == pytest.approx(area.mass / total, rel=1e-5)
        assert target.lift == pytest.approx(area.mass / area.km2 / mean, rel=1e-5)
        assert target.peak == pytest.approx(area.peak / mean, rel=1e-5)
        assert target.nearest_known_km is target.known_inside is None


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("name", ["metres", "degrees"])
def test_a_share_of_the_area_is_that_of_the_best_cells(
    name: str, share: float, tmp_path: Path
) -> None:
    grid, density = GRIDS[name], a_map()
    row, col = np.nonzero(np.isfinite(density))
    order = np.argsort(-density[row, col])
    km2 = np.array([km2_of(grid, int(r)) for r in row])[order]
    count = int((km2.cumsum() <= share * km2.sum() * (1 + 1e-6)).sum())
    best = set(zip(row[order][:count].tolist(), col[order][:count].tolist(), strict=True))

    found = targets_of(tmp_path, density, grid, area_share=share)
    assert set().union(*(cells_of(target.outline) for target in found.targets)) == best
    lowest = min(density[cell] for cell in best)
    mean = (density[row, col][order] * km2).sum() / km2.sum()
    assert found.level == pytest.approx(lowest / mean, rel=0.05)
    assert found.level <= lowest / mean * (1 + 1e-6)


@pytest.mark.parametrize("cells_at_once", [1, 100, 250, 10**6])
@pytest.mark.parametrize("name", ["metres", "degrees"])
def test_results_do_not_depend_on_the_strips(name: str, cells_at_once: int, tmp_path: Path) -> None:
    grid, density = GRIDS[name], a_map(2)
    known = np.random.default_rng(3).random((6, 2)) * (COLUMNS, ROWS)
    beside = {"uncertainty": a_map(5)}

    def find(cells: int) -> Targets:
        given = {"known": known, "beside": beside, "cells_at_once": cells}
        return targets_of(
            tmp_path, density, grid, **given, area_share=0.2, exclude_km=0.8, smooth=1.3
        )

    found, expected = find(cells_at_once), find(3 * COLUMNS)
    assert len(found.targets) > 3
    assert (found.level, found.too_small) == (expected.level, expected.too_small)
    for target, other in zip(found.targets, expected.targets, strict=True):
        assert shapely.equals_exact(target.outline, other.outline)
        assert target.known_inside == other.known_inside
        assert target.nearest_known_km == other.nearest_known_km
        for field in ("area_km2", "mass_share", "lift", "peak"):
            assert getattr(target, field) == pytest.approx(getattr(other, field), rel=1e-12)
        assert target.means["uncertainty"] == pytest.approx(other.means["uncertainty"], rel=1e-12)


def picture(text: str) -> np.ndarray:
    """Digits are densities, a dot is no data."""
    rows = text.split()
    return np.array([[np.nan if c == "." else float(c) for c in row] for row in rows])


def test_corners_join_cells_and_holes_stay_open(tmp_path: Path) -> None:
    density = picture("""
        9990000000
        9190000020
        9990000200
        0009000000
        0000000000
        44400.0000
        4.400.0033
        4440000030""")
    found = targets_of(tmp_path, density, threshold=1.0, cells_at_once=30)
    ring, block, bend, diagonal = found.targets
    assert ring.outline.area == 9  # the ring of eight and the cell at its corner
    assert len(ring.outline.geoms) == 2
    assert (1, 1) not in cells_of(ring.outline, density.shape)
    assert block.outline.area == 8  # around the cell without data
    assert len(block.outline.geoms) == 1
    assert len(block.outline.geoms[0].interiors) == 1
    assert bend.outline.area == 3
    assert (diagonal.outline.area, len(diagonal.outline.geoms)) == (2, 2)
    assert all(target.outline.is_valid for target in found.targets)


def test_a_hole_that_meets_the_outside_at_a_corner_leaves_a_valid_outline(tmp_path: Path) -> None:
    density = picture("5550 5050 0550 0000")
    (target,) = targets_of(tmp_path, density, threshold=1.0).targets
    assert target.outline.is_valid
    assert target.outline.area == 7


def test_what_has_no_data_takes_no_part_in_smoothing(tmp_path: Path) -> None:
    density = np.full((9, 9), 1.0)
    density[:, 4:] = np.nan
    density[4, 1:3] = 3
    found = targets_of(tmp_path, density, threshold=0.05, smooth=2.0)
    (target,) = found.targets  # were no-data 0, the cells beside it would be lower than they are
    assert cells_of(target.outline, density.shape) == {(r, c) for r in range(9) for c in range(4)}
    assert target.mass_share == pytest.approx(1)
    assert target.lift == pytest.approx(1)
    even = np.where(np.isnan(density), np.nan, 1.0)
    found = targets_of(tmp_path, even, threshold=0.999, smooth=2.0)
    assert found.targets[0].outline.area == 36


def test_at_most_as_many_as_asked_for_and_none_too_small(tmp_path: Path) -> None:
    density = a_map(4)
    every = targets_of(tmp_path, density, area_share=0.2).targets
    few = targets_of(tmp_path, density, area_share=0.2, number=3)
    assert [t.mass_share for t in few.targets] == [t.mass_share for t in every[:3]]
    assert few.left_out == len(every) - 3
    large = [target for target in every if target.area_km2 >= 1.5]
    assert 0 < len(large) < len(every)
    found = targets_of(tmp_path, density, area_share=0.2, minimum_km2=1.5)
    assert [t.mass_share for t in found.targets] == [t.mass_share for t in large]
    assert found.too_small == len(every) - len(large)
    assert found.targets[0].rank == 1
    of_four = [target for target in every if target.outline.area >= 4]
    found = targets_of(tmp_path, density, area_share=0.2, minimum_km2=None)
    assert [t.mass_share for t in found.targets] == [t.mass_share for t in of_four]


def test_many_targets_are_drawn_in_groups(tmp_path: Path, monkeypatch: Any) -> None:
    density, beside = a_map(6), {"uncertainty": a_map(7)}
    known = np.random.default_rng(8).random((40, 2)) * (COLUMNS, ROWS)
    given: dict[str, Any] = {"known": known, "beside": beside, "area_share": 0.2}
    expected = targets_of(tmp_path, density, **given).targets
    assert len(expected) > 9
    monkeypatch.setattr(target_outlines, "MOST_AT_ONCE", 4)
    assert targets_of(tmp_path, density, **given).targets == expected


def test_equal_targets_rank_from_the_north(tmp_path: Path) -> None:
    density = np.zeros((40, 12))
    density[2::8, 3:5] = 0.1 + 0.2  # whose sums differ by rounding
    for cells in (12, 60, 480):
        found = targets_of(tmp_path, density, threshold=1.0, cells_at_once=cells).targets
        tops = [target.outline.bounds[1] for target in found]
        assert tops == sorted(tops)
        assert len(tops) == 5


# --- other rasters and known occurrences ----------------------------------------------------------


@pytest.mark.parametrize("name", ["metres", "degrees"])
def test_means_of_other_rasters_are_weighted_by_area(name: str, tmp_path: Path) -> None:
    grid, density = GRIDS[name], a_map(holes=False)
    generator = np.random.default_rng(9)
    variation = generator.random(density.shape).astype(np.float32)
    variation[generator.random(density.shape) < 0.3] = np.nan
    outside = (generator.random(density.shape) < 0.4).astype(np.float32)
    beside = {"uncertainty": variation, "outside_experience": outside}
    blind = targets_of(tmp_path, density, grid, area_share=0.2).targets[1]
    for cell in cells_of(blind.outline):
        variation[cell] = np.nan
    found = targets_of(tmp_path, density, grid, beside=beside, area_share=0.2)
    assert found.targets[1].means["uncertainty"] is None
    for target in found.targets:
        cells = cells_of(target.outline)
        for raster_name, raster in beside.items():
            used = [cell for cell in cells if np.isfinite(raster[cell])]
            if not used:
                assert target.means[raster_name] is None
                continue
            weights = [km2_of(grid, cell[0]) for cell in used]
            expected = np.average([raster[cell] for cell in used], weights=weights)
            assert target.means[raster_name] == pytest.approx(expected, rel=1e-5)


def polygon_distance_km(grid: Grid, cells: set[tuple[int, int]], place: np.ndarray) -> float:
    """From a place to the nearest of a target's cells, drawn around the place by PROJ."""
    boxes = [shapely.box(col, row, col + 1, row + 1) for row, col in cells]
    whole = shapely.segmentize(shapely.union_all(boxes), 0.25)
    if grid.crs.is_geographic:
        longitude, latitude = grid.to_world(place[None])[0]
        around = CRS.from_proj4(f"+proj=aeqd +lat_0={latitude} +lon_0={longitude} +datum=WGS84")
        drawn = shapely.transform(
            whole, lambda xy: reproject_points(grid.to_world(xy), grid.crs, around)
        )
        return drawn.distance(shapely.Point(0, 0)) / 1000
    drawn = shapely.transform(whole, grid.to_world)
    return drawn.distance(shapely.Point(*grid.to_world(place[None])[0])) / 1000


@pytest.mark.parametrize("name", GRIDS)
def test_distances_to_known_occurrences(name: str, tmp_path: Path) -> None:
    grid, density = GRIDS[name], a_map()
    generator = np.random.default_rng(11)
    # also beyond the map
    known = generator.random((12, 2)) * (2 * COLUMNS, 2 * ROWS) - (COLUMNS / 2, ROWS / 2)
    found = targets_of(tmp_path, density, grid, known=known, area_share=0.3)
    cell_km = 0.5 if name != "degrees" else 2.0
    for target in found.targets:
        cells = cells_of(target.outline)
        inside = [p for p in known if (math.floor(p[1]), math.floor(p[0])) in cells]
        assert target.known_inside == len(inside)
        expected = min(polygon_distance_km(grid, cells, place) for place in known)
        # the outline is taken by points, an eighth of a cell apart
        assert target.nearest_known_km == pytest.approx(expected, abs=0.004 * cell_km, rel=1e-4)
        assert (target.nearest_known_km == 0) == bool(inside)
    assert sum(target.known_inside or 0 for target in found.targets) > 0


@pytest.mark.parametrize("exclude", [0.01, 1.2, 5.0])
@pytest.mark.parametrize("name", GRIDS)
def test_nothing_is_left_around_known_occurrences(
    name: str, exclude: float, tmp_path: Path
) -> None:
    grid, density = GRIDS[name], a_map()
    best = np.unravel_index(np.nanargmax(density), density.shape)
    known = np.array([(best[1] + 0.9, best[0] + 0.9), (-1.0, 12.0), (20.5, 5.2)])
    scale = 1.0 if name != "degrees" else 4.0
    given: dict[str, Any] = {"known": known, "area_share": 0.3}
    without = targets_of(tmp_path, density, grid, **given)
    found = targets_of(tmp_path, density, grid, **given, exclude_km=exclude * scale)
    assert found.level == without.level  # the buffer does not move the level
    before = set().union(*(cells_of(target.outline) for target in without.targets))
    after = set().union(*(cells_of(target.outline) for target in found.targets))
    assert (int(best[0]), int(best[1])) in before - after
    assert after < before
    half_diagonal = 0.36 if name != "degrees" else 3.0
    for cell in before:
        nearest = min(polygon_distance_km(grid, {cell}, place) for place in known)
        if cell in after:
            assert nearest >= exclude * scale * (1 - 1e-4)
        else:
            assert nearest <= exclude * scale + half_diagonal
    for target in found.targets:
        assert target.known_inside == 0
        assert target.nearest_known_km is not None
        assert target.nearest_known_km >= exclude * scale * (1 - 1e-4)


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("density", "rules", "words"),
    [
        (np.full((6, 6), np.nan), {}, "has data"),
        (np.zeros((6, 6)), {}, "0 everywhere"),
        (np.linspace(-1, 1, 36).reshape(6, 6), {}, "no density"),
        (np.ones((6, 6)), {}, "100 % of the map, more than the 5 %"),
        (np.ones((6, 6)), {"smooth": 1.0}, "100 % of the map, more than the 5 %"),
        (np.full((6, 6), 0.3), {"smooth": 1.0, "area_share": 0.9}, "100 % of the map"),
        (picture("0009 0000"), {"threshold": 8.5}, "of 8.5 or more; the highest is 8. Give a low"),
        (picture("0009 0000"), {"threshold": 7, "smooth": 1.0}, "after smoothing"),
        (picture("9009 0000"), {"threshold": 2, "minimum_km2": 0.3}, "None of the 2 connected"),
        (picture("9009 0000"), {"threshold": 2, "minimum_km2": None}, "has 4 cells or more"),
    ],
)
def test_a_map_without_targets_is_said_with_the_remedy(
    density: np.ndarray, rules: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=words) as caught:
        targets_of(tmp_path, density, **rules)
    assert caught.value.hint


def test_a_buffer_that_leaves_nothing_is_said(tmp_path: Path) -> None:
    known = np.array([(3.5, 0.5)])
    with pytest.raises(UserError, match=r"within 1 km of known.*smaller --exclude"):
        targets_of(tmp_path, picture("0009 0000"), known=known, threshold=2, exclude_km=1.0)


def test_all_cells_that_have_any_density_may_be_less_than_the_share(tmp_path: Path) -> None:
    density = np.zeros((10, 10))
    density[3, 3:6] = [1e-9, 2, 3]
    (target,) = targets_of(tmp_path, density, area_share=0.5).targets
    assert target.mass_share == 1
    assert target.outline.area == 3


def test_a_level_is_found_for_any_unit() -> None:
    values = np.random.default_rng(12).lognormal(0, 2, 5000)
    for unit in (1e-12, 1.0, 1e9):
        curve = AreaByDensity()
        for some in np.array_split(values * unit, 7):
            curve.add(some, np.ones(len(some)))
        level = curve.level(0.1)
        assert level is not None
        above = int((values * unit >= level).sum())
        assert 0.98 * 500 <= above <= 500
