"""What is gathered of a region's training cells takes in others like them, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import torch
from geocfm.data.region import Region
from geocfm.data.seen_cells import (
    INSIDE,
    LEAST_RADIUS,
    REFERENCES,
    farthest_points,
    gather_experience,
)
from geocfm.model.experience import NEVER_SEEN, Experience
from geocfm.model.settings import TrainingSettings
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Make = Callable[..., Region]


def gather(region: Region, seed: int = 1, **training: Any) -> Experience:
    settings = TrainingSettings(**training)
    return gather_experience(
        region, region.starts["train"], settings, seed, lambda done, total: None
    )


def training_cells(region: Region) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """All windows of the training (C, windows * size, size), and their footprint."""
    read = [region.encoder.encode(region.read(region.window(s))) for s in region.starts["train"]]
    return np.concatenate([c for c, _ in read], axis=1), np.concatenate([f for _, f in read])


def test_farthest_points_are_farthest() -> None:
    points = np.random.default_rng(4).normal(size=(300, 4)).astype(np.float32)
    chosen = farthest_points(points, 40)
    gaps = cdist(points, points)
    assert len(set(chosen.tolist())) == 40
    for number in range(1, 40):
        nearest = gaps[:, chosen[:number]].min(axis=1)
        assert nearest[chosen[number]] == pytest.approx(nearest.max(), rel=1e-5)


def test_farthest_points_end_when_all_are_covered() -> None:
    points = np.repeat(np.eye(3, dtype=np.float32), 5, axis=0)
    assert len(farthest_points(points, 10)) == 3
    assert farthest_points(points[:1], 10).tolist() == [0]


def test_training_cells_are_inside_and_strangers_outside(region: Region) -> None:
    seen = gather(region)
    assert seen.references.shape == (REFERENCES, 6 + 3)  # two values, four rocks, validity
    channels, footprint = training_cells(region)
    inside = (seen.dissimilarity(channels, footprint)[footprint] <= 1).mean()
    assert INSIDE - 0.01 < inside <= 1
    strange = channels.copy()
    strange[0] += 6  # standard deviations of the first layer
    assert (seen.dissimilarity(strange, footprint)[footprint] > 1).mean() > 0.95


@pytest.fixture
def noise(sample: Any, tmp_path: Path) -> list[str]:
    """Four layers of noise, which no few hundred cells cover densely."""
    values = np.random.default_rng(8).normal(5, 2, (4, 96, 80)).astype(np.float32)
    for number, plane in enumerate(values):
        with rasterio.open(
            tmp_path / f"noise{number}.tif",
            "w",
            driver="GTiff",
            count=1,
            height=96,
            width=80,
            dtype="float32",
            crs=sample.grid.crs,
            transform=sample.grid.transform,
        ) as raster:
            raster.write(plane, 1)
    return [str(tmp_path / f"noise{number}.tif") for number in range(4)]


def test_the_radius_takes_in_nearly_all_that_was_seen(make_region: Make, noise: list[str]) -> None:
    region = make_region(noise, classes=())
    seen = gather(region)
    assert seen.radius > 2 * LEAST_RADIUS
    channels, footprint = training_cells(region)
    cells = channels[:, footprint].T
    gaps = cdist(cells[:, :4], seen.references[:, :4]).min(axis=1)
    assert np.quantile(gaps, INSIDE) == pytest.approx(seen.radius, rel=0.05)
    chosen = cdist(cells[:, :4], seen.references[:, :4]).min(axis=0)
    assert chosen.max() < 1e-5  # references are cells that were seen


def test_one_layer_is_covered_so_densely_that_the_least_radius_holds(
    make_region: Make, sample: Any
) -> None:
    assert gather(make_region(sample.rasters[:1], classes=())).radius == LEAST_RADIUS


def test_a_rock_and_a_gap_that_training_never_saw_are_outside(region: Region) -> None:
    seen = gather(region)
    channels, footprint = training_cells(region)
    patterns = np.unique(channels[-3:, footprint].T, axis=0)
    references = seen.references.numpy()
    cell = references[references[:, -3:].all(axis=1)][0]
    assert seen.distances(torch.from_numpy(cell[None])).item() < 0.01
    unknown = cell.copy()
    unknown[2:6] = 0
    assert seen.distances(torch.from_numpy(unknown[None])).item() >= NEVER_SEEN
    for pattern in np.ndindex(2, 2, 2):
        if any(pattern) and list(pattern) not in patterns.tolist():
            missing = cell.copy()
            missing[-3:] = pattern
            assert seen.distances(torch.from_numpy(missing[None])).item() >= NEVER_SEEN
    assert len(patterns) < 7  # some pattern was missing


def test_layers_that_training_hides_are_no_surprise(region: Region) -> None:
    channels, footprint = training_cells(region)
    hidden = channels.copy()
    hidden[0] = 0
    hidden[-3] = 0  # no magnetics anywhere
    before = gather(region).dissimilarity(hidden, footprint)[footprint]
    after = gather(region, layer_dropout=0.3).dissimilarity(hidden, footprint)[footprint]
    assert (before > 1).mean() > 0.5
    assert (after > 1).mean() < 0.1


def test_windows_that_are_standardised_each_by_itself(make_region: Make) -> None:
    region = make_region(standardise="window")
    seen = gather(region)
    channels, footprint = training_cells(region)
    assert (seen.dissimilarity(channels, footprint)[footprint] <= 1).mean() > INSIDE - 0.01


def test_it_depends_on_the_seed_alone(region: Region) -> None:
    first, again, other = gather(region), gather(region), gather(region, seed=2)
    assert torch.equal(first.references, again.references)
    assert first.radius == again.radius
    assert not torch.equal(first.references, other.references)


def test_a_region_of_one_window(region: Region) -> None:
    only = region.starts["train"][:1]
    seen = gather(replace(region, starts={**region.starts, "train": only}))
    assert 1 < len(seen.references) <= 128  # half of its cells
    assert seen.radius >= LEAST_RADIUS
