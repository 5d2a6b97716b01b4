"""Layer values to channels, by hand and by another formula."""

import numpy as np
import pytest
from geocfm.data.encoding import Encoder, data_mask, some_data
from geocfm.model.checkpoint import LayerCard
from geocfm.model.settings import WindowSettings

NAN, INF = np.nan, np.inf
MAG = LayerCard(name="mag", mean=10, std=4)
ROCK = LayerCard(name="rock", categorical=True, mean=3, std=9, classes=(0, 2, 7))
VALUES = np.array(
    [
        [[10, 14, NAN], [2, 0, INF]],
        [[2, NAN, NAN], [7, 0, 5]],
    ],
    dtype=np.float32,
)


def encode(layers=(MAG, ROCK), values=VALUES, **settings) -> tuple[np.ndarray, np.ndarray]:
    return Encoder(layers, WindowSettings(**settings)).encode(values)


def test_channels_by_hand():
    channels, footprint = encode()
    expected = [
        [[0, 1, 0], [-2, -2.5, 0]],  # (value - 10) / 4, and 0 without data
        [[0, 0, 0], [0, 1, 0]],  # class 0
        [[1, 0, 0], [0, 0, 0]],  # class 2
        [[0, 0, 0], [1, 0, 0]],  # class 7; class 5 is unknown
        [[1, 1, 0], [1, 1, 0]],  # mag has data
        [[1, 0, 0], [1, 1, 1]],  # rock has data
    ]
    np.testing.assert_array_equal(channels, expected)
    assert channels.dtype == np.float32
    np.testing.assert_array_equal(footprint, [[True, True, False], [True, True, True]])


def test_without_validity_channels():
    channels, _ = encode(validity_channels=False)
    np.testing.assert_array_equal(channels, encode()[0][:4])


def test_each_channel_knows_which_one_says_that_its_layer_has_data():
    told = Encoder((MAG, ROCK), WindowSettings()).presence_channels()
    assert told.tolist() == [4, 5, 5, 5, 4, 5]
    without = Encoder((MAG, ROCK), WindowSettings(validity_channels=False))
    assert without.presence_channels().tolist() == [-1] * 4


def test_zero_as_no_data():
    channels, footprint = encode(zero_is_nodata=True)
    assert channels[:, 1, 1].tolist() == [0] * 6
    assert not footprint[1, 1]
    np.testing.assert_array_equal(channels[:, 0], encode()[0][:, 0])


def test_each_window_by_itself():
    generator = np.random.default_rng(5)
    plane = generator.normal(300, 20, (1, 12, 9)).astype(np.float32)
    plane[0, 2:5, 3:6] = NAN
    plane[0, 7, 7] = INF
    channels, _ = encode([MAG], plane, standardise="window", validity_channels=False)
    valid = np.isfinite(plane[0])
    exact = plane[0].astype(np.float64)
    expected = (exact - exact[valid].mean()) / exact[valid].std()
    np.testing.assert_allclose(channels[0][valid], expected[valid], atol=1e-4)
    assert (channels[0][~valid] == 0).all()
    assert channels[0][valid].mean() == pytest.approx(0, abs=1e-4)
    assert channels[0][valid].std() == pytest.approx(1, abs=1e-4)


def test_the_papers_convention_leaves_zeros_out_of_the_statistics():
    plane = np.array([[[0, 0, 4, 8]]], dtype=np.float32)
    channels, _ = encode(
        [MAG], plane, standardise="window", zero_is_nodata=True, validity_channels=False
    )
    np.testing.assert_allclose(channels[0], [[0, 0, -1, 1]])


@pytest.mark.parametrize("standardise", ["region", "window"])
def test_a_constant_layer_and_one_without_data(standardise):
    """No division by zero, no NaN."""
    layers = [LayerCard(name="same", mean=3, std=0), LayerCard(name="none", mean=0, std=0)]
    values = np.stack([np.full((4, 4), 3), np.full((4, 4), NAN)]).astype(np.float32)
    channels, footprint = encode(layers, values, standardise=standardise)
    assert (channels[:2] == 0).all()
    assert footprint.all()


@pytest.mark.parametrize("zero_is_nodata", [False, True])
def test_masked_cells_are_zero_in_every_value_channel(sample, zero_is_nodata):
    layers = [MAG, MAG, ROCK.model_copy(update={"classes": (1, 2, 5, 200)})]
    channels, footprint = encode(layers, sample.values, zero_is_nodata=zero_is_nodata)
    valid = sample.valid & ((sample.values != 0) | (not zero_is_nodata))
    assert np.isfinite(channels).all()
    assert channels.shape == (2 + 4 + 3, 96, 80)
    assert (channels[0][~valid[0]] == 0).all()
    assert (channels[1][~valid[1]] == 0).all()
    np.testing.assert_array_equal(channels[2:6].sum(axis=0), valid[2])
    np.testing.assert_array_equal(channels[6:], valid)
    np.testing.assert_array_equal(footprint, valid.any(axis=0))
    np.testing.assert_array_equal(footprint, some_data(data_mask(sample.values, zero_is_nodata)))
    expected = (sample.values[0].astype(np.float64) - 10) / 4
    np.testing.assert_allclose(channels[0][valid[0]], expected[valid[0]], rtol=1e-6)


def test_values_are_left_as_they_are():
    before = VALUES.copy()
    encode(standardise="window", zero_is_nodata=True)
    np.testing.assert_array_equal(VALUES, before)
