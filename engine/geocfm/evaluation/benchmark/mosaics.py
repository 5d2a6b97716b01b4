"""Ways of putting windows side by side, against a region whose intensity is known."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
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
from geocfm.inference.window_survey import choose_combination

Map = NDArray[np.float64]
ITERATIONS = (11, 100)  # of masses taken from the blended map: where it did best once, and later
TITLES = {
    "average": "average: windows as they are",
    "consistent": "consistent: levels by what windows share",
    "head": "head: levels of the density head, and by what windows share",
    "count": "count: levels by what single cells let one expect, and by what windows share",
    "whole": "logits of one pass over the whole raster",
}
ESTIMATORS = {
    "kde": "from draws (kde)",
    "exact": "by the flow integrated backwards (exact)",
}


@dataclass(frozen=True)
class NamedMap:
    """A map of the region, (H, W) of any scale, NaN where there is no data.

    seconds: that it took, first pass and all; none where no command makes such a map.
    """

    name: str
    title: str
    values: Map
    seconds: float | None = None


@dataclass(frozen=True)
class MosaicScore:
    """How near a map is to the truth, over the region and over its held-out tiles."""

    name: str
    title: str
    seconds: float | None
    kl: float  # nats: of the truth from the map
    kl_held_out: float
    rank: float  # Spearman's correlation over all cells
    capture: float  # area under the curve that the true intensity gives
    capture_held_out: float


def score_map(shown: NamedMap, truth: Map, held_out: NDArray[np.bool_]) -> MosaicScore:
    """truth: (H, W), of any scale; NaN is no data."""
    density = shown.values
    everywhere = np.isfinite(density) & np.isfinite(truth)
    return MosaicScore(
        name=shown.name,
        title=shown.title,
        seconds=shown.seconds,
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


def held_out_cells(predictor: Predictor, split: Split) -> NDArray[np.bool_]:
    """(H, W), whether a cell lies on a test tile."""
    grid = predictor.layers.grid
    rows, columns = (np.arange(n, dtype=np.float64) + 0.5 for n in (grid.height, grid.width))
    return split.role_of_cells(rows, columns) == TEST


def mosaic_maps(
    predictor: Predictor, densities: Sequence[str], folder: Path, reporter: Reporter
) -> Iterator[NamedMap]:
    """Every way of combining windows, the tempting one and the whole raster in one pass.

    densities: how they are found in all of these; then others, each with the default way alone.
    """
    first, *others = densities
    for combine in COMBINATIONS:
        yield _mapped(predictor, combine, first, combine, TITLES[combine], folder, reporter)
    mapped = list(_windows(predictor, first))
    mosaic, _ = region_mosaic(predictor, None)
    for iterations, values in _iterated(mosaic, mapped, max(ITERATIONS)):
        if iterations in ITERATIONS:
            title = f"masses of the blended map, iterated {iterations} times"
            yield NamedMap(f"iterated-{iterations}", title, values)
    whole = _whole(predictor)
    if whole is not None:
        yield NamedMap("whole", TITLES["whole"], whole)
    combine = choose_combination("auto", predictor.card.settings.network)
    for density in others:
        title = f"{combine}, its densities {ESTIMATORS[density]}"
        yield _mapped(predictor, combine, density, f"{combine}-{density}", title, folder, reporter)


def _mapped(
    predictor: Predictor,
    combine: str,
    density: str,
    name: str,
    title: str,
    folder: Path,
    reporter: Reporter,
) -> NamedMap:
    """As the command ``map`` does it."""
    start = time.monotonic()
    parts = Parts(folder / name)
    densities = FlowDensities(predictor, None, combine, density, 1, parts, reporter)
    stage = reporter.stage(f"Mapping, {name}")
    raw = write_raw_map(folder / f"{name}.tif", densities, None, parts, stage)
    with rasterio.open(raw.path) as source:
        values = source.read(1).astype(np.float64)
    return NamedMap(name, title, values, time.monotonic() - start)


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
