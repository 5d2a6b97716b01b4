"""Baselines on a region: what they learn from, and the maps they make."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import rasterio
import shapely
import torch
from geocfm.data.region import Region, region_as_learned
from geocfm.data.split import TRAIN
from geocfm.errors import UserError
from geocfm.evaluation.baselines import BASELINES, Effort
from geocfm.evaluation.region_baselines import (
    BaselineDensities,
    RegionImages,
    even_pieces,
    read_image,
)
from geocfm.events import JsonSink, Reporter
from geocfm.geo.grid import Window
from geocfm.geo.rasters import Stack
from geocfm.inference.parts import Parts
from geocfm.inference.regional_map import write_raw_map
from geocfm.inference.windowed_map import BlendedWindows
from geocfm.model.checkpoint import Checkpoint
from geocfm.run.learned_area import learned_area
from small_data import write_shapes

CPU = torch.device("cpu")


def quiet() -> Reporter:
    return Reporter(JsonSink(io.StringIO()))


def test_the_region_is_as_the_model_saw_it(region: Region, checkpoint: Checkpoint) -> None:
    card = checkpoint.card
    assert region.plan.size == card.window_size
    assert region.split.to_card() == card.split
    assert region.layer_cards == card.layers
    assert len(region.starts["train"]) > 0


def test_images_are_the_training_tiles_each_cell_once(
    region: Region, checkpoint: Checkpoint
) -> None:
    images = RegionImages(region, checkpoint.card, 1, quiet(), "a method")
    seen = np.zeros((region.grid.height, region.grid.width), dtype=int)
    points = []
    for image in images.disjoint():
        assert image.channels.shape == (images.channels, *image.footprint.shape)
        assert max(image.footprint.shape) <= checkpoint.card.window_size
        col, row = image.origin
        height, width = image.footprint.shape
        seen[row : row + height, col : col + width] += 1
        points.append(image.points + image.origin)
    wanted = np.zeros_like(seen)
    for tile, role in region.split.tiles():
        wanted[tile.slices_in(region.grid.window())] = role == TRAIN
    assert np.array_equal(seen, wanted)
    learned = region.points[region.split.role_of_points(region.points) == TRAIN]
    found = np.concatenate(points)
    assert len(found) == len(learned) > 0
    assert np.allclose(found[np.lexsort(found.T)], learned[np.lexsort(learned.T)])


def test_batches_are_of_training_windows(region: Region, checkpoint: Checkpoint) -> None:
    images = RegionImages(region, checkpoint.card, 1, quiet(), "a method")
    batch = images.source.batch(0)
    size = checkpoint.card.window_size
    assert batch.images.shape[1:] == (images.channels, size, size)


def test_what_lay_outside_the_models_area_is_not_learned_from(
    region: Region, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    grid = region.grid
    corners = [(0, 0), (0, grid.height), (grid.width / 2, grid.height), (grid.width / 2, 0)]
    left = shapely.polygons(grid.to_world(corners))
    area = write_shapes(tmp_path / "area.gpkg", np.array([left]), grid.crs)
    job = {"job": {"aoi": str(area), "aoi_layer": None}}
    card = checkpoint.card.model_copy(update={"provenance": job})
    found = learned_area(card, grid)
    assert found.doubt is None
    with Stack(region.stack.layers, grid, found.area) as stack:
        known = found.keep(region.occurrences)
        learned = region_as_learned(stack, known, card, lambda done, total: None)
        seen = read_image(learned, grid.window()).footprint
        whole = read_image(region, grid.window()).footprint
        half = np.arange(grid.width) + 0.5 < grid.width / 2
        assert np.array_equal(seen, whole & half)
        assert 0 < len(learned.points) < len(region.points)
    every = region.occurrences
    right = every.points[:, 0] > grid.width / 2 + 1
    with pytest.raises(UserError, match="lies in the area of interest that the model"):
        found.keep(replace(every, points=every.points[right], ids=every.ids[right]))
    gone = {"job": {"aoi": str(tmp_path / "gone.gpkg"), "aoi_layer": None}}
    lost = learned_area(checkpoint.card.model_copy(update={"provenance": gone}), grid)
    assert lost.keep(every) is every
    assert lost.area is None
    assert "cannot be read any more" in str(lost.doubt)


@pytest.mark.parametrize("tile", [Window(3, 5, 40, 40), Window(0, 0, 7, 90), Window(0, 0, 32, 32)])
def test_pieces_cover_a_tile(tile: Window) -> None:
    seen = np.zeros((tile.row_stop, tile.col_stop), dtype=int)
    pieces = even_pieces(tile, 32)
    for piece in pieces:
        assert max(piece.height, piece.width) <= 32
        seen[piece.row : piece.row_stop, piece.col : piece.col_stop] += 1
    assert (seen[tile.row :, tile.col :] == 1).all()
    assert seen.sum() == tile.height * tile.width
    assert np.ptp([piece.height for piece in pieces]) <= 1


@pytest.mark.parametrize("name", ["poisson-lr", "global-kde", "retrieval-kde"])
def test_a_map_shows_the_scores(
    region: Region, checkpoint: Checkpoint, tmp_path: Path, name: str
) -> None:
    baseline = BASELINES[name]()
    effort = Effort(checkpoint.card.settings, 1, CPU, quiet())
    baseline.fit(RegionImages(region, checkpoint.card, 1, quiet(), "a method"), effort)
    densities = BaselineDensities(baseline, region)
    stage = quiet().stage("Mapping")
    raw = write_raw_map(
        tmp_path / "raw.tif", BlendedWindows(densities), None, Parts(tmp_path / "p"), stage
    )
    with rasterio.open(raw.path) as source:
        values = source.read(1) / raw.mean
    whole = read_image(region, region.grid.window())
    assert np.array_equal(np.isfinite(values), whole.footprint)
    assert np.nanmean(values) == pytest.approx(1, abs=1e-5)
    if not baseline.context:  # windows make no difference: the map is the score of each cell
        scores = baseline.scores(whole)[whole.footprint]
        assert values[whole.footprint] == pytest.approx(scores / scores.mean(), rel=1e-4, abs=1e-9)
    else:
        size = checkpoint.card.window_size
        assert densities.mosaic.size == size
        mapped = next(densities.of([Window(0, 0, size, size)]))
        assert mapped.density[mapped.footprint].mean() == pytest.approx(1)
