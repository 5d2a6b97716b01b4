"""Maps on disk: their scale, their bands and their grid, whatever they are made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
import torch
from geocfm.errors import UserError
from geocfm.events import Stage
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.geo.rasters import Stack, find_layers
from geocfm.inference.model_map import Intensity
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import (
    DENSITY,
    INFORMATION,
    MONTE_CARLO,
    VARIATION,
    strip_part,
)
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.network import new_network
from mapping_support import bands_of, raw_map, values_of
from numpy.typing import NDArray
from small_data import COLUMNS, DEGREES, HOLE, ROWS, UTM, SmallRegion, write_region

CPU = torch.device("cpu")
TILE = 48


def hole_mask() -> NDArray[np.bool_]:
    mask = np.zeros((ROWS, COLUMNS), dtype=bool)
    mask[HOLE.slices_in(UTM.window())] = True
    return mask


@pytest.fixture(scope="module")
def mapped(predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    path = tmp_path_factory.mktemp("map") / "raw.tif"
    return values_of(raw_map(path, Intensity(predictor, TILE)))


def test_the_map_has_mean_1_over_its_data_and_none_elsewhere(mapped: NDArray[np.float64]) -> None:
    assert np.array_equal(np.isnan(mapped), hole_mask())
    assert np.nanmean(mapped) == pytest.approx(1, abs=1e-5)
    assert np.nanmin(mapped) > 0
    assert np.nanmax(mapped) > 3  # it has learned something


def test_on_a_degree_grid_density_and_its_mean_are_by_area(
    checkpoint: Checkpoint, tmp_path: Path, mapped: NDArray[np.float64]
) -> None:
    region = write_region(tmp_path / "degrees", DEGREES)
    with Stack(find_layers(region.rasters), DEGREES) as stack:
        there = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, CPU)
        raw = raw_map(tmp_path / "raw.tif", Intensity(there, TILE))
    values = values_of(raw)
    cosine = np.cos(np.radians(68.0 - 0.05 * (np.arange(ROWS) + 0.5)))
    # a sphere instead of the ellipsoid: areas differ by less than a per cent
    side_km = np.radians(0.05) * 6371.0
    areas = np.broadcast_to((side_km**2 * cosine)[:, None], values.shape)
    data = np.isfinite(values)
    assert raw.area_km2 == pytest.approx(areas[data].sum(), rel=0.01)
    assert np.average(values[data], weights=areas[data]) == pytest.approx(1, abs=1e-4)
    assert abs(values[data].mean() - 1) > 1e-3
    # the same cells have the same intensity: density per cell is the same, a smaller cell is denser
    ratio = np.where(data, values, 1) / np.where(data, mapped, 1) * cosine[:, None]
    assert np.ptp(ratio[data]) / ratio[data].mean() < 0.01
    assert np.ptp(cosine) / cosine.mean() > 0.1


def test_a_region_without_data_is_refused_with_a_sentence(
    small_region: SmallRegion, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    inside_hole = UTM.subgrid(Window(HOLE.row + 1, HOLE.col + 1, 10, 10))
    with Stack(find_layers(small_region.rasters), inside_hole) as stack:
        there = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, CPU)
        with pytest.raises(UserError, match="nothing to map"):
            raw_map(tmp_path / "raw.tif", Intensity(there, TILE))


def test_an_area_without_any_cell_is_refused_with_a_sentence(
    predictor: Predictor, tmp_path: Path
) -> None:
    sliver = Area(shapely.box(60.2, 35.2, 60.4, 35.4), UTM)  # in the hole, over no cell's centre
    with pytest.raises(UserError, match="nothing to map"):
        raw_map(tmp_path / "raw.tif", Intensity(predictor, TILE), sliver)


def test_an_area_bounds_the_map(predictor: Predictor, tmp_path: Path) -> None:
    triangle = shapely.Polygon([(20, 10), (80, 60), (10, 100)])
    area = Area(triangle, UTM)
    raw = raw_map(tmp_path / "raw.tif", Intensity(predictor, TILE), area)
    with rasterio.open(raw.path) as source:
        grid = Grid(source.crs, source.transform, source.height, source.width)
    assert grid.aligned_with(UTM.subgrid(area.bounds))
    values = np.full((ROWS, COLUMNS), np.nan)
    values[area.bounds.slices_in(UTM.window())] = values_of(raw)
    row, col = np.mgrid[:ROWS, :COLUMNS] + 0.5
    shown = np.isfinite(values)
    assert shown[shapely.contains_xy(triangle.buffer(-1e-6), col, row) & ~hole_mask()].all()
    assert not shown[~shapely.contains_xy(triangle.buffer(1e-6), col, row)].any()
    assert values[shown].mean() == pytest.approx(1, abs=1e-5)
    assert raw.area_km2 == pytest.approx(shown.sum() * 0.01)
    assert raw.strips[0].row == area.bounds.row
    assert raw.strips[-1].row_stop == area.bounds.row_stop


def test_the_grid_of_a_map_is_the_predictors(predictor: Predictor, tmp_path: Path) -> None:
    raw = raw_map(tmp_path / "raw.tif", Intensity(predictor, TILE))
    with rasterio.open(raw.path) as source:
        grid = Grid(source.crs, source.transform, source.height, source.width)
    assert grid.aligned_with(UTM)
    assert raw.bands == (DENSITY,)
    assert [(s.row, s.row_stop, s.width) for s in raw.strips] == [
        (0, 40, 100),
        (40, 80, 100),
        (80, 120, 100),
    ]


@pytest.fixture(scope="module")
def pair(predictor: Predictor, checkpoint: Checkpoint) -> Predictor:
    """An ensemble of the small model and of one that never learned."""
    card = checkpoint.card
    other = new_network(card.channels, card.settings, 9).eval()
    generator = torch.Generator().manual_seed(1)
    torch.nn.init.normal_(other.score.cells.weight, std=0.3, generator=generator)
    both = Checkpoint((checkpoint.network, other), card)
    return Predictor(both, predictor.layers, predictor.sampling, CPU)


def test_an_ensemble_has_the_mean_density_and_tells_how_its_members_disagree(
    pair: Predictor, tmp_path: Path
) -> None:
    together = raw_map(tmp_path / "both.tif", Intensity(pair, TILE))
    alone = np.stack(
        [
            values_of(raw_map(tmp_path / f"{number}.tif", Intensity(member, TILE)))
            for number, member in enumerate(pair.members)
        ]
    )
    bands = bands_of(together)
    assert list(bands) == [DENSITY, VARIATION, INFORMATION]
    mean = alone.mean(axis=0)
    assert bands[DENSITY] / together.mean == pytest.approx(mean, rel=1e-4, nan_ok=True)
    expected = alone.std(axis=0) / mean
    assert bands[VARIATION] == pytest.approx(expected, rel=1e-3, abs=1e-5, nan_ok=True)
    ratio = alone / mean
    nats = (ratio * np.log(ratio)).mean(axis=0)
    assert bands[INFORMATION] == pytest.approx(nats, rel=1e-3, abs=1e-5, nan_ok=True)
    assert np.nanmin(bands[INFORMATION]) > -1e-6
    assert np.nanmean(expected) > 0.05


def test_a_temperature_is_an_exponent_of_the_density(predictor: Predictor, tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts")
    plain, flat = (
        values_of(raw_map(tmp_path / "raw.tif", Intensity(predictor, TILE), None, parts, exponent))
        for exponent in (1.0, 0.5)
    )
    root = np.sqrt(plain)
    assert flat == pytest.approx(root / np.nanmean(root), rel=1e-4, nan_ok=True)


class Repeated:
    """Two members, each told three times with noise; their scales are far apart."""

    grid = UTM.subgrid(Window(0, 0, 8, 10))
    scale = np.array([1e-20, 1e20])

    def __init__(self) -> None:
        generator = np.random.default_rng(1)
        noise = generator.lognormal(0, 0.2, (2, 3, 8, 10))
        self.all = (self.scale[:, None, None, None] * noise).astype(np.float32)
        self.asked: list[int] = []

    def strips(self, shown: Window) -> list[Window]:
        return [Window(row, shown.col, 4, shown.width) for row in (0, 4)]

    def values(
        self, strips: Sequence[Window], first: int, stage: Stage
    ) -> Iterator[NDArray[np.float32]]:
        self.asked.append(first)
        for strip in strips[first:]:
            yield self.all[(..., *strip.slices_in(self.grid.window()))]


def test_members_of_any_scale_and_repetitions_become_bands_by_hand(tmp_path: Path) -> None:
    source = Repeated()
    raw = raw_map(tmp_path / "raw.tif", source)
    bands = bands_of(raw)
    assert list(bands) == [DENSITY, VARIATION, INFORMATION, MONTE_CARLO]
    scaled = source.all.astype(np.float64)
    scaled /= scaled.mean(axis=(1, 2, 3), keepdims=True)
    by_member = scaled.mean(axis=1)
    density = by_member.mean(axis=0)
    assert bands[DENSITY] / raw.mean == pytest.approx(density, rel=1e-5)
    error = np.sqrt((scaled.var(axis=1, ddof=1) / 3).mean(axis=0) / 2) / density
    assert bands[MONTE_CARLO] == pytest.approx(error, rel=1e-4)
    assert bands[VARIATION] == pytest.approx(by_member.std(axis=0) / density, rel=1e-4, abs=1e-6)
    assert source.asked == [0]


def test_finished_strips_are_those_that_are_asked_for_no_more(tmp_path: Path) -> None:
    source, parts = Repeated(), Parts(tmp_path / "parts")
    first = raw_map(tmp_path / "raw.tif", source, None, parts)
    part = strip_part(parts, first.strips[1])
    assert part["values"] == pytest.approx(source.all[:, :, 4:] / 0.01, rel=1e-6)  # of 0.01 km2
    assert part["total"] == pytest.approx(source.all[:, :, 4:].sum(axis=(2, 3)), rel=1e-6)
    assert part["area_km2"] == pytest.approx(0.4)
    raw_map(tmp_path / "raw.tif", source, None, parts)
    assert source.asked == [0]
    (tmp_path / "parts" / "rows-4-8.npz").unlink()
    raw_map(tmp_path / "raw.tif", source, None, parts)
    assert source.asked == [0, 1]
    (tmp_path / "parts" / "rows-0-4.npz").unlink()
    with pytest.raises(RuntimeError, match="is missing"):
        strip_part(parts, first.strips[0])
