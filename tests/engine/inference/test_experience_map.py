"""The map of dissimilarity: the same whatever the blocks, NaN off data, areas in km2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import shapely
import torch
from geocfm.data.encoding import Encoder
from geocfm.geo.area import Area
from geocfm.geo.grid import Grid, Window
from geocfm.geo.rasters import Stack, find_layers
from geocfm.inference import experience_map
from geocfm.inference.experience_map import ExperienceMap, JudgedBlock, OutsideTally
from geocfm.inference.predictor import Predictor
from geocfm.model.checkpoint import Checkpoint
from geocfm.model.experience import Experience
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from small_data import COLUMNS, DEGREES, HOLE, ROWS, UTM, SmallRegion


@pytest.fixture
def experience(checkpoint: Checkpoint) -> Experience:
    assert checkpoint.experience is not None
    return checkpoint.experience


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experience_map, "LARGEST_BLOCK", 1)


@pytest.fixture
def strange_stack(small_region: SmallRegion) -> Iterator[Stack]:
    """Layers of the right names and other values: slope and ridge have changed places."""
    names = ("slope", "ridge", "noise")
    rasters = [
        f"{name}={small_region.raster(of)}"
        for name, of in zip(("ridge", "slope", "noise"), names, strict=True)
    ]
    with Stack(find_layers(rasters), small_region.grid) as stack:
        yield stack


def whole(judged: ExperienceMap) -> NDArray[np.float32]:
    values = np.full((ROWS, COLUMNS), -1, dtype=np.float32)
    for block in judged.blocks():
        values[block.window.slices_in(UTM.window())] = block.dissimilarity
    return values


def test_a_map_by_the_definition(predictor: Predictor, experience: Experience) -> None:
    judged = ExperienceMap(experience, predictor.encoder, predictor.layers, predictor.window_size)
    values = whole(judged)
    channels, footprint = predictor.encoder.encode(predictor.layers.read(UTM.window()))
    rows, columns = HOLE.slices_in(UTM.window())
    assert np.isnan(values[rows, columns]).all()
    assert np.isnan(values).sum() == HOLE.height * HOLE.width
    # no classes, and a layer is missing only where all are: plain distances
    gaps = cdist(channels[:3, footprint].T, experience.references[:, :3]).min(axis=1)
    np.testing.assert_allclose(values[footprint], gaps / experience.radius, atol=0.01)
    assert np.nanmean(values <= 1) > 0.9


def test_some_rows_and_columns_can_stand_for_all(
    predictor: Predictor, experience: Experience, small_blocks: None
) -> None:
    given = (experience, predictor.encoder, predictor.layers, predictor.window_size)
    every, some = whole(ExperienceMap(*given)), whole(ExperienceMap(*given, every=7))
    np.testing.assert_allclose(some[::7, ::7], every[::7, ::7], atol=1e-5)
    assert np.isfinite(some).sum() == np.isfinite(every[::7, ::7]).sum() > 0


def test_blocks_make_no_difference(
    predictor: Predictor, experience: Experience, small_blocks: None
) -> None:
    judged = ExperienceMap(experience, predictor.encoder, predictor.layers, predictor.window_size)
    sizes = [block.window.height for block in judged.blocks()]
    assert len(sizes) == 4 * 4
    np.testing.assert_allclose(whole(judged), judged.of(UTM.window()), atol=1e-4)
    strip = Window(37, 0, 11, COLUMNS)
    np.testing.assert_allclose(judged.of(strip), whole(judged)[37:48], atol=1e-4)


def test_windows_standardised_by_themselves_are_judged_as_wholes(
    predictor: Predictor, experience: Experience, small_blocks: None
) -> None:
    settings = predictor.encoder.settings.model_copy(update={"standardise": "window"})
    encoder = Encoder(predictor.encoder.layers, settings)
    judged = ExperienceMap(experience, encoder, predictor.layers, 32)
    expected = np.full((ROWS, COLUMNS), np.nan, dtype=np.float32)
    for row in (0, 32, 64, ROWS - 32):  # later ones only fill what is left
        for col in (0, 32, 64, COLUMNS - 32):
            window = Window(row, col, 32, 32)
            found = experience.dissimilarity(*encoder.encode(predictor.layers.read(window)))
            here = expected[window.slices_in(UTM.window())]
            here[np.isnan(here)] = found[np.isnan(here)]
    np.testing.assert_allclose(whole(judged), expected, atol=1e-4)
    np.testing.assert_allclose(judged.of(Window(20, 50, 70, 33)), expected[20:90, 50:83], atol=1e-4)


def test_other_layers_are_outside(
    predictor: Predictor, experience: Experience, strange_stack: Stack
) -> None:
    tallies = []
    for layers in (predictor.layers, strange_stack):
        tally = OutsideTally(UTM)
        judged = ExperienceMap(experience, predictor.encoder, layers, predictor.window_size)
        for block in judged.blocks():
            tally.add(block)
        tallies.append(tally)
    own, strange = tallies
    assert own.mapped_km2 == pytest.approx((ROWS * COLUMNS - HOLE.height * HOLE.width) * 0.01)
    assert own.share < 0.1
    assert strange.share > 0.95
    assert f"{100 * strange.share:.0f} % of the mapped area lies outside" in strange.sentence()


def test_only_the_area_is_judged(predictor: Predictor, experience: Experience) -> None:
    area = Area(shapely.box(10.5, 20.5, 40.5, 30.5), UTM)
    encoder, layers = predictor.encoder, predictor.layers
    (block,) = ExperienceMap(experience, encoder, layers, 32, area).blocks()
    assert block.window == area.bounds
    np.testing.assert_array_equal(np.isfinite(block.dissimilarity), area.mask(block.window))
    everywhere = ExperienceMap(experience, encoder, layers, 32).of(block.window)
    inside = area.mask(block.window)
    np.testing.assert_allclose(block.dissimilarity[inside], everywhere[inside], atol=1e-4)


def judged_rows(grid: Grid, outside: slice) -> OutsideTally:
    values = np.full((grid.height, grid.width), 0.5, dtype=np.float32)
    values[outside] = 2
    values[:, :5] = np.nan
    tally = OutsideTally(grid)
    for rows in np.array_split(np.arange(grid.height), 3):
        window = Window(int(rows[0]), 0, len(rows), grid.width)
        tally.add(JudgedBlock(window, values[rows]))
    return tally


def test_shares_are_of_areas_not_of_cells() -> None:
    north = judged_rows(DEGREES, slice(0, ROWS // 2))
    areas = np.broadcast_to(DEGREES.cell_areas(DEGREES.window()), (ROWS, COLUMNS))[:, 5:]
    assert north.share == pytest.approx(areas[: ROWS // 2].sum() / areas.sum())
    assert north.share < 0.49
    assert judged_rows(UTM, slice(0, ROWS // 2)).share == pytest.approx(0.5)


def test_sentences() -> None:
    assert judged_rows(UTM, slice(0, 12)).sentence().startswith("10 % of the mapped area lies")
    assert judged_rows(UTM, slice(0, 1)).sentence().startswith("Less than 1 % of the mapped area")
    assert judged_rows(UTM, slice(0, 0)).sentence() == (
        "All of the mapped area is like what the model has seen."
    )
    assert OutsideTally(UTM).share == 0


def test_a_model_keeps_what_it_has_seen(checkpoint: Checkpoint, experience: Experience) -> None:
    assert experience.references.shape[1] == checkpoint.card.channels
    assert torch.isfinite(experience.references).all()
