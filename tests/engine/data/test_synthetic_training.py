"""Batches of the synthetic benchmark: which images, which points, and none that is held out."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from geocfm.data.augmentation import SYMMETRIES, turn_image
from geocfm.data.synthetic import TEST_SEEDS, VALIDATION_SEEDS, SyntheticSettings, make_image
from geocfm.data.synthetic_training import DISJOINT_IMAGES, SyntheticImages
from geocfm.model.settings import TrainingSettings

SYNTHETIC = SyntheticSettings(size=32, deposits=40)
TRAINING = TrainingSettings(batch=4, augment=False)


def images_of(seed: int = 1, keep: float = 1.0, **changes: object) -> SyntheticImages:
    return SyntheticImages(SYNTHETIC, TRAINING.model_copy(update=changes), seed, keep)


def test_a_step_has_its_own_images_with_their_points() -> None:
    batch = images_of().batch(3)
    assert batch.images.shape == (4, 2, 32, 32)
    assert batch.footprints.shape == (4, 32, 32)
    assert batch.footprints.all()
    for k in range(4):
        expected = make_image(SYNTHETIC, (1, 3 * 4 + k)).image()
        np.testing.assert_array_equal(batch.images[k].numpy(), expected.channels)
        mine = batch.points[batch.image == k].double().numpy() * 32
        np.testing.assert_allclose(mine, expected.points, atol=1e-4)


def test_batches_depend_on_the_seed_and_the_step_alone() -> None:
    first, again = images_of().batch(5), images_of().batch(5)
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, again.tensors()[name])
    for other in (images_of().batch(6), images_of(seed=2).batch(5)):
        assert not any(torch.equal(a, b) for a in first.images for b in other.images)
        assert not torch.equal(first.noise, other.noise)


@pytest.mark.parametrize(
    "seed", [0, 1, *(s for held in (VALIDATION_SEEDS, TEST_SEEDS) for s in held[:2])]
)
def test_no_training_image_is_a_held_out_one(seed: int) -> None:
    """Not even where the run's seed is that of a held-out image."""
    held = [make_image(SYNTHETIC, s) for s in (*VALIDATION_SEEDS[:2], *TEST_SEEDS[:2])]
    points = {image.points.tobytes() for image in held}
    seen = {image.points.tobytes() for image in islice(images_of(seed).disjoint(), 6)}
    assert len(seen) == 6
    assert not seen & points


def test_the_disjoint_images_are_the_first_of_the_stream() -> None:
    images = images_of()
    disjoint = list(islice(images.disjoint(), 8))
    batches = [images.batch(step).images for step in (0, 1)]
    for image, channels in zip(disjoint, torch.cat(batches), strict=True):
        np.testing.assert_array_equal(image.channels, channels.numpy())
    few = SyntheticImages(SYNTHETIC, TRAINING, seed=1, images=3)
    assert len(list(few.disjoint())) == 3
    assert DISJOINT_IMAGES == 200


@pytest.mark.parametrize("keep", [0.75, 0.5])
def test_a_share_of_the_points_is_known(keep: float) -> None:
    whole, part = images_of(), images_of(keep=keep)
    for index in (0, 7):
        every = {tuple(point) for point in whole.image(index).points}
        known = {tuple(point) for point in part.image(index).points}
        assert known < every
        assert len(known) == keep * 40
    assert len(part.batch(0).points) == keep * 40 * 4
    # the same at every use, and for both kinds of method
    np.testing.assert_array_equal(next(part.disjoint()).points, part.image(0).points)
    assert torch.equal(part.batch(0).points, part.batch(0).points)


def test_images_are_turned_only_when_asked_for() -> None:
    plain, turned = images_of().batch(0), images_of(augment=True).batch(0)
    used = set()
    for before, after in zip(plain.images.numpy(), turned.images.numpy(), strict=True):
        used |= {s for s in range(SYMMETRIES) if np.array_equal(turn_image(before, s), after)}
    assert len(used) > 1
    assert not torch.equal(plain.points, turned.points)


def test_it_is_its_own_source_with_several_makers() -> None:
    images = images_of()
    assert images.channels == 2
    assert images.source is images
    assert 1 <= images.workers <= 4
