"""A small region as real files: three layers, a hole without data, points along one feature."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import rasterio
import shapely
from geocfm.geo.grid import Grid, Window
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine

ENGINE = Path(__file__).resolve().parents[1] / "engine"
ROWS, COLUMNS, POINTS = 120, 100, 60
HOLE = Window(30, 52, 14, 18)  # cells that no layer has data in
LAYERS = ("ridge", "slope", "noise")
NO_DATA = -9999.0

UTM = Grid(CRS.from_epsg(32750), Affine(100, 0, 500_000, 0, -100, 7_000_000), ROWS, COLUMNS)
ROTATED = Grid(
    CRS.from_epsg(32750),
    Affine.translation(500_000, 7_000_000) @ Affine.rotation(25) @ Affine.scale(100, -100),
    ROWS,
    COLUMNS,
)
# far from the equator, so that cells in the north and in the south differ in area
DEGREES = Grid(CRS.from_epsg(4326), Affine(0.05, 0, 10.0, 0, -0.05, 68.0), ROWS, COLUMNS)

TINY_SETTINGS = (
    "network.width=8",
    "network.depth=2",
    "network.features=16",
    "network.head_width=48",
    "network.head_depth=1",
    "training.batch=4",
    "training.points_per_step=768",
    "training.ema=0.9",
    "training.learning_rate=2e-3",
    "sampling.solver=midpoint",
    "sampling.steps=6",
)
TINY_NETWORK = ["--window", "32", "--tile", "40", "--device", "cpu"]
TINY_NETWORK += [text for setting in TINY_SETTINGS for text in ("--set", setting)]
"""Options of a network that learns something of the region in a few seconds."""
TINY = [*TINY_NETWORK, "--skip-report"]
"""The same for tests to which the map and the report at the end are not the point."""
ALONE = ["--baselines", "none"]
"""For reports of tests to which other methods are not the point."""


@dataclass(frozen=True)
class SmallRegion:
    """Where the files are, and what was put into them."""

    folder: Path
    grid: Grid
    points: NDArray[np.float64]  # (N, 2) as (column, row)

    @property
    def occurrences(self) -> Path:
        return self.folder / "occurrences.gpkg"

    def raster(self, name: str) -> Path:
        return self.folder / f"{name}.tif"

    @property
    def raster_options(self) -> list[str]:
        return [text for name in LAYERS for text in ("--raster", str(self.raster(name)))]

    @property
    def rasters(self) -> list[str]:
        return [str(self.raster(name)) for name in LAYERS]


def ridge_column(row: Any) -> Any:
    """Where the feature that the points follow runs."""
    return 42 + 20 * np.sin(np.asarray(row) / 19)


def layer_values() -> dict[str, NDArray[np.float32]]:
    """The three layers with the hole; only ``ridge`` tells where points lie."""
    generator = np.random.default_rng(7)
    row, col = np.mgrid[:ROWS, :COLUMNS] + 0.5
    layers = {
        "ridge": 50 * np.exp(-(((col - ridge_column(row)) / 4) ** 2)),
        "slope": 300 + row * 2 + col,
        "noise": generator.normal(size=(ROWS, COLUMNS)),
    }
    rows, columns = HOLE.slices_in(UTM.window())
    for values in layers.values():
        values[rows, columns] = NO_DATA
    return {name: values.astype(np.float32) for name, values in layers.items()}


def ridge_points(count: int = POINTS, seed: int = 3) -> NDArray[np.float64]:
    """Points (N, 2) as (column, row) within a few cells of the feature, none in the hole."""
    generator = np.random.default_rng(seed)
    row = generator.uniform(1, ROWS - 1, 4 * count)
    col = ridge_column(row) + generator.normal(scale=1.5, size=row.shape)
    points = np.stack([col, row], axis=1)
    return points[~in_hole(points)][:count]


def in_hole(points: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which points (N, 2) as (column, row) lie in the hole."""
    col, row = points.T
    inside: NDArray[np.bool_] = (row >= HOLE.row) & (row < HOLE.row_stop)
    return inside & (col >= HOLE.col) & (col < HOLE.col_stop)


def write_raster(path: Path, values: NDArray[Any], grid: Grid, **profile: Any) -> Path:
    """Write an array (rows, columns) as a GeoTIFF."""
    profile = {"nodata": NO_DATA, **profile}
    with rasterio.open(
        path,
        "w",
        driver="GTiff",
        height=values.shape[0],
        width=values.shape[1],
        count=1,
        dtype=values.dtype,
        crs=grid.crs,
        transform=grid.transform,
        **profile,
    ) as raster:
        raster.write(values, 1)
    return path


def write_shapes(path: Path, shapes: Any, crs: CRS, **fields: Any) -> Path:
    """Write geometries as a GeoPackage."""
    shapes = np.asarray(shapes, dtype=object)
    pyogrio.raw.write(
        path,
        shapely.to_wkb(shapes),
        [np.asarray(values) for values in fields.values()],
        list(fields),
        driver="GPKG",
        geometry_type=shapes[0].geom_type,
        crs=crs.to_wkt(),
    )
    return path


def write_region(folder: Path, grid: Grid) -> SmallRegion:
    """The same cells and points on any grid of the right shape."""
    folder.mkdir(parents=True, exist_ok=True)
    region = SmallRegion(folder, grid, ridge_points())
    for name, values in layer_values().items():
        write_raster(region.raster(name), values, grid)
    world = grid.to_world(region.points)
    kinds = np.where(np.arange(len(world)) % 3 == 0, "Gold; Copper", "Gold").astype(object)
    write_shapes(region.occurrences, shapely.points(world), grid.crs, commodity=kinds)
    return region


def read_points(path: Path, grid: Grid) -> tuple[NDArray[np.float64], dict[str, NDArray[Any]]]:
    """Points of a file as (column, row) of a grid in the same CRS, and their fields."""
    meta, _, geometry, values = pyogrio.raw.read(path)
    assert CRS.from_user_input(meta["crs"]) == grid.crs
    world = shapely.get_coordinates(shapely.from_wkb(geometry))
    return grid.to_pixel(*world.T), dict(zip(meta["fields"], values, strict=True))


def child_environment() -> dict[str, str]:
    """The child finds the engine under test, installed or not."""
    paths = [str(ENGINE), os.environ.get("PYTHONPATH", "")]
    threads = {"OMP_NUM_THREADS": "1"}  # more would wait for each other on a busy machine
    return {**os.environ, **threads, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def command_line(*arguments: object) -> list[str]:
    """``geocfm ...`` as a child of this Python."""
    return [sys.executable, "-m", "geocfm", *map(str, arguments)]


def run_geocfm(*arguments: object, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    """Run ``geocfm ...`` in a process of its own."""
    return subprocess.run(
        command_line(*arguments),
        env=child_environment(),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


def json_lines(text: str) -> list[dict[str, Any]]:
    """Each line as an object."""
    return [json.loads(line) for line in text.splitlines()]


def training_log(path: Path) -> list[dict[str, Any]]:
    """The values of a training's log, whose first line says what the run was."""
    first, *rows = json_lines(path.read_text(encoding="utf-8"))
    assert first.keys() == {"provenance"}
    assert first["provenance"]["job"]["command"] == "train"
    return rows
