"""Ensembles: what their members see, and the head that counts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from geocfm.data.region import Region, prepare_region
from geocfm.data.split import TRAIN
from geocfm.data.windows import lattice_starts
from geocfm.geo.occurrences import read_occurrences
from geocfm.geo.rasters import Stack, find_layers
from geocfm.model.network import new_network
from geocfm.model.settings import PRESETS, WindowSettings, change_settings
from geocfm.training.counts import RIDGE, fit_counts, regress
from geocfm.training.members import (
    bootstrapped,
    ensemble_of,
    share_of_budget,
    with_iterations,
)
from small_data import SmallRegion

TINY = change_settings(PRESETS["quick"], {"network.width": "8", "network.features": "16"})


@pytest.fixture(scope="module")
def region(small_region: SmallRegion) -> Iterator[Region]:
    with Stack(find_layers(small_region.rasters), small_region.grid) as stack:
        occurrences = read_occurrences(small_region.occurrences, small_region.grid)
        settings = WindowSettings(size=32, tile=40)
        yield prepare_region(stack, occurrences, settings, lambda done, total: None)


def test_one_member_sees_the_region_as_it_is(region: Region) -> None:
    (only,) = ensemble_of(region, 1, 5)
    assert only.region is region
    assert only.seed == 5


def test_members_have_seeds_and_choices_of_their_own(region: Region) -> None:
    members = ensemble_of(region, 3, 5)
    assert members[0].seed == 5
    assert len({member.seed for member in members}) == 3
    weights = [tuple(member.region.weights) for member in members]
    assert len(set(weights)) == 3
    assert weights == [tuple(m.region.weights) for m in ensemble_of(region, 3, 5)]


def test_blocks_of_training_occurrences_are_drawn_with_replacement(region: Region) -> None:
    training = region.split.role_of_points(region.points) == TRAIN
    block = [tuple(place) for place in np.floor(region.points / 32).astype(int).tolist()]
    blocks = {one for one, counts in zip(block, training, strict=True) if counts}
    assert len(blocks) > 3
    total = np.zeros(len(block))
    for seed in range(200):
        weights = bootstrapped(region, seed).weights
        assert (weights[~training] == 1).all()
        drawn = {one: weights[number] for number, one in enumerate(block) if training[number]}
        assert all(weights[n] == drawn[one] for n, one in enumerate(block) if training[n])
        assert sum(drawn.values()) == len(blocks)
        assert all(weight == int(weight) for weight in drawn.values())
        total += weights
    assert total[training].mean() / 200 == pytest.approx(1, abs=0.15)
    assert (total[training] > 0).all()


def test_trainings_share_the_minutes_or_take_the_iterations_that_were_found() -> None:
    long = change_settings(PRESETS["quick"], {"training.minutes": "12"})
    assert share_of_budget(long, 4).training.minutes == 3
    steps = change_settings(long, {"training.minutes": "none", "training.iterations": "70"})
    assert share_of_budget(steps, 4) == steps
    found = with_iterations(long, 33).training
    assert (found.iterations, found.minutes, found.patience) == (33, None, 0)


def test_counts_are_regressed_to_the_end_where_features_are_much_alike() -> None:
    chance = np.random.default_rng(0)
    mixed = chance.standard_normal((1024, 64)) * 10.0 ** -np.linspace(0, 4, 64)
    features = mixed @ chance.standard_normal((64, 64))
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    counts = chance.poisson(50 * np.exp(1.5 * features[:, 0])).astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing of it is said on a user's terminal
        slopes, level = regress(features, counts, np.ones(len(counts)))
    excess = np.exp(features @ slopes + level) - counts
    gradient = features.T @ excess / len(counts) + RIDGE * slopes
    assert np.abs(gradient).max() < 1e-4


@pytest.mark.parametrize("east", [1.0, 5.0], ids=["alike", "the east counts five times"])
def test_the_count_head_expects_as_many_as_there_are(region: Region, east: float) -> None:
    region = region.with_weights(np.where(region.points[:, 0] > region.grid.width / 2, east, 1.0))
    channels = len(region.encoder.encode(region.read(region.window(np.array([0, 0]))))[0])
    network = new_network(channels, TINY, 1)
    fit_counts(network, region, torch.device("cpu"))
    starts = lattice_starts(region.grid, 32, region.plan.stride)
    starts = starts[region.scan.footprint_share(starts, 32) >= region.settings.footprint]
    starts = starts[region.split.role_of_windows(starts, 32) == TRAIN]
    expected, found = [], []
    for start in starts:
        window = region.window(start)
        image, footprint = region.encoder.encode(region.read(window))
        with torch.no_grad():
            maps = network.encode(torch.from_numpy(image[None]), torch.from_numpy(footprint[None]))
        expected.append(float(maps.log_count.exp()))
        found.append(float(region.weights[region.inside(window)].sum()))
    # of a Poisson regression with an intercept, which windows without occurrences are part of
    assert 0 in found
    assert sum(expected) == pytest.approx(sum(found), rel=0.02)
    assert np.corrcoef(expected, found)[0, 1] > 0.3
