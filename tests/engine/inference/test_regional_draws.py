"""Draws over a region of a model with an intensity: they follow its map, cell by cell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from decided_region import KnowingNetwork
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference import predictor as predictors
from geocfm.inference.model_map import Intensity
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_draws import DrawnMap, Draws, draw_region
from geocfm.model.settings import SamplingSettings
from mapping_support import (
    LATE,
    Planes,
    grid_of,
    network_settings,
    planes,
    predictor_of,
    quiet,
    raw_map,
    values_of,
)
from numpy.typing import NDArray
from scipy.ndimage import convolve1d
from scipy.stats import chi2, norm, rankdata

pytestmark = pytest.mark.usefixtures("one_thread")

TILE = 40
HOLE = Window(30, 20, 12, 15)
SHAPE = (83, 61)  # neither whole windows nor whole cells of the network
RARE = 1e-4  # chance of a right sampler to fail a test
FAST = SamplingSettings(solver="midpoint", steps=8, lateness=2.0)

Map = NDArray[np.float64]


@dataclass(frozen=True)
class Mapped:
    """A model, its map, and the folder where parts of both are kept."""

    predictor: Predictor
    drawn_map: DrawnMap
    folder: Path

    @property
    def shape(self) -> tuple[int, int]:
        grid = self.predictor.layers.grid
        return grid.height, grid.width

    def draw(self, points: int, draws: int, seed: int = 1, tile: int = TILE) -> Draws:
        where = Parts(self.folder)
        return draw_region(
            self.predictor, self.drawn_map, points, draws, seed, tile, where, quiet()
        )

    def share(self) -> Map:
        """Of the mapped mass (H, W) that each cell of the grid has."""
        found = np.zeros(self.shape)
        inside = self.drawn_map.shown(self.predictor.layers.grid)
        values = np.nan_to_num(values_of(self.drawn_map.raw))
        found[inside.slices_in(self.predictor.layers.grid.window())] = values
        return found / found.sum()


def mapped(
    predictor: Predictor, folder: Path, area: Area | None = None, tile: int = TILE
) -> Mapped:
    parts = Parts(folder / "parts")
    raw = raw_map(folder / "raw.tif", Intensity(predictor, tile), area, parts)
    return Mapped(predictor, DrawnMap(raw, area), folder / "parts")


def blurred(share: Map) -> Map:
    """As a flow of cells of one pixel, with a variance of a quarter of their area, blurs them."""
    kernel = np.diff(norm.cdf(np.arange(-4, 4) + 0.5, scale=0.5))
    spread = convolve1d(convolve1d(share, kernel, axis=0, mode="constant"), kernel, axis=1,
                        mode="constant")  # fmt: skip
    spread[share == 0] = 0
    return spread / spread.sum()


def counts_of(draws: Draws, shape: tuple[int, int]) -> Map:
    counts = np.zeros(shape)
    col, row = np.floor(draws.points).astype(int).T
    np.add.at(counts, (row, col), 1.0)
    return counts


def chance(counts: Map, share: Map, group: NDArray[np.int64]) -> float:
    """That counts of cells with these shares are as far from them, by a chi-square over groups."""
    observed, expected = (
        np.bincount(group.ravel(), values.ravel()) for values in (counts, share * counts.sum())
    )
    large = expected > 5
    observed, expected = (
        np.append(values[large], values[~large].sum()) for values in (observed, expected)
    )
    expected = np.maximum(expected, 1e-9)
    statistic = ((observed - expected) ** 2 / expected)[(expected > 1e-6) | (observed > 0)].sum()
    return float(chi2.sf(statistic, len(expected) - 1))


def blocks(shape: tuple[int, int], side: int = 8) -> NDArray[np.int64]:
    row, col = np.indices(shape) // side
    return row * 1000 + col


def tenths(share: Map) -> NDArray[np.int64]:
    """Cells by how rich they are."""
    return (10 * (rankdata(share) - 1) // share.size).astype(np.int64).reshape(share.shape)


@pytest.fixture(scope="module", params=["whole", "area", "large windows"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Mapped:
    """Networks with random heads, over a hole, in an area, with windows wider than a square."""
    layers = planes(*SHAPE, [HOLE])
    size, area = 18, None
    if request.param == "area":
        area = Area(shapely.Polygon([(3, 5), (58, 20), (40, 77), (10, 60)]), layers.grid)
    if request.param == "large windows":
        size = 47
    predictor = predictor_of(layers, size=size)
    return mapped(predictor, tmp_path_factory.mktemp("drawn"), area)


@pytest.fixture(scope="module")
def drawn(case: Mapped) -> Draws:
    return case.draw(1000, 8)


def test_draws_follow_the_map_as_the_anchor_blurs_it(case: Mapped, drawn: Draws) -> None:
    counts, share = counts_of(drawn, case.shape), blurred(case.share())
    assert chance(counts, share, blocks(case.shape)) > RARE
    assert chance(counts, share, tenths(share)) > RARE
    # what is biased by little would be seen
    even = np.where(share > 0, 1 / (share > 0).sum(), 0)
    for wrong in (np.roll(share, 2, axis=0), np.roll(share, -2, axis=1), 0.8 * share + 0.2 * even):
        where = [blocks(case.shape), tenths(share)]
        assert min(chance(counts, wrong, group) for group in where) < RARE / 1000


def test_draws_are_as_many_as_asked_and_lie_on_mapped_cells(case: Mapped, drawn: Draws) -> None:
    assert drawn.points.shape == (8000, 2)
    assert np.array_equal(drawn.draw, np.repeat(np.arange(8) + 1, 1000))
    height, width = case.shape
    assert ((drawn.points >= 0) & (drawn.points < (width, height))).all()
    col, row = np.floor(drawn.points).astype(int).T
    assert (case.share()[row, col] > 0).all()
    assert len(np.unique(drawn.points, axis=0)) == 8000


def test_a_point_is_told_the_maps_value_in_its_cell(case: Mapped, drawn: Draws) -> None:
    shown = case.drawn_map.shown(case.predictor.layers.grid)
    values = values_of(case.drawn_map.raw)
    col, row = np.floor(drawn.points).astype(int).T - [[shown.col], [shown.row]]
    assert drawn.log_relative_density == pytest.approx(np.log(values[row, col]), abs=1e-5)
    share = case.share()  # points follow its blur b, so 1 / share has the sum of b / share for mean
    blur, mapped_cells = blurred(share), share > 0
    expected = (blur[mapped_cells] / share[mapped_cells]).mean()
    found = np.exp(-drawn.log_relative_density)
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / np.sqrt(8000))


def test_every_draw_by_itself_follows_the_map(case: Mapped, drawn: Draws) -> None:
    share = blurred(case.share())
    for number in range(1, 9):
        mine = replace(drawn, points=drawn.points[drawn.draw == number])
        counts = counts_of(mine, case.shape)
        assert chance(counts, share, blocks(case.shape, 16)) > RARE


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Mapped:
    """A network that knows the layers shows all they hold: what is moved by a cell is seen."""
    layers = planes(*SHAPE, [HOLE], smooth=1.5)
    network = KnowingNetwork(np.array([1.5, 0.5, 0, 0]))
    return mapped(predictor_of(layers, [network]), tmp_path_factory.mktemp("known"))


def test_points_are_as_likely_as_those_of_the_map(known: Mapped) -> None:
    drawn = known.draw(1000, 8)
    share = blurred(known.share())
    counts = counts_of(drawn, known.shape)
    assert chance(counts, share, tenths(share)) > RARE
    logs = np.log(np.where(share > 0, share, 1))
    expected = (share * logs).sum()
    error = np.sqrt((share * (logs - expected) ** 2).sum() / 8000)
    assert (counts * logs).sum() / 8000 == pytest.approx(expected, abs=4 * error)
    plain = known.share()  # that is not blurred
    of_plain = np.log(np.where(plain > 0, plain, 1))
    assert (counts * of_plain).sum() / 8000 < (plain * of_plain).sum() - 4 * error


@pytest.mark.parametrize(("rows", "columns"), [(1, 0), (-1, 0), (0, 1), (0, -1)])
def test_no_cell_is_mistaken_for_its_neighbour(known: Mapped, rows: int, columns: int) -> None:
    share = blurred(known.share())
    moved = np.roll(share, (rows, columns), axis=(0, 1))
    both = (share > 0) & (moved > 0)
    ratio = np.log(np.where(both, share, 1) / np.where(both, moved, 1))
    counts = counts_of(known.draw(1000, 8), known.shape).astype(int)
    found = ratio.ravel().repeat(counts.ravel())
    assert found.mean() > 8 * found.std() / np.sqrt(len(found))


def test_windows_reach_the_ends_of_the_grid_without_a_gap(tmp_path: Path) -> None:
    """On even ground the outermost cells get what the flow's blur leaves them, and no less."""
    even = Planes(np.zeros((2, *SHAPE), np.float32), grid_of(*SHAPE))
    case = mapped(predictor_of(even, [KnowingNetwork(np.zeros(4))]), tmp_path)
    counts = counts_of(case.draw(1500, 8), case.shape)
    expected = 12000 * blurred(case.share())
    for edge in (np.s_[0], np.s_[-1], np.s_[:, 0], np.s_[:, -1]):
        wanted = expected[edge].sum()
        assert abs(counts[edge].sum() - wanted) < 4 * np.sqrt(wanted)
        assert (counts[edge] > 0).mean() > 0.7
    corners = np.array([counts[row, col] for row in (0, -1) for col in (0, -1)])
    assert corners.sum() > 0
    assert chance(counts, expected / 12000, blocks(case.shape, 5)) > RARE


@pytest.mark.parametrize("shape", [(12, 15), (20, 70), (75, 9)])
def test_regions_smaller_than_a_window(tmp_path: Path, shape: tuple[int, int]) -> None:
    case = mapped(predictor_of(planes(*shape), size=24, sampling=FAST), tmp_path)
    drawn = case.draw(500, 2)
    assert ((drawn.points >= 0) & (drawn.points < shape[::-1])).all()
    counts = counts_of(drawn, shape)
    assert chance(counts, blurred(case.share()), blocks(shape, 6)) > RARE


@pytest.fixture
def noises(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What noise is made for: seed, stream, window, attempt."""
    asked: list[tuple[object, ...]] = []
    make = predictors._generator

    def watched(*given: object) -> np.random.Generator:
        asked.append(given)
        return make(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(predictors, "_generator", watched)
    return asked


def test_no_two_points_begin_with_the_same_noise(
    tmp_path: Path, noises: list[tuple[object, ...]]
) -> None:
    """Squares of several lattices may lie in one window, at the ends of the grid."""
    case = mapped(predictor_of(planes(*SHAPE), size=18, sampling=FAST), tmp_path)
    case.draw(100, 8)
    often = Counter(noises)
    assert len(often) > 20
    assert [given for given, count in often.items() if count > 1] == []


def test_draws_do_not_depend_on_each_other(tmp_path: Path) -> None:
    """Over many seeds, counts in blocks vary as those of independent points do."""
    side, found = 12, []
    even = Planes(np.zeros((2, side, side), np.float32), grid_of(side, side))
    predictor = predictor_of(even, [KnowingNetwork(np.zeros(4))], size=24, sampling=FAST)
    for seed in range(16):
        case = mapped(predictor, tmp_path / str(seed))
        counts = counts_of(case.draw(50, 8, seed), (side, side))
        found.append(counts.reshape(6, 2, 6, 2).sum(axis=(1, 3)))
    dispersion = (np.var(found, axis=0, ddof=1) / np.mean(found, axis=0)).mean()
    assert 0.8 < dispersion < 1.25  # 36 blocks of 16 seeds: its error is about 0.06


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Mapped:
    """One member believes in the left, the other in the right; between them there is no data."""
    values = np.zeros((2, 40, 50), np.float32)
    values[0, :, :24], values[0, :, 24:] = -1, 1
    values[:, :, 22:27] = np.nan
    layers = Planes(values, grid_of(40, 50))
    members = [KnowingNetwork(np.array([way, 0, 0, 0])) for way in (-10, 10)]
    predictor = predictor_of(layers, members, sampling=FAST)
    return mapped(predictor, tmp_path_factory.mktemp("pair"))


def test_members_share_every_draw_evenly(pair: Mapped) -> None:
    drawn = pair.draw(501, 3)
    for number in (1, 2, 3):
        left = (drawn.points[drawn.draw == number, 0] < 24.5).sum()
        assert abs(left - 250.5) <= 0.5


def test_points_of_an_ensemble_are_told_the_mean_of_its_members(pair: Mapped) -> None:
    assert np.abs(pair.draw(501, 3).log_relative_density).max() < 0.1  # half of the members' 2


def test_draws_of_an_ensemble_follow_its_mean(tmp_path: Path) -> None:
    case = mapped(predictor_of(planes(*SHAPE, [HOLE]), 2, sampling=FAST), tmp_path)
    counts = counts_of(case.draw(1000, 4), case.shape)
    share = blurred(case.share())
    assert chance(counts, share, blocks(case.shape)) > RARE
    for number, member in enumerate(case.predictor.members):
        alone = mapped(member, tmp_path / str(number))
        assert chance(counts, blurred(alone.share()), blocks(case.shape)) < RARE / 1000


@pytest.fixture
def small(tmp_path: Path) -> Mapped:
    return mapped(predictor_of(planes(*SHAPE, [HOLE]), sampling=FAST), tmp_path)


def test_the_same_seed_draws_the_same_points_and_another_others(
    small: Mapped, tmp_path: Path
) -> None:
    first = small.draw(100, 3)
    again = mapped(small.predictor, tmp_path / "again").draw(100, 3)
    assert np.array_equal(first.points, again.points)
    assert np.array_equal(first.log_relative_density, again.log_relative_density)
    other = mapped(small.predictor, tmp_path / "other").draw(100, 3, seed=2)
    assert not np.isin(first.points[:, 0], other.points[:, 0]).any()
    assert not np.isin(first.points[:100, 0], first.points[100:, 0]).any()


def test_finished_parts_are_not_drawn_again(small: Mapped, monkeypatch: pytest.MonkeyPatch) -> None:
    first = small.draw(100, 3)
    parts = sorted(small.folder.glob("drawn-*"))
    assert len(parts) >= 6
    times = {path: path.stat().st_mtime_ns for path in parts}
    parts[1].unlink()
    parts[4].write_bytes(b"half a file")
    calls = []
    draw = Predictor.draw
    monkeypatch.setattr(
        Predictor, "draw", lambda self, *given: calls.append(given) or draw(self, *given)
    )
    again = small.draw(100, 3)
    assert np.array_equal(first.points, again.points)
    changed = [path for path in parts if path.stat().st_mtime_ns != times[path]]
    assert changed == [parts[1], parts[4]]
    assert 0 < len(calls) < 10
    calls.clear()
    small.draw(100, 3)
    assert calls == []


@pytest.mark.parametrize("tile", [16, 64, 400])
def test_points_do_not_depend_on_the_tiles_they_are_drawn_in(
    small: Mapped, tmp_path: Path, tile: int
) -> None:
    expected = small.draw(100, 3)
    other = replace(small, folder=tmp_path / "other")  # with the same map
    other.folder.mkdir()
    for path in small.folder.glob("rows-*"):
        (other.folder / path.name).write_bytes(path.read_bytes())
    found = other.draw(100, 3, tile=tile)
    assert np.abs(found.points - expected.points).max() < 1e-3


def test_points_do_not_depend_on_the_strips_of_the_map(small: Mapped, tmp_path: Path) -> None:
    """With less memory a map is made in other strips; the same seed, the same points."""
    expected = small.draw(100, 3)
    found = mapped(small.predictor, tmp_path / "other", tile=25).draw(100, 3)
    near = np.abs(found.points - expected.points).max(axis=1) < 0.01
    assert near.mean() > 0.98  # a rounding of the map may choose another cell


def test_a_restart_with_less_memory_goes_on(small: Mapped) -> None:
    """Parts of other tiles, as from a start with more memory, are no parts of these."""
    expected = small.draw(100, 3)
    found = small.draw(100, 3, tile=TILE // 2)
    assert np.abs(found.points - expected.points).max() < 1e-3


@pytest.mark.parametrize(("stem", "size"), [(1, 17), (2, 16), (4, 19)])
@pytest.mark.parametrize("levels", ["finest", "all"])
def test_points_are_drawn_whatever_the_head_reads(
    tmp_path: Path, stem: int, size: int, levels: str
) -> None:
    network = network_settings(stem, 2).model_copy(update={"levels": levels})
    predictor = predictor_of(planes(50, 45), 1, network, size, FAST)
    case = mapped(predictor, tmp_path)
    counts = counts_of(case.draw(500, 2), case.shape)
    assert chance(counts, blurred(case.share()), blocks(case.shape)) > RARE


def test_even_noise_draws_as_many_on_mapped_cells(tmp_path: Path) -> None:
    sampling = LATE.model_copy(update={"noise": "even"})
    case = mapped(predictor_of(planes(*SHAPE, [HOLE]), sampling=sampling), tmp_path)
    drawn = case.draw(1000, 4)
    col, row = np.floor(drawn.points).astype(int).T
    assert (case.share()[row, col] > 0).all()
    counts = counts_of(drawn, case.shape)
    assert chance(counts, blurred(case.share()), blocks(case.shape)) > RARE
