"""Which layers matter: on a region where that is known, by hand, and by a trained model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
    card_of,
    channel_weights,
    decided_region,
    knowing_predictor,
    layer_values,
)
from geocfm.data.region import Region
from geocfm.data.replaced_layers import LayeredWindow
from geocfm.evaluation import importance as module
from geocfm.evaluation.comparison import tile_interval
from geocfm.evaluation.importance import Importance, LayerImportance, layer_importance
from geocfm.evaluation.importance_chart import importance_figure
from geocfm.geo.grid import Window
from geocfm.inference.predictor import Predictor
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.settings import PRESETS
from numpy.typing import NDArray

pytestmark = pytest.mark.usefixtures("one_thread")


def nothing(done: float, total: float, **figures: float) -> None:
    pass


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    with decided_region(tmp_path_factory.mktemp("decided")) as region:
        yield region


@pytest.fixture(scope="module")
def known(decided: Region) -> Importance:
    return layer_importance(decided, knowing_predictor(decided), 1, nothing)


def by_name(found: Importance) -> dict[str, LayerImportance]:
    return {layer.layer: layer for layer in found.layers}


# --- what matters --------------------------------------------------------------------------------


def test_what_decides_matters_and_noise_does_not(known: Importance, decided: Region) -> None:
    assert [layer.layer for layer in known.layers] == ["belt", "rock", "noise"]
    assert known.role == "test"
    assert known.local
    for layer in known.layers:
        assert layer.low is not None
        assert layer.high is not None
        assert layer.low <= layer.loss_nats <= layer.high
        assert layer.occurrences == known.on_test == decided.points_by_role()["test"]
        assert layer.tiles > 1
    found = by_name(known)
    assert found["belt"].low > 0.5
    assert found["rock"].low > 0.1
    assert found["noise"].low <= 0 <= found["noise"].high
    assert abs(found["noise"].loss_nats) < 0.02


def test_what_a_trained_model_goes_by_matters(region: Region, predictor: Predictor) -> None:
    found = layer_importance(region, predictor, 1, nothing)
    ridge, *others = found.layers
    assert ridge.layer == "ridge"
    assert ridge.loss_nats > 0.1
    assert all(layer.loss_nats < 0.5 * ridge.loss_nats for layer in others)


def test_a_layer_the_model_does_not_look_at_loses_nothing(decided: Region) -> None:
    weights = channel_weights(decided)
    weights[4] = 0
    found = by_name(layer_importance(decided, knowing_predictor(decided, weights), 1, nothing))
    noise = found["noise"]
    assert (noise.loss_nats, noise.low, noise.high) == pytest.approx((0, 0, 0), abs=1e-12)
    assert found["belt"].loss_nats > 0.5


def test_of_two_classes_all_channels_are_exchanged_together(decided: Region) -> None:
    """Weights on all classes that add the same to each: only where there is data can count."""
    weights = np.zeros(8)
    weights[1:4] = 3.0
    found = by_name(layer_importance(decided, knowing_predictor(decided, weights), 1, nothing))
    assert found["rock"].loss_nats == pytest.approx(0, abs=1e-5)


# --- by hand -------------------------------------------------------------------------------------


def on_tiles_of(region: Region, role: int) -> NDArray[np.bool_]:
    """Cells (H, W) of the tiles of a role."""
    found = np.zeros((region.grid.height, region.grid.width), dtype=bool)
    for tile, number in region.split.tiles():
        found[tile.slices_in(region.grid.window())] |= number == role
    return found


def tiled(block: NDArray, height: int, width: int) -> NDArray:
    """Blocks side by side, from the grid's corner on."""
    down, across = -(-height // block.shape[0]), -(-width // block.shape[1])
    return np.tile(block, (down, across))[:height, :width]


def from_one_place(region: Region, start: tuple[int, int], patch: pytest.MonkeyPatch) -> Region:
    """The region with one donor for all blocks, which is never turned."""
    patch.setattr(module, "SYMMETRIES", 1)
    patch.setattr(module, "_apart", lambda starts, block: starts)
    nowhere = np.zeros((0, 2), int)
    return replace(region, ground={"train": np.array([start]), "test": nowhere})


def relative(logs: NDArray, region: Region, valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Log of the intensity at the held-out occurrences over its mean on the held-out tiles."""
    mean = np.exp(logs)[on_tiles_of(region, 2) & valid].mean()
    col, row = region.points[region.split.role_of_points(region.points) == 2].astype(int).T
    return logs[row, col] - np.log(mean)


def test_the_losses_by_hand(decided: Region, monkeypatch: pytest.MonkeyPatch) -> None:
    lone = from_one_place(decided, (32, 20), monkeypatch)
    values, (belt, _, noise) = layer_values(), decided.layer_cards
    gap = np.zeros((SIDE, SIDE), dtype=bool)
    gap[HOLE] = True

    def log_intensity(layers: dict[str, NDArray]) -> NDArray[np.float64]:
        said = BELT_WEIGHT * np.where(gap, 0, layers["belt"] - belt.mean)
        said = said + RICH_WEIGHT * (layers["rock"] == RICH)
        return said + NOISE_WEIGHT * (layers["noise"] - noise.mean) / noise.std

    everywhere = np.ones((SIDE, SIDE), dtype=bool)
    as_is = relative(log_intensity(values), decided, everywhere)
    found = by_name(layer_importance(lone, knowing_predictor(decided), 1, nothing, 2))
    for name, plane in values.items():
        exchanged = values | {name: tiled(plane[32:48, 20:36], SIDE, SIDE)}
        losses = as_is - relative(log_intensity(exchanged), decided, everywhere)
        assert found[name].loss_nats == pytest.approx(losses.mean(), abs=1e-4)
        assert abs(losses.mean()) > 1e-3


class Changed:
    """A region's layers with other values."""

    def __init__(self, region: Region, values: NDArray[np.float32]) -> None:
        self.grid, self._values = region.grid, values

    def read(self, window: Window) -> NDArray[np.float32]:
        return self._values[(slice(None), *window.slices_in(self.grid.window()))]


@pytest.mark.parametrize("piece", [384, 17])
def test_the_losses_of_a_network_that_sees_around(
    region: Region, checkpoint: Checkpoint, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against looks at the whole region, of layers whose own values are changed."""
    whole, sampling = region.grid.window(), checkpoint.card.settings.sampling
    start, size = (70, 30), region.plan.size
    values = region.read(whole)
    block = values[:, start[0] : start[0] + size, start[1] : start[1] + size]
    assert np.isfinite(block).all()

    def likelihoods(layers: NDArray[np.float32]) -> NDArray[np.float64]:
        model = Predictor(checkpoint, Changed(region, layers), sampling, torch.device("cpu"))
        logs = model.look(whole).log_intensity.astype(np.float64)
        return relative(logs, region, np.isfinite(values).any(axis=0))

    monkeypatch.setattr(module, "PIECE", piece)
    lone = from_one_place(region, start, monkeypatch)
    predictor = Predictor(checkpoint, region, sampling, torch.device("cpu"))
    found = by_name(layer_importance(lone, predictor, 1, nothing, 1))
    for number, card in enumerate(region.layer_cards):
        changed = values.copy()
        changed[number] = tiled(block[number], *values.shape[1:])
        changed[number][np.isnan(values[number])] = np.nan
        losses = likelihoods(values) - likelihoods(changed)
        assert found[card.name].loss_nats == pytest.approx(losses.mean(), abs=2e-3)
    assert found["ridge"].loss_nats > 0.1


def test_an_occurrence_counts_once_and_the_interval_is_by_tiles(
    decided: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses that are the numbers of the occurrences, so that means are known."""
    judged = np.flatnonzero(decided.split.role_of_points(decided.points) == 2)[3:]
    losses = np.full((3, len(decided.points)), np.nan)
    losses[:, judged] = [judged, -judged, 0 * judged]
    monkeypatch.setattr(module, "_losses", lambda *_: losses)
    found = layer_importance(decided, knowing_predictor(decided), 1, nothing)
    belt, noise, rock = found.layers
    assert belt.occurrences == len(judged) == found.on_test - 3
    assert belt.loss_nats == pytest.approx(judged.mean())
    tile = decided.split.tile_of_points(decided.points[judged])
    assert (belt.low, belt.high, belt.tiles) == tile_interval(judged.astype(float), tile)
    assert rock.loss_nats == -belt.loss_nats
    assert noise.loss_nats == 0


# --- chance, donors, effort ----------------------------------------------------------------------


def test_the_same_seed_gives_the_same_figures(decided: Region, known: Importance) -> None:
    predictor = knowing_predictor(decided)
    assert layer_importance(decided, predictor, 1, nothing) == known
    other = layer_importance(decided, predictor, 2, nothing)
    assert other.layers != known.layers
    assert by_name(other)["belt"].loss_nats == pytest.approx(
        by_name(known)["belt"].loss_nats, rel=0.15
    )


def test_blocks_are_turned_and_what_is_seen_twice_is_exchanged_alike(decided: Region) -> None:
    lone = replace(decided, ground={"train": np.array([[32, 20]]), "test": np.zeros((0, 2), int)})

    def donor(seen: Window) -> LayeredWindow:
        own = LayeredWindow.read(decided.read(seen), decided.encoder)
        found = module._donor(lone, "test", own, seen, (1, 0))
        assert found.channels.shape == own.channels.shape
        return found

    seen, other = Window(0, 0, 77, 90), Window(50, 60, 110, 100)
    whole = donor(seen)
    given = decided.encoder.encode(decided.read(Window(32, 20, 16, 16)))[0]
    turns = [
        np.rot90(mirrored, number, axes=(1, 2))
        for mirrored in (given, given.transpose(0, 2, 1))
        for number in range(4)
    ]
    which = []
    for row in range(0, 64, 16):
        for col in range(48, 80, 16):  # beyond what overlaps the donor
            block = whole.channels[:, row : row + 16, col : col + 16]
            which += [n for n, turned in enumerate(turns) if np.array_equal(block, turned)]
    assert len(which) == 8
    assert len(set(which)) > 3
    both = Window(50, 60, 27, 30)
    shared = [
        found.channels[(slice(None), *both.slices_in(place))]
        for found, place in ((whole, seen), (donor(other), other))
    ]
    np.testing.assert_array_equal(*shared)


def test_donors_lie_apart_and_on_training_tiles_or_those_of_the_role(
    decided: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    block, given = Window(48, 64, 16, 16), []
    starts = decided.ground["train"]
    for start in module._apart(starts, block):
        assert decided.window(start).intersection(block) is None
    assert len(module._apart(starts, block)) > 100
    beside = np.array([[50, 60]])
    assert module._apart(beside, block).tolist() == [[48, 64]]  # itself, turned
    monkeypatch.setattr(module, "_apart", lambda starts, block: given.append(starts) or starts)
    layer_importance(decided, knowing_predictor(decided), 1, nothing, 1)
    for some in given:
        assert set(decided.split.role_of_windows(some, 16)) == {0, 2}


def test_a_donor_has_at_least_as_much_data(decided: Region) -> None:
    in_hole, whole = Window(66, 106, 16, 16), Window(0, 0, 16, 16)
    read = LayeredWindow.read
    own = read(decided.read(whole), decided.encoder)
    starts = np.array([[66, 106], [20, 20], [66, 106]])
    for number in range(5):
        donor = module._given(decided, own, starts, np.random.default_rng(number))
        assert donor.valid.all()
    empty = read(decided.read(in_hole), decided.encoder)
    assert not empty.valid[0].any()
    lacking = module._given(decided, own, starts[:1], np.random.default_rng(0))
    assert not lacking.valid[0].any()  # when there is no other


def test_too_many_cells_cost_repetitions_first_and_then_ground(
    decided: Region, known: Importance, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = knowing_predictor(decided)
    monkeypatch.setattr(module, "seen_around", lambda piece, network, grid: piece)
    held_out = on_tiles_of(decided, 2).sum()
    assert known.repetitions == module.REPETITIONS
    monkeypatch.setattr(module, "MOST_CELLS", 3 * held_out * 2 + 1)
    found = layer_importance(decided, predictor, 1, nothing)
    assert found.repetitions == 2
    assert found.layers[0].occurrences == known.layers[0].occurrences
    monkeypatch.setattr(module, "MOST_CELLS", 3 * 2 * 32**2)
    found = layer_importance(decided, predictor, 1, nothing)
    assert found.repetitions == 1
    tiles = [len(decided.inside(tile)) for tile, role in decided.split.tiles() if role == 2]
    assert found.layers[0].occurrences == max(tiles) + min(tiles)
    monkeypatch.setattr(module, "MOST_CELLS", 1)
    found = layer_importance(decided, predictor, 1, nothing)
    assert found.layers[0].occurrences == max(tiles)


def test_a_model_whose_windows_do_not_compare_is_not_asked(decided: Region) -> None:
    predictor = knowing_predictor(decided)
    predictor.card = card_of(decided, PRESETS["paper-earthmri"].network)
    found = layer_importance(decided, predictor, 1, nothing)
    assert found.layers == ()
    assert "every window of this model has a density of its own" in found.sentence()


# --- too few, none, and what is said -------------------------------------------------------------


def only(region: Region, **kept: int) -> Region:
    """The region with so many of a role's occurrences."""
    roles = region.split.role_of_points(region.points)
    chosen = roles == 0
    for role, number in (("validation", 1), ("test", 2)):
        some = np.flatnonzero(roles == number)[: kept.get(role)]
        chosen[some] = True
    return replace(region, points=region.points[chosen], ids=region.ids[chosen])


def test_too_few_held_out_occurrences_leave_it_to_the_validation_tiles(decided: Region) -> None:
    few = only(decided, test=2)
    found = layer_importance(few, knowing_predictor(few), 1, nothing)
    assert found.role == "validation"
    assert found.layers[0].layer == "belt"
    assert "validation occurrences are" in found.sentence()
    assert "since only" in found.sentence()
    both = only(decided, test=3, validation=2)  # no better there
    assert layer_importance(both, knowing_predictor(both), 1, nothing).role == "test"
    none = only(decided, test=0)
    said = layer_importance(none, knowing_predictor(none), 1, nothing).sentence()
    assert "no occurrence lies on the held-out tiles" in said


def test_without_any_occurrence_it_is_said(decided: Region) -> None:
    empty = only(decided, test=0, validation=0)
    found = layer_importance(empty, knowing_predictor(empty), 1, nothing)
    assert found.layers == ()
    assert found.sentence().startswith("Which layers matter cannot be told")
    assert found.to_dict()["layers"] == []
    (text,) = importance_figure(found).axes[0].texts
    assert "cannot be told" in text.get_text()


def layer(name: str, loss: float, low: float | None, high: float | None) -> LayerImportance:
    return LayerImportance(name, loss, low, high, 40, 1 if low is None else 6)


def on_tiles(known: Importance, tiles: int) -> Importance:
    return replace(known, layers=tuple(replace(layer, tiles=tiles) for layer in known.layers))


def test_the_sentence_names_up_to_three_layers() -> None:
    layers = (
        layer("dist_fault", 0.31, 0.1, 0.5),
        layer("mag", 0.12, -0.02, 0.2),
        layer("grav", 0.05, None, None),
        layer("k", 0.04, 0.01, 0.08),
        layer("u", -0.2, -0.4, 0.1),
    )
    found = Importance(layers, "test", 40, 5, local=True)
    assert found.sentence() == (
        "Without dist_fault held-out occurrences are 0.31 nats less likely (0.10 to 0.50); "
        "without mag 0.12 (-0.02 to 0.20); without grav 0.05."
    )
    assert on_tiles(found, 5).sentence() == (
        "Without dist_fault held-out occurrences are 0.31 nats less likely; without mag 0.12; "
        "without grav 0.05."
    )
    none = replace(found, layers=layers[4:])
    assert none.sentence().startswith("No layer matters by itself: held-out occurrences are as")


def test_the_chart_shows_the_figures(known: Importance) -> None:
    axes = importance_figure(on_tiles(known, 6)).axes[0]
    widths = [bar.get_width() for bar in axes.patches]
    assert widths == pytest.approx([layer.loss_nats for layer in known.layers])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["belt", "rock", "noise"]
    assert axes.yaxis_inverted()  # the first on top
    colours = [bar.get_facecolor() for bar in axes.patches]
    assert colours[0] == colours[1] != colours[2]  # noise cannot be told from 0
    intervals = [line.get_xdata() for line in axes.lines[:3]]
    assert np.allclose(intervals, [(layer.low, layer.high) for layer in known.layers])


@pytest.mark.parametrize("name", ["$a_b^{$", r"cost_$\frac", r"\$x$_$", "a$b", "_mag", "k^2_\\"])
def test_the_chart_shows_names_as_they_are(known: Importance, name: str) -> None:
    layers = (replace(known.layers[0], layer=name), *known.layers[1:])
    figure = importance_figure(replace(known, layers=layers))
    figure.canvas.draw()  # which fails on half a formula
    shown = figure.axes[0].get_yticklabels()[0]
    plain, formula = shown._preprocess_math(shown.get_text())
    assert (plain, formula) == (name, False)


def test_the_chart_of_few_tiles_has_no_intervals_and_says_why(known: Importance) -> None:
    assert known.layers[0].tiles == 5
    enough, few = (importance_figure(on_tiles(known, tiles)).axes[0] for tiles in (6, 5))
    assert len(few.lines) == 1 == len(enough.lines) - len(known.layers)  # that at 0 alone
    assert len({bar.get_facecolor() for bar in few.patches}) == 1
    said = few.get_xlabel().replace("\n", " ")
    assert "The occurrences lie on 5 tiles only, too few tiles for an interval" in said
    assert "interval" not in enough.get_xlabel()


def test_a_chart_of_many_layers_says_what_it_leaves_out() -> None:
    layers = tuple(layer(f"layer {n} " + "x" * 40, 1 - n / 50, None, None) for n in range(40))
    figure = importance_figure(Importance(layers, "validation", 0, 1, local=True))
    axes = figure.axes[0]
    assert len(axes.patches) == 30
    assert "40 validation occurrences on 1 tile; 10 lesser layers not shown" in axes.get_title()
    assert max(len(label.get_text()) for label in axes.get_yticklabels()) <= 32
