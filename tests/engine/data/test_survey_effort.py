"""What a raster of survey effort makes of the occurrences of a region."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import torch
from geocfm.data.patches import count_image, repeated_weights
from geocfm.data.preflight import NO_EFFORT, inspect_region
from geocfm.data.region import Region
from geocfm.data.region_batches import RegionBatches, read_example
from geocfm.data.split import TRAIN, fold_splits
from geocfm.data.survey_effort import (
    LEAST_FLOOR,
    effective_number,
    effort_at,
    effort_weights,
)
from geocfm.errors import UserError
from geocfm.geo.layers import find_effort
from geocfm.geo.rasters import Stack
from geocfm.model.settings import TrainingSettings
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.transform import Affine

Make = Callable[..., Region]
Write = Callable[..., Path]


@pytest.fixture
def write(sample: Any, tmp_path: Path) -> Write:
    """A raster of effort, on the sample's grid unless told; NaN is no-data."""

    def write_effort(
        values: NDArray[Any], transform: Affine | None = None, crs: CRS | None = None
    ) -> Path:
        bands = values.reshape(-1, *values.shape[-2:]).astype(np.float32)
        path = tmp_path / "effort.tif"
        with rasterio.open(
            path,
            "w",
            driver="GTiff",
            count=len(bands),
            height=bands.shape[1],
            width=bands.shape[2],
            dtype="float32",
            crs=crs or sample.grid.crs,
            transform=transform or sample.grid.transform,
            nodata=np.nan,
        ) as raster:
            raster.write(bands)
        return path

    return write_effort


def slanting() -> NDArray[np.float64]:
    """Effort (96, 80) that grows a hundredfold from west to east."""
    return np.broadcast_to(10 ** np.linspace(0, 2, 80), (96, 80)).copy()


def test_weights_by_hand() -> None:
    effort = np.array([1.0, 2, 4, 4, 8, 8, 8, 8, 8, 8, 16])
    weights, floor = effort_weights(effort, np.ones(11, dtype=bool))
    assert floor == 2  # a tenth of eleven, sorted, is the second
    inverse = 1 / np.array([2, 2, 4, 4, 8, 8, 8, 8, 8, 8, 16])
    np.testing.assert_allclose(weights, inverse * 11 / inverse.sum())
    np.testing.assert_allclose(effort_weights(250 * effort, np.ones(11, dtype=bool))[0], weights)


def test_statistics_are_those_of_the_training_occurrences() -> None:
    effort = np.array([4.0, 6, 8, 10, 1000, 0.001])
    training = np.array([True] * 4 + [False] * 2)
    weights, floor = effort_weights(effort, training)
    assert floor == pytest.approx(np.quantile(effort[:4], 0.1))
    assert weights[:4].mean() == pytest.approx(1)
    assert weights[4] / weights[2] == pytest.approx(8 / 1000)
    assert weights[5] / weights[2] == pytest.approx(8 / floor)


def test_the_floor_is_never_a_vanishing_share_of_the_mean() -> None:
    effort = np.array([1e-9] * 3 + [1.0] * 7)
    weights, floor = effort_weights(effort, np.ones(10, dtype=bool))
    assert floor == pytest.approx(LEAST_FLOOR * effort.mean())
    assert weights[0] / weights[9] == pytest.approx(1 / floor)


@pytest.mark.parametrize("nothing", [np.nan, 0.0, -3.0, np.inf])
def test_what_has_no_effort_gets_the_mean_weight(nothing: float) -> None:
    effort = np.array([1.0, 2, 3, nothing, 5])
    everyone = np.ones(5, dtype=bool)
    weights, _ = effort_weights(effort, everyone)
    assert weights[3] == 1
    known = np.delete(effort, 3)
    np.testing.assert_allclose(np.delete(weights, 3), effort_weights(known, everyone[:4])[0])
    none, no_floor = effort_weights(np.full(5, nothing), everyone)
    assert (none == 1).all()
    assert no_floor is None


def test_the_effective_number_is_that_of_equal_weights() -> None:
    assert effective_number(np.full(7, 0.3)) == pytest.approx(7)
    assert effective_number(np.array([1.0, 0, 0, 0])) == 1
    assert effective_number(np.zeros(0)) == 0


def test_effort_is_read_at_the_cells_of_the_occurrences(sample: Any, write: Write) -> None:
    # in degrees, three times as coarse, and only over a part of the grid
    generator = np.random.default_rng(3)
    values = generator.uniform(1, 9, (30, 30))
    west, north = 117.0, -27.118  # of the grid's corner, EPSG:32750
    path = write(values, Affine(0.003, 0, west + 0.01, 0, -0.003, north), CRS.from_epsg(4326))
    with Stack([find_effort(str(path))], sample.grid) as stack:
        whole = stack.read(sample.grid.window())[0]
        found = effort_at(stack, sample.points)
    col, row = np.floor(sample.points).astype(int).T
    np.testing.assert_allclose(found, whole[row, col], rtol=1e-3)  # as windows of layers agree
    assert 5 < np.isfinite(found).sum() < len(found)


def test_a_region_carries_weights_to_every_point_of_a_batch(
    make_region: Make, write: Write
) -> None:
    region = make_region(effort=write(slanting()))
    col = region.points[:, 0].astype(int)
    training = region.split.role_of_points(region.points) == TRAIN
    expected, _ = effort_weights(slanting().astype(np.float32)[0, col].astype(float), training)
    np.testing.assert_allclose(region.weights, expected)
    assert region.weights[training].mean() == pytest.approx(1)
    source = RegionBatches(region, TrainingSettings(batch=5, augment=False), seed=1)
    batch = source.batch(2)
    starts = np.random.default_rng([1, 2]).choice(len(region.starts["train"]), 5)
    corner = region.starts["train"][starts][batch.image.numpy()][:, ::-1]
    places = corner + batch.points.numpy().astype(float) * region.plan.size
    gaps = np.abs(places[:, None] - region.points).sum(axis=2)
    assert gaps.min(axis=1).max() < 1e-4
    np.testing.assert_allclose(batch.weights, region.weights[gaps.argmin(axis=1)], rtol=1e-6)
    assert len(torch.unique(batch.weights)) > 3


def test_other_training_tiles_weigh_the_occurrences_anew(make_region: Make, write: Write) -> None:
    """What a fold's test tiles know of the effort must not reach its weights."""
    region = make_region(effort=write(slanting()))
    efforts = slanting().astype(np.float32)[0, region.points[:, 0].astype(int)].astype(float)
    for split in fold_splits(region.split, region.points, 3, region.settings):
        fold = region.with_split(split)
        training = split.role_of_points(region.points) == TRAIN
        expected, floor = effort_weights(efforts, training)
        np.testing.assert_allclose(fold.weights, expected)
        assert fold.effort is not None
        assert fold.effort.floor == pytest.approx(floor)
        assert fold.effort.card.training == training.sum()
        assert not np.allclose(fold.weights, region.weights)


def test_noise_and_windows_do_not_depend_on_the_weights(make_region: Make, write: Write) -> None:
    for positions in ("exact", "counts"):
        plain = make_region(positions=positions)
        weighed = make_region(effort=write(slanting()), positions=positions)
        training = TrainingSettings(batch=3, jitter=0.5)
        one, other = (RegionBatches(r, training, 1).batch(7) for r in (plain, weighed))
        for name in ("images", "points", "noise", "t", "image"):
            assert torch.equal(getattr(one, name), getattr(other, name))
        assert (one.weights == 1).all()
        assert not (other.weights == 1).all()


def test_counts_keep_the_weight_of_their_cell(make_region: Make, write: Write) -> None:
    points = np.array([(0.95, 0.1), (0.1, 0.1), (0.12, 0.11), (0.5, 0.9)])
    counts = count_image(points, 8)
    found = repeated_weights(counts, points, np.array([5.0, 1.0, 2.0, 7.0]))
    np.testing.assert_allclose(found, [1.5, 1.5, 5, 7])  # row by row, as the points come
    region = make_region(effort=write(slanting()), positions="counts")
    window = region.window(region.starts["train"][0])
    example = read_example(region, window, np.random.default_rng(1))
    col = window.col + np.floor(example.points[:, 0] * window.width).astype(int)
    with_known = {int(x): w for x, w in zip(region.points[:, 0] // 1, region.weights, strict=True)}
    np.testing.assert_allclose(example.weights, [with_known[int(c)] for c in col])


def test_the_report_tells_of_the_effort(make_region: Make, write: Write) -> None:
    region = make_region(effort=write(slanting()))
    report = inspect_region(region)
    effort = region.effort
    assert effort is not None
    assert report.effort == effort.card
    assert report.to_dict()["effort"]["source"] == "effort.tif"
    training = region.weights[region.split.role_of_points(region.points) == TRAIN]
    effective = training.sum() ** 2 / (training**2).sum()
    assert report.to_dict()["effort"]["effective"] == pytest.approx(effective)
    (said,) = [text for text in report.sentences if text.startswith("survey effort: EPSG:32750")]
    assert f"{len(training)} on training tiles tell as much as {effective:.1f}" in said
    assert NO_EFFORT not in report.sentences
    assert NO_EFFORT in inspect_region(make_region()).sentences
    assert report.problems == []


def test_the_report_tells_of_unknown_effort(make_region: Make, write: Write) -> None:
    values = slanting()
    values[:, 40:] = 0
    report = inspect_region(make_region(effort=write(values)))
    region = make_region(effort=write(values))
    unknown = int((region.points[:, 0] >= 40).sum())
    assert any(
        f"{unknown} occurrences lie where the survey effort is unknown or 0" in text
        for text in report.sentences
    )
    assert (region.weights[region.points[:, 0] >= 40] == 1).all()


def test_extreme_weights_are_warned_of(make_region: Make, write: Write) -> None:
    assert not any("survey effort" in w for w in inspect_region(make_region()).warnings)
    values = np.full((96, 80), 1000.0)
    values[:, ::4] = 1.0
    report = inspect_region(make_region(effort=write(values)))
    assert report.effort is not None
    assert report.effort.effective < 0.5 * report.effort.training
    assert any("a few decide all" in text for text in report.warnings)


def test_effort_of_nothing_is_a_problem(make_region: Make, write: Write) -> None:
    report = inspect_region(make_region(effort=write(np.zeros((96, 80)))))
    assert any("unknown or 0 at every training occurrence" in text for text in report.problems)


def test_effort_is_one_band(write: Write) -> None:
    path = write(np.stack([slanting(), slanting() + 1]))
    with pytest.raises(UserError, match="means 2 bands") as error:
        find_effort(str(path))
    assert f"--effort {path}:1" in error.value.hint
    assert find_effort(f"{path}:2").band == 2
