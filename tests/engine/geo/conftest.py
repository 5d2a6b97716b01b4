from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.geo.grid import Grid
from rasterio.crs import CRS
from rasterio.transform import Affine

MakeRaster = Callable[..., str]


@pytest.fixture
def make_raster(tmp_path: Path) -> MakeRaster:
    """Write a GeoTIFF of an array (h, w) or (bands, h, w) on a grid, and give its path."""

    def make(
        name: str,
        values: Any,
        grid: Grid | None = None,
        mask: Any = None,
        descriptions: tuple[str, ...] = (),
        units: tuple[str, ...] = (),
        **profile: Any,
    ) -> str:
        bands = np.asarray(values)
        bands = bands[None] if bands.ndim == 2 else bands
        if grid is not None:
            profile = {"crs": grid.crs, "transform": grid.transform, **profile}
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        count, height, width = bands.shape
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            count=count,
            height=height,
            width=width,
            dtype=bands.dtype,
            **profile,
        ) as raster:
            raster.write(bands)
            for index, text in enumerate(descriptions, start=1):
                raster.set_band_description(index, text)
            if units:
                raster.units = units
            if mask is not None:
                raster.write_mask(mask)
        return str(path)

    return make


@pytest.fixture
def utm() -> Grid:
    """6 rows, 8 columns of 100 m in UTM zone 50 south."""
    return Grid(CRS.from_epsg(32750), Affine(100, 0, 500_000, 0, -100, 7_000_000), 6, 8)


@pytest.fixture
def degrees() -> Grid:
    return Grid(CRS.from_epsg(4326), Affine(0.001, 0, 117.0, 0, -0.001, -27.0), 90, 70)


@pytest.fixture
def rotated() -> Grid:
    turn = Affine.translation(500_000, 7_000_000) @ Affine.rotation(25) @ Affine.scale(100, -100)
    return Grid(CRS.from_epsg(32750), turn, 60, 80)
