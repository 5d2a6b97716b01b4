"""Which windows training, validation and test may use."""

import numpy as np
import pytest
from geocfm.data.split import ROLES
from geocfm.geo.grid import Window


def points_inside(points: np.ndarray, window: Window) -> np.ndarray:
    return np.array(
        [
            ((x - window.col) / window.width, (y - window.row) / window.height)
            for x, y in points
            if window.col <= x < window.col_stop and window.row <= y < window.row_stop
        ]
    ).reshape(-1, 2)


@pytest.mark.parametrize("footprint", [0.5, 0.95])
def test_windows_hold_data_an_occurrence_and_one_role(make_region, sample, footprint):
    region = make_region(footprint=footprint)
    size, stride = region.plan.size, region.plan.stride
    data = sample.valid.any(axis=0)
    painted = np.full((96, 80), -1)
    for tile, role in region.split.tiles():
        painted[tile.row : tile.row_stop, tile.col : tile.col_stop] = role
    expected: dict[str, list[tuple[int, int]]] = {role: [] for role in ROLES}
    ground: dict[str, list[tuple[int, int]]] = {role: [] for role in ROLES}
    too_little = 0
    for row in range(0, 96 - size + 1, stride):
        for col in range(0, 80 - size + 1, stride):
            window = Window(row, col, size, size)
            cells = slice(row, row + size), slice(col, col + size)
            roles = np.unique(painted[cells])
            enough = data[cells].mean() >= footprint
            if len(roles) == 1 and enough:
                ground[ROLES[roles[0]]].append((row, col))
            if len(roles) == 1 and len(points_inside(region.points, window)):
                too_little += not enough
                if enough:
                    expected[ROLES[roles[0]]].append((row, col))
    for role in ROLES:
        assert [tuple(start) for start in region.starts[role].tolist()] == expected[role]
        assert [tuple(start) for start in region.ground[role].tolist()] == ground[role]
    assert len(expected["train"]) > 10
    assert len(ground["train"]) > len(expected["train"])
    assert too_little > 0
    assert region.window(region.starts["train"][0]) == Window(*expected["train"][0], size, size)


@pytest.mark.parametrize(
    "window", [Window(0, 0, 96, 80), Window(20, 8, 16, 16), Window(88, 70, 16, 16)]
)
def test_points_in_a_window(region, window):
    np.testing.assert_allclose(
        region.points_in(window), points_inside(region.points, window), atol=1e-12
    )


def test_every_point_has_the_role_of_its_tile(region):
    counts = dict.fromkeys(ROLES, 0)
    for tile, role in region.split.tiles():
        counts[ROLES[role]] += len(points_inside(region.points, tile))
    assert region.points_by_role() == counts
    assert sum(counts.values()) == len(region.points) == 37
