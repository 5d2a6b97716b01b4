from __future__ import annotations

import numpy as np
import pytest
from geocfm.inference.connected import ConnectedParts
from scipy.ndimage import label


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("share", [0.1, 0.35, 0.6])
@pytest.mark.parametrize("width", [1, 3, 29])
def test_strips_give_the_parts_of_the_whole(rows: int, share: float, width: int) -> None:
    cells = np.random.default_rng(rows).random((40, width)) < share
    parts = ConnectedParts(width)
    counts = [parts.add(cells[row : row + rows])[1] for row in range(0, 40, rows)]
    assert parts.pieces == sum(counts)

    part = parts.parts()
    found = np.full(cells.shape, -1)
    for strip in parts.strips():
        labels = parts.labels(strip)
        assert labels.max(initial=0) == strip.pieces.stop - strip.pieces.start
        found[strip.rows] = np.concatenate([[-1], part[strip.pieces]])[labels]
    expected, count = label(cells, structure=np.ones((3, 3)))
    # the same cells are together, and parts are in the order of their first cells
    values = np.unique(found[cells])
    assert len(values) == count
    np.testing.assert_array_equal(np.searchsorted(values, found[cells]) + 1, expected[cells])
    np.testing.assert_array_equal(found >= 0, cells)


def test_no_cell_no_part() -> None:
    parts = ConnectedParts(5)
    assert parts.add(np.zeros((3, 5), dtype=bool))[1] == 0
    assert len(parts.parts()) == 0
