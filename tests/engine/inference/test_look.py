"""What is looked at for a part of the grid, and windows that are cut out of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geocfm.geo.grid import Window
from geocfm.inference.look import pieces, seen_around
from geocfm.inference.predictor import Predictor
from mapping_support import network_settings, planes, predictor_of

pytestmark = pytest.mark.usefixtures("one_thread")

GRID = Window(0, 0, 203, 317)
NETWORK = network_settings(2, 1)  # cells of 2 and 4 pixels, a reach of 26


@pytest.mark.parametrize(
    "window",
    [
        Window(0, 0, 1, 1),
        Window(100, 150, 7, 9),
        Window(99, 151, 30, 30),
        Window(170, 300, 40, 40),
        Window(-5, -9, 30, 12),
        GRID,
    ],
)
def test_all_that_counts_for_a_window_is_seen_from_a_whole_cell_on(window: Window) -> None:
    seen = seen_around(window, NETWORK, GRID)
    assert GRID.contains(seen)
    around = window.grown(NETWORK.reach).intersection(GRID)
    assert around is not None
    assert seen.contains(around)
    assert seen.row % NETWORK.period == seen.col % NETWORK.period == 0
    for end, grid_end in ((seen.row_stop, 203), (seen.col_stop, 317)):
        assert end % NETWORK.period == 0 or end == grid_end
    assert seen.height <= around.height + 2 * NETWORK.period
    assert seen.width <= around.width + 2 * NETWORK.period


def test_a_window_that_reaches_nothing_of_the_grid_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="beyond the grid"):
        seen_around(Window(300, 0, 10, 10), NETWORK, GRID)


@pytest.mark.parametrize("window", [Window(3, 5, 40, 41), Window(0, 0, 7, 90), Window(9, 9, 1, 1)])
@pytest.mark.parametrize("side", [1, 8, 40, 100])
def test_pieces_cover_a_window_once_row_by_row(window: Window, side: int) -> None:
    found = list(pieces(window, side))
    times = np.zeros((60, 110), dtype=int)
    for piece in found:
        times[piece.row : piece.row_stop, piece.col : piece.col_stop] += 1
        assert 0 < piece.height <= side
        assert 0 < piece.width <= side
    inside = np.zeros_like(times)
    inside[window.row : window.row_stop, window.col : window.col_stop] = 1
    assert np.array_equal(times, inside)
    assert found == sorted(found, key=lambda piece: (piece.row, piece.col))
    assert np.ptp([piece.height for piece in found]) <= 1


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return predictor_of(planes(83, 61, [Window(30, 20, 12, 15)]), 1, network_settings(2, 2))


def test_windows_that_are_cut_out_are_what_looks_at_each_of_them_find(
    predictor: Predictor,
) -> None:
    windows = [Window(row, col, 18, 18) for row, col in ((0, 0), (22, 10), (26, 42), (66, 44))]
    look = predictor.look(Window(0, 0, 90, 66))
    everything = np.ones((4, 18, 18), dtype=bool)
    encoded = predictor.cut(look, windows, everything)
    assert encoded.windows == tuple(windows)
    for number, window in enumerate(windows):
        alone = predictor.cut(predictor.look(window), [window], everything[:1])
        footprint = encoded.footprints[number]
        assert np.array_equal(footprint, alone.footprints[0])
        for kept in ("log_intensity", "log_density"):
            one, other = getattr(encoded.maps, kept)[number], getattr(alone.maps, kept)[0]
            inside = torch.from_numpy(footprint)
            torch.testing.assert_close(one[inside], other[inside], atol=1e-4, rtol=1e-4)
        rows, cells = alone.maps.rows, encoded.maps.cells
        assert cells == alone.maps.cells == (9, 9)
        mine = encoded.maps.rows[number * 81 : (number + 1) * 81]
        on_grid = np.add.outer(
            1000 * (window.row + 2 * np.arange(9) < 83), window.col + 2 * np.arange(9) < 61
        )
        torch.testing.assert_close(
            mine[(on_grid == 1001).ravel()], rows[(on_grid == 1001).ravel()], atol=1e-4, rtol=1e-4
        )


def test_a_look_beyond_the_grid_has_no_data_there(predictor: Predictor) -> None:
    look = predictor.look(Window(70, 50, 30, 30))
    values = predictor.layers.read(Window(70, 50, 30, 30))
    assert np.array_equal(look.footprint, np.isfinite(values).any(axis=0))
    assert not look.footprint[13:].any()
    assert not look.footprint[:, 11:].any()
    (_, intensity, footprints) = look.cut([Window(70, 50, 30, 30)])
    assert np.array_equal(footprints[0], look.footprint)
    assert intensity.shape == (1, 30, 30)
    assert torch.isfinite(intensity).all()


def test_points_lie_only_where_they_are_wanted(predictor: Predictor) -> None:
    window = Window(22, 10, 18, 18)
    wanted = np.zeros((1, 18, 18), dtype=bool)
    wanted[0, :, :7] = True
    encoded = predictor.cut(predictor.look(window), [window], wanted)
    assert np.array_equal(encoded.footprints, wanted & predictor.look(window).footprint)
    density = encoded.maps.log_density.exp().numpy()
    assert density[~encoded.footprints].sum() == 0
    assert density.sum() == pytest.approx(1)
    (drawn,) = predictor.draw(encoded, [200], seed=1)
    col, row = np.floor(drawn.points * 18).astype(int).T
    assert encoded.footprints[0, row, col].all()


def test_a_window_that_begins_within_a_cell_cannot_be_cut_out(predictor: Predictor) -> None:
    look = predictor.look(Window(0, 0, 60, 60))
    with pytest.raises(ValueError, match="begin at a cell of 2"):
        look.cut([Window(3, 0, 18, 18)])


def test_a_network_without_a_density_head_has_no_look(windowed: Predictor) -> None:
    with pytest.raises(ValueError, match="density head"):
        windowed.look(Window(0, 0, 32, 32))
