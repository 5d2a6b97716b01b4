"""Draws and maps of one model belong together, whichever way the model is mapped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from numpy.typing import NDArray
from small_data import (
    ALONE,
    COLUMNS,
    HOLE,
    ROWS,
    UTM,
    SmallRegion,
    in_hole,
    json_lines,
    read_points,
    write_shapes,
)

Geocfm = Callable[..., Any]
WHOLE_KM2 = (ROWS * COLUMNS - HOLE.height * HOLE.width) * 0.01


@pytest.fixture(params=["one intensity", "windows"])
def model(request: pytest.FixtureRequest) -> Path:
    """A model with a density head, and one without."""
    if request.param == "windows":
        found: Path = request.getfixturevalue("paper_model")
    else:
        found = request.getfixturevalue("trained").checkpoint
    return found


@pytest.fixture
def area(tmp_path: Path) -> Path:
    """A quarter of the region, askew, with a part of the hole."""
    corners = UTM.to_world(np.array([[30.5, 12.2], [81.7, 25.1], [70.3, 80.6], [22.9, 61.4]]))
    return write_shapes(tmp_path / "area.gpkg", [shapely.Polygon(corners)], UTM.crs, number=[1])


def finished(result: Any) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return json_lines(result.stdout)


def read_map(path: Path) -> tuple[NDArray[np.float32], Any]:
    with rasterio.open(path) as source:
        return source.read(1), source.transform


@pytest.mark.parametrize("within", ["everywhere", "area"])
def test_the_value_of_a_drawn_point_is_the_map_s_own_at_its_cell(
    within: str, geocfm: Geocfm, small_region: SmallRegion, model: Path, area: Path, tmp_path: Path
) -> None:
    given: list[object] = ["--checkpoint", model, *small_region.raster_options, "--seed", 4]
    given += ["--aoi", area] if within == "area" else []
    finished(geocfm("map", *given, "--out", tmp_path / "map.tif", "--json"))
    drawn = tmp_path / "drawn.gpkg"
    finished(geocfm("sample", *given, "--points", 80, "--draws", 3, "--out", drawn, "--json"))
    density, transform = read_map(tmp_path / "map.tif")
    points, fields = read_points(drawn, UTM)
    world = UTM.to_world(points)
    col, row = np.floor(~transform @ tuple(world.T)).astype(int)
    there = density[row, col].astype(np.float64)
    assert len(there) == 240
    assert np.isfinite(there).all()
    assert not in_hole(points).any()
    # the map is scaled when it is written, and float32
    np.testing.assert_allclose(np.exp(fields["log_relative_density"]), there, rtol=2e-5)
    assert np.std(there) > 0


def test_a_map_tells_its_area_alone(
    geocfm: Geocfm, small_region: SmallRegion, model: Path, tmp_path: Path
) -> None:
    given = ("--checkpoint", model, *small_region.raster_options)
    events = finished(geocfm("map", *given, "--out", tmp_path / "map.tif", "--json"))
    (told,) = [e for e in events if e["event"] == "report"]
    assert told["kind"] == "map"
    assert told["content"] == {"area_km2": pytest.approx(WHOLE_KM2)}
    assert f"{WHOLE_KM2:,.0f} km2 mapped." in [e["text"] for e in events if e["event"] == "note"]
    density, _ = read_map(tmp_path / "map.tif")
    assert np.isnan(density).sum() == HOLE.height * HOLE.width
    assert np.nanmean(density) == pytest.approx(1, abs=1e-4)
    assert np.nanstd(density) > 0


def test_a_map_of_one_intensity_shows_in_an_area_what_it_shows_everywhere(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, area: Path, tmp_path: Path
) -> None:
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    finished(geocfm("map", *given, "--out", tmp_path / "whole.tif", "--json"))
    finished(geocfm("map", *given, "--aoi", area, "--out", tmp_path / "part.tif", "--json"))
    (whole, all_of_it), (part, place) = (read_map(tmp_path / f"{n}.tif") for n in ("whole", "part"))
    col, row = (round(number) for number in ~all_of_it @ (place.c, place.f))
    cut = whole[row : row + part.shape[0], col : col + part.shape[1]]
    shown = np.isfinite(part)
    assert 0 < shown.sum() < part.size
    ratio = part[shown] / cut[shown]  # both are relative to their own means
    np.testing.assert_allclose(ratio, np.median(ratio), rtol=2e-5)


def test_draws_of_one_intensity_are_as_dense_as_the_map(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    drawn, number = tmp_path / "drawn.gpkg", 4000
    finished(geocfm("map", *given, "--out", tmp_path / "map.tif", "--json"))
    finished(geocfm("sample", *given, "--points", number, "--draws", 1, "--out", drawn, "--json"))
    density, _ = read_map(tmp_path / "map.tif")
    share = np.nan_to_num(density / np.nansum(density))
    col, row = np.floor(read_points(drawn, UTM)[0]).astype(int).T
    found = np.zeros(density.shape)
    np.add.at(found, (row, col), 1)
    for side in (40, 20):  # squares of the map: the flow moves points within its windows alone
        shape = (ROWS // side, side, COLUMNS // side, side)
        rows, columns = shape[0] * side, shape[2] * side
        expected = number * share[:rows, :columns].reshape(shape).sum(axis=(1, 3))
        counted = found[:rows, :columns].reshape(shape).sum(axis=(1, 3))
        apart = np.abs(counted - expected) / np.sqrt(expected + 1)
        assert (apart < 4).all()


def test_a_model_that_is_mapped_by_draws_tells_so_and_is_evaluated(
    geocfm: Geocfm, small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    told = " ".join(geocfm("info", paper_model).output.split())
    assert "each window that is mapped counts as evenly searched" in told
    assert "One intensity over the whole region" not in told
    given = ("--checkpoint", paper_model, *small_region.raster_options, "--skip-importance")
    known = ("--occurrences", small_region.occurrences, *ALONE)
    out = tmp_path / "evaluation"
    finished(geocfm("evaluate", *given, *known, "--out", out, "--json"))
    page = " ".join((out / "report.html").read_text(encoding="utf-8").split())
    assert "each window that is mapped counts as evenly searched" in page
