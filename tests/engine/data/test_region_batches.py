"""Batches of a region: their windows, and that there must be one."""

from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from geocfm.data.region_batches import VALIDATION_WINDOWS, RegionBatches
from geocfm.data.split import TRAIN
from geocfm.errors import UserError
from geocfm.model.settings import TrainingSettings

TRAINING = TrainingSettings(batch=3)


def test_batches_depend_on_the_seed_and_the_step_alone(region):
    first, again = (RegionBatches(region, TRAINING, 1).batch(4) for _ in range(2))
    for field in fields(first):
        assert torch.equal(getattr(first, field.name), getattr(again, field.name))
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
        batches = RegionBatches(judged, TRAINING, 1).validation()
        images = torch.cat([batch.images for batch in batches]).numpy()
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
