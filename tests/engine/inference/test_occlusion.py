"""Layers that matter at a place: by hand, against layers that are changed, and a trained model."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from decided_region import (
    BELT_WEIGHT,
    HOLE,
    NOISE_WEIGHT,
    RICH,
    RICH_WEIGHT,
    SIDE,
    card_of,
    channel_weights,
    decided_region,
    knowing_predictor,
    layer_values,
)
from geocfm.data.region import Region
from geocfm.geo.grid import Window
from geocfm.inference import occlusion
from geocfm.inference.occlusion import (
    LayerEffect,
    TargetCells,
    channel_means,
    describe_effects,
    layers_that_matter,
)
from geocfm.inference.predictor import Predictor
from geocfm.model.settings import PRESETS
from mapping_support import Planes, network_settings, planes, predictor_of, telling_network
from small_data import HOLE as SMALL_HOLE
from small_data import ridge_column

pytestmark = pytest.mark.usefixtures("one_thread")

WHOLE = Window(0, 0, SIDE, SIDE)
VALIDITY = np.array([0, 0, 0, 0, 0, 1, 1, 1])  # channels that stay as they are


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with decided_region(tmp_path_factory.mktemp("decided")) as region:
        yield region


@pytest.fixture
def every_window_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the shares of classes, which are those of the whole region then."""
    monkeypatch.setattr(occlusion, "MEAN_WINDOWS", 1000)


def block(row: int, col: int, height: int, width: int) -> TargetCells:
    return TargetCells(Window(row, col, height, width), np.ones((height, width), dtype=bool))


def some_of(window: Window, seed: int) -> TargetCells:
    generator = np.random.default_rng(seed)
    return TargetCells(window, generator.random((window.height, window.width)) < 0.5)


def drops(effects: list[LayerEffect]) -> dict[str, float]:
    assert effects == sorted(effects, key=lambda effect: -effect.drop_nats)
    return {effect.layer: effect.drop_nats for effect in effects}


def by_hand(target: TargetCells, decided: Region) -> dict[str, float]:
    """Logs of ratios of intensities, from the layers themselves."""
    values, (belt, _, noise) = layer_values(), decided.layer_cards
    gap = np.zeros((SIDE, SIDE), dtype=bool)
    gap[HOLE] = True
    rich = (values["rock"] == RICH).astype(np.float64)
    factors = {
        "belt": np.exp(BELT_WEIGHT * np.where(gap, 0, values["belt"] - belt.mean)),
        "rock": np.exp(RICH_WEIGHT * rich),
        "noise": np.exp(NOISE_WEIGHT * (values["noise"] - noise.mean) / noise.std),
    }
    at_mean = {"belt": 1, "rock": np.exp(RICH_WEIGHT * rich.mean()), "noise": 1}
    inside = np.zeros((SIDE, SIDE), dtype=bool)
    inside[target.window.slices_in(WHOLE)] = target.mask
    whole = np.prod(list(factors.values()), axis=0)
    return {
        name: float(np.log(whole[inside].sum() / (whole / factor * at_mean[name])[inside].sum()))
        for name, factor in factors.items()
    }


@pytest.mark.parametrize(
    "window",
    [
        Window(40, 40, 7, 8),
        Window(0, 150, 3, 10),  # at the grid's end
        Window(70, 96, 7, 8),  # beside the hole
        Window(20, 10, 130, 150),
    ],
)
def test_the_drops_by_hand(decided: Region, window: Window, every_window_counts: None) -> None:
    target = some_of(window, 1)
    (effects,) = layers_that_matter(knowing_predictor(decided), [target])
    expected = by_hand(target, decided)
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


def test_an_intensity_that_no_number_holds_is_compared_all_the_same(decided: Region) -> None:
    target = block(40, 40, 5, 5)
    plain, far = (
        layers_that_matter(knowing_predictor(decided, weights), [target])[0]
        for weights in (channel_weights(decided), channel_weights(decided) + 2000 * VALIDITY)
    )
    assert drops(far) == pytest.approx(drops(plain), abs=2e-3)  # as near as float32 is to 6000


# --- what counts around a place ------------------------------------------------------------------

LAYERS = planes(110, 103, [Window(60, 50, 14, 17)])
NETWORK = network_settings(2, 1)  # a reach of 26 cells
ENDS = [Window(30, 40, 20, 25), Window(0, 88, 9, 15), Window(100, 0, 10, 4), Window(52, 44, 20, 20)]


@pytest.fixture(scope="module")
def model() -> Predictor:
    return predictor_of(LAYERS, [telling_network(NETWORK, 4)], NETWORK)


def by_changed_layers(model: Predictor, target: TargetCells) -> dict[str, float]:
    """Looks at the whole grid, of layers whose own values are changed."""

    def log_total(layers: Planes) -> float:
        other = predictor_of(layers, [telling_network(NETWORK, 4)], NETWORK)
        logs = other.look(layers.grid.window()).log_intensity.astype(np.float64)
        there = logs[target.window.slices_in(layers.grid.window())][target.mask]
        return float(np.log(np.nansum(np.exp(there))))

    found = {}
    for number, card in enumerate(model.card.layers):
        changed = LAYERS.values.copy()
        changed[number, np.isfinite(changed[number])] = card.mean
        found[card.name] = log_total(LAYERS) - log_total(Planes(changed, LAYERS.grid))
    return found


@pytest.mark.parametrize("window", ENDS)
def test_layers_are_at_their_mean_as_far_around_as_counts(model: Predictor, window: Window) -> None:
    target = some_of(window, 2)
    (effects,) = layers_that_matter(model, [target])
    expected = by_changed_layers(model, target)
    assert drops(effects) == pytest.approx(expected, abs=1e-3)
    assert max(map(abs, expected.values())) > 0.1


@pytest.mark.parametrize("window", ENDS)
def test_pieces_make_no_difference(
    model: Predictor, window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = some_of(window, 3)
    (whole,) = layers_that_matter(model, [target])
    monkeypatch.setattr(occlusion, "PIECE", 7)
    monkeypatch.setattr(occlusion, "MOST_PIECES", 100)
    (cut,) = layers_that_matter(model, [target])
    assert drops(cut) == pytest.approx(drops(whole), abs=1e-3)


def test_pieces_with_the_most_cells_stand_for_all(
    decided: Region, every_window_counts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = np.zeros((64, 64), dtype=bool)
    mask[40:44, 40:44] = mask[3, 3:6] = mask[3, 60] = True
    most = mask.copy()
    most[3, 60] = False
    monkeypatch.setattr(occlusion, "PIECE", 16)
    monkeypatch.setattr(occlusion, "MOST_PIECES", 2)
    window = Window(10, 20, 64, 64)
    (effects,) = layers_that_matter(knowing_predictor(decided), [TargetCells(window, mask)])
    expected = by_hand(TargetCells(window, most), decided)
    assert drops(effects) == pytest.approx(expected, abs=1e-5)
    assert by_hand(TargetCells(window, mask), decided) != pytest.approx(expected, abs=1e-4)


# --- models --------------------------------------------------------------------------------------


def test_a_trained_model_goes_by_the_ridge(predictor: Predictor) -> None:
    rows = [20, 60, 95]
    targets = [block(row - 2, int(ridge_column(row)) - 2, 5, 5) for row in rows]
    hole = TargetCells(SMALL_HOLE, np.ones((SMALL_HOLE.height, SMALL_HOLE.width), dtype=bool))
    *found, none = layers_that_matter(predictor, [*targets, hole])
    assert [effects[0].layer for effects in found] == ["ridge"] * 3
    assert all(effects[0].drop_nats > 0.1 for effects in found)
    assert none == []  # no cell of it has data
    assert describe_effects(none) == ""


def test_a_model_whose_windows_do_not_compare_tells_nothing(decided: Region) -> None:
    predictor, targets = knowing_predictor(decided), [block(40, 40, 5, 5), block(9, 9, 2, 2)]
    assert all(layers_that_matter(predictor, targets))
    predictor.card = card_of(decided, PRESETS["paper-earthmri"].network)
    assert layers_that_matter(predictor, targets) == [[], []]


def test_a_layer_that_the_model_does_not_look_at_has_no_effect(decided: Region) -> None:
    weights = channel_weights(decided)
    weights[4] = 0
    predictor = knowing_predictor(decided, weights)
    for effects in layers_that_matter(predictor, [block(40, 40, 5, 5), block(90, 20, 40, 40)]):
        assert drops(effects)["noise"] == 0
        assert drops(effects)["belt"] != 0


def test_classes_are_replaced_by_their_shares(
    decided: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = knowing_predictor(decided)
    belt, rock, noise = channel_means(predictor)
    assert belt.tolist() == noise.tolist() == [0]
    monkeypatch.setattr(occlusion, "MEAN_WINDOWS", 1000)  # all of them
    _, every, _ = channel_means(predictor)
    values = layer_values()["rock"]
    assert every == pytest.approx([(values == kind).mean() for kind in (1, RICH, 5)])
    assert rock == pytest.approx(every, abs=0.1)
    assert rock.sum() == pytest.approx(1)


def test_progress_is_by_target(decided: Region) -> None:
    seen: list[tuple[float, float]] = []
    targets = [block(40, 40, 5, 5), block(9, 9, 2, 2)]
    layers_that_matter(knowing_predictor(decided), targets, lambda *done: seen.append(done))
    assert seen == [(0, 2), (1, 2), (2, 2)]


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
