"""A map of windows that are blended, as models of windows alone have it, and draws by it."""

from __future__ import annotations

from collections.abc import Iterator
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
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.geo.rasters import Stack, find_layers
from geocfm.inference.density import relative
from geocfm.inference.mosaic import MappedWindow, Mosaic, blend
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_draws import DrawnMap, Draws, draw_region
from geocfm.inference.regional_map import DENSITY, INFORMATION, MONTE_CARLO, VARIATION, RawMap
from geocfm.inference.windowed_map import (
    BATCH,
    BlendedWindows,
    FlowDensities,
    batches_of,
    window_mosaic,
    window_step,
    windows_touching,
)
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.network import new_network
from mapping_support import bands_of, quiet, raw_map, values_of
from numpy.typing import NDArray
from scipy.stats import chi2
from small_data import COLUMNS, HOLE, ROWS, UTM, SmallRegion, in_hole

CPU = torch.device("cpu")
BLOCK = 10
CORNER = Area(shapely.box(0, 0, 40, 40), UTM)  # nine windows reach into it


def hole_mask() -> NDArray[np.bool_]:
    mask = np.zeros((ROWS, COLUMNS), dtype=bool)
    mask[HOLE.slices_in(UTM.window())] = True
    return mask


def flow_map(
    path: Path, predictor: Predictor, area: Area | None, seed: int, repetitions: int = 1
) -> RawMap:
    source = BlendedWindows(FlowDensities(predictor, seed, repetitions), area)
    return raw_map(path, source, area)


def draws(predictor: Predictor, area: Area | None, points: int, number: int, seed: int) -> Draws:
    """By a map of the same seed."""
    with TemporaryDirectory() as folder:
        parts = Parts(Path(folder) / "parts")
        source = BlendedWindows(FlowDensities(predictor, seed), area)
        drawn_map = DrawnMap(raw_map(Path(folder) / "raw.tif", source, area, parts), area)
        tile = predictor.window_size
        return draw_region(predictor, drawn_map, points, number, seed, tile, parts, quiet())


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
def mapped(windowed: Predictor, tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.float64]:
    return values_of(flow_map(tmp_path_factory.mktemp("map") / "raw.tif", windowed, None, 1))


@pytest.fixture(scope="module")
def drawn(windowed: Predictor) -> Draws:
    return draws(windowed, None, 3000, 4, 1)


def test_the_map_has_mean_1_over_its_data_and_none_elsewhere(mapped: NDArray[np.float64]) -> None:
    assert np.array_equal(np.isnan(mapped), hole_mask())
    assert np.nanmean(mapped) == pytest.approx(1, abs=1e-5)
    assert np.nanmin(mapped) >= 0
    assert np.nanstd(mapped) > 0.3


def test_same_seed_same_map_other_seed_another(
    windowed: Predictor, mapped: NDArray[np.float64], tmp_path: Path
) -> None:
    again, other = (
        values_of(flow_map(tmp_path / f"{seed}.tif", windowed, None, seed)) for seed in (1, 2)
    )
    assert np.array_equal(again, mapped, equal_nan=True)
    assert not np.array_equal(other, mapped, equal_nan=True)
    data = np.isfinite(mapped)
    assert np.corrcoef(other[data], mapped[data])[0, 1] > 0.9


def test_every_mapped_window_has_mean_1_over_its_data(windowed: Predictor) -> None:
    densities = FlowDensities(windowed, 1)
    windows = densities.mosaic.windows()
    for batch in islice(batches_of(windows), 2):
        seen = list(densities.of(batch))
        assert [one.window for one in seen] == batch
        for one in seen:
            assert one.density.shape == (1, 1, 32, 32)
            assert one.density[0, 0][one.footprint].mean() == pytest.approx(1)
            assert (one.density[0, 0][~one.footprint] == 0).all()


def test_the_map_is_the_blend_of_all_windows(
    windowed: Predictor, mapped: NDArray[np.float64]
) -> None:
    """Written out: at each cell the mean of the windows' densities, by their weights and data."""
    densities = FlowDensities(windowed, 1)
    mosaic = densities.mosaic
    total, weights = np.zeros((2, ROWS, COLUMNS))
    side = np.sin(np.pi * (np.arange(32) + 0.5) / 32) ** 2
    for batch in batches_of(mosaic.windows()):
        for one in densities.of(batch):
            here = one.window.slices_in(UTM.window())
            weight = np.outer(side, side) * one.footprint
            total[here] += weight * one.density[0, 0]
            weights[here] += weight
    expected = total / np.where(weights > 0, weights, np.nan)
    assert mapped == pytest.approx(expected / np.nanmean(expected), rel=1e-4, nan_ok=True)


@pytest.mark.parametrize(("height", "width"), [(120, 20), (25, 100), (20, 18), (45, 37)])
def test_regions_smaller_than_a_window_or_off_the_stride(
    small_region: SmallRegion,
    windowed_checkpoint: Checkpoint,
    tmp_path: Path,
    height: int,
    width: int,
) -> None:
    grid = UTM.subgrid(Window(0, 0, height, width))
    with Stack(find_layers(small_region.rasters), grid) as stack:
        sampling = windowed_checkpoint.card.settings.sampling
        there = Predictor(windowed_checkpoint, stack, sampling, CPU)
        values = values_of(flow_map(tmp_path / "raw.tif", there, None, 1))
        points = draws(there, None, 200, 1, 1).points
    assert np.array_equal(np.isnan(values), hole_mask()[:height, :width])
    assert np.nanmean(values) == pytest.approx(1, abs=1e-5)
    assert (points >= 0).all()
    assert (points < (width, height)).all()


def test_a_region_without_data_is_refused_with_a_sentence(
    small_region: SmallRegion, windowed_checkpoint: Checkpoint, tmp_path: Path
) -> None:
    inside_hole = UTM.subgrid(Window(HOLE.row + 1, HOLE.col + 1, 10, 10))
    with Stack(find_layers(small_region.rasters), inside_hole) as stack:
        there = Predictor(
            windowed_checkpoint, stack, windowed_checkpoint.card.settings.sampling, CPU
        )
        with pytest.raises(UserError, match="nothing to map"):
            flow_map(tmp_path / "raw.tif", there, None, 1)


def test_draws_are_as_many_as_asked_and_lie_on_data(drawn: Draws) -> None:
    assert drawn.points.shape == (12000, 2)
    assert [int((drawn.draw == number).sum()) for number in (1, 2, 3, 4)] == [3000] * 4
    assert (drawn.points >= 0).all()
    assert (drawn.points < (COLUMNS, ROWS)).all()
    assert not in_hole(drawn.points).any()
    assert np.isfinite(drawn.log_relative_density).all()


def test_draws_follow_the_blend_of_all_windows(windowed: Predictor, drawn: Draws) -> None:
    # the blend of unsmoothed histograms of other draws, block by block: a chi-square test
    mosaic = window_mosaic(windowed)
    windows = mosaic.windows()
    many = 2500

    def histograms() -> Iterator[MappedWindow]:
        for first in range(0, len(windows), 6):
            encoded = windowed.encode(windows[first : first + 6])
            for number, found in enumerate(
                windowed.draw(encoded, [many] * len(encoded.windows), seed=77)
            ):
                footprint = encoded.footprints[number]
                col, row = np.floor(found.points * 32).astype(int).T
                counts = np.zeros((32, 32))
                np.add.at(counts, (row, col), 1.0)
                yield MappedWindow(encoded.windows[number], relative(counts, footprint), footprint)

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
    mapped: NDArray[np.float64], drawn: Draws
) -> None:
    col, row = np.floor(drawn.points).astype(int).T
    seen = mapped[row, col] > 0  # far from all draws of the map its kernel ends
    assert seen.mean() > 0.995
    found = drawn.log_relative_density[seen]
    assert found == pytest.approx(np.log(mapped[row, col][seen]), abs=1e-5)


def test_other_seeds_draw_other_points_and_draws_differ(windowed: Predictor) -> None:
    first, same, other = (draws(windowed, CORNER, 50, 2, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.points, same.points)
    assert np.array_equal(first.log_relative_density, same.log_relative_density)
    assert not np.isin(first.points[:, 0], other.points[:, 0]).any()
    assert not np.isin(first.points[:50, 0], first.points[50:, 0]).any()


def test_an_area_bounds_map_and_draws(windowed: Predictor, tmp_path: Path) -> None:
    triangle = shapely.Polygon([(20, 10), (80, 60), (10, 100)])
    area = Area(triangle, UTM)
    raw = flow_map(tmp_path / "raw.tif", windowed, area, 1)
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
    drawn = draws(windowed, area, 500, 2, 1)
    centres = np.floor(drawn.points) + 0.5
    assert shapely.contains_xy(triangle.buffer(1e-9), *centres.T).all()
    assert not in_hole(drawn.points).any()


def test_an_area_shows_the_whole_map_at_another_scale(
    windowed: Predictor, mapped: NDArray[np.float64], tmp_path: Path
) -> None:
    # smaller than a window, beside the hole: its windows still see all that lies around it
    area = Area(shapely.box(40, 36, 60, 56), UTM)
    raw = flow_map(tmp_path / "raw.tif", windowed, area, 1)
    there = mapped[36:56, 40:60]
    assert values_of(raw) == pytest.approx(there / np.nanmean(there), rel=1e-4, nan_ok=True)
    mosaic = window_mosaic(windowed)
    touching = windows_touching(mosaic, area)
    assert len(touching) < len(mosaic.windows()) / 2
    assert all(window.intersection(area.bounds) is not None for window in touching)
    assert windows_touching(mosaic, None) == mosaic.windows()


def test_too_few_points_in_a_tiny_area_are_said(windowed: Predictor) -> None:
    sliver = Area(shapely.box(60.2, 35.2, 60.4, 35.4), UTM)  # in the hole, over no cell's centre
    with pytest.raises(UserError, match="nothing to map"):
        draws(windowed, sliver, 10, 1, 1)


def test_the_grid_of_a_map_is_the_predictors(windowed: Predictor, tmp_path: Path) -> None:
    raw = flow_map(tmp_path / "raw.tif", windowed, None, 1)
    with rasterio.open(raw.path) as source:
        grid = Grid(source.crs, source.transform, source.height, source.width)
    assert grid.aligned_with(UTM)
    assert raw.bands == (DENSITY,)
    assert raw.strips == tuple(window_mosaic(windowed).strips())


@pytest.mark.parametrize("area", [None, Area(shapely.box(11, 17, 93, 98), UTM)])
def test_a_strip_that_is_lost_is_made_again_and_those_before_are_not(
    windowed: Predictor, tmp_path: Path, area: Area | None
) -> None:
    parts = Parts(tmp_path / "parts")

    def made() -> NDArray[np.float64]:
        source = BlendedWindows(FlowDensities(windowed, 1), area)
        return values_of(raw_map(tmp_path / "raw.tif", source, area, parts))

    mapped = made()
    strips = sorted((tmp_path / "parts").iterdir(), key=lambda p: int(p.stem.split("-")[1]))
    assert len(strips) > 6
    times = {path: path.stat().st_mtime_ns for path in strips}
    strips[4].unlink()
    strips[6].write_bytes(b"half a file")
    assert np.array_equal(made(), mapped, equal_nan=True)
    unchanged = [path for path in strips if path.stat().st_mtime_ns == times[path]]
    assert unchanged == strips[:4]


def test_a_restart_makes_only_windows_that_reach_into_what_is_missing(
    windowed: Predictor, tmp_path: Path
) -> None:
    densities = FlowDensities(windowed, 1)
    strips = densities.mosaic.strips()
    source = BlendedWindows(densities)
    asked: list[Window] = []
    of = densities.of
    densities.of = lambda batch: asked.extend(batch) or of(batch)  # type: ignore[method-assign]
    next(source.values(strips, 6, quiet().stage("Mapping")))
    assert min(window.row_stop for window in asked) > strips[6].row
    assert {window.row for window in asked} >= {
        row for row in densities.mosaic.row_starts if strips[6].row - 32 < row <= strips[6].row
    }


def test_batches_stay_within_a_row_of_windows() -> None:
    windows = [Window(row, col, 8, 8) for row in (0, 4, 8) for col in range(70 - row)]
    batches = batches_of(windows)
    assert [window for batch in batches for window in batch] == windows
    assert all(len({window.row for window in batch}) == 1 for batch in batches)
    assert {len(batch) for batch in batches} == {22, 23, 24, 31}
    assert max(map(len, batches)) <= BATCH


@pytest.mark.parametrize("size", [16, 31, 32, 48, 128, 220])
def test_windows_step_by_an_odd_third_of_their_size(size: int) -> None:
    step = window_step(size)
    assert step % 2 == 1
    assert size / 3 - 2 <= step <= size / 3


@pytest.fixture(scope="module")
def two(windowed: Predictor, windowed_checkpoint: Checkpoint) -> Predictor:
    """An ensemble of the small model and of one that never learned."""
    card = windowed_checkpoint.card
    other = new_network(card.channels, card.settings, 9).eval()
    both = Checkpoint((windowed_checkpoint.network, other), card)
    return Predictor(both, windowed.layers, windowed.sampling, CPU)


def test_an_ensemble_has_the_mean_density_and_tells_how_its_members_disagree(
    two: Predictor, tmp_path: Path
) -> None:
    together = flow_map(tmp_path / "both.tif", two, CORNER, 1)
    alone = np.stack(
        [
            values_of(flow_map(tmp_path / f"{number}.tif", member, CORNER, 1))
            for number, member in enumerate(two.members)
        ]
    )
    bands = bands_of(together)
    assert list(bands) == [DENSITY, VARIATION, INFORMATION]
    mean = alone.mean(axis=0)
    assert bands[DENSITY] / together.mean == pytest.approx(mean, rel=1e-4, nan_ok=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = alone.std(axis=0) / mean
    assert bands[VARIATION] == pytest.approx(expected, rel=1e-3, abs=1e-5, nan_ok=True)
    assert np.nanmean(expected) > 0.05


def test_draws_of_an_ensemble_follow_its_map(two: Predictor, tmp_path: Path) -> None:
    mapped = values_of(flow_map(tmp_path / "raw.tif", two, CORNER, 1))
    counts = counts_by_cell(draws(two, CORNER, 1000, 2, 1).points)[:40, :40]
    assert counts.sum() == 2000
    one, other = (
        values.reshape(5, 8, 5, 8).sum(axis=(1, 3)).ravel() for values in (mapped, counts)
    )
    assert np.corrcoef(one, other)[0, 1] > 0.95


def test_repeated_maps_tell_their_monte_carlo_error(windowed: Predictor, tmp_path: Path) -> None:
    raw = flow_map(tmp_path / "raw.tif", windowed, CORNER, 1, repetitions=4)
    bands = bands_of(raw)
    assert list(bands) == [DENSITY, MONTE_CARLO]
    others = np.stack(
        [
            values_of(flow_map(tmp_path / f"{seed}.tif", windowed, CORNER, seed))
            for seed in (11, 12, 13, 14)
        ]
    )
    density = bands[DENSITY] / raw.mean
    dense = np.nan_to_num(density) > 0.5
    seen = others.std(axis=0, ddof=1)[dense] / np.sqrt(4) / density[dense]
    told = bands[MONTE_CARLO][dense]
    assert np.sqrt((told**2).mean()) == pytest.approx(np.sqrt((seen**2).mean()), rel=0.3)


def test_finished_proposals_are_not_made_again(
    windowed: Predictor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(tmp_path / "parts")
    source = BlendedWindows(FlowDensities(windowed, 1))
    drawn_map = DrawnMap(raw_map(tmp_path / "raw.tif", source, None, parts), None)

    def drawn() -> NDArray[np.float64]:
        return draw_region(windowed, drawn_map, 100, 2, 1, 32, parts, quiet()).points

    first = drawn()
    files = sorted((tmp_path / "parts").glob("drawn-*"))
    assert len(files) >= 8
    files[2].unlink()
    calls = []
    encode = Predictor.encode
    monkeypatch.setattr(
        Predictor, "encode", lambda self, batch: calls.append(batch) or encode(self, batch)
    )
    assert np.array_equal(drawn(), first)
    assert len(calls) == 1
    assert sorted((tmp_path / "parts").glob("drawn-*")) == files


class Stripes:
    """Densities of another method, without members: the column of the grid."""

    def __init__(self, mosaic: Mosaic) -> None:
        self.mosaic = mosaic

    def of(self, batch: list[Window]) -> Iterator[MappedWindow]:
        for window in batch:
            inside = window.intersection(self.mosaic.grid.window())
            footprint = np.zeros((window.height, window.width), dtype=bool)
            if inside is not None and window.row != 0:
                footprint[inside.slices_in(window)] = True
            column = window.col + np.arange(window.width) + 1.0
            yield MappedWindow(window, np.where(footprint, column, 0.0), footprint)


def test_densities_without_members_are_mapped_too(tmp_path: Path) -> None:
    source = BlendedWindows(Stripes(Mosaic.over(UTM, 30, 13)))
    raw = raw_map(tmp_path / "raw.tif", source)
    values = values_of(raw)
    assert np.isnan(values[:13]).all()  # only the windows of the first row lie there
    columns = np.arange(COLUMNS) + 1.0
    expected = np.broadcast_to(columns / columns.mean(), (ROWS - 13, COLUMNS))
    assert values[13:] == pytest.approx(expected, rel=1e-5)
