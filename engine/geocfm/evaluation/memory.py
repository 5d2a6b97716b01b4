"""How much memory and time the engine needs on a stack far larger than memory.

The stack is virtual: VRTs that repeat small files. Every step is the real command in a process of
its own, whose peak the operating system reports. What a map cannot do without is timed beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import rasterio
import torch
from rasterio.crs import CRS
from rasterio.transform import Affine
from scipy.ndimage import gaussian_filter

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.grid import Grid
from geocfm.geo.writing import write_points
from geocfm.model.checkpoint import load_checkpoint

PIECE = 1000  # cells of the small files that the VRTs repeat
CELL_M = 100.0
OCCURRENCES = 3000
ORIGIN = (500_000.0, 7_000_000.0)
CRS_NAME = "EPSG:32750"


@dataclass(frozen=True)
class Step:
    """One command, and what it took."""

    name: str
    seconds: float
    peak_gb: float


@dataclass(frozen=True)
class Least:
    """Seconds of what a map cannot do without."""

    reading: float  # of all layers, once
    one_pass: float  # of the bare UNet over as many cells


def measure_memory(
    folder: Path,
    size: int,
    layers: int,
    iterations: int,
    mapped: int,
    whole: bool,
    reporter: Reporter,
) -> tuple[list[Step], Least | None]:
    """Statistics, training and a map on a virtual size x size x layers stack.

    mapped: cells along each side of the part that is mapped. whole: also map, rank and evaluate all
    of it, which takes an hour on a thousand million cells.
    """
    if not hasattr(os, "wait4"):
        raise UserError(
            "This system does not report the peak memory of a process.",
            "Run the benchmark on Linux or macOS.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    rasters = [_virtual_layer(folder, number, size) for number in range(layers)]
    occurrences = _occurrences(folder, size)
    area = _area(folder, mapped)
    given = [part for path in rasters for part in ("--raster", str(path))]
    points = ["--occurrences", str(occurrences)]
    model = str(folder / "model.safetensors")
    commands = {
        "statistics (check)": ["check", *given, *points],
        f"statistics and {iterations} training iterations (train)": [
            "train", *given, *points, "--preset", "quick", "--iterations", str(iterations),
            "--skip-report", "--overwrite", "--out", model,
        ],
        f"map of {mapped:,} x {mapped:,} cells (map)": [
            "map", "--checkpoint", model, *given, "--aoi", str(area), "--overwrite",
            "--out", str(folder / "map.tif"),
        ],
    }  # fmt: skip
    if whole:
        everything = str(folder / "whole.tif")
        commands |= {
            "map of all cells (map)": [
                "map", "--checkpoint", model, *given, "--overwrite", "--out", everything,
            ],
            "targets of all cells (targets)": [
                "targets", "--map", everything, *points, "--overwrite",
                "--out", str(folder / "targets.gpkg"),
            ],
            "evaluation on all cells (evaluate)": [
                "evaluate", "--checkpoint", model, *given, *points, "--overwrite",
                "--out", str(folder / "evaluation"),
            ],
        }  # fmt: skip
    steps = []
    for name, command in commands.items():
        reporter.note(f"{name} ...")
        steps.append(_measure(name, command))
        reporter.note(f"{steps[-1].peak_gb:.2f} GB at most, {steps[-1].seconds:.0f} s")
    least = None
    if whole:
        least = Least(_reading(rasters), _one_pass(Path(model), size))
        reporter.note(
            f"Reading the layers once takes {least.reading:.1f} s, one pass of the bare UNet over "
            f"as many cells {least.one_pass:.1f} s."
        )
    figures = {"steps": [asdict(s) for s in steps], "least": asdict(least) if least else None}
    reporter.report("memory", {"cells": size, "layers": layers, **figures})
    return steps, least


def _reading(rasters: Sequence[Path]) -> float:
    """Seconds of reading all rasters once, in rows of pieces."""
    start = time.monotonic()
    for path in rasters:
        with rasterio.open(path) as source:
            for row in range(0, source.height, PIECE):
                source.read(1, window=((row, row + PIECE), (0, source.width)))
    return time.monotonic() - start


@torch.no_grad()
def _one_pass(model: Path, size: int) -> float:
    """Seconds of the UNet over size x size cells, in pieces without margins."""
    checkpoint = load_checkpoint(model, torch.device("cpu"))
    images = torch.randn(1, checkpoint.card.channels, PIECE, PIECE)
    unet = checkpoint.networks[0].unet
    unet(images)  # the first one takes longer
    start = time.monotonic()
    for _ in range((size // PIECE) ** 2):
        unet(images)
    return time.monotonic() - start


def _measure(name: str, command: Sequence[str]) -> Step:
    start = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "geocfm", *command, "--json"],
        stdin=subprocess.DEVNULL,  # a pipe there would be watched, by two
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        lines = child.stdout.read().splitlines()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        said = json.loads(lines[-1]) if lines else {}
        raise UserError(
            f"The step '{name}' failed: {said.get('message', 'no message')}", said.get("hint", "")
        )
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes on macOS, kB on Linux
    return Step(name, time.monotonic() - start, usage.ru_maxrss * unit / 1e9)


def _transform() -> Affine:
    return Affine(CELL_M, 0, ORIGIN[0], 0, -CELL_M, ORIGIN[1])


def _virtual_layer(folder: Path, number: int, size: int) -> Path:
    """A VRT that repeats one small smooth random field over the whole square."""
    generator = np.random.default_rng(number)
    field = gaussian_filter(generator.standard_normal((PIECE, PIECE)), 8, mode="wrap")
    piece = folder / f"piece_{number}.tif"
    profile = {
        "driver": "GTiff",
        "width": PIECE,
        "height": PIECE,
        "count": 1,
        "dtype": "float32",
        "crs": CRS_NAME,
        "transform": _transform(),
        "tiled": True,
        "compress": "deflate",
    }
    with rasterio.open(piece, "w", **profile) as target:
        target.write((field / field.std()).astype(np.float32), 1)
    sources = "".join(
        f'<SimpleSource><SourceFilename relativeToVRT="1">{piece.name}</SourceFilename>'
        f'<SourceBand>1</SourceBand><SrcRect xOff="0" yOff="0" xSize="{PIECE}" ySize="{PIECE}"/>'
        f'<DstRect xOff="{col}" yOff="{row}" xSize="{PIECE}" ySize="{PIECE}"/></SimpleSource>'
        for row in range(0, size, PIECE)
        for col in range(0, size, PIECE)
    )
    transform = _transform().to_gdal()
    path = folder / f"layer_{number}.vrt"
    path.write_text(
        f'<VRTDataset rasterXSize="{size}" rasterYSize="{size}"><SRS>{CRS_NAME}</SRS>'
        f"<GeoTransform>{','.join(map(repr, transform))}</GeoTransform>"
        f'<VRTRasterBand dataType="Float32" band="1">{sources}</VRTRasterBand></VRTDataset>',
        encoding="utf-8",
    )
    return path


def _occurrences(folder: Path, size: int) -> Path:
    grid = Grid(CRS.from_string(CRS_NAME), _transform(), size, size)
    points = np.random.default_rng(0).random((OCCURRENCES, 2)) * size
    path = folder / "occurrences.gpkg"
    write_points(
        path,
        grid,
        points,
        {"number": np.arange(OCCURRENCES)},
        layer="occurrences",
        description="Random points for the memory benchmark.",
        metadata={},
    )
    return path


def _area(folder: Path, cells: int) -> Path:
    """A square of so many cells along each side."""
    side = cells * CELL_M
    x, y = ORIGIN
    ring = [[x, y], [x + side, y], [x + side, y - side], [x, y - side], [x, y]]
    content = {
        "type": "FeatureCollection",
        "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32750"}},
        "features": [
            {
                "type": "Feature",
                "properties": {},
                "geometry": {"type": "Polygon", "coordinates": [ring]},
            }
        ],
    }
    path = folder / "area.geojson"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
