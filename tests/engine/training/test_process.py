"""The Poisson process of single cells: its features, and what it learns from a region."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from geocfm.data.region import Region, prepare_region
from geocfm.data.split import TRAIN
from geocfm.geo.occurrences import Occurrences, read_occurrences
from geocfm.geo.rasters import Stack, find_layers
from geocfm.model.process import CellProcess
from geocfm.model.settings import WindowSettings
from geocfm.training.cells import nats, read_cells, tile_groups
from geocfm.training.process import RIDGES, USUAL_RIDGE, ProcessFit, _products, _quantiles
from numpy.typing import NDArray
from scipy.stats import rankdata
from small_data import COLUMNS, NO_DATA, ROWS, UTM, SmallRegion, write_raster


def intensity(process: CellProcess, region: Region) -> NDArray[np.float64]:
    """Occurrences expected in each cell (H, W); none where there is no data."""
    channels, footprint = region.encoder.encode(region.read(region.grid.window()))
    found = process(torch.from_numpy(channels[None]))[0].exp().double().numpy()
    return np.where(footprint, found, 0.0)


def fit_process(process: CellProcess, region: Region, seed: int) -> None:
    cells = read_cells(region, tile_groups(region), seed)
    ProcessFit(cells, region.encoder.presence_channels()).give(process, USUAL_RIDGE)


def fitted(region: Region, seed: int = 1) -> NDArray[np.float64]:
    channels, _ = region.encoder.encode(region.read(region.window(np.array([0, 0]))))
    process = CellProcess(len(channels))
    fit_process(process, region, seed)
    return intensity(process, region)


@pytest.fixture(params=[12, 500], ids=["few occurrences", "many"])
def holed(
    small_region: SmallRegion, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Region]:
    """Three layers that each miss other cells: some everywhere, most of them off training tiles."""
    generator = np.random.default_rng(5)
    row, col = np.mgrid[:ROWS, :COLUMNS]
    layers = {
        "height": np.hypot(row - 60, col - 50) + generator.normal(size=row.shape),
        "rock": (row // 9 + col // 7) % 4,
        "counts": generator.poisson(2 + row / 30),
    }
    chance = generator.random((3, ROWS, COLUMNS))
    for values, drawn, share in zip(layers.values(), chance, (0.02, 0.2, 0.004), strict=True):
        values[(drawn < share) | ((col > 80) & (drawn < 0.6))] = NO_DATA
    rasters = [
        str(write_raster(tmp_path / f"{name}.tif", values.astype(np.float32), UTM))
        for name, values in layers.items()
    ]
    points = generator.random((request.param, 2)) * (40, ROWS)
    with Stack(find_layers(rasters, ["rock"]), UTM) as stack:
        known = read_occurrences(small_region.occurrences, UTM)
        found: Occurrences = replace(known, points=points, ids=np.arange(len(points)))
        settings = WindowSettings(size=16, tile=20)
        yield prepare_region(stack, found, settings, lambda done, total: None)


def cells_of(region: Region, role: int) -> NDArray[np.bool_]:
    rows, cols = (np.arange(n) + 0.5 for n in (region.grid.height, region.grid.width))
    return region.split.role_of_cells(rows, cols) == role


def test_ranks_are_even_and_end_where_what_was_seen_ends() -> None:
    generator = np.random.default_rng(3)
    column = generator.lognormal(size=4000).astype(np.float32)
    process = CellProcess(1)
    for name, found in zip(("values", "ranks"), _quantiles(column), strict=True):
        getattr(process, name)[0] = torch.from_numpy(found)
    ranks = process.ranked(torch.from_numpy(column[None]))[0].numpy()
    expected = (2 * rankdata(column) / len(column) - 1) * np.sqrt(3)
    assert np.abs(ranks - expected).max() < 0.06
    beyond = process.ranked(torch.tensor([[-5.0, 1e9]]))[0]
    assert beyond.tolist() == pytest.approx([-np.sqrt(3), np.sqrt(3)])


def test_values_that_many_cells_have_share_their_mean_rank() -> None:
    yes = (np.arange(1000) < 250).astype(np.float32)
    process = CellProcess(2)
    for channel, column in enumerate((yes, np.full(1000, 7, np.float32))):
        for name, found in zip(("values", "ranks"), _quantiles(column), strict=True):
            getattr(process, name)[channel] = torch.from_numpy(found)
    cells = torch.tensor([[0.0, 7.0], [1.0, 7.0], [0.5, 8.0]])
    ranks = process.ranked(cells.T).numpy().T / np.sqrt(3)
    assert ranks[0, 0] == pytest.approx(-0.25, abs=0.03)
    assert ranks[1, 0] == pytest.approx(0.75, abs=0.03)
    assert ranks[2, 0] == pytest.approx(0.25, abs=0.03)
    assert ranks[:, 1] == pytest.approx(0)


def test_rounding_does_not_decide_on_ranks() -> None:
    nearly = np.exp(-np.linspace(0, 40, 2000)).astype(np.float32)  # three quarters are next to 0
    process = CellProcess(1)
    for name, found in zip(("values", "ranks"), _quantiles(nearly), strict=True):
        getattr(process, name)[0] = torch.from_numpy(found)
    cells = torch.from_numpy(nearly[None])
    assert (process.ranked(cells) - process.ranked(cells + 1e-7)).abs().max() < 2e-3


def test_more_occurrences_allow_more_products() -> None:
    assert len(_products(5, 9)[0]) == 0
    assert len(_products(5, 10)[0]) == 5
    assert len(_products(5, 80)[0]) == 15
    assert len(_products(60, 10_000)[0]) == 60  # all pairs would be too many


def test_no_absent_layer_makes_a_cell_richer_than_some_value_of_it_would(holed: Region) -> None:
    encoder = holed.encoder
    channels, footprint = encoder.encode(holed.read(holed.grid.window()))
    process = CellProcess(len(channels))
    fit_process(process, holed, 1)
    presence = encoder.presence_channels()
    rows = torch.from_numpy(channels[:, footprint].T)
    trained = torch.from_numpy(channels[:, footprint & cells_of(holed, TRAIN)].T)
    found = process(rows.T[None, :, :, None])[0, :, 0]
    for layer in range(3):
        own = torch.from_numpy(np.flatnonzero(presence == presence[-3 + layer]))
        absent = rows[:, own[-1]] == 0
        assert 10 < absent.sum() < len(rows)
        best = torch.full((int(absent.sum()),), -torch.inf)
        seen = trained[trained[:, own[-1]] > 0][:, own].unique(dim=0)
        for values in seen[torch.linspace(0, len(seen) - 1, 33).long()]:
            filled = rows[absent]
            filled[:, own] = values
            best = best.maximum(process(filled.T[None, :, :, None])[0, :, 0])
        assert (found[absent] <= best + 0.01).all()
    whole = (rows[:, torch.from_numpy(presence[-3:])] > 0).all(dim=1)
    assert found.max() <= process.highest
    assert process(trained.T[None, :, :, None]).max() == pytest.approx(float(process.highest))
    assert found[~whole].max() <= found[whole].max() + 1e-4


def test_ground_unlike_any_is_no_richer_than_the_richest_that_was_learned_from(
    holed: Region,
) -> None:
    channels, footprint = holed.encoder.encode(holed.read(holed.grid.window()))
    process = CellProcess(len(channels))
    fit_process(process, holed, 1)
    learned = channels[:, footprint & cells_of(holed, TRAIN)]
    generator = torch.Generator().manual_seed(2)
    strange = 9 * torch.randn((1, len(channels), 200, 50), generator=generator)
    strange[:, -3:] = 1
    highest = process(torch.from_numpy(learned)[None, :, :, None]).max()
    assert process(strange).max() <= highest + 1e-4


@pytest.mark.parametrize("east", [1.0, 5.0], ids=["alike", "the east counts five times"])
def test_its_mean_over_the_training_tiles_is_one(region: Region, east: float) -> None:
    in_east = region.points[:, 0] > region.grid.width / 2
    region = region.with_weights(np.where(in_east, east, 1.0))
    found = fitted(region)
    there = cells_of(region, TRAIN) & (found > 0)
    assert found[there].mean() == pytest.approx(1, rel=1e-3)


def test_it_knows_the_ridge_that_occurrences_lie_on_from_tiles_it_never_saw(
    region: Region,
) -> None:
    found = fitted(region)
    others = ~cells_of(region, TRAIN) & (found > 0)
    col, row = np.floor(region.points).astype(int).T
    at = found[row, col][others[row, col]]
    below = np.searchsorted(np.sort(found[others]), at) / others.sum()
    assert len(at) > 10
    assert below.mean() > 0.75


def test_the_same_seed_gives_the_same_process(region: Region) -> None:
    assert np.array_equal(fitted(region), fitted(region))


def test_the_ridge_is_chosen_by_tiles_left_out(region: Region) -> None:
    cells = read_cells(region, tile_groups(region), 1)
    fit = ProcessFit(cells, region.encoder.presence_channels())
    assert cells.groups > 1
    worth = {ridge: nats(cells, *fit._left_out(ridge)) for ridge in RIDGES}
    assert worth[fit.best_ridge()] == max(worth.values()) > 0
    alone = replace(cells, groups=1)
    assert ProcessFit(alone, region.encoder.presence_channels()).best_ridge() == USUAL_RIDGE
