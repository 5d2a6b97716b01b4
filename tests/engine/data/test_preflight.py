"""What the pre-flight report says of a good region and of broken ones."""

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from geocfm.data.preflight import inspect_region
from geocfm.data.split import ROLES


@pytest.fixture
def remade(sample, tmp_path):
    """The sample's first raster with other values, at another place."""

    def make(name: str, values: np.ndarray) -> str:
        with rasterio.open(sample.rasters[0]) as source:
            profile = source.profile
        path = tmp_path / f"{name}.tif"
        with rasterio.open(path, "w", **profile) as raster:
            raster.write(values.astype(np.float32), 1)
        return str(path)

    return make


def write_points(path: Path, sample, pixels: list[tuple[float, float]]) -> Path:
    world = sample.grid.to_world(pixels)
    path.write_text("x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in world.tolist()))
    return path


def test_a_good_region(region, sample):
    report = inspect_region(region)
    assert report.problems == []
    assert report.to_dict()["can_train"] is True
    text = "\n".join(report.sentences)
    assert "96 rows x 80 columns of 100 m cells in EPSG:32750" in report.sentences[0]
    for name, share in zip(("mag", "grav", "rock"), sample.valid.mean(axis=(1, 2)), strict=True):
        assert f"{name}: EPSG:32750, 100 m cells, already on the grid; {100 * share:.0f} %" in text
    assert "Of 42 occurrences 37 are used (2 outside the grid, 3 where no layer has data)." in text
    assert "Windows of 16 x 16 cells (1600 m across), as set, every 4 cells" in text
    assert report.occurrences == {
        "read": 42,
        "without_geometry": 0,
        "filtered_out": 0,
        "outside": 2,
        "duplicates": 0,
        "on_no_data": 3,
        "used": 37,
        "sharing_a_cell": 1,
    }
    assert sum(report.by_role.values()) == 37
    assert report.window == {"size": 16, "stride": 4, "tile": 24}
    for role in ROLES:
        assert report.windows[role] == len(region.starts[role])
        assert f"{role} {report.windows[role]} ({report.by_role[role]})" in text
    assert [layer.classes for layer in report.layers] == [0, 0, 4]
    assert json.loads(json.dumps(report.to_dict()))["window"]["size"] == 16


def test_warnings_of_infinite_values(region):
    warnings = inspect_region(region).warnings
    assert "Layer grav has 4 infinite values; they count as no-data." in warnings
    assert not any("mag" in text or "rock" in text for text in warnings)


@pytest.mark.parametrize("value", [0.0, 0.1, -12345.678])
def test_a_constant_layer(make_region, sample, remade, value):
    same = remade("same", np.full((96, 80), value))
    report = inspect_region(make_region([*sample.rasters, same]))
    assert any("Layer same has the same value everywhere" in text for text in report.warnings)
    assert [layer.constant for layer in report.layers] == [False, False, False, True]
    assert report.problems == []


def test_a_layer_with_little_data(make_region, sample, remade):
    values = np.full((96, 80), np.nan)
    values[:24] = np.arange(80)
    report = inspect_region(make_region([*sample.rasters, remade("strip", values)]))
    assert "Layer strip covers only 25 % of the grid." in report.warnings
    assert report.layers[3].coverage == pytest.approx(0.25)


def test_an_empty_layer(make_region, sample, remade):
    empty = remade("empty", np.full((96, 80), np.nan))
    report = inspect_region(make_region([*sample.rasters, empty]))
    assert len(report.problems) == 1
    assert report.problems[0].startswith("Layer empty has no data on the grid")
    assert report.to_dict()["can_train"] is False
    assert not any("empty" in text for text in report.warnings)


@pytest.mark.parametrize(
    ("pixels", "remedy"),
    [
        ([(61, 2), (65, 8)], "check the filter"),
        ([(30, 30)], "add occurrences"),
        ([(30, 30)] * 2, "add occurrences"),
        ([(30, 30), (30, 30), (900, 2)], "check the filter"),
    ],
    ids=["on no-data", "one", "two", "two inside"],
)
def test_too_few_occurrences(make_region, sample, tmp_path, pixels, remedy):
    path = write_points(tmp_path / "few.csv", sample, pixels)
    report = inspect_region(make_region(occurrences=path))
    used = sum(1 for x, y in pixels if (x, y) == (30, 30))
    assert len(report.problems) == 1
    all_of = "1 occurrence 1 is" if len(pixels) == 1 else f"{len(pixels)} occurrences {used} are"
    assert f"Of {all_of} used" in report.problems[0]
    assert "At least 3 are needed" in report.problems[0]
    assert remedy in report.problems[0]
    assert report.to_dict()["can_train"] is False


def test_few_occurrences_are_said_to_be_few(make_region, sample, tmp_path):
    pixels = [tuple(point) for point in sample.points[:12].tolist()]
    report = inspect_region(
        make_region(occurrences=write_points(tmp_path / "some.csv", sample, pixels))
    )
    assert "12 occurrences are few; expect a map with little detail." in report.warnings


def test_one_tile_leaves_nothing_to_choose_and_to_test_on(make_region):
    report = inspect_region(make_region(size=16, stride=4, tile=400))
    assert report.problems == []
    assert "No validation window holds an occurrence, so the last model is kept." in report.warnings
    assert "No test window holds an occurrence, so evaluation will be empty." in report.warnings


def test_doubts_about_the_occurrences_are_warnings(make_region, sample, tmp_path):
    path = write_points(tmp_path / "some.csv", sample, sample.points.tolist())
    with path.open("a") as file:
        file.write("".join(f"{y!r},{x!r}\n" for x, y in sample.grid.to_world([(30, 30)]).tolist()))
    warnings = inspect_region(make_region(occurrences=path)).warnings
    assert any("1 of the occurrences outside the grid would lie inside" in w for w in warnings)


def test_tiles_too_small_for_the_windows(make_region):
    report = inspect_region(make_region(size=64, stride=4, tile=16))
    assert any("No training window holds an occurrence" in text for text in report.problems)
