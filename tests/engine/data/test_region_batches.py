"""Batches of a region: their windows, and that there must be one."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from geocfm.data import region_batches
from geocfm.data.region_batches import VALIDATION_WINDOWS, RegionBatches
from geocfm.data.split import TRAIN
from geocfm.errors import UserError
from geocfm.model.settings import TrainingSettings

TRAINING = TrainingSettings(batch=3)


def test_batches_depend_on_the_seed_and_the_step_alone(region):
    first, again = (RegionBatches(region, TRAINING, 1).batch(4) for _ in range(2))
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, again.tensors()[name])
    assert not torch.equal(first.images, RegionBatches(region, TRAINING, 1).batch(5).images)
    assert not torch.equal(first.images, RegionBatches(region, TRAINING, 2).batch(4).images)


def test_validation_windows_are_spread_evenly_and_never_turned(region):
    many = region.starts["train"]
    assert len(many) > VALIDATION_WINDOWS
    for starts, numbers in (
        (region.starts["validation"], range(len(region.starts["validation"]))),
        (many, np.linspace(0, len(many) - 1, VALIDATION_WINDOWS).astype(int)),
    ):
        judged = replace(region, starts={**region.starts, "validation": starts})
        (batch,) = RegionBatches(judged, TRAINING, 1).validation()
        images = batch.images.numpy()
        assert len(images) == len(numbers) > 0
        for image, number in zip(images, numbers, strict=True):
            window = region.window(starts[number])
            np.testing.assert_array_equal(image, region.encoder.encode(region.read(window))[0])


def test_a_region_may_have_no_validation_window_but_not_no_training_window(region):
    none = np.zeros((0, 2), dtype=np.int64)
    without = replace(region, starts={**region.starts, "validation": none})
    assert RegionBatches(without, TRAINING, 1).validation() == []
    with pytest.raises(UserError, match="No training window holds an occurrence") as error:
        RegionBatches(replace(region, starts={**region.starts, "train": none}), TRAINING, 1)
    assert "--window" in error.value.hint


def test_training_windows_are_moved_but_stay_training_windows(region, monkeypatch):
    seen = []
    read = type(region).read
    monkeypatch.setattr(
        type(region), "read", lambda self, window: seen.append(window) or read(self, window)
    )
    source = RegionBatches(region, TRAINING, 1)
    for step in range(60):
        source.batch(step)
    starts = np.array([(window.row, window.col) for window in seen])
    size = region.plan.size
    assert (region.split.role_of_windows(starts, size) == TRAIN).all()
    assert all(len(region.inside(window)) for window in seen)
    assert len({tuple(start) for start in starts % region.plan.stride}) > 5
    still = RegionBatches(region, TRAINING.model_copy(update={"augment": False}), 1)
    seen.clear()
    for step in range(20):
        still.batch(step)
    assert not np.any(np.array([(window.row, window.col) for window in seen]) % region.plan.stride)


ALL_GROUND = TrainingSettings(batch=3, empty=5, ground="region", augment=False)


def masses_by_image(region, role="train"):
    """What windows of the ground hold, by their images: the more, the more occurrences."""
    found = {}
    for start in region.ground[role]:
        window = region.window(start)
        channels, footprint = region.encoder.encode(region.read(window))
        rich = 1 + 3 * len(region.points_in(window))
        found[channels.tobytes()] = rich * np.exp(channels[0][footprint].astype(np.float64)).sum()
    assert len(found) == len(region.ground[role])
    return found


def test_windows_of_a_step_stand_for_all_ground_without_bias(region):
    source, mass = RegionBatches(region, ALL_GROUND, 1), masses_by_image(region)
    estimates, unweighted = [], []
    for step in range(500):
        batch = source.batch(step)
        found = np.array([mass[image.numpy().tobytes()] for image in batch.images])
        shares = batch.log_shares.exp().numpy()
        assert len(found) == 3 + 5
        estimates.append((found * shares).sum())
        unweighted.append(found.mean())
    exact = np.mean(list(mass.values()))
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert error < 0.03 * exact
    assert abs(np.mean(estimates) - exact) < 4 * error
    # windows with occurrences are drawn more often than others, and are not what all ground is like
    assert abs(np.mean(unweighted) - exact) > 8 * np.std(unweighted) / np.sqrt(len(unweighted))


def test_shares_are_one_over_how_often_a_window_is_drawn(region):
    windows = len(region.ground["train"])
    often = 3 / len(region.starts["train"]) * windows + 5
    rarely = 5
    batch = RegionBatches(region, ALL_GROUND, 1).batch(0)
    shares = batch.log_shares.exp().numpy()
    assert shares[:3] == pytest.approx(1 / often)
    by_hand = {round(1 / often, 5), round(1 / rarely, 5)}
    assert {round(float(share), 5) for share in shares[3:]} <= by_hand
    seen = {
        round(float(share), 5)
        for step in range(20)
        for share in RegionBatches(region, ALL_GROUND, 1).batch(step).log_shares.exp()
    }
    assert seen == by_hand


def test_only_windows_that_were_drawn_for_their_occurrences_bring_them(region):
    for step in range(20):
        batch = RegionBatches(region, ALL_GROUND, 1).batch(step)
        assert set(batch.image.tolist()) <= {0, 1, 2}
        assert len(batch.images) == len(batch.footprints) == len(batch.log_shares) == 8


def test_with_windows_for_ground_no_other_window_is_drawn(region):
    batch = RegionBatches(region, TRAINING, 1).batch(0)
    assert len(batch.images) == 3
    assert batch.log_shares is None


def test_occurrences_that_do_not_count_make_no_window_drawn_more_often(region):
    """As in a member of an ensemble, which sees a resample of the occurrences."""
    chosen = region.weights.copy()
    chosen[::2] = 0
    less = region.with_weights(chosen)
    assert 0 < len(less.starts["train"]) < len(region.starts["train"])
    assert len(less.ground["train"]) == len(region.ground["train"])
    source, mass, estimates = RegionBatches(less, ALL_GROUND, 1), masses_by_image(region), []
    for batch in map(source.batch, range(300)):
        found = np.array([mass[image.numpy().tobytes()] for image in batch.images])
        estimates.append((found * batch.log_shares.exp().numpy()).sum())
    error = np.std(estimates) / np.sqrt(len(estimates))
    assert abs(np.mean(estimates) - np.mean(list(mass.values()))) < 4 * error


@pytest.mark.parametrize("settings", [TRAINING, ALL_GROUND], ids=["window", "region"])
def test_all_validation_windows_are_judged_together(region, settings):
    (batch,) = RegionBatches(region, settings, 1).validation()
    count = min(len(region.starts["validation"]), VALIDATION_WINDOWS)
    assert len(batch.images) == count + (5 if settings.ground == "region" else 0)
    assert set(batch.image.tolist()) <= set(range(count))
    if settings.ground == "window":  # the mean window, so that losses of both kinds compare
        assert batch.log_shares.exp().numpy() == pytest.approx(1 / count)


def test_windows_that_do_not_compare_are_judged_each_by_itself(make_region):
    region = make_region(standardise="window")
    starts = {**region.starts, "validation": region.starts["train"][:7]}
    batches = RegionBatches(replace(region, starts=starts), TRAINING, 1).validation()
    assert [len(batch.images) for batch in batches] == [3, 3, 1]
    assert all(batch.log_shares is None for batch in batches)


def test_large_windows_are_judged_together_as_far_as_they_fit(region, monkeypatch):
    monkeypatch.setattr(region_batches, "VALIDATION_CELLS", 5 * region.plan.size**2)
    starts = {**region.starts, "validation": region.starts["train"]}
    (batch,) = RegionBatches(replace(region, starts=starts), TRAINING, 1).validation()
    assert len(batch.images) == 5


def test_the_ground_holds_every_window_with_data_enough(region):
    starts = {tuple(start) for start in region.ground["train"].tolist()}
    assert {tuple(start) for start in region.starts["train"].tolist()} < starts
    roles = region.split.role_of_windows(region.ground["train"], region.plan.size)
    assert (roles == TRAIN).all()


def test_windows_with_a_margin_show_what_lies_around_them(make_region):
    plain, wide = make_region(), make_region(margin=8)
    for step in range(5):
        one, other = (RegionBatches(r, TRAINING, 1).batch(step) for r in (plain, wide))
        assert one.images.shape[-2:] == (16, 16)
        assert other.images.shape[-2:] == (32, 32)
        assert torch.equal(one.images, other.images[..., 8:-8, 8:-8])
        assert torch.equal(one.footprints, other.footprints)
        assert torch.equal(one.points, other.points)
