"""Which layers matter: on a region where that is known, by hand, and for every kind of model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from decided_region import channel_weights, decided_region, knowing_predictor
from geocfm.data.image import Image
from geocfm.data.region import Region
from geocfm.evaluation import importance as module
from geocfm.evaluation.benchmark.flow_method import FlowView
from geocfm.evaluation.comparison import tile_interval
from geocfm.evaluation.importance import Importance, LayerImportance, layer_importance
from geocfm.evaluation.importance_chart import importance_figure
from geocfm.evaluation.window_likelihood import MASS_POINTS, windows_of
from geocfm.geo.grid import Window
from geocfm.inference.predictor import Predictor
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.network import new_network
from numpy.typing import NDArray

CPU = torch.device("cpu")


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


def without_head(checkpoint: Checkpoint) -> Checkpoint:
    """A flow that nobody trained, whose velocity depends on what the layers show."""
    card = checkpoint.card
    network = card.settings.network.model_copy(update={"density": False, "anchor": 0})
    settings = card.settings.model_copy(update={"network": network})
    flow = new_network(card.channels, settings, 1)
    with torch.no_grad():
        last = list(flow.head.parameters())[-2]
        last.copy_(torch.randn(last.shape, generator=torch.Generator().manual_seed(2)) / 4)
    flow.eval().requires_grad_(False)
    return Checkpoint((flow,), card.model_copy(update={"settings": settings}))


# --- what matters --------------------------------------------------------------------------------


def test_what_decides_matters_and_noise_does_not(known: Importance, decided: Region) -> None:
    assert [layer.layer for layer in known.layers] == ["belt", "rock", "noise"]
    assert known.role == "test"
    assert known.by_head
    reached = {n for window in windows_of(decided, "test") for n in decided.inside(window)}
    for layer in known.layers:
        assert layer.low is not None
        assert layer.high is not None
        assert layer.low <= layer.loss_nats <= layer.high
        assert layer.occurrences == len(reached)
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
    assert (found["noise"].loss_nats, found["noise"].low, found["noise"].high) == (0, 0, 0)
    assert found["belt"].loss_nats > 0.5


def test_of_two_classes_all_channels_are_exchanged_together(decided: Region) -> None:
    """Weights on all classes that add the same to each: only where there is data can count."""
    weights = np.zeros(8)
    weights[1:4] = 3.0
    found = by_name(layer_importance(decided, knowing_predictor(decided, weights), 1, nothing))
    assert found["rock"].loss_nats == pytest.approx(0, abs=1e-5)


# --- by hand -------------------------------------------------------------------------------------


def standardised(region: Region, values: NDArray[np.float32]) -> NDArray[np.float64]:
    """Layers (L, P, P) with 0 for no-data, by the cards' statistics."""
    planes = [
        (plane.astype(np.float64) - card.mean) / card.std
        for plane, card in zip(values, region.layer_cards, strict=True)
    ]
    return np.nan_to_num(np.stack(planes))


def exchanged(
    region: Region, window: Window, donor: Window, layer: int
) -> Iterator[NDArray[np.float32]]:
    """Channels of the window with a layer of the donor, in its eight turns and mirrors."""
    own, given = region.read(window), region.read(donor)
    for mirrored in (given[layer], given[layer].T):
        for turns in range(4):
            plane = np.rot90(mirrored, turns)
            here = own.copy()
            mean = np.nanmean(given[layer])
            here[layer] = np.where(np.isnan(plane), mean, plane)
            here[layer][np.isnan(own[layer])] = np.nan
            yield np.concatenate([standardised(region, here), np.isfinite(own)]).astype(np.float32)


# the window at row 20 reaches into the hole
@pytest.mark.parametrize(("head", "row"), [(True, 0), (True, 20), (False, 20)])
def test_the_loss_of_one_window_by_hand(
    region: Region, checkpoint: Checkpoint, head: bool, row: int
) -> None:
    """With one donor, the loss of an occurrence is that of one of the donor's eight turns."""
    model = checkpoint if head else without_head(checkpoint)
    predictor = Predictor(model, region, model.card.settings.sampling, CPU)
    window, donor = Window(row, 40, 32, 32), Window(70, 30, 32, 32)
    lone = {"train": np.array([[donor.row, donor.col]]), "test": np.zeros((0, 2), int)}
    points = region.points_in(window) * 32
    assert len(points) > 1

    def log_density(channels: NDArray[np.float32]) -> NDArray[np.float64]:
        footprint = np.isfinite(region.read(window)).any(axis=0)
        if not head:
            view = FlowView(predictor.sampler, Image(channels, footprint, points), MASS_POINTS)
            return view.log_density(points)
        network = model.network
        with torch.no_grad():
            image = torch.from_numpy(channels)[None]
            score = network.score(network.unet(image), image.shape[-2:])
            logits = (score + network.process(image))[0].double().numpy()
        col, row = points.astype(int).T
        return logits[row, col] - np.log(np.exp(logits)[footprint].sum())

    as_is, _ = region.encoder.encode(region.read(window))
    judge = (module._by_head if head else module._by_flow)(predictor.sampler)
    (losses,) = module._losses(replace(region, starts=lone), "test", window, judge, 3, 1)
    assert losses.shape == (3, len(points))
    before = log_density(as_is)
    for layer in (0, 2) if head else (0,):
        possible = [before - log_density(c) for c in exchanged(region, window, donor, layer)]
        nearest = min(np.abs(losses[layer] - one).max() for one in possible)
        assert nearest < 2e-3
        assert np.abs(losses[layer]).max() > 5e-3  # something did change


def test_an_occurrence_counts_once_and_the_interval_is_by_tiles(
    decided: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses that are the numbers of the occurrences, so that means are known."""

    def told(region: Region, role: str, window: Window, *_: object) -> Iterator[NDArray]:
        here = region.inside(window).astype(np.float64)
        yield np.stack([here, -here, np.full(len(here), np.nan)])
        yield np.stack([here, -here, np.full(len(here), np.nan)])

    monkeypatch.setattr(module, "_losses", told)
    found = layer_importance(decided, knowing_predictor(decided), 1, nothing, 2)
    reached = np.array(
        sorted({n for window in windows_of(decided, "test") for n in decided.inside(window)})
    )
    assert [layer.layer for layer in found.layers] == ["belt", "rock"]  # noise is never known
    belt, rock = found.layers
    assert belt.loss_nats == pytest.approx(reached.mean())
    tile = decided.split.tile_of_points(decided.points[reached])
    assert (belt.low, belt.high, belt.tiles) == tile_interval(reached.astype(float), tile)
    assert rock.loss_nats == -belt.loss_nats


# --- chance, donors, effort ----------------------------------------------------------------------


def test_the_same_seed_gives_the_same_figures(decided: Region, known: Importance) -> None:
    predictor = knowing_predictor(decided)
    assert layer_importance(decided, predictor, 1, nothing) == known
    other = layer_importance(decided, predictor, 2, nothing)
    assert other.layers != known.layers
    assert by_name(other)["belt"].loss_nats == pytest.approx(
        by_name(known)["belt"].loss_nats, rel=0.15
    )


def test_donors_lie_apart_and_on_training_tiles_or_those_of_the_role(decided: Region) -> None:
    size = decided.plan.size
    for window in windows_of(decided, "test"):
        donors = module._donors(decided, "test", window)
        assert len(donors) > 100
        for start in donors:
            assert decided.window(start).intersection(window) is None
        roles = decided.split.role_of_windows(donors, size)
        assert set(roles) <= {0, 2}
    lone = replace(decided, starts={**decided.starts, "train": np.zeros((0, 2), int)})
    lone.starts["test"] = decided.starts["test"][:1]
    alone = decided.window(lone.starts["test"][0])
    assert len(module._donors(lone, "test", alone)) == 1  # itself, turned


def test_a_donor_has_at_least_as_much_data(decided: Region) -> None:
    in_hole, whole = Window(66, 106, 16, 16), Window(0, 0, 16, 16)
    read = module.LayeredWindow.read
    own = read(decided.read(whole), decided.encoder)
    starts = np.array([[66, 106], [20, 20], [66, 106]])
    for number in range(5):
        donor = module._donor(decided, own, starts, np.random.default_rng(number))
        assert donor.valid.all()
    empty = read(decided.read(in_hole), decided.encoder)
    assert not empty.valid[0].any()
    lacking = module._donor(decided, own, starts[:1], np.random.default_rng(0))
    assert not lacking.valid[0].any()  # when there is no other


def test_more_images_than_can_be_judged_cost_repetitions_first_and_then_windows(
    decided: Region, known: Importance, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = knowing_predictor(decided)
    count = len(windows_of(decided, "test"))
    assert (known.windows, known.repetitions) == (count, module.REPETITIONS)
    monkeypatch.setattr(module, "MOST_BY_HEAD", 3 * count * 2 + 1)
    found = layer_importance(decided, predictor, 1, nothing)
    assert (found.windows, found.repetitions) == (count, 2)
    monkeypatch.setattr(module, "MOST_BY_HEAD", 3 * 5)
    found = layer_importance(decided, predictor, 1, nothing)
    assert (found.windows, found.repetitions) == (5, 1)
    assert 0 < found.layers[0].occurrences < known.layers[0].occurrences


def test_many_layers_are_judged_in_parts(
    decided: Region, known: Importance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "IMAGES_AT_ONCE", 2)
    found = layer_importance(decided, knowing_predictor(decided), 1, nothing)
    for one, other in zip(found.layers, known.layers, strict=True):
        assert one.loss_nats == pytest.approx(other.loss_nats, abs=1e-5)


def test_a_model_without_a_density_head_is_judged_by_its_flow(
    region: Region, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = without_head(checkpoint)
    predictor = Predictor(model, region, model.card.settings.sampling, CPU)
    monkeypatch.setattr(module, "MOST_BY_FLOW", 6)
    found = layer_importance(region, predictor, 1, nothing)
    assert not found.by_head
    assert found.to_dict()["density"] == "flow"
    assert (found.windows, found.repetitions) == (2, 1)
    assert all(np.isfinite(layer.loss_nats) for layer in found.layers)
    assert any(layer.loss_nats != 0 for layer in found.layers)


# --- too few, none, and what is said -------------------------------------------------------------


def only(region: Region, **kept: int) -> Region:
    """The region with so many of a role's occurrences, and the windows that hold them."""
    roles = region.split.role_of_points(region.points)
    chosen = roles == 0
    for role, number in (("validation", 1), ("test", 2)):
        some = np.flatnonzero(roles == number)[: kept.get(role)]
        chosen[some] = True
    less = replace(region, points=region.points[chosen], ids=region.ids[chosen])
    starts = {
        role: np.array([s for s in some if len(less.inside(less.window(s)))]).reshape(-1, 2)
        for role, some in region.starts.items()
    }
    return replace(less, starts=starts)


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
    assert "no occurrence lies in a window of the held-out tiles" in said


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
    found = Importance(layers, "test", 40, 10, 5, by_head=True)
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
    figure = importance_figure(Importance(layers, "validation", 0, 3, 1, by_head=False))
    axes = figure.axes[0]
    assert len(axes.patches) == 30
    assert "40 validation occurrences on 1 tile; 10 lesser layers not shown" in axes.get_title()
    assert max(len(label.get_text()) for label in axes.get_yticklabels()) <= 32
