"""What a raster stores and what it means: scales, offsets, and codes that float32 cannot hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.errors import UserError
from geocfm.geo.grid import Grid
from geocfm.geo.rasters import Stack, find_layers
from rasterio.crs import CRS
from rasterio.transform import Affine

GRIDS = [  # as the raster is, averaged and interpolated
    Grid(CRS.from_epsg(32750), Affine(100, 0, 500_000, 0, -100, 7_000_000), 6, 8),
    Grid(CRS.from_epsg(32750), Affine(200, 0, 500_000, 0, -200, 7_000_000), 3, 4),
    Grid(CRS.from_epsg(32750), Affine(50, 0, 500_000, 0, -50, 7_000_000), 12, 16),
    Grid(CRS.from_epsg(4326), Affine(0.001, 0, 117.001, 0, -0.001, -27.121), 4, 6),
]
STORED = np.arange(48, dtype="int16").reshape(6, 8) - 20
SCALE, OFFSET = 0.05, -3.0


@pytest.fixture
def scaled(make_raster: Callable[..., str]) -> Callable[..., str]:
    """A raster that stores its values times a scale and plus an offset."""

    def make(name: str, values: Any, scale: float = SCALE, offset: float = OFFSET, **more: Any):
        path = make_raster(name, values, GRIDS[0], **more)
        with rasterio.open(path, "r+") as raster:
            raster.scales, raster.offsets = (scale,), (offset,)
        return path

    return make


def read(path: str, grid: Grid, **more: Any) -> np.ndarray:
    layers = find_layers([f"layer={path}"], **more)
    with Stack(layers, grid) as stack:
        return stack.read(grid.window())[0]


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("way", ["declared", "said", "mask"])
def test_the_same_quantity_gives_the_same_values(scaled, make_raster, grid, way) -> None:
    stored, meant = STORED.copy(), STORED * SCALE + OFFSET
    stored[2, 3], meant[2, 3] = -9999, np.nan  # compared as they are stored
    more: dict[str, Any] = {"nodata": -9999} if way == "declared" else {}
    if way == "mask":
        more["mask"] = np.where(stored == -9999, 0, 255).astype("uint8")
    path = scaled("stored.tif", stored, **more)
    plain = make_raster("meant.tif", meant.astype("float32"), GRIDS[0], nodata=np.nan)
    said = {"nodata": ["layer=-9999"]} if way == "said" else {}
    found, expected = read(path, grid, **said), read(plain, grid)
    assert np.isfinite(expected).sum() > 6
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_what_is_done_is_said_and_codes_are_left_alone(scaled) -> None:
    path = scaled("stored.tif", STORED)
    (layer,) = find_layers([path])
    assert not layer.whole  # the quantity has fractions
    with Stack([layer], GRIDS[0]) as stack:
        assert "as its file scales them (x 0.05 + -3)" in stack.alignments[0].sentence
    np.testing.assert_array_equal(read(path, GRIDS[0], classes=["layer"]), STORED)


@pytest.mark.parametrize(("scale", "offset"), [(0.0, 1.0), (math.nan, 0.0), (1.0, math.inf)])
def test_a_scale_that_is_none_is_refused(scaled, scale, offset) -> None:
    path = scaled("stored.tif", STORED, scale, offset)
    with pytest.raises(UserError, match=r"times .* plus"):
        find_layers([path])


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float64", "int64"])
@pytest.mark.parametrize("grid", GRIDS)
def test_large_codes_stay_apart(make_raster, dtype, grid) -> None:
    codes = np.where(np.arange(8) < 4, 2_000_000_001, 2_000_000_002).astype(dtype)
    path = make_raster("codes.tif", np.tile(codes, (6, 1)), GRIDS[0])
    (layer,) = find_layers([path])
    with Stack([replace(layer, categorical=True), replace(layer, name="b")], grid) as stack:
        values = stack.read(grid.window())
        assert {float(code) for code in values[0][np.isfinite(values[0])]} == {
            2_000_000_001.0,
            2_000_000_002.0,
        }
    with Stack([layer], grid) as alone:
        np.testing.assert_array_equal(values[1], alone.read(grid.window())[0])
