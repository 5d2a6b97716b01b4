"""Codes and fillers, found block by block, against numpy on all the values."""

import numpy as np
import pytest
from geocfm.data.oddities import FAR_OUT, MOST_CODES, Oddities
from geocfm.geo.rasters import Layer

WHOLE = Layer("a", "a.tif", 1, whole=True)
GENERATOR = np.random.default_rng(5)


def looked_at(values: np.ndarray, layer: Layer = WHOLE, blocks: int = 7) -> Oddities:
    found = Oddities(layer)
    for block in np.array_split(values.astype(np.float32), blocks):
        found.add(block)
    return found


@pytest.mark.parametrize(
    ("different", "expected"),
    [(1, 0), (2, 0), (3, 3), (MOST_CODES, MOST_CODES), (MOST_CODES + 1, 0), (5000, 0)],
)
def test_few_whole_numbers_are_codes(different, expected):
    values = GENERATOR.permutation(np.arange(20_000) % different) - 3
    assert len(np.unique(values)) == different
    assert looked_at(values).count_codes() == expected
    assert looked_at(values, Layer("a", "a.tif", 1)).count_codes() == 0
    assert looked_at(values, Layer("a", "a.tif", 1, True, whole=True)).count_codes() == 0


@pytest.mark.parametrize(("mixed", "expected"), [(0.4, 6), (0.6, 0)])
def test_some_codes_may_be_mixed_by_resampling(mixed, expected):
    values = GENERATOR.integers(0, 6, 1000).astype(float)
    values[: int(mixed * 1000)] += 0.37
    assert looked_at(GENERATOR.permutation(values)).count_codes() == expected


@pytest.mark.parametrize("filler", [-9999, -32768, 99999])
@pytest.mark.parametrize("scale", [0, 1, 300, 8000])
def test_a_filler_lies_far_from_the_others(filler, scale):
    rest = GENERATOR.normal(50, scale, 5000).clip(-9000, 9000).astype(np.float32)
    values = np.concatenate([rest, np.full(800, filler, np.float32)])
    far = abs(filler - rest.mean()) > FAR_OUT * rest.std()
    found = looked_at(GENERATOR.permutation(values))
    exact = values.astype(np.float64)
    assert found.filler(len(values), exact.mean(), exact.std()) == (filler if far else None)


def test_what_is_no_filler():
    values = GENERATOR.normal(size=500)
    assert looked_at(values).filler(500, values.mean(), values.std()) is None
    assert looked_at(np.full(70, -9999)).filler(70, -9999, 0) is None  # a constant layer


@pytest.mark.parametrize("value", [1e20, -1e32, 1.70141e38])
def test_no_unit_reaches_so_far(value):
    values = np.append(GENERATOR.normal(size=500), value)
    assert looked_at(values).filler(501, 0, 0) == pytest.approx(value)
