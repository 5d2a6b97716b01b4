"""Likelihood within windows: against an even density, by hand, and on the right tiles."""

from dataclasses import replace

import numpy as np
import pytest
from geocfm.data.image import Image
from geocfm.data.region import Region
from geocfm.data.split import Split
from geocfm.evaluation.comparison import tile_interval
from geocfm.evaluation.window_likelihood import likelihoods, windows_of


def nothing(done: float, total: float, **figures: float) -> None:
    pass


def even(image: Image) -> np.ndarray:
    return np.full(len(image.points), -np.log(image.footprint.sum()))


def by_column(image: Image) -> np.ndarray:
    """Something that differs between occurrences and windows: the column in the window."""
    return -image.points[:, 0]


def test_an_even_density_is_chance(region: Region) -> None:
    found = likelihoods(region, even, nothing)
    assert set(found) == {role for role, starts in region.starts.items() if len(starts)}
    for one in found.values():
        assert one.nll == pytest.approx(one.even)
        assert one.even <= 2 * np.log(region.plan.size) + 1e-9


def test_an_occurrence_counts_once_with_the_mean_over_its_windows(region: Region) -> None:
    twice = replace(region, points=np.concatenate([region.points, region.points[:3]]))
    found = likelihoods(twice, by_column, nothing)["train"]
    seen: dict[int, list[float]] = {}
    for window in windows_of(twice, "train"):
        for number, (x, y) in enumerate(twice.points):
            col, row = x - window.col, y - window.row
            if 0 <= col < window.width and 0 <= row < window.height:
                seen.setdefault(number, []).append(col)
    assert max(map(len, seen.values())) > 1
    assert found.occurrences == len(seen)  # two at one place are two
    assert found.nll == pytest.approx(np.mean([np.mean(values) for values in seen.values()]))


def test_windows_of_a_role_keep_to_its_tiles_and_reach_every_occurrence(region: Region) -> None:
    for number, role in enumerate(("train", "validation", "test")):
        windows = windows_of(region, role)
        reached = {n for window in windows for n in region.inside(window)}
        possible = {n for start in region.starts[role] for n in region.inside(region.window(start))}
        assert len(reached) >= 0.95 * len(possible)
        assert len(windows) < max(2, 0.5 * len(region.starts[role]))
        for window in windows:
            corners = [
                (window.col + across, window.row + down)
                for across in (0.5, window.width - 0.5)
                for down in (0.5, window.height - 0.5)
            ]
            assert set(region.split.role_of_points(np.array(corners))) == {number}
            assert len(region.points_in(window))


def test_tiles_hardly_larger_than_a_window_keep_theirs(region: Region) -> None:
    """With tiles of 72 cells and windows of 64, starts fit into few places of a tile."""
    edges = np.arange(0, 289, 72)
    lattice = np.arange(0, 288 - 64 + 1, 8)
    starts = np.array([(row, col) for row in lattice for col in lattice])
    roles = np.array([[0, 2, 0, 2], [2, 0, 2, 0]] * 2, dtype=np.int8)  # no two tiles together
    split = Split(edges, edges, roles)
    own = split.role_of_windows(starts, 64)
    small = replace(
        region,
        split=split,
        plan=replace(region.plan, size=64, stride=8, tile=72),
        starts={"test": starts[own == 2]},
    )
    tiles = {(w.row // 72, w.col // 72) for w in windows_of(small, "test")}
    assert tiles == {(i, j) for i in range(4) for j in range(4) if roles[i, j] == 2}


def test_a_window_without_a_value_is_left_out(region: Region) -> None:
    def sometimes(image: Image) -> np.ndarray:
        return even(image) if image.origin[0] % 2 else np.full(len(image.points), np.nan)

    for one in likelihoods(region, sometimes, nothing).values():
        assert np.isfinite(one.nll)
    assert likelihoods(region, lambda image: np.full(len(image.points), np.nan), nothing) == {}


def test_an_interval_by_tiles() -> None:
    values = np.array([1.0, 1.0, 1.0, 3.0])
    low, high, tiles = tile_interval(values, np.array([4, 4, 4, 9]))
    assert (low, high, tiles) == (1.0, 3.0, 2)  # either tile may be drawn twice
    assert tile_interval(values, np.zeros(4, dtype=np.int64)) == (None, None, 1)


def test_occurrences_lie_where_the_preset_shows_them(region: Region) -> None:
    shown: dict[str, list[np.ndarray]] = {"exact": [], "counts": []}
    for positions, seen in shown.items():
        settings = region.settings.model_copy(update={"positions": positions})

        def look(image: Image, seen: list[np.ndarray] = seen) -> np.ndarray:
            seen.append(image.points)
            return even(image)

        likelihoods(replace(region, settings=settings), look, nothing)
    exact, spread = (np.concatenate(seen) for seen in shown.values())
    assert np.array_equal(np.floor(exact), np.floor(spread))
    assert not np.array_equal(exact, spread)
