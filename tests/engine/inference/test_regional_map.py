from __future__ import annotations

import io
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
import torch
from geocfm.errors import UserError
from geocfm.events import JsonSink, Reporter
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.geo.rasters import Stack, find_layers
from geocfm.inference.mosaic import MappedWindow, blend
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.region_windows import batches_of, region_mosaic
from geocfm.inference.regional_draws import Draws, draw_region
from geocfm.inference.regional_map import (
    DENSITY,
    INFORMATION,
    MONTE_CARLO,
    VARIATION,
    FlowDensities,
    RawMap,
    map_windows,
    write_raw_map,
)
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.network import new_network
from numpy.typing import NDArray
from scipy.stats import chi2
from small_data import COLUMNS, DEGREES, HOLE, ROWS, UTM, SmallRegion, in_hole, write_region

CPU = torch.device("cpu")
BLOCK = 10


def quiet() -> Reporter:
    return Reporter(JsonSink(io.StringIO()))


def changed(predictor: Predictor, checkpoint: Checkpoint, **changes: object) -> Predictor:
    sampling = predictor.sampling.model_copy(update=changes)
    return Predictor(checkpoint, predictor.layers, sampling, CPU)


def values_of(raw: RawMap) -> NDArray[np.float64]:
    with rasterio.open(raw.path) as source:
        values: NDArray[np.float64] = source.read(1).astype(np.float64) / raw.mean
        return values


def hole_mask() -> NDArray[np.bool_]:
    mask = np.zeros((ROWS, COLUMNS), dtype=bool)
    mask[HOLE.slices_in(UTM.window())] = True
    return mask


def raw_map(
    path: Path,
    predictor: Predictor,
    area: Area | None,
    combine: str,
    seed: int,
    density: str = "kde",
    repetitions: int = 1,
) -> RawMap:
    with TemporaryDirectory() as folder:
        parts = Parts(Path(folder))
        densities = FlowDensities(
            predictor, area, combine, density, seed, parts, quiet(), repetitions
        )
        return write_raw_map(path, densities, area, parts, quiet().stage("Mapping"))


def draws(*arguments: Any) -> Draws:
    with TemporaryDirectory() as folder:
        return draw_region(*arguments, Parts(Path(folder)), quiet())


def in_blocks(values: NDArray[Any]) -> NDArray[Any]:
    """Sums over squares of cells."""
    shape = (ROWS // BLOCK, BLOCK, COLUMNS // BLOCK, BLOCK)
    sums: NDArray[Any] = np.nan_to_num(values).reshape(shape).sum(axis=(1, 3))
    return sums


def counts_by_cell(points: NDArray[np.float64]) -> NDArray[np.int64]:
    counts = np.zeros((ROWS, COLUMNS), dtype=np.int64)
    col, row = np.floor(points).astype(int).T
    np.add.at(counts, (row, col), 1)
    return counts


@pytest.fixture(scope="module")
def mapped(predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    path = tmp_path_factory.mktemp("map") / "raw.tif"
    return values_of(raw_map(path, predictor, None, "average", 1))


@pytest.fixture(scope="module")
def drawn(predictor: Predictor) -> Draws:
    return draws(predictor, None, 3000, 4, "average", 1)


def test_the_map_has_mean_1_over_its_data_and_none_elsewhere(mapped: NDArray[np.float64]) -> None:
    assert np.array_equal(np.isnan(mapped), hole_mask())
    assert np.nanmean(mapped) == pytest.approx(1, abs=1e-5)
    assert np.nanmin(mapped) >= 0


def test_on_a_degree_grid_density_and_its_mean_are_by_area(
    checkpoint: Checkpoint, tmp_path: Path, mapped: NDArray[np.float64]
) -> None:
    region = write_region(tmp_path / "degrees", DEGREES)
    with Stack(find_layers(region.rasters), DEGREES) as stack:
        there = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, CPU)
        raw = raw_map(tmp_path / "raw.tif", there, None, "average", 1)
    values = values_of(raw)
    cosine = np.cos(np.radians(68.0 - 0.05 * (np.arange(ROWS) + 0.5)))
    # a sphere instead of the ellipsoid: areas differ by less than a per cent
    side_km = np.radians(0.05) * 6371.0
    areas = np.broadcast_to((side_km**2 * cosine)[:, None], values.shape)
    data = np.isfinite(values)
    assert raw.area_km2 == pytest.approx(areas[data].sum(), rel=0.01)
    assert np.average(values[data], weights=areas[data]) == pytest.approx(1, abs=1e-4)
    assert abs(values[data].mean() - 1) > 1e-3
    # the same cells make the same draws: density per cell is the same, a smaller cell is denser
    dense = np.nan_to_num(mapped) > 0.05
    ratio = np.divide(values, mapped, out=np.zeros_like(mapped), where=dense)
    by_row = np.array([ratio[row][dense[row]].mean() for row in range(ROWS)])
    constant = by_row * cosine
    assert np.ptp(constant) / constant.mean() < 0.01
    assert np.ptp(by_row) / by_row.mean() > 0.1


def test_same_seed_same_map_other_seed_another(
    predictor: Predictor, mapped: NDArray[np.float64], tmp_path: Path
) -> None:
    again, other = (
        values_of(raw_map(tmp_path / f"{seed}.tif", predictor, None, "average", seed))
        for seed in (1, 2)
    )
    assert np.array_equal(again, mapped, equal_nan=True)
    assert not np.array_equal(other, mapped, equal_nan=True)
    data = np.isfinite(mapped)
    assert np.corrcoef(other[data], mapped[data])[0, 1] > 0.9


def test_every_mapped_window_has_mean_1_over_its_data(predictor: Predictor, tmp_path: Path) -> None:
    densities = FlowDensities(predictor, None, "average", "kde", 1, Parts(tmp_path), quiet())
    seen = list(islice(map_windows(densities, 0, quiet().stage("Mapping")), 12))
    assert [window.window for window in seen] == densities.windows[:12]
    for window in seen:
        assert window.density.shape == (1, 1, 32, 32)
        assert window.density[0, 0][window.footprint].mean() == pytest.approx(1)
        assert (window.density[0, 0][~window.footprint] == 0).all()


@pytest.mark.parametrize(("height", "width"), [(120, 20), (25, 100), (20, 18), (45, 37)])
def test_regions_smaller_than_a_window_or_off_the_stride(
    small_region: SmallRegion, checkpoint: Checkpoint, tmp_path: Path, height: int, width: int
) -> None:
    grid = UTM.subgrid(Window(0, 0, height, width))
    with Stack(find_layers(small_region.rasters), grid) as stack:
        there = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, CPU)
        values = values_of(raw_map(tmp_path / "raw.tif", there, None, "average", 1))
        points = draws(there, None, 200, 1, "average", 1).points
    assert np.array_equal(np.isnan(values), hole_mask()[:height, :width])
    assert np.nanmean(values) == pytest.approx(1, abs=1e-5)
    assert (points >= 0).all()
    assert (points < (width, height)).all()


def test_a_region_without_data_is_refused_with_a_sentence(
    small_region: SmallRegion, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    inside_hole = UTM.subgrid(Window(HOLE.row + 1, HOLE.col + 1, 10, 10))
    with Stack(find_layers(small_region.rasters), inside_hole) as stack:
        there = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, CPU)
        with pytest.raises(UserError, match="nothing to map"):
            raw_map(tmp_path / "raw.tif", there, None, "average", 1)
        with pytest.raises(UserError, match="no point can be drawn"):
            draws(there, None, 10, 1, "average", 1)


def test_draws_are_as_many_as_asked_and_lie_on_data(drawn: Draws) -> None:
    assert drawn.points.shape == (12000, 2)
    assert [int((drawn.draw == number).sum()) for number in (1, 2, 3, 4)] == [3000] * 4
    assert (drawn.points >= 0).all()
    assert (drawn.points < (COLUMNS, ROWS)).all()
    assert not in_hole(drawn.points).any()
    assert np.isfinite(drawn.log_relative_density).all()


def test_draws_follow_the_blend_of_all_windows(predictor: Predictor, drawn: Draws) -> None:
    # the blend of unsmoothed histograms of other draws, block by block: a chi-square test
    mosaic, windows = region_mosaic(predictor, None)
    many = 2500

    def histograms() -> Any:
        for first in range(0, len(windows), 6):
            encoded = predictor.encode(windows[first : first + 6])
            for number, found in enumerate(
                predictor.draw(encoded, [many] * len(encoded.windows), seed=77)
            ):
                footprint = encoded.footprints[number]
                col, row = np.floor(found.points * 32).astype(int).T
                counts = np.zeros((32, 32))
                np.add.at(counts, (row, col), 1.0)
                counts *= footprint
                density = counts * footprint.sum() / counts.sum()
                yield MappedWindow(encoded.windows[number], density, footprint)

    reference = np.concatenate([values for _, values in blend(mosaic, histograms())])
    expected = in_blocks(reference)
    expected *= len(drawn.points) / expected.sum()
    counts = in_blocks(counts_by_cell(drawn.points))
    used = expected > 5
    # a block's expectation is itself made of draws: about 4 windows x 2500, thinned by their shares
    statistic = ((counts - expected)[used] ** 2 / expected[used]).sum()
    noise = 1 + len(drawn.points) / (many * len(windows))
    assert used.sum() > 60
    assert statistic / noise < chi2.ppf(1 - 1e-6, used.sum() - 1)
    flat = np.full(expected.shape, len(drawn.points) / expected.size)
    assert ((counts - flat) ** 2 / flat).sum() > 20 * statistic


def test_draws_follow_the_map(mapped: NDArray[np.float64], drawn: Draws) -> None:
    counts = counts_by_cell(drawn.points)
    assert np.corrcoef(in_blocks(mapped).ravel(), in_blocks(counts).ravel())[0, 1] > 0.95
    # also at the region's edge and around the hole, where windows are fewer or hold less data
    row, col = np.mgrid[:ROWS, :COLUMNS]
    edge = np.minimum.reduce([row, col, ROWS - 1 - row, COLUMNS - 1 - col]) < 8
    near = (np.abs(row - HOLE.row - 7) < 14) & (np.abs(col - HOLE.col - 9) < 16)
    for place in (edge, near):
        of_map = np.nansum(mapped[place]) / np.nansum(mapped)
        of_draws = counts[place].sum() / counts.sum()
        assert of_draws == pytest.approx(of_map, rel=0.15)


def test_the_density_of_a_point_is_the_maps_value_there(
    predictor: Predictor, checkpoint: Checkpoint, mapped: NDArray[np.float64]
) -> None:
    fine = changed(predictor, checkpoint, steps=20)
    drawn = draws(fine, None, 3000, 1, "average", 3)
    col, row = np.floor(drawn.points).astype(int).T
    seen = mapped[row, col] > 0  # far from all draws of the map its kernel ends
    assert seen.mean() > 0.995
    of_map, of_point = np.log(mapped[row, col][seen]), drawn.log_relative_density[seen]
    assert abs(np.median(of_point - of_map)) < 0.25
    assert np.corrcoef(of_map, of_point)[0, 1] > 0.65
    # points follow the density f, so 1 / f has mean 1 whatever f is; cut off where it is rare
    assert 0.7 < np.minimum(np.exp(-drawn.log_relative_density), 100).mean() < 1.3


@pytest.mark.parametrize("combine", ["average", "count"])
def test_the_density_of_a_point_is_that_of_the_exact_map(
    small_region: SmallRegion, checkpoint: Checkpoint, tmp_path: Path, combine: str
) -> None:
    """Both are the flow's own density, divided by its mean over the region."""
    grid = UTM.subgrid(Window(20, 30, 50, 50))  # nine windows, with all of the hole
    with Stack(find_layers(small_region.rasters), grid) as stack:
        there = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, CPU)
        drawn = draws(there, None, 2000, 1, combine, 3)
        maps = {
            density: values_of(raw_map(tmp_path / "raw.tif", there, None, combine, 1, density))
            for density in ("exact", "kde")
        }
    central = (np.abs(drawn.points % 1 - 0.5) < 0.15).all(axis=1)  # where the exact map is told
    assert central.sum() > 100
    col, row = np.floor(drawn.points[central]).astype(int).T
    gap = {
        density: drawn.log_relative_density[central] - np.log(np.maximum(mapped[row, col], 1e-9))
        for density, mapped in maps.items()
    }
    assert abs(np.median(gap["exact"])) < 0.1
    assert np.quantile(np.abs(gap["exact"]), 0.9) < 0.2
    assert np.quantile(np.abs(gap["kde"]), 0.9) > 0.35  # smoothed, it is another density


def test_other_seeds_draw_other_points_and_draws_differ(predictor: Predictor) -> None:
    first, same, other = (draws(predictor, None, 50, 2, "average", seed) for seed in (1, 1, 2))
    assert np.array_equal(first.points, same.points)
    assert np.array_equal(first.log_relative_density, same.log_relative_density)
    assert not np.isin(first.points[:, 0], other.points[:, 0]).any()
    assert not np.isin(first.points[:50, 0], first.points[50:, 0]).any()


def test_an_area_bounds_map_and_draws(predictor: Predictor, tmp_path: Path) -> None:
    triangle = shapely.Polygon([(20, 10), (80, 60), (10, 100)])
    area = Area(triangle, UTM)
    raw = raw_map(tmp_path / "raw.tif", predictor, area, "average", 1)
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
    drawn = draws(predictor, area, 500, 2, "average", 1)
    centres = np.floor(drawn.points) + 0.5
    assert shapely.contains_xy(triangle.buffer(1e-9), *centres.T).all()
    assert not in_hole(drawn.points).any()


def test_an_area_shows_the_whole_map_at_another_scale(
    predictor: Predictor, mapped: NDArray[np.float64], tmp_path: Path
) -> None:
    # smaller than a window, beside the hole: its windows still see all that lies around it
    area = Area(shapely.box(40, 36, 60, 56), UTM)
    raw = raw_map(tmp_path / "raw.tif", predictor, area, "average", 1)
    there = mapped[36:56, 40:60]
    assert values_of(raw) == pytest.approx(there / np.nanmean(there), rel=1e-4, nan_ok=True)
    assert raw.windows < 42


def test_too_small_an_area_is_said(predictor: Predictor) -> None:
    sliver = Area(shapely.box(60.2, 35.2, 60.4, 35.4), UTM)  # in the hole, over no cell's centre
    with pytest.raises(UserError, match="no point can be drawn"):
        draws(predictor, sliver, 10, 1, "average", 1)


def test_the_grid_of_a_map_is_the_predictors(predictor: Predictor, tmp_path: Path) -> None:
    raw = raw_map(tmp_path / "raw.tif", predictor, None, "average", 1)
    with rasterio.open(raw.path) as source:
        grid = Grid(source.crs, source.transform, source.height, source.width)
    assert grid.aligned_with(UTM)
    assert raw.windows == len(region_mosaic(predictor, None)[1]) == 11 * 9


def test_a_strip_that_is_lost_is_made_again_and_the_others_are_not(
    predictor: Predictor, mapped: NDArray[np.float64], tmp_path: Path
) -> None:
    def again() -> NDArray[np.float64]:
        raw = tmp_path / "raw.tif"
        parts = Parts(tmp_path / "parts")
        densities = FlowDensities(predictor, None, "average", "kde", 1, parts, quiet())
        return values_of(write_raw_map(raw, densities, None, parts, quiet().stage("Mapping")))

    assert np.array_equal(again(), mapped, equal_nan=True)
    strips = sorted((tmp_path / "parts").iterdir(), key=lambda p: int(p.stem.split("-")[1]))
    times = {path: path.stat().st_mtime_ns for path in strips}
    strips[4].unlink()
    strips[6].write_bytes(b"half a file")
    assert np.array_equal(again(), mapped, equal_nan=True)
    unchanged = [path for path in strips if path.stat().st_mtime_ns == times[path]]
    assert unchanged == strips[:4]


def test_batches_stay_within_a_row_of_windows() -> None:
    windows = [Window(row, col, 8, 8) for row in (0, 4, 8) for col in range(70 - row)]
    batches = batches_of(windows)
    assert [window for batch in batches for window in batch] == windows
    assert all(len({window.row for window in batch}) == 1 for batch in batches)
    assert {len(batch) for batch in batches} == {22, 23, 24, 31}


@pytest.fixture(scope="module")
def pair(predictor: Predictor, checkpoint: Checkpoint) -> Predictor:
    """An ensemble of the small model and of one that never learned."""
    card = checkpoint.card
    other = new_network(card.channels, card.settings, 9).eval()
    torch.nn.init.normal_(other.score.weight, std=0.3, generator=torch.Generator().manual_seed(1))
    both = Checkpoint((checkpoint.network, other), card)
    return Predictor(both, predictor.layers, predictor.sampling, CPU)


def read_bands(raw: RawMap) -> dict[str, NDArray[np.float64]]:
    with rasterio.open(raw.path) as source:
        values = source.read().astype(np.float64)
    return dict(zip(raw.bands, values, strict=True))


@pytest.mark.parametrize("combine", ["average", "head"])
def test_an_ensemble_has_the_mean_density_and_tells_how_its_members_disagree(
    pair: Predictor, tmp_path: Path, combine: str
) -> None:
    together = raw_map(tmp_path / "both.tif", pair, None, combine, 1, "head")
    alone = np.stack(
        [
            values_of(raw_map(tmp_path / f"{number}.tif", member, None, combine, 1, "head"))
            for number, member in enumerate(pair.members)
        ]
    )
    bands = read_bands(together)
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


def test_repeated_maps_tell_their_monte_carlo_error(predictor: Predictor, tmp_path: Path) -> None:
    raw = raw_map(tmp_path / "raw.tif", predictor, None, "average", 1, "kde", repetitions=4)
    bands = read_bands(raw)
    assert list(bands) == [DENSITY, MONTE_CARLO]
    others = np.stack(
        [
            values_of(raw_map(tmp_path / f"{seed}.tif", predictor, None, "average", seed))
            for seed in (11, 12, 13, 14)
        ]
    )
    density = bands[DENSITY] / raw.mean
    dense = np.nan_to_num(density) > 0.5
    seen = others.std(axis=0, ddof=1)[dense] / np.sqrt(4) / density[dense]
    told = bands[MONTE_CARLO][dense]
    assert np.sqrt((told**2).mean()) == pytest.approx(np.sqrt((seen**2).mean()), rel=0.3)


def test_a_temperature_is_an_exponent_of_the_density(predictor: Predictor, tmp_path: Path) -> None:
    parts = Parts(tmp_path / "parts")
    densities = FlowDensities(predictor, None, "head", "head", 1, parts, quiet())
    stage = quiet().stage("Mapping")
    plain, flat = (
        values_of(write_raw_map(tmp_path / "raw.tif", densities, None, parts, stage, exponent))
        for exponent in (1.0, 0.5)
    )
    root = np.sqrt(plain)
    assert flat == pytest.approx(root / np.nanmean(root), rel=1e-4, nan_ok=True)


def test_draws_of_an_ensemble_follow_its_map(pair: Predictor, tmp_path: Path) -> None:
    mapped = values_of(raw_map(tmp_path / "raw.tif", pair, None, "head", 1, "head"))
    drawn = draws(pair, None, 3000, 3, "head", 1)
    counts = in_blocks(counts_by_cell(drawn.points))
    expected = in_blocks(mapped)
    assert np.corrcoef(expected.ravel(), counts.ravel())[0, 1] > 0.95
    col, row = np.floor(drawn.points).astype(int).T
    difference = drawn.log_relative_density - np.log(mapped[row, col])
    assert abs(np.median(difference)) < 0.25
