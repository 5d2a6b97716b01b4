"""Turning a window and its points together keeps what each point lies on."""

import numpy as np
import pytest
from geocfm.data.augmentation import SYMMETRIES, turn_image, turn_points

SIZE = 7
GENERATOR = np.random.default_rng(1)
IMAGE = GENERATOR.random((3, SIZE, SIZE), dtype=np.float32)
POINTS = GENERATOR.random((200, 2))


def value_under(image: np.ndarray, points: np.ndarray) -> np.ndarray:
    col, row = np.floor(points * SIZE).astype(int).T
    return image[:, row, col].T


def bilinear(image: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Between the cells' centres, as the network reads features."""
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)), mode="edge").astype(np.float64)
    x, y = (points * SIZE + 0.5).T
    col, row = np.floor(x).astype(int), np.floor(y).astype(int)
    x, y = x - col, y - row
    return (
        padded[:, row, col] * (1 - x) * (1 - y)
        + padded[:, row, col + 1] * x * (1 - y)
        + padded[:, row + 1, col] * (1 - x) * y
        + padded[:, row + 1, col + 1] * x * y
    ).T


@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_a_moved_point_lies_on_the_same_cell(symmetry):
    turned, moved = turn_image(IMAGE, symmetry), turn_points(POINTS, symmetry)
    assert turned.shape == IMAGE.shape
    np.testing.assert_array_equal(value_under(turned, moved), value_under(IMAGE, POINTS))


@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_a_moved_point_reads_the_same_features(symmetry):
    turned, moved = turn_image(IMAGE, symmetry), turn_points(POINTS, symmetry)
    np.testing.assert_allclose(bilinear(turned, moved), bilinear(IMAGE, POINTS), atol=1e-6)


@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_points_keep_their_distances_and_stay_inside(symmetry):
    moved = turn_points(POINTS, symmetry)
    assert ((moved >= 0) & (moved <= 1)).all()
    before = np.linalg.norm(POINTS[:, None] - POINTS, axis=2)
    np.testing.assert_allclose(np.linalg.norm(moved[:, None] - moved, axis=2), before, atol=1e-12)


def test_there_are_eight_and_they_are_all_there_are():
    """A group: no two alike, one does nothing, and two after one another are one of them."""
    turned = [turn_image(IMAGE, symmetry) for symmetry in range(SYMMETRIES)]
    assert SYMMETRIES == 8
    assert len({image.tobytes() for image in map(np.ascontiguousarray, turned)}) == 8
    np.testing.assert_array_equal(turned[0], IMAGE)
    for first in range(SYMMETRIES):
        results = set()
        for second in range(SYMMETRIES):
            both = turn_image(turned[first], second)
            same = [n for n in range(SYMMETRIES) if np.array_equal(turned[n], both)]
            assert len(same) == 1
            results.add(same[0])
            moved = turn_points(turn_points(POINTS, first), second)
            np.testing.assert_allclose(moved, turn_points(POINTS, same[0]), atol=1e-12)
        assert results == set(range(SYMMETRIES))


def test_nothing_to_move():
    assert turn_points(np.zeros((0, 2)), 5).shape == (0, 2)
