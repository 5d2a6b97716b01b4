"""A model's one intensity: the same in whatever parts it is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from geocfm.geo.area import Area
from geocfm.geo.grid import Window
from geocfm.inference.model_map import HIGHEST_LOG, Intensity, map_source
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import DENSITY, strip_part
from geocfm.inference.windowed_map import BlendedWindows
from geocfm.model.checkpoint import Checkpoint
from mapping_support import (
    CPU,
    SPREAD,
    Planes,
    network_settings,
    planes,
    predictor_of,
    quiet,
    raw_map,
    telling_network,
    values_of,
)
from numpy.typing import NDArray

pytestmark = pytest.mark.usefixtures("one_thread")

HOLES = (Window(40, 90, 25, 31), Window(0, 0, 9, 14), Window(190, 300, 13, 17))
ODD = (203, 317)
WHOLE = 400
NETWORKS = {  # stem, depth and start, from a reach of 26 cells to that of the preset quick, 124
    "small": network_settings(2, 1),
    "deep": network_settings(1, 2, start="even"),
    "quick": network_settings(4, 2),
}


def log_densities(predictor: Predictor, tile: int, area: Area | None = None) -> NDArray[np.float64]:
    """(members, h, w) of the shown part, put together from the strips' values."""
    source = Intensity(predictor, tile)
    shown = predictor.layers.grid.window() if area is None else area.bounds
    strips = source.strips(shown)
    assert [strip.col for strip in strips] == [shown.col] * len(strips)
    assert all(strip.width == shown.width and strip.height <= tile for strip in strips)
    found = list(source.values(strips, 0, quiet().stage("Mapping")))
    assert [values.shape[-2:] for values in found] == [(s.height, s.width) for s in strips]
    with np.errstate(invalid="ignore"):
        return np.log(np.concatenate(found, axis=-2)[:, 0].astype(np.float64))


@contextmanager
def threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_map_does_not_depend_on_the_tiles_it_is_made_of(name: str) -> None:
    layers = planes(*ODD, HOLES)
    predictor = predictor_of(layers, 1, NETWORKS[name])
    assert max(ODD) > NETWORKS[name].reach + 100  # so that no tile sees all
    whole = log_densities(predictor, WHOLE)
    assert whole.shape == (1, *ODD)
    assert np.array_equal(np.isnan(whole[0]), np.isnan(layers.values).all(axis=0))
    assert np.nanstd(whole) == pytest.approx(SPREAD, rel=0.01)
    for tile in (32, 48):
        found = log_densities(predictor, tile)
        assert np.array_equal(np.isnan(found), np.isnan(whole))
        assert np.nanmax(np.abs(found - whole)) < 1e-4


def test_too_narrow_a_margin_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = predictor_of(planes(*ODD, HOLES), 1, NETWORKS["small"])
    whole = log_densities(predictor, WHOLE)
    narrow = property(lambda self: 8)
    monkeypatch.setattr("geocfm.model.settings.NetworkSettings.reach", narrow)
    assert np.nanmax(np.abs(log_densities(predictor, 32) - whole)) > 0.01


@pytest.mark.parametrize("shape", [(20, 18), (7, 90), (33, 5), (64, 64)])
def test_grids_smaller_than_a_tile_or_its_margin(shape: tuple[int, int]) -> None:
    predictor = predictor_of(planes(*shape))
    whole = log_densities(predictor, WHOLE)
    assert np.isfinite(whole).any()
    for tile in (5, 32):
        assert np.nanmax(np.abs(log_densities(predictor, tile) - whole)) < 1e-4


def test_an_area_shows_the_same_intensity() -> None:
    predictor = predictor_of(planes(*ODD, HOLES), 1, NETWORKS["small"])
    whole = log_densities(predictor, WHOLE)
    area = Area(shapely.Polygon([(31, 13), (170, 77), (103, 150)]), predictor.layers.grid)
    there = whole[(slice(None), *area.bounds.slices_in(predictor.layers.grid.window()))]
    assert area.bounds.row % NETWORKS["small"].period  # it begins in the midst of a cell
    for tile in (32, 48, WHOLE):
        found = log_densities(predictor, tile, area)
        assert np.nanmax(np.abs(found - there)) < 1e-4


def test_the_map_of_an_area_is_the_whole_map_at_another_scale(tmp_path: Path) -> None:
    predictor = predictor_of(planes(*ODD, HOLES), 1, NETWORKS["small"])
    area = Area(shapely.Polygon([(31, 13), (170, 77), (103, 150)]), predictor.layers.grid)
    whole = values_of(raw_map(tmp_path / "whole.tif", Intensity(predictor, WHOLE)))
    found = values_of(raw_map(tmp_path / "area.tif", Intensity(predictor, 32), area))
    there = whole[area.bounds.slices_in(predictor.layers.grid.window())]
    there = np.where(area.mask(area.bounds), there, np.nan)
    assert np.isnan(there).any()
    assert found == pytest.approx(there / np.nanmean(there), rel=3e-4, nan_ok=True)


def test_the_map_does_not_depend_on_threads() -> None:
    predictor = predictor_of(planes(*ODD, HOLES), 1, NETWORKS["small"])
    found = []
    for count in (1, 2):
        with threads(count):
            found.append(log_densities(predictor, 96))
    assert np.nanmax(np.abs(found[0] - found[1])) < 1e-4


def test_the_intensity_is_that_of_head_and_start_on_the_whole_image() -> None:
    """Where the grid is a multiple of the period, so that no border is repeated."""
    layers = planes(64, 96, HOLES[1:2])
    predictor = predictor_of(layers)
    network = predictor.sampler._network
    channels, footprint = predictor.encoder.encode(layers.values)
    with torch.no_grad():
        images = torch.from_numpy(channels)[None]
        head = network.score(network.unet(images), images.shape[-2:])
        expected = (head + network.start(images))[0].numpy()
    found = log_densities(predictor, 32)[0]
    assert np.abs(found - expected)[footprint].max() < 1e-4
    assert head.std() > 0.1
    assert np.abs(expected - head[0].numpy())[footprint].max() > 0.1


def test_every_member_has_an_intensity_of_its_own() -> None:
    layers = planes(50, 70)
    pair = predictor_of(layers, 2)
    found = log_densities(pair, 32)
    assert found.shape == (2, 50, 70)
    for member, alone in zip(pair.members, found, strict=True):
        assert np.nanmax(np.abs(member.look(layers.grid.window()).log_intensity - alone)) < 1e-4
    assert np.nanmax(np.abs(found[0] - found[1])) > 1


def test_members_share_the_reading_of_a_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = planes(150, 150)
    pair = predictor_of(layers, 2)
    asked: list[Window] = []
    read = layers.read
    monkeypatch.setattr(layers, "read", lambda window: asked.append(window) or read(window))
    log_densities(pair, 75)
    assert len(asked) == len(set(asked)) == 4


def test_it_goes_on_from_the_strip_that_is_missing(tmp_path: Path) -> None:
    predictor = predictor_of(planes(*ODD, HOLES), 2, NETWORKS["small"])
    parts = Parts(tmp_path / "parts")
    first = raw_map(tmp_path / "raw.tif", Intensity(predictor, 32), None, parts)
    whole = values_of(first)
    strips = Intensity(predictor, 32).strips(predictor.layers.grid.window())
    assert first.strips == tuple(strips)
    assert strip_part(parts, strips[0])["values"].shape[:2] == (2, 1)
    files = {
        strip: tmp_path / "parts" / f"rows-{strip.row}-{strip.row_stop}.npz" for strip in strips
    }
    times = {strip: path.stat().st_mtime_ns for strip, path in files.items()}
    files[strips[3]].unlink()
    files[strips[5]].write_bytes(b"half a file")
    again = raw_map(tmp_path / "raw.tif", Intensity(predictor, 32), None, parts)
    assert np.array_equal(values_of(again), whole, equal_nan=True)
    kept = [strip for strip in strips if files[strip].stat().st_mtime_ns == times[strip]]
    assert kept == strips[:3]
    # another size of the tiles, as with less memory: its strips are others
    other = raw_map(tmp_path / "raw.tif", Intensity(predictor, 48), None, parts)
    assert values_of(other) == pytest.approx(whole, rel=3e-4, nan_ok=True)


class Extreme(torch.nn.Module):
    """Log intensities far beyond what float32 holds as numbers."""

    def look(self, images: torch.Tensor) -> tuple[list[torch.Tensor], torch.Tensor]:
        return [], 1000 * images[:, 0]


def test_extreme_intensities_are_bounded_not_infinite() -> None:
    layers = planes(40, 40)
    found = log_densities(predictor_of(layers, [Extreme()]), 20)
    assert np.nanmax(found) == pytest.approx(HIGHEST_LOG)
    assert np.nanmin(found) == pytest.approx(-HIGHEST_LOG)
    assert np.isfinite(np.exp(found).astype(np.float32)[np.isfinite(found)]).all()


def test_only_a_local_model_has_an_intensity(tmp_path: Path) -> None:
    layers = planes(40, 50)
    predictor = predictor_of(layers)
    source = map_source(predictor, None, 1, 32)
    assert isinstance(source, Intensity)
    assert raw_map(tmp_path / "raw.tif", source).bands == (DENSITY,)
    for room, change in (
        ("network", {"density": False, "anchor": 0, "start": "even"}),
        ("windows", {"standardise": "window"}),
    ):
        settings = predictor.card.settings
        changed = getattr(settings, room).model_copy(update=change)
        card = predictor.card.model_copy(
            update={"settings": settings.model_copy(update={room: changed})}
        )
        made = telling_network(network_settings(4, 1), card.channels)
        other = Predictor(Checkpoint((made,), card), layers, predictor.sampling, CPU)
        assert not card.settings.is_local
        assert isinstance(map_source(other, None, 1, 32), BlendedWindows)


def test_ground_that_begins_elsewhere_has_the_same_intensity_on_the_same_lattice() -> None:
    """A grid that begins whole cells of the network later: what is far from its ends stays."""
    layers, settings = planes(*ODD), NETWORKS["small"]
    predictor = predictor_of(layers, 1, settings)
    moved = 3 * settings.period
    part = layers.values[:, moved:, moved:]
    later = Planes(part, layers.grid.subgrid(Window(moved, moved, *part.shape[1:])))
    there = Predictor(
        Checkpoint((predictor.sampler._network,), predictor.card), later, predictor.sampling, CPU
    )
    inner = (0, slice(settings.reach, -settings.reach), slice(settings.reach, -settings.reach))
    expected = log_densities(predictor, WHOLE)[:, moved:, moved:][inner]
    found = log_densities(there, 48)[inner]
    assert np.nanmax(np.abs(found - expected)) < 1e-4
