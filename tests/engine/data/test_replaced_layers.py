"""One layer replaced, the others, the masks and the footprint as they were."""

from __future__ import annotations

import numpy as np
import pytest
from geocfm.data.encoding import Encoder
from geocfm.data.replaced_layers import LayeredWindow
from geocfm.model.checkpoint import LayerCard
from geocfm.model.settings import WindowSettings

NAN = np.nan
MAG = LayerCard(name="mag", mean=10, std=4)
ROCK = LayerCard(name="rock", categorical=True, classes=(0, 2, 7))
LAYERS = (MAG, ROCK, MAG.model_copy(update={"name": "grav"}))


def encoder(**settings: object) -> Encoder:
    return Encoder(LAYERS, WindowSettings.model_validate(settings))


def windows(*seeds: int, **settings: object) -> list[LayeredWindow]:
    """Windows of 6 x 6 cells, each with gaps of its own in every layer."""
    found = []
    for seed in seeds:
        generator = np.random.default_rng(seed)
        values = generator.normal(10, 4, (3, 6, 6)).astype(np.float32)
        values[1] = generator.choice([0, 2, 7, 9], (6, 6))  # 9 is unknown
        values[generator.random(values.shape) < 0.2] = NAN
        found.append(LayeredWindow.read(values, encoder(**settings)))
    return found


def test_channels_of_a_layer() -> None:
    assert [encoder().value_channels(number) for number in range(3)] == [
        *(slice(0, 1), slice(1, 4), slice(4, 5)),
    ]


@pytest.mark.parametrize("standardise", ["region", "window"])
@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_layer_of_another_place(layer: int, standardise: str) -> None:
    own, donor = windows(1, 2, standardise=standardise)
    found = own.with_layer_of(donor, layer)
    part = encoder().value_channels(layer)
    for channel in range(own.channels.shape[0]):
        if not part.start <= channel < part.stop:  # others, and where there is data
            np.testing.assert_array_equal(found[channel], own.channels[channel])
            continue
        given = donor.channels[channel]
        for row, col in np.ndindex(6, 6):
            expected = 0.0
            if own.valid[layer, row, col]:
                expected = given[donor.valid[layer]].mean()
                if donor.valid[layer, row, col]:
                    expected = given[row, col]
            assert found[channel, row, col] == pytest.approx(expected, abs=1e-6)
    assert not np.array_equal(found, own.channels)
    assert found.dtype == np.float32


def test_a_donor_without_any_data_of_a_layer_gives_its_mean() -> None:
    own, donor = windows(1, 2)
    none = donor.valid.copy()
    none[:2] = False
    empty = LayeredWindow(donor.channels, none, donor.encoder)
    assert (own.with_layer_of(empty, 0)[0] == 0).all()
    assert (own.with_layer_of(empty, 1)[1:4] == 0).all()


def test_a_layer_at_its_mean() -> None:
    (own,) = windows(3)
    shares = np.array([0.5, 0.25, 0.25])
    found = own.with_layer_mean(1, shares)
    for channel, share in zip((1, 2, 3), shares, strict=True):
        np.testing.assert_allclose(found[channel], np.where(own.valid[1], share, 0))
    others = [0, 4, 5, 6, 7]
    np.testing.assert_array_equal(found[others], own.channels[others])


def test_turned_windows_keep_values_and_masks_together() -> None:
    (own,) = windows(4)
    for symmetry in range(8):
        turned = own.turned(symmetry)
        assert turned.lacking(own) == own.lacking(turned) == 0
        np.testing.assert_array_equal(turned.channels[5:], turned.valid)  # the validity channels
        for before, after in zip(own.channels, turned.channels, strict=True):
            np.testing.assert_array_equal(np.sort(after, axis=None), np.sort(before, axis=None))


def test_what_a_donor_lacks_is_counted_by_layer() -> None:
    (own,) = windows(5)
    fewer, more = own.valid.copy(), own.valid.copy()
    fewer[0, own.valid[0].nonzero()[0][:3], own.valid[0].nonzero()[1][:3]] = False
    more[2] = True  # more of one layer does not make up for another
    mixed = fewer.copy()
    mixed[2] = True
    assert own.lacking(LayeredWindow(own.channels, fewer, own.encoder)) == 3
    assert own.lacking(LayeredWindow(own.channels, more, own.encoder)) == 0
    assert own.lacking(LayeredWindow(own.channels, mixed, own.encoder)) == 3
