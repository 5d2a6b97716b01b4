from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.data.region import Region, prepare_region
from geocfm.geo.grid import Grid
from geocfm.geo.layers import find_effort
from geocfm.geo.occurrences import read_occurrences
from geocfm.geo.rasters import Stack, find_layers
from geocfm.model.settings import WindowSettings
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine

GRID = Grid(CRS.from_epsg(32750), Affine(100, 0, 500_000, 0, -100, 7_000_000), 96, 80)
DARK = slice(0, 20), slice(58, 80)  # cells that no layer has data in
NO_DATA = -9999.0


@dataclass(frozen=True)
class Sample:
    """A small region as files, and what is in them. values: (3, 96, 80) with NaN for no-data."""

    folder: Path
    grid: Grid
    values: NDArray[np.float32]
    points: NDArray[np.float64]  # inside the grid, (40, 2) as (column, row); 3 of them in the dark

    @property
    def rasters(self) -> list[str]:
        return [str(self.folder / name) for name in ("mag.tif", "grav.tif", "rock.tif")]

    @property
    def valid(self) -> NDArray[np.bool_]:
        return np.isfinite(self.values)


def write_raster(path: Path, values: NDArray[Any], nodata: float) -> None:
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        count=1,
        height=values.shape[0],
        width=values.shape[1],
        dtype=values.dtype,
        crs=GRID.crs,
        transform=GRID.transform,
        nodata=nodata,
    ) as raster:
        raster.write(values, 1)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Sample:
    folder = tmp_path_factory.mktemp("sample")
    generator = np.random.default_rng(17)
    row, col = np.mgrid[:96, :80]
    mag = (5000 + 40 * np.sin(row / 9) * np.cos(col / 7)).astype(np.float32)
    mag += generator.standard_normal(mag.shape, dtype=np.float32)
    mag[30:40, 5:25] = np.nan
    grav = np.round(generator.normal(0, 2, (96, 80))).astype(np.float32)  # many true zeros
    grav[50:, 40:] = np.nan
    grav[70, 10:13] = np.inf
    grav[71, 10] = -np.inf
    rock = np.where(row + col < 70, 1, np.where(col < 30, 2, 5)).astype(np.float32)
    rock[60:64, 60:64] = 200
    values = np.stack([mag, grav, rock])
    values[(slice(None), *DARK)] = np.nan

    def filled(plane: NDArray[np.float32], nodata: float) -> NDArray[np.float32]:
        return np.where(np.isnan(plane), np.float32(nodata), plane)

    write_raster(folder / "mag.tif", values[0], np.nan)
    write_raster(folder / "grav.tif", filled(values[1], NO_DATA), NO_DATA)
    write_raster(folder / "rock.tif", filled(values[2], 0).astype(np.uint8), 0)

    lit = generator.random((37, 2)) * (56, 70) + (2, 22)
    dark = generator.random((3, 2)) * (20, 18) + (59, 1)
    points = np.concatenate([lit, dark])
    points[1] = points[0] // 1 + 0.5  # two in one cell
    points[2:5] = (70.3, 21.7), (64.2, 20.4), (57.1, 3.5)  # beside the dark
    world = GRID.to_world(np.concatenate([points, [(-3, 4), (90, 90)]]))
    rows = "".join(f"{x!r},{y!r}\n" for x, y in world.tolist())
    (folder / "gold.csv").write_text("x,y\n" + rows)
    return Sample(folder, GRID, values, points)


@pytest.fixture
def make_region(sample: Sample) -> Iterator[Callable[..., Region]]:
    """Prepare the sample, or other rasters on its grid, with small windows unless told."""
    with ExitStack() as closing:

        def make(
            rasters: list[str] | None = None,
            occurrences: Path | None = None,
            classes: tuple[str, ...] = ("rock",),
            effort: Path | None = None,
            **settings: Any,
        ) -> Region:
            layers = find_layers(rasters or sample.rasters, classes)
            stack = closing.enter_context(Stack(layers, sample.grid))
            found = read_occurrences(
                occurrences or sample.folder / "gold.csv", sample.grid, crs="EPSG:32750"
            )
            choices = WindowSettings(**{"size": 16, "stride": 4, "tile": 24, **settings})
            looked = None
            if effort is not None:
                looked = closing.enter_context(Stack([find_effort(str(effort))], sample.grid))
            return prepare_region(stack, found, choices, lambda done, total: None, looked)

        yield make


@pytest.fixture
def region(make_region: Callable[..., Region]) -> Region:
    return make_region()
