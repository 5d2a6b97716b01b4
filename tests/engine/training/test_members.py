"""Ensembles: what their members see."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geocfm.data.region import Region
from geocfm.data.split import TRAIN
from geocfm.model.settings import PRESETS, change_settings
from geocfm.training.members import (
    FEW_OCCURRENCES,
    bootstrapped,
    ensemble_of,
    share_of_budget,
    with_iterations,
    with_start,
)

TINY = change_settings(PRESETS["quick"], {"network.width": "8", "network.features": "16"})


def test_one_member_sees_the_region_as_it_is(region: Region) -> None:
    (only,) = ensemble_of(region, TINY, 6, 1, 5)
    assert only.region is region
    assert only.seed == 5


def test_members_have_seeds_and_choices_of_their_own(region: Region) -> None:
    members = ensemble_of(region, TINY, 6, 3, 5)
    assert members[0].seed == 5
    assert len({member.seed for member in members}) == 3
    weights = [tuple(member.region.weights) for member in members]
    assert len(set(weights)) == 3
    assert weights == [tuple(m.region.weights) for m in ensemble_of(region, TINY, 6, 3, 5)]


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


def test_members_share_the_start_of_the_region(region: Region) -> None:
    settings = change_settings(TINY, {"network.start": "stack"})
    networks = [member.network() for member in ensemble_of(region, settings, 6, 3, 5)]
    alone = ensemble_of(region, settings, 6, 1, 5)[0].network()
    states = [network.start.state_dict() for network in (*networks, alone)]
    assert states[0]["process.linear"].any()
    assert (states[0]["forest.channel"] >= 0).any()
    for state in states[1:]:
        assert all(torch.equal(state[name], states[0][name]) for name in state)
    first, second = (network.unet.state_dict() for network in networks[:2])
    assert not all(torch.equal(first[name], second[name]) for name in first)


def test_without_a_start_none_is_fitted(region: Region) -> None:
    without = change_settings(TINY, {"network.start": "even"})
    (only,) = ensemble_of(region, without, 6, 1, 5)
    assert only.start is None
    assert not hasattr(only.network(), "start")


@pytest.mark.parametrize("preset", PRESETS)
def test_only_where_few_are_known_and_nothing_was_said_cells_are_asked_first(preset: str) -> None:
    ours = PRESETS[preset].network.density
    settings = PRESETS[preset]
    assert with_start(settings, FEW_OCCURRENCES - 1).network.begins == ours
    assert with_start(settings, FEW_OCCURRENCES).network.start == "even"
    for said in ("process", "stack", "even") if ours else ("even",):
        chosen = change_settings(settings, {"network.start": said})
        for occurrences in (1, 10 * FEW_OCCURRENCES):
            assert with_start(chosen, occurrences) == chosen
