"""What single cells say: the forest, its share, and what the network is shown of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from geocfm.data.region import Region
from geocfm.data.split import TRAIN
from geocfm.geo.grid import Window
from geocfm.model.forest import EDGES, LEAVES, TREES, CellForest
from geocfm.model.plausible import are_sound
from geocfm.model.start import Start
from geocfm.training.cells import nats, read_cells, tile_groups, training_tiles
from geocfm.training.forest import LEAF, fit_forest, forest_edges
from geocfm.training.start import FittedStart, fit_stack
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

CHANNELS = 4


@pytest.fixture(scope="module")
def cells() -> NDArray[np.float32]:
    return np.random.default_rng(0).normal(size=(20_000, CHANNELS)).astype(np.float32)


@pytest.fixture(scope="module")
def occurrences(cells: NDArray[np.float32]) -> NDArray[np.int64]:
    """Where two values are high together."""
    intensity = np.exp(2 * np.minimum(cells[:, 0], cells[:, 1]).astype(np.float64))
    return np.random.default_rng(1).choice(len(cells), 600, p=intensity / intensity.sum())


@pytest.fixture(scope="module")
def fitted(region: Region) -> FittedStart:
    return fit_stack(region, channels_of(region), 3)


def channels_of(region: Region) -> int:
    return len(region.encoder.encode(region.read(Window(0, 0, 1, 1)))[0])


def said(start: Start, region: Region, window: Window) -> NDArray[np.float32]:
    channels, _ = region.encoder.encode(region.read(window))
    return start(torch.from_numpy(channels)[None])[0].numpy()


def test_its_odds_are_those_of_scikit_learns_forest(
    cells: NDArray[np.float32], occurrences: NDArray[np.int64]
) -> None:
    present = cells[occurrences]
    weights = np.random.default_rng(2).random(len(present)) + 0.5
    edges = forest_edges(cells, np.arange(CHANNELS), CHANNELS)
    forest = CellForest(CHANNELS)
    fit_forest(forest, edges, present, weights, cells, 7)
    background = cells[np.random.default_rng(7).permutation(len(cells))[:10_000]]

    def places(rows: NDArray[np.float32]) -> NDArray[np.int64]:
        return np.stack([(rows[:, [c]] > edges[c]).sum(axis=1) for c in range(CHANNELS)], axis=1)

    rows = np.concatenate([present, background])
    shares = [weights / weights.sum(), np.full(len(background), 1 / len(background))]
    expected = RandomForestClassifier(
        TREES, max_leaf_nodes=LEAVES, min_samples_leaf=LEAF, random_state=7
    ).fit(
        places(rows),
        np.arange(len(rows)) < len(present),
        sample_weight=np.concatenate(shares) * len(rows) / 2,
    )
    chance = expected.predict_proba(places(cells))[:, 1]
    found = forest(torch.from_numpy(cells.T)[None, :, None])[0, 0]
    assert torch.sigmoid(found).numpy() == pytest.approx(chance, abs=1e-5)
    assert forest.left[..., -1].any()  # some trees have nearly all leaves they may have
    assert are_sound(forest.state_dict())
    again = CellForest(CHANNELS)
    again(torch.zeros(1, CHANNELS, 1, 1))  # what is made of the buffers is made anew
    again.load_state_dict(forest.state_dict())
    assert torch.equal(again(torch.from_numpy(cells.T)[None, :, None])[0, 0], found)


def test_a_forest_that_learned_nothing_is_even() -> None:
    forest = CellForest(CHANNELS)
    image = torch.randn(2, CHANNELS, 5, 7)
    assert forest(image).shape == (2, 5, 7)
    assert (forest(image) == 0).all()
    fit_forest(
        *(forest, np.zeros((CHANNELS, EDGES), np.float32), np.zeros((0, CHANNELS), np.float32)),
        *(np.zeros(0), np.zeros((10, CHANNELS), np.float32), 1),
    )
    assert (forest(image) == 0).all()


def test_nonsense_in_a_strangers_forest_gives_numbers_all_the_same() -> None:
    forest = CellForest(CHANNELS)
    for name, number in (("channel", 32_000), ("edge", -7), ("left", 255)):
        getattr(forest, name).fill_(number)
    assert torch.isfinite(forest(torch.randn(1, CHANNELS, 3, 3))).all()


def test_tiles_are_dealt_out_by_their_occurrences(region: Region) -> None:
    groups = tile_groups(region)
    tiles = training_tiles(region)
    assert len(groups) == len(tiles)
    held = np.array([len(region.inside(tile)) for tile in tiles])
    assert set(groups) == set(range(min(4, int((held > 0).sum()))))
    by_group = np.bincount(groups, held)
    assert by_group.max() - by_group.min() <= held.max()
    none = region.with_weights(np.zeros(len(region.points)))
    assert set(tile_groups(none)) == {0}


def test_cells_know_their_group(region: Region) -> None:
    groups = tile_groups(region)
    cells = read_cells(region, groups, 1)
    training = region.split.role_of_points(region.points) == TRAIN
    assert len(cells.present) == training.sum()
    for number, tile in enumerate(training_tiles(region)):
        inside = region.inside(tile)
        channels, _ = region.encoder.encode(region.read(tile))
        col, row = (region.points[inside].astype(int) - (tile.col, tile.row)).T
        mine = cells.present[cells.present_group == groups[number]]
        for values in channels[:, row, col].T:
            assert (mine == values).all(axis=1).any()
    sample, present = cells.kept(0)
    assert (cells.sample_group[sample] != 0).all()
    assert (cells.present_group[present] != 0).all()
    assert cells.kept(None)[0].all()


def test_both_together_are_worth_no_less_than_either_on_tiles_left_out(
    fitted: FittedStart,
) -> None:
    assert (fitted.start.shares >= 0).all()
    assert fitted.start.shares.sum() > 0
    assert fitted.nats["start"] >= max(fitted.nats["process"], fitted.nats["forest"]) - 1e-6
    assert fitted.nats["start"] > 0
    assert f"gains {fitted.nats['start']:.2f} nats" in fitted.sentence()


def test_the_network_is_shown_what_has_not_learned_from_the_tile(
    region: Region, fitted: FittedStart
) -> None:
    crossed = fitted.crossed
    assert crossed is not None
    groups = tile_groups(region)
    tiles = dict(zip(groups.tolist(), training_tiles(region), strict=True))
    group, tile = next(iter(tiles.items()))
    shown = crossed.read(tile)
    # it learned from all tiles but those of the group: their occurrences may be anywhere
    moved = region.points.copy()
    for other, one in zip(groups.tolist(), training_tiles(region), strict=True):
        if other == group:
            inside = region.inside(one)
            drawn = np.random.default_rng(9).random((len(inside), 2))
            moved[inside] = np.floor((one.col, one.row) + drawn * (one.width, one.height)) + 0.5
    assert not np.array_equal(moved, region.points)
    again = fit_stack(replace(region, points=moved), channels_of(region), 3)
    assert again.crossed is not None
    for number, (one, other) in enumerate(
        zip(crossed._left_out, again.crossed._left_out, strict=True)
    ):
        same = torch.equal(one.forest.chances, other.forest.chances)
        assert same == (number == group)
    own = said(fitted.start, region, tile)
    assert not np.allclose(shown - shown.mean(), own - own.mean(), atol=1e-3)
    wide = Window(tile.row - 3, tile.col - 3, tile.height + 3, tile.width + 3)
    part = crossed.read(wide)
    assert np.array_equal(part[3:, 3:], shown)


def test_all_that_is_shown_has_one_mean(region: Region, fitted: FittedStart) -> None:
    assert fitted.crossed is not None
    cells = read_cells(region, tile_groups(region), 3)
    everywhere = torch.from_numpy(np.ascontiguousarray(cells.sample.T))[None, :, None]
    for start, level in zip(fitted.crossed._left_out, fitted.crossed._levels, strict=True):
        logs = start(everywhere)[0, 0].double().numpy()
        assert np.log(np.exp(logs).mean()) == pytest.approx(level, abs=1e-4)


def test_without_an_occurrence_the_start_is_even(region: Region) -> None:
    none = fit_stack(region.with_weights(np.zeros(len(region.points))), channels_of(region), 1)
    assert none.crossed is None
    assert np.ptp(said(none.start, region, Window(0, 0, 20, 20))) == 0


def test_nats_are_those_of_an_occurrence_over_an_even_density(region: Region) -> None:
    cells = read_cells(region, tile_groups(region), 1)
    flat = np.full(len(cells.sample), 3.0), np.full(len(cells.present), 3.0)
    assert nats(cells, *flat) == pytest.approx(0)
    assert nats(cells, flat[0], flat[1] + 1) == pytest.approx(1)
