"""Distances to what a model has seen, against scipy; what was never seen is always outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from geocfm.model.experience import (
    CELLS_AT_ONCE,
    FAR,
    NEVER_SEEN,
    OTHER_CLASS,
    ChannelLayout,
    Experience,
)
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

VALUES = ChannelLayout((None, None, None), validity=False)
MIXED = ChannelLayout((None, 3, None), validity=True)  # 1 + 3 + 1 channels, and 3 of validity


def experience(references: NDArray[np.float32], radius: float, layout: ChannelLayout) -> Experience:
    return Experience(torch.from_numpy(references), radius, layout)


def test_dissimilarity_is_the_distance_to_the_nearest_reference_in_radii() -> None:
    generator = np.random.default_rng(2)
    references = generator.normal(0, 2, (70, 3)).astype(np.float32)
    channels = generator.normal(0, 3, (3, 90, 60)).astype(np.float32)
    footprint = generator.random((90, 60)) < 0.8
    assert footprint.sum() > 2 * CELLS_AT_ONCE
    found = experience(references, 0.4, VALUES).dissimilarity(channels, footprint)
    expected = cdist(channels.reshape(3, -1).T, references).min(axis=1).reshape(90, 60) / 0.4
    assert found.dtype == np.float32
    assert np.isnan(found[~footprint]).all()
    np.testing.assert_allclose(found[footprint], expected[footprint], rtol=1e-3, atol=1e-3)


def test_a_cell_is_judged_by_itself() -> None:
    generator = np.random.default_rng(3)
    seen = experience(generator.normal(size=(50, 3)).astype(np.float32), 0.5, VALUES)
    channels = generator.normal(size=(3, 64, 64)).astype(np.float32)
    whole = seen.dissimilarity(channels, np.ones((64, 64), dtype=bool))
    for rows, cols in ((slice(0, 7), slice(3, 9)), (slice(60, 64), slice(0, 64))):
        part = channels[:, rows, cols]
        alone = seen.dissimilarity(part, np.ones(part.shape[1:], dtype=bool))
        np.testing.assert_allclose(alone, whole[rows, cols], atol=1e-4)
    nothing = seen.dissimilarity(channels, np.zeros((64, 64), dtype=bool))
    assert np.isnan(nothing).all()


def cells(*rows: list[float]) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def test_classes_missing_layers_and_unknown_classes_by_hand() -> None:
    #              value, classes, value, validity
    known = [0.5, 0, 1, 0, -1, 1, 1, 1]
    other = [0.5, 1, 0, 0, -1, 1, 1, 1]
    unknown = [0.5, 0, 0, 0, -1, 1, 1, 1]
    without_class = [0.5, 0, 0, 0, -1, 1, 0, 1]
    without_value = [0.0, 0, 1, 0, -1, 0, 1, 1]
    away = [2.5, 0, 1, 0, -1, 1, 1, 1]
    seen = Experience(cells(known), 1.0, MIXED)
    found = seen.distances(
        cells(known, other, unknown, without_class, without_value, away)
    ).tolist()
    one_class = OTHER_CLASS / 2**0.5
    expected = [0, OTHER_CLASS]
    expected += [(NEVER_SEEN**2 + one_class**2) ** 0.5] * 2
    expected += [(NEVER_SEEN**2 + 0.5**2) ** 0.5, 2]
    np.testing.assert_allclose(found, expected, atol=1e-2)
    # what training saw of such cells is like it
    also = Experience(cells(known, unknown), 1.0, MIXED)
    assert also.distances(cells(unknown)).item() < 0.02
    assert also.distances(cells(without_class)).item() > NEVER_SEEN


def test_without_validity_channels_an_unknown_class_is_still_told() -> None:
    layout = ChannelLayout((None, 2), validity=False)
    assert layout.channels == 3
    seen = Experience(cells([0, 1, 0], [0, 0, 1]), 1.0, layout)
    np.testing.assert_allclose(
        seen.distances(cells([0, 1, 0], [0, 0, 0])), [0, NEVER_SEEN], atol=0.02
    )


@pytest.mark.parametrize("value", [1e6, -3e38, np.inf, -np.inf])
def test_absurd_values_are_far_and_give_numbers(value: float) -> None:
    seen = Experience(cells([0, 0, 0], [1, 1, value]), 1.0, VALUES)
    near, far = seen.distances(cells([1.5, 1, value], [0, 0, -value])).tolist()
    assert near == pytest.approx(0.5, abs=0.05)
    assert far == pytest.approx(FAR, rel=1e-3)


def test_it_comes_back_from_its_tensors() -> None:
    seen = Experience(torch.randn(5, 8), 0.3, MIXED)
    again = Experience.from_tensors(seen.to_tensors(), MIXED)
    assert torch.equal(again.references, seen.references)
    assert again.radius == seen.radius
    with pytest.raises(ValueError, match="references are"):
        Experience.from_tensors(seen.to_tensors(), VALUES)
