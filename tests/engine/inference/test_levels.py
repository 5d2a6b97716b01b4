from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from geocfm.geo.grid import Grid, Window
from geocfm.inference.levels import RIDGE, Survey, reach, shared_masses, window_levels
from geocfm.inference.mosaic import Mosaic
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine
from scipy.ndimage import gaussian_filter

Field = NDArray[np.float64]
SIZE, STRIDE = 32, 10  # windows that do not step by a whole part of their size


def mosaic_over(height: int, width: int) -> Mosaic:
    grid = Grid(CRS.from_epsg(32750), Affine(100, 0, 5e5, 0, -100, 7e6), height, width)
    return Mosaic.over(grid, SIZE, STRIDE)


def belts(height: int, width: int, seed: int = 0) -> Field:
    """An intensity that varies by some orders of magnitude."""
    noise = gaussian_filter(np.random.default_rng(seed).standard_normal((height, width)), 12)
    return np.exp(1.5 * noise / noise.std())


def seen(
    mosaic: Mosaic,
    intensity: Field,
    change: Callable[[Field], Field] = lambda density: density,
) -> Survey:
    """What windows know that see the intensity, each up to its own mass; NaN is no data."""
    most = reach(mosaic)
    cells, shared = [], []
    for window in mosaic.windows():
        here = intensity[window.row : window.row_stop, window.col : window.col_stop]
        density = change(np.nan_to_num(here))
        shared.append(shared_masses(mosaic, window, density / max(density.sum(), 1e-300), most))
        cells.append(int(np.isfinite(here).sum()))
    nothing = np.full(len(cells), np.nan)
    return Survey(np.array(cells), np.array(shared), nothing, nothing)


def true_levels(mosaic: Mosaic, intensity: Field) -> Field:
    return np.array(
        [np.nanmean(intensity[w.row : w.row_stop, w.col : w.col_stop]) for w in mosaic.windows()]
    )


def off(levels: Field, truth: Field) -> float:
    """Standard deviation of the log levels' error, whatever their scale."""
    return float(np.log(levels / truth).std())


def test_shared_masses_are_sums_over_the_overlaps() -> None:
    mosaic = mosaic_over(75, 62)
    most = reach(mosaic)
    windows = mosaic.windows()
    density = np.random.default_rng(1).random((SIZE, SIZE))
    density /= density.sum()
    whole = Window(0, 0, 10_000, 10_000)
    for window in windows:
        found = shared_masses(mosaic, window, density, most)
        assert found[most, most] == pytest.approx(1)
        row, col = mosaic.row_starts.index(window.row), mosaic.col_starts.index(window.col)
        expected = np.zeros_like(found)
        for down in range(-most, most + 1):
            for right in range(-most, most + 1):
                near = 0 <= row + down < len(mosaic.row_starts)
                if near and 0 <= col + right < len(mosaic.col_starts):
                    other = Window(
                        mosaic.row_starts[row + down], mosaic.col_starts[col + right], SIZE, SIZE
                    )
                    both = window.intersection(other)
                    if both is not None:
                        at = both.slices_in(whole)
                        inside = tuple(
                            slice(part.start - start, part.stop - start)
                            for part, start in zip(at, (window.row, window.col), strict=True)
                        )
                        expected[most + down, most + right] = density[inside].sum()
        assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("height", "width"), [(75, 62), (33, 140), (20, 90), (20, 20)])
def test_reach_is_the_furthest_overlap(height: int, width: int) -> None:
    mosaic = mosaic_over(height, width)
    furthest = 0
    for starts in (mosaic.row_starts, mosaic.col_starts):
        for first, second in combinations(range(len(starts)), 2):
            if starts[second] - starts[first] < SIZE:
                furthest = max(furthest, second - first)
    assert reach(mosaic) == furthest


def test_windows_that_agree_give_the_true_levels() -> None:
    intensity = belts(120, 150)
    mosaic = mosaic_over(120, 150)
    truth = true_levels(mosaic, intensity)
    levels = window_levels(mosaic, mosaic.windows(), seen(mosaic, intensity), "consistent")
    assert levels.parts == 1
    assert off(np.ones(len(truth)), truth) > 0.5
    assert off(levels.values, truth) < 0.01
    cells = np.full(len(truth), SIZE**2)
    assert np.average(levels.values, weights=cells) == pytest.approx(1)


def test_the_solution_is_that_of_the_normal_equations() -> None:
    """Another way: every pair a row of a dense least-squares problem."""
    intensity = belts(62, 75, seed=4)
    mosaic = mosaic_over(62, 75)
    generator = np.random.default_rng(5)
    survey = seen(mosaic, intensity, lambda d: d * np.exp(0.3 * generator.standard_normal(d.shape)))
    windows = mosaic.windows()
    most = reach(mosaic)
    rows, values = [], []
    for (j, first), (k, second) in combinations(enumerate(windows), 2):
        down = mosaic.row_starts.index(second.row) - mosaic.row_starts.index(first.row)
        right = mosaic.col_starts.index(second.col) - mosaic.col_starts.index(first.col)
        if first.intersection(second) is None:
            continue
        ours = survey.shared[j, most + down, most + right]
        theirs = survey.shared[k, most - down, most - right]
        row = np.zeros(len(windows))
        row[j], row[k] = 1, -1
        root = np.sqrt(min(ours, theirs))
        rows.append(root * row)
        values.append(root * np.log(theirs / ours))
    ridge = np.sqrt(RIDGE["consistent"]) * np.eye(len(windows))
    system = np.concatenate([rows, ridge])
    log_mass = np.linalg.lstsq(system, np.concatenate([values, np.zeros(len(windows))]))[0]
    found = window_levels(mosaic, windows, survey, "consistent").values
    assert off(found, np.exp(log_mass)) < 1e-6


def test_noise_in_the_windows_does_not_add_up_along_the_region() -> None:
    intensity = belts(60, 400)
    mosaic = mosaic_over(60, 400)
    generator = np.random.default_rng(6)

    def noisy(density: Field) -> Field:
        smooth = gaussian_filter(generator.standard_normal(density.shape), 4)
        return density * np.exp(0.3 * smooth / smooth.std())

    truth = true_levels(mosaic, intensity)
    levels = window_levels(mosaic, mosaic.windows(), seen(mosaic, intensity, noisy), "consistent")
    assert off(levels.values, truth) < 0.35 * off(np.ones(len(truth)), truth)


def test_windows_without_data_have_no_level_and_parts_that_do_not_meet_are_counted() -> None:
    intensity = belts(40, 160)
    intensity[:, 60:110] = np.nan  # wider than a window: two parts
    mosaic = mosaic_over(40, 160)
    windows = mosaic.windows()
    survey = seen(mosaic, intensity)
    assert (survey.cells == 0).any()
    levels = window_levels(mosaic, windows, survey, "consistent")
    assert levels.parts == 2
    assert ((levels.values > 0) == (survey.cells > 0)).all()
    truth = true_levels(mosaic, np.where(np.isnan(intensity), np.nan, intensity))
    for side in (range(60), range(110, 160)):
        here = [
            number
            for number, window in enumerate(windows)
            if survey.cells[number] and any(c in side for c in (window.col, window.col_stop - 1))
        ]
        part = [n for n in here if (windows[n].col < 60) == (side.start == 0)]
        assert off(levels.values[part], truth[part]) < 0.05


def test_a_head_decides_where_overlaps_tell_nothing() -> None:
    """Two parts that do not meet: only the head knows that the second is ten times as rich."""
    intensity = np.ones((32, 130))
    intensity[:, 40:90] = np.nan
    intensity[:, 90:] = 10
    mosaic = mosaic_over(32, 130)
    windows = mosaic.windows()
    bare = seen(mosaic, intensity)
    truth = np.array(
        [np.nansum(intensity[w.row : w.row_stop, w.col : w.col_stop]) for w in windows]
    )
    logs = np.log(np.maximum(truth, 1e-300)) + 17  # a constant says nothing
    told = Survey(bare.cells, bare.shared, logs, logs)
    held = bare.cells > 0
    mean = truth[held] / bare.cells[held]
    for combine in ("head", "count"):
        levels = window_levels(mosaic, windows, told, combine).values
        assert off(levels[held], mean) < 1e-6
    assert off(window_levels(mosaic, windows, bare, "consistent").values[held], mean) > 0.5


def test_average_takes_all_windows_with_data_as_equal() -> None:
    intensity = belts(40, 160)
    intensity[:, 60:110] = np.nan
    mosaic = mosaic_over(40, 160)
    survey = seen(mosaic, intensity)
    levels = window_levels(mosaic, mosaic.windows(), survey, "average")
    assert set(levels.values[survey.cells > 0]) == {1.0}
    assert set(levels.values[survey.cells == 0]) == {0.0}
    assert levels.parts == 2
    whole = window_levels(mosaic, mosaic.windows(), seen(mosaic, belts(40, 160)), "average")
    assert whole.parts == 1
