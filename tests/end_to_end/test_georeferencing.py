"""Results lie where the data lie, in whatever CRS, rotation or unit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from geocfm.geo.grid import Grid, Window, reproject_points
from rasterio.crs import CRS
from rasterio.transform import Affine
from rasterio.warp import Resampling, calculate_default_transform, reproject
from scipy.stats import spearmanr
from small_data import (
    DEGREES,
    HOLE,
    NO_DATA,
    ROTATED,
    TINY,
    UTM,
    SmallRegion,
    in_hole,
    layer_values,
    read_points,
    write_raster,
    write_region,
    write_shapes,
)

Geocfm = Callable[..., Any]
GRIDS = {"metres": UTM, "rotated": ROTATED, "degrees": DEGREES}


@dataclass(frozen=True)
class Products:
    """What the commands made of the small region on one grid."""

    region: SmallRegion
    map: Path
    samples: Path


def run(geocfm: Geocfm, *arguments: object) -> None:
    result = geocfm(*arguments)
    assert result.exit_code == 0, result.output


def grid_of(path: Path) -> Grid:
    with rasterio.open(path) as source:
        return Grid(source.crs, source.transform, source.height, source.width)


def value_at(path: Path, world: Any) -> np.ndarray[Any, Any]:
    """What GDAL finds at places given in the file's CRS."""
    with rasterio.open(path) as source:
        return np.array([value[0] for value in source.sample(world)])


@pytest.fixture(params=GRIDS)
def products(request: pytest.FixtureRequest, geocfm: Geocfm, tmp_path: Path) -> Products:
    region = write_region(tmp_path / "region", GRIDS[request.param])
    model, samples = tmp_path / "model.safetensors", tmp_path / "samples.gpkg"
    given = region.raster_options
    run(
        *(geocfm, "train", *given, "--occurrences", region.occurrences, *TINY),
        *("--iterations", 4, "--out", model),
    )
    made = Products(region, tmp_path / "map.tif", samples)
    run(geocfm, "map", "--checkpoint", model, *given, "--out", made.map)
    run(
        *(geocfm, "sample", "--checkpoint", model, *given, "--out", samples),
        *("--points", 300, "--draws", 1),
    )
    return made


def test_the_hole_and_the_points_are_in_their_place(products: Products) -> None:
    grid = products.region.grid
    assert grid_of(products.map).aligned_with(grid)
    # cells on both sides of the hole's corners, by their place in the world
    corners = [
        (HOLE.col, HOLE.row),
        (HOLE.col_stop - 1, HOLE.row),
        (HOLE.col, HOLE.row_stop - 1),
        (HOLE.col_stop - 1, HOLE.row_stop - 1),
    ]
    within = grid.to_world(np.array(corners) + 0.5)
    assert np.isnan(value_at(products.map, within)).all()
    for outward in ([(-1, 0), (1, 0), (-1, 0), (1, 0)], [(0, -1), (0, -1), (0, 1), (0, 1)]):
        beside = grid.to_world(np.array(corners) + 0.5 + np.array(outward))
        assert np.isfinite(value_at(products.map, beside)).all()

    points, _ = read_points(products.samples, grid)  # also checks the CRS
    assert len(points) == 300
    assert ((points >= 0) & (points < (grid.width, grid.height))).all()
    assert not in_hole(points).any()
    assert np.isfinite(value_at(products.map, grid.to_world(points))).all()


def warped(region: SmallRegion, folder: Path, target: CRS) -> list[str]:
    """The region's rasters as they come in another CRS: other cells, other extent."""
    folder.mkdir()
    options: list[str] = []
    for name, values in layer_values().items():
        corners = region.grid.outline()
        bounds = (*corners.min(axis=0), *corners.max(axis=0))
        transform, width, height = calculate_default_transform(
            region.grid.crs, target, region.grid.width, region.grid.height, *bounds
        )
        moved = np.full((height, width), NO_DATA, dtype=np.float32)
        reproject(
            values,
            moved,
            src_transform=region.grid.transform,
            src_crs=region.grid.crs,
            src_nodata=NO_DATA,
            dst_transform=transform,
            dst_crs=target,
            dst_nodata=NO_DATA,
            resampling=Resampling.nearest,
        )
        path = write_raster(
            folder / f"{name}.tif", moved, Grid(target, transform, int(height), int(width))
        )
        options += ["--raster", str(path)]
    return options


def test_rasters_in_another_crs_are_mapped_on_the_models_lattice(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    elsewhere = warped(small_region, tmp_path / "degrees", CRS.from_epsg(4326))
    model = ["--checkpoint", trained.checkpoint]
    plain, moved = tmp_path / "plain.tif", tmp_path / "moved.tif"
    run(geocfm, "map", *model, *small_region.raster_options, "--out", plain)
    run(geocfm, "map", *model, *elsewhere, "--out", moved)
    grid = grid_of(moved)
    assert grid.crs == UTM.crs
    assert grid.cell_size == UTM.cell_size
    offset = UTM.to_pixel(*grid.to_world([(0, 0)])[0])
    assert np.abs(offset - offset.round()).max() < 1e-6  # the model's own cells
    assert np.abs(offset).max() < 6
    centre_of_hole = UTM.to_world([(HOLE.col + 9, HOLE.row + 7)])
    assert np.isnan(value_at(moved, centre_of_hole)).all()
    row, col = np.mgrid[4:116:3, 4:96:3]
    places = UTM.to_world(np.stack([col.ravel() + 0.5, row.ravel() + 0.5], axis=1))
    first, second = value_at(plain, places), value_at(moved, places)
    both = np.isfinite(first) & np.isfinite(second)
    assert both.mean() > 0.9
    assert spearmanr(first[both], second[both]).statistic > 0.6


def test_like_gives_the_map_another_grid(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    south_west = reproject_points(UTM.outline()[3:], UTM.crs, CRS.from_epsg(4326))[0]
    grid = Grid(
        CRS.from_epsg(4326),
        Affine(0.0012, 0, south_west[0], 0, -0.0012, south_west[1] + 0.06),
        50,
        60,
    )
    like = write_raster(tmp_path / "like.tif", np.zeros((50, 60), np.float32), grid)
    out = tmp_path / "map.tif"
    run(
        *(geocfm, "map", "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--like", like, "--out", out),
    )
    assert grid_of(out).aligned_with(grid)
    samples = tmp_path / "samples.gpkg"
    run(
        *(geocfm, "sample", "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--like", like, "--points", 50, "--draws", 1, "--out", samples),
    )
    points, _ = read_points(samples, grid)
    assert ((points >= 0) & (points < (grid.width, grid.height))).all()


def area_file(path: Path, polygon: Any) -> Path:
    """A polygon in (column, row) as a file in degrees."""
    world = shapely.transform(
        shapely.segmentize(polygon, 2),
        lambda xy: reproject_points(UTM.to_world(xy), UTM.crs, CRS.from_epsg(4326)),
    )
    return write_shapes(path, [world], CRS.from_epsg(4326))


def test_an_area_in_another_crs_bounds_map_and_points(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    triangle = shapely.Polygon([(20.2, 10.1), (80.3, 60.2), (10.1, 100.4)])
    area = area_file(tmp_path / "area.gpkg", triangle)
    given = ["--checkpoint", trained.checkpoint, *small_region.raster_options, "--aoi", area]
    out, samples = tmp_path / "map.tif", tmp_path / "samples.gpkg"
    run(geocfm, "map", *given, "--out", out)
    run(geocfm, "sample", *given, "--points", 200, "--draws", 2, "--out", samples)

    row, col = np.mgrid[:120, :100] + 0.5
    centres = np.stack([col.ravel(), row.ravel()], axis=1)
    values = np.full(len(centres), np.nan)
    grid = grid_of(out)
    inside_file = grid.to_pixel(*UTM.to_world(centres).T)
    covered = ((inside_file >= 0) & (inside_file < (grid.width, grid.height))).all(axis=1)
    values[covered] = value_at(out, UTM.to_world(centres[covered]))
    well_inside = shapely.contains_xy(triangle.buffer(-0.05), *centres.T) & ~in_hole(centres)
    outside = ~shapely.contains_xy(triangle.buffer(0.05), *centres.T)
    assert np.isfinite(values[well_inside]).all()
    assert np.isnan(values[outside]).all()
    with rasterio.open(out) as source:
        assert np.nanmean(source.read(1)) == pytest.approx(1, abs=1e-4)

    points, _ = read_points(samples, UTM)
    assert len(points) == 400
    # a point is inside if its cell's centre is, so it may stand half a cell out
    assert shapely.contains_xy(triangle.buffer(0.75), *points.T).all()
    assert not in_hole(points).any()


def test_an_area_shows_what_the_whole_map_shows_there(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    # the windows see beyond the area: what lies around a place tells about it
    model = ["--checkpoint", trained.checkpoint, *small_region.raster_options, "--steps", 12]
    place = Window(58, 34, 24, 30)
    box = shapely.box(place.col, place.row, place.col_stop, place.row_stop)
    area = area_file(tmp_path / "area.gpkg", box.buffer(0.01))
    whole, part = tmp_path / "whole.tif", tmp_path / "part.tif"
    run(geocfm, "map", *model, "--seed", 1, "--out", whole)
    run(geocfm, "map", *model, "--seed", 2, "--aoi", area, "--out", part)
    row, col = np.mgrid[place.row : place.row_stop, place.col : place.col_stop] + 0.5
    places = UTM.to_world(np.stack([col.ravel(), row.ravel()], axis=1))
    first, second = value_at(whole, places), value_at(part, places)
    assert np.isfinite(second).all()
    assert spearmanr(first, second).statistic > 0.8


def test_an_area_elsewhere_is_refused(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    area = write_shapes(tmp_path / "far.gpkg", [shapely.box(0, 0, 1, 1)], CRS.from_epsg(4326))
    result = geocfm(
        *("map", "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--aoi", area, "--out", tmp_path / "map.tif"),
    )
    assert result.exit_code == 2
    assert "does not overlap" in result.output


def test_training_keeps_to_an_area_of_interest(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    part = shapely.Polygon([(20.5, 5.4), (94.5, 5.4), (94.5, 109.6), (5.4, 109.6)])
    area = area_file(tmp_path / "area.gpkg", part)
    result = geocfm(
        *("check", *small_region.raster_options, "--occurrences", small_region.occurrences),
        *("--window", 32, "--tile", 40, "--aoi", area, "--json"),
    )
    events = [json.loads(line) for line in result.output.splitlines()]
    (report,) = (event["content"] for event in events if event["event"] == "report")
    points, _ = read_points(small_region.occurrences, UTM)
    centres = np.floor(points) + 0.5
    inside = shapely.contains_xy(part, *centres.T)
    assert report["occurrences"]["outside"] == (~inside).sum() > 0
    assert report["occurrences"]["used"] == (inside & ~in_hole(points)).sum()
    assert "105 rows x 90 columns" in report["grid"]
    share = part.area / (105 * 90)
    assert all(layer["coverage"] < share + 0.01 for layer in report["layers"])
