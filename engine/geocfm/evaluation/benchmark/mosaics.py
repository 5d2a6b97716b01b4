"""Ways of putting windows side by side, against a region whose intensity is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import rasterio
from numpy.typing import NDArray
from scipy.stats import rankdata

from geocfm.data.split import TEST, Split
from geocfm.evaluation.capture import CaptureCurve
from geocfm.events import Reporter
from geocfm.geo.grid import Window
from geocfm.inference.density import DENSITIES
from geocfm.inference.levels import COMBINATIONS
from geocfm.inference.mosaic import MappedWindow, Mosaic, blend
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.region_windows import batches_of, region_mosaic
from geocfm.inference.regional_map import FlowDensities, write_raw_map

Map = NDArray[np.float64]
ITERATIONS = (11, 100)  # of masses taken from the blended map: where it did best once, and later
TITLES = {
    "average": "average: windows as they are",
    "consistent": "consistent: levels by what windows share",
    "head": "head: levels of the density head, and by what windows share",
    "count": "count: levels by what single cells let one expect, and by what windows share",
    "whole": "logits of one pass over the whole raster",
}


@dataclass(frozen=True)
class MosaicScore:
    """How near a map is to the truth, over the region and over its held-out tiles."""

    name: str
    title: str
    kl: float  # nats: of the truth from the map
    kl_held_out: float
    rank: float  # Spearman's correlation over all cells
    capture: float  # area under the curve that the true intensity gives
    capture_held_out: float


def score_map(
    name: str, title: str, density: Map, truth: Map, held_out: NDArray[np.bool_]
) -> MosaicScore:
    """density, truth: (H, W), of any scale; NaN is no data."""
    everywhere = np.isfinite(density) & np.isfinite(truth)
    return MosaicScore(
        name=name,
        title=title,
        kl=divergence(truth[everywhere], density[everywhere]),
        kl_held_out=divergence(truth[everywhere & held_out], density[everywhere & held_out]),
        rank=float(np.corrcoef(rankdata(truth[everywhere]), rankdata(density[everywhere]))[0, 1]),
        capture=captured_area(truth[everywhere], density[everywhere]),
        capture_held_out=captured_area(
            truth[everywhere & held_out], density[everywhere & held_out]
        ),
    )


def divergence(truth: Map, density: Map) -> float:
    """Kullback-Leibler: sum of t log(t / d), both (N,) scaled to sum 1."""
    t, d = truth / truth.sum(), np.maximum(density / density.sum(), 1e-300)
    return float((t[t > 0] * np.log(t[t > 0] / d[t > 0])).sum())


def captured_area(truth: Map, density: Map) -> float:
    """Area under the capture curve of occurrences that follow the truth exactly."""
    curve = CaptureCurve()
    curve.add_cells(density / density.mean(), np.ones(len(density)))
    curve.add_occurrences(density / density.mean(), truth / truth.mean())
    return curve.under_curve()


def compare_mosaics(
    predictor: Predictor, truth: Map, split: Split, density: str, folder: Path, reporter: Reporter
) -> list[MosaicScore]:
    """Every way of combining windows, the tempting one and the whole raster in one pass."""
    grid = predictor.layers.grid
    centres = [np.arange(n, dtype=np.float64) + 0.5 for n in (grid.height, grid.width)]
    held_out = split.role_of_cells(centres[0], centres[1]) == TEST
    found = []
    for combine in COMBINATIONS:
        parts = Parts(folder / combine)
        densities = FlowDensities(predictor, None, combine, density, 1, parts, reporter)
        stage = reporter.stage(f"Mapping, {combine}")
        raw = write_raw_map(folder / f"{combine}.tif", densities, None, parts, stage)
        with rasterio.open(raw.path) as source:
            values = source.read(1).astype(np.float64)
        found.append(score_map(combine, TITLES[combine], values, truth, held_out))
    mapped = list(_windows(predictor, density))
    mosaic, _ = region_mosaic(predictor, None)
    for iterations, values in _iterated(mosaic, mapped, max(ITERATIONS)):
        if iterations in ITERATIONS:
            title = f"masses of the blended map, iterated {iterations} times"
            found.append(score_map(f"iterated-{iterations}", title, values, truth, held_out))
    whole = _whole(predictor)
    if whole is not None:
        found.append(score_map("whole", TITLES["whole"], whole, truth, held_out))
    return found


def _windows(predictor: Predictor, density: str) -> Iterator[MappedWindow]:
    _, windows = region_mosaic(predictor, None)
    for batch in batches_of(windows):
        encoded = predictor.encode(batch)
        densities = DENSITIES[density](predictor, encoded, 1, 0)
        for window, one, footprint in zip(batch, densities, encoded.footprints, strict=True):
            if footprint.any():
                yield MappedWindow(window, one, footprint)


def _iterated(mosaic: Mosaic, mapped: list[MappedWindow], most: int) -> Iterator[tuple[int, Map]]:
    """Each window's mass is what the blended map holds in it, again and again."""
    levels = np.ones(len(mapped))
    for number in range(most + 1):
        scaled = (
            MappedWindow(one.window, level * one.density, one.footprint)
            for one, level in zip(mapped, levels, strict=True)
        )
        values = np.concatenate([part for _, part in blend(mosaic, scaled)]).astype(np.float64)
        yield number, values
        grid = mosaic.grid.window()
        for index, one in enumerate(mapped):
            inside = one.window.intersection(grid)
            if inside is not None:
                here = values[inside.slices_in(grid)]
                levels[index] = np.nanmean(here)
        levels /= levels.mean()


def _whole(predictor: Predictor) -> Map | None:
    """The density head in one pass over the whole grid, which it was not trained for."""
    grid = predictor.layers.grid
    side = max(grid.height, grid.width)
    encoded = predictor.encode([Window(0, 0, side, side)])
    logs = encoded.maps.log_density
    if logs is None:
        return None
    shown = logs[0, : grid.height, : grid.width].double().exp().cpu().numpy()
    return np.where(encoded.footprints[0, : grid.height, : grid.width], shown, np.nan)
