"""Layers that matter at a place: against shares computed by hand, and with a trained model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from decided_region import (
    BELT_WEIGHT,
    HOLE,
    NOISE_WEIGHT,
    RICH,
    RICH_WEIGHT,
    SIDE,
    SIZE,
    channel_weights,
    decided_region,
    knowing_predictor,
    layer_values,
)
from geocfm.data.encoding import Encoder
from geocfm.data.region import Region
from geocfm.geo.grid import Window
from geocfm.inference import occlusion
from geocfm.inference.occlusion import (
    LayerEffect,
    TargetCells,
    channel_means,
    describe_effects,
    layers_that_matter,
    target_windows,
)
from geocfm.inference.predictor import Predictor
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.network import new_network
from numpy.typing import NDArray
from small_data import HOLE as SMALL_HOLE
from small_data import ridge_column

WHOLE = Window(0, 0, SIDE, SIDE)


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with decided_region(tmp_path_factory.mktemp("decided")) as region:
        yield region


def block(row: int, col: int, height: int, width: int) -> TargetCells:
    return TargetCells(Window(row, col, height, width), np.ones((height, width), dtype=bool))


def drops(effects: list[LayerEffect]) -> dict[str, float]:
    assert effects == sorted(effects, key=lambda effect: -effect.drop_nats)
    return {effect.layer: effect.drop_nats for effect in effects}


def by_hand(target: TargetCells, window: Window, decided: Region) -> dict[str, float]:
    """Drops of the log share in one window, from the layers themselves."""
    values = layer_values()
    rows, cols = window.slices_in(WHOLE)
    noise = decided.layer_cards[2]
    gap = np.zeros((SIDE, SIDE), dtype=bool)
    gap[HOLE] = True
    middle = decided.layer_cards[0].mean
    terms = {
        "belt": BELT_WEIGHT * np.where(gap, 0, values["belt"] - middle),
        "rock": RICH_WEIGHT * (values["rock"] == RICH),
        "noise": NOISE_WEIGHT * (values["noise"] - noise.mean) / noise.std,
    }
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[target.window.slices_in(WHOLE)] = target.mask

    def log_share(*left_out: str) -> float:
        logits = sum(term for name, term in terms.items() if name not in left_out)
        weights = np.exp(np.asarray(logits, dtype=np.float64))[rows, cols]
        return float(np.log(weights[inside[rows, cols]].sum() / weights.sum()))

    return {name: log_share() - log_share(name) for name in terms}


@pytest.mark.parametrize("place", [(40, 40), (3, 150), (70, 96)])  # the last beside the hole
def test_the_drops_of_a_small_target_by_hand(decided: Region, place: tuple[int, int]) -> None:
    generator = np.random.default_rng(1)
    target = TargetCells(Window(*place, 7, 8), generator.random((7, 8)) < 0.6)
    (window,) = target_windows(target, SIZE, WHOLE)
    assert window.contains(target.window)
    (effects,) = layers_that_matter(knowing_predictor(decided), [target])
    expected = by_hand(target, window, decided)
    assert drops(effects) == pytest.approx(expected, abs=1e-5)
    assert max(map(abs, expected.values())) > 0.1


def test_what_decides_is_found_where_it_decides(decided: Region) -> None:
    values = layer_values()
    predictor = knowing_predictor(decided)
    belt = np.where(values["belt"] < -100, -100, values["belt"])
    inner = (slice(8, -8), slice(8, -8))
    row, col = np.unravel_index(belt[inner].argmax(), belt[inner].shape)
    on_belt = block(int(row) + 7, int(col) + 7, 3, 3)
    rich = (values["rock"] == RICH) & (belt < 0)
    row, col = np.argwhere(rich[inner])[0]
    on_rock = block(int(row) + 8, int(col) + 8, 1, 1)
    first, second = layers_that_matter(predictor, [on_belt, on_rock])
    assert first[0].layer == "belt"
    assert describe_effects(first).startswith("belt +")
    assert second[0].layer == "rock"
    assert drops(second)["belt"] < 0  # it speaks against the place
    assert "belt" not in describe_effects(second)


def test_a_trained_model_goes_by_the_ridge(predictor: Predictor) -> None:
    rows = [20, 60, 95]
    targets = [block(row - 2, int(ridge_column(row)) - 2, 5, 5) for row in rows]
    hole = TargetCells(SMALL_HOLE, np.ones((SMALL_HOLE.height, SMALL_HOLE.width), dtype=bool))
    *found, none = layers_that_matter(predictor, [*targets, hole])
    assert [effects[0].layer for effects in found] == ["ridge"] * 3
    assert all(effects[0].drop_nats > 0.1 for effects in found)
    assert none == []  # no cell of it has data
    assert describe_effects(none) == ""


def test_a_model_without_a_density_head_is_asked_by_draws(
    predictor: Predictor, checkpoint: Checkpoint
) -> None:
    card = checkpoint.card
    network = card.settings.network.model_copy(update={"density": False, "anchor": 0})
    settings = card.settings.model_copy(update={"network": network})
    flow = new_network(card.channels, settings, 1)
    with torch.no_grad():
        last = list(flow.head.parameters())[-2]
        last.copy_(torch.randn(last.shape, generator=torch.Generator().manual_seed(2)))
    flow.eval().requires_grad_(False)
    model = Checkpoint((flow,), card.model_copy(update={"settings": settings}))
    at_work = Predictor(model, predictor.layers, predictor.sampling, torch.device("cpu"))
    targets = [block(60, 30, 6, 6), block(10, 10, 8, 4)]
    found = layers_that_matter(at_work, targets, seed=3)
    assert found == layers_that_matter(at_work, targets, seed=3)
    assert found != layers_that_matter(at_work, targets, seed=4)
    assert all(np.isfinite(effect.drop_nats) for effects in found for effect in effects)
    assert any(effect.drop_nats != 0 for effects in found for effect in effects)


def test_a_layer_that_the_model_does_not_look_at_has_no_effect(decided: Region) -> None:
    weights = channel_weights(decided)
    weights[4] = 0
    predictor = knowing_predictor(decided, weights)
    for effects in layers_that_matter(predictor, [block(40, 40, 5, 5), block(90, 20, 40, 40)]):
        assert drops(effects)["noise"] == 0


def test_classes_are_replaced_by_their_shares(
    decided: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = knowing_predictor(decided)
    encoder = Encoder(decided.layer_cards, decided.settings)
    belt, rock, noise = channel_means(predictor, encoder)
    assert belt.tolist() == noise.tolist() == [0]
    monkeypatch.setattr(occlusion, "MEAN_WINDOWS", 1000)  # all of them
    _, every, _ = channel_means(predictor, encoder)
    values = layer_values()["rock"]
    assert every == pytest.approx([(values == kind).mean() for kind in (1, RICH, 5)])
    assert rock == pytest.approx(every, abs=0.1)
    assert rock.sum() == pytest.approx(1)


def test_a_larger_target_counts_by_several_windows(decided: Region) -> None:
    generator = np.random.default_rng(2)
    target = TargetCells(Window(20, 30, 14, 20), generator.random((14, 20)) < 0.4)
    windows = target_windows(target, SIZE, WHOLE)
    assert 1 < len(windows) <= occlusion.MOST_WINDOWS
    (effects,) = layers_that_matter(knowing_predictor(decided), [target])
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[target.window.slices_in(WHOLE)] = target.mask
    counts = [inside[window.slices_in(WHOLE)].sum() for window in windows]
    each = [by_hand(target, window, decided) for window in windows]
    for name, drop in drops(effects).items():
        mean = np.average([one[name] for one in each], weights=counts)
        assert drop == pytest.approx(mean, abs=1e-5)


def covered(windows: list[Window], shape: tuple[int, int]) -> NDArray[np.bool_]:
    seen = np.zeros(shape, dtype=bool)
    for window in windows:
        seen[window.row : window.row_stop, window.col : window.col_stop] = True
    return seen


def test_windows_of_targets() -> None:
    middle = block(50, 60, 8, 6)
    assert target_windows(middle, 16, WHOLE) == [Window(46, 55, 16, 16)]
    densest = TargetCells(middle.window, middle.mask, (50, 65))
    assert target_windows(densest, 16, WHOLE) == [Window(42, 57, 16, 16)]
    corner = block(0, 155, 3, 5)
    assert target_windows(corner, 16, WHOLE) == [Window(0, 144, 16, 16)]
    small_grid = Window(0, 0, 10, 12)
    assert target_windows(block(8, 2, 2, 2), 16, small_grid) == [Window(0, 0, 16, 16)]
    nothing = TargetCells(Window(4, 4, 5, 5), np.zeros((5, 5), dtype=bool), (5, 5))
    assert target_windows(nothing, 16, WHOLE) == []
    wide = block(30, 40, 10, 25)
    windows = target_windows(wide, 16, WHOLE)
    assert covered(windows, (SIDE, SIDE))[wide.window.slices_in(WHOLE)].all()
    huge = TargetCells(WHOLE, np.ones((SIDE, SIDE), dtype=bool), (100, 20))
    windows = target_windows(huge, 16, WHOLE)
    assert len(windows) == occlusion.MOST_WINDOWS
    assert windows[0] == Window(92, 12, 16, 16)
    for window in windows:
        assert WHOLE.contains(window)


def test_pieces_with_the_most_cells_come_first() -> None:
    mask = np.zeros((64, 64), dtype=bool)
    mask[40:44, 40:44] = True
    mask[3, 3] = True
    first, second = target_windows(TargetCells(Window(0, 0, 64, 64), mask), 16, WHOLE)
    assert covered([first], (64, 64))[40:44, 40:44].all()
    assert covered([second], (64, 64))[3, 3]


def test_parts_make_no_difference(decided: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, targets = knowing_predictor(decided), [block(40, 40, 5, 5)]
    (together,) = layers_that_matter(predictor, targets)
    monkeypatch.setattr(occlusion, "IMAGES_AT_ONCE", 1)
    seen: list[tuple[float, float]] = []
    (apart,) = layers_that_matter(predictor, targets, 0, lambda *done: seen.append(done))
    assert drops(apart) == pytest.approx(drops(together), abs=1e-6)
    assert seen == [(0, 1), (1, 1)]


def test_words() -> None:
    effects = [
        LayerEffect("magnetics", 1.234),
        LayerEffect("fault distance", 0.4),
        LayerEffect("gravity", 0.051),
        LayerEffect("potassium", 0.05),
        LayerEffect("uranium", -1.0),
    ]
    assert describe_effects(effects) == "magnetics +1.2, fault distance +0.4, gravity +0.1"
    assert describe_effects(effects[3:]) == "potassium +0.1"
    assert describe_effects([LayerEffect("thorium", 0.049)]) == ""
