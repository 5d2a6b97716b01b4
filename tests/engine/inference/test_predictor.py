from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from geocfm.geo.grid import Window
from geocfm.inference.flow_sampler import EDGE, WindowDraws
from geocfm.inference.predictor import Predictor, WindowReader
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.network import new_network
from mapping_support import network_settings, planes, predictor_of
from numpy.typing import NDArray
from scipy.stats import norm
from small_data import HOLE

CPU = torch.device("cpu")
# beside, over and far from the hole, and one that reaches past the region
WINDOWS = [
    Window(row, col, 32, 32)
    for row, col in [(0, 0), (16, 16), (32, 48), (20, 40), (88, 68), (60, 8), (40, 60), (100, 80)]
]
OVER_HOLE = WINDOWS[2]


def changed(predictor: Predictor, checkpoint: Checkpoint, **changes: object) -> Predictor:
    sampling = predictor.sampling.model_copy(update=changes)
    return Predictor(checkpoint, predictor.layers, sampling, CPU)


def draw(
    predictor: Predictor, windows: list[Window], counts: list[int], seed: int, batch: int
) -> list[WindowDraws]:
    draws: list[WindowDraws] = []
    for first in range(0, len(windows), batch):
        encoded = predictor.encode(windows[first : first + batch])
        draws += predictor.draw(encoded, counts[first : first + batch], seed)
    return draws


def on_data(points: NDArray[np.float64], window: Window, predictor: Predictor) -> NDArray[np.bool_]:
    footprint = np.isfinite(predictor.layers.read(window)).any(axis=0)
    col, row = np.floor(points * window.width).astype(int).T
    found: NDArray[np.bool_] = footprint[row, col]
    return found


def test_windows_that_overlap_are_read_at_once_and_others_one_by_one(
    predictor: Predictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = predictor.layers.read
    asked: list[Window] = []

    def watched(window: Window) -> NDArray[np.float32]:
        asked.append(window)
        return read(window)

    monkeypatch.setattr(predictor.layers, "read", watched, raising=True)
    row = [Window(88, col, 32, 32) for col in (40, 51, 68)]  # the last reaches past the region
    apart = [Window(0, 0, 32, 32), Window(60, 60, 32, 32)]
    for windows, readings in ((row, [Window(88, 40, 32, 60)]), (apart, apart)):
        asked.clear()
        found = WindowReader(predictor.layers, predictor.encoder).read(tuple(windows))
        assert asked == readings
        for number, window in enumerate(windows):
            channels, footprint = predictor.encoder.encode(read(window))
            assert np.array_equal(found.channels[number], channels)
            assert np.array_equal(found.footprints[number], footprint)


@pytest.mark.parametrize("batch", [1, 3])
def test_the_same_seed_gives_the_same_points_at_any_batch_size(
    predictor: Predictor, batch: int
) -> None:
    counts = [200, 50, 120, 80, 1, 200, 60, 90]
    together = draw(predictor, WINDOWS, counts, seed=4, batch=8)
    apart = draw(predictor, WINDOWS, counts, seed=4, batch=batch)
    assert [len(d.points) for d in together] == counts
    for one, other in zip(together, apart, strict=True):
        assert np.abs(one.points - other.points).max() < 1e-4
        assert one.share_on_data == other.share_on_data


def test_points_do_not_depend_on_order_or_on_how_many_are_asked_for(predictor: Predictor) -> None:
    few = draw(predictor, WINDOWS, [40] * 8, seed=4, batch=8)
    many = draw(predictor, WINDOWS[::-1], [160] * 8, seed=4, batch=8)[::-1]
    for one, other in zip(few, many, strict=True):
        assert np.abs(one.points - other.points[:40]).max() < 1e-4


def test_another_seed_and_another_window_have_other_noise(predictor: Predictor) -> None:
    first, second = (draw(predictor, WINDOWS, [50] * 8, seed, batch=8) for seed in (4, 5))
    for one, other in zip(first, second, strict=True):
        assert np.abs(one.points - other.points).max() > 0.05
    for one, other in itertools.pairwise(first):
        assert np.abs(one.points - other.points).max() > 0.05


def test_a_network_that_moves_nothing_shows_each_windows_own_noise(
    predictor: Predictor, checkpoint: Checkpoint
) -> None:
    card = checkpoint.card
    network = card.settings.network.model_copy(update={"anchor": 0})
    settings = card.settings.model_copy(update={"network": network})
    still = Checkpoint((new_network(card.channels, settings, 1).eval(),), card)
    drawn = draw(changed(predictor, still, outside="clip"), WINDOWS, [4000] * 8, seed=1, batch=8)
    firsts = {tuple(one.points[0]) for one in drawn}
    assert len(firsts) == len(WINDOWS)
    for one in drawn:  # clipped to within sqrt(3) of a standard normal: a known share is inside
        inside = (one.points > 0) & (one.points < 1 - EDGE)
        assert inside.mean() == pytest.approx(norm.cdf(3**0.5) - norm.cdf(-(3**0.5)), abs=0.02)
        assert one.points.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.02)


def test_rejected_points_are_drawn_again_until_all_lie_on_data(predictor: Predictor) -> None:
    for window, drawn in zip(
        WINDOWS, draw(predictor, WINDOWS, [400] * 8, seed=1, batch=8), strict=True
    ):
        assert ((drawn.points >= 0) & (drawn.points < 1)).all()
        if drawn.share_on_data > 0.6:  # else ten rounds may not be enough for all
            assert on_data(drawn.points, window, predictor).all()
    assert 0 < draw(predictor, [OVER_HOLE], [400], 1, 1)[0].share_on_data < 1


def test_clipped_points_stay_in_the_window_and_may_lie_on_no_data(
    predictor: Predictor, checkpoint: Checkpoint
) -> None:
    clipping = changed(predictor, checkpoint, outside="clip")
    (clipped,) = draw(clipping, [OVER_HOLE], [3000], seed=1, batch=1)
    (rejected,) = draw(predictor, [OVER_HOLE], [3000], seed=1, batch=1)
    assert ((clipped.points >= 0) & (clipped.points < 1)).all()
    on_edge = ((clipped.points == 0) | (clipped.points == 1 - EDGE)).any(axis=1)
    far_away = 500_000  # even so far from the grid's corner an edge point keeps its cell
    assert (np.floor(clipped.points * 32 + far_away) < far_away + 32).all()
    assert on_edge.any()
    in_hole = ~on_data(clipped.points, OVER_HOLE, predictor)
    assert in_hole.any()
    assert HOLE.intersection(OVER_HOLE) is not None
    # points of the first round that were good are the same in both ways
    good = ~on_edge & ~in_hole
    assert np.array_equal(clipped.points[good], rejected.points[good])
    assert clipped.share_on_data == rejected.share_on_data == pytest.approx(good.mean())


def test_a_window_without_points_asked_for_gives_none(predictor: Predictor) -> None:
    drawn = draw(predictor, WINDOWS[:3], [10, 0, 5], seed=1, batch=3)
    assert [len(d.points) for d in drawn] == [10, 0, 5]


def test_the_exact_density_agrees_with_where_draws_fall(
    predictor: Predictor, checkpoint: Checkpoint
) -> None:
    # for any bounded g, the mean of g over draws is the integral of f g; with g = u / (f + u)
    # and u the uniform density both sides are means of numbers in [0, 1]
    fine = changed(predictor, checkpoint, steps=24, outside="clip")
    encoded = fine.encode([WINDOWS[1]])
    uniform = 1 / 32**2

    def density(points: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(fine.log_density(encoded, points, np.zeros(len(points), dtype=np.int64)))

    (drawn,) = fine.draw(encoded, [6000], seed=2)
    inside = ((drawn.points > 0) & (drawn.points < 1 - EDGE)).all(axis=1)
    over_draws = (uniform / (density(drawn.points[inside]) + uniform)).sum() / len(inside)
    anywhere = density(np.random.default_rng(3).random((6000, 2)))
    assert over_draws == pytest.approx((anywhere / (anywhere + uniform)).mean(), abs=0.02)
    # a density of another scale would not do
    wrong = 1.3 * anywhere
    assert over_draws != pytest.approx((wrong / (wrong + uniform)).mean(), abs=0.02)


@pytest.mark.parametrize("stem", [1, 2])
def test_a_window_with_a_margin_is_the_inside_of_a_larger_look(stem: int) -> None:
    """A margin as wide as the reach shows all that counts; windows begin with whole cells."""
    network = network_settings(stem, 1)
    margin = -(-network.reach // network.period) * network.period
    there = predictor_of(planes(160, 170, [Window(70, 60, 9, 20)]), 1, network, 24, margin=margin)
    windows = [Window(60, 64, 24, 24), Window(80, 72, 24, 24)]
    encoded = there.encode(windows)
    look = there.look(Window(52, 48, 72, 80))
    levels, intensity, footprints = look.cut(windows)
    assert np.array_equal(encoded.footprints, footprints)
    assert not footprints.all()
    torch.testing.assert_close(encoded.maps.log_intensity, intensity, atol=1e-4, rtol=1e-4)
    rows = levels[0].permute(0, 2, 3, 1).reshape(-1, levels[0].shape[1])
    torch.testing.assert_close(encoded.maps.rows, rows, atol=1e-4, rtol=1e-4)
    cut = there.cut(look, windows, footprints)
    torch.testing.assert_close(
        encoded.maps.log_density[footprints], cut.maps.log_density[footprints], atol=1e-4, rtol=1e-4
    )
    # without the margin a window's border is another
    bare = predictor_of(there.layers, [there.sampler._network], network, 24)
    gap = (bare.encode(windows).maps.log_intensity - intensity).abs()[footprints]
    assert gap.max() > 0.1


def test_a_window_beyond_the_grid_has_no_data_in_its_margin() -> None:
    there = predictor_of(planes(60, 60), size=24, margin=16)
    encoded = there.encode([Window(-4, 50, 24, 24)])
    assert not encoded.footprints[0, :4].any()
    assert not encoded.footprints[0, :, 10:].any()
    assert encoded.footprints[0, 4:, :10].all()
    assert torch.isfinite(encoded.maps.log_intensity).all()
