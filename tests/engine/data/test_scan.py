"""The one pass over the layers against numpy on the whole arrays."""

from collections import Counter

import numpy as np
import pytest
import rasterio
from geocfm.data import scan as scan_module
from geocfm.data.scan import merge_statistics, scan_layers
from geocfm.data.split import TRAIN, split_tiles
from geocfm.data.windows import lattice_starts
from geocfm.errors import UserError
from geocfm.geo.grid import Window
from geocfm.geo.rasters import Layer, Stack
from geocfm.model.settings import WindowSettings
from small_data import write_raster


def training_cells(region) -> np.ndarray:
    cells = np.zeros((region.grid.height, region.grid.width), dtype=bool)
    for tile, role in region.split.tiles():
        cells[tile.row : tile.row_stop, tile.col : tile.col_stop] = role == TRAIN
    return cells


@pytest.mark.parametrize("zero_is_nodata", [False, True])
def test_statistics_by_tile(make_region, sample, zero_is_nodata):
    region = make_region(zero_is_nodata=zero_is_nodata)
    valid = sample.valid & (sample.values != 0) if zero_is_nodata else sample.valid
    for number, (tile, _) in enumerate(region.split.tiles()):
        rows, cols = tile.slices_in(sample.grid.window())
        for layer in range(3):
            values = sample.values[layer, rows, cols][valid[layer, rows, cols]].astype(np.float64)
            assert region.scan.counts[number, layer] == values.size
            if values.size:
                assert region.scan.means[number, layer] == pytest.approx(values.mean(), rel=1e-12)
                square = ((values - values.mean()) ** 2).sum()
                assert region.scan.squares[number, layer] == pytest.approx(square, rel=1e-9)
    np.testing.assert_allclose(
        region.scan.coverage(sample.grid), valid.mean(axis=(1, 2)), rtol=1e-12
    )


def test_standardisation_is_of_the_training_tiles(region, sample):
    training = training_cells(region)
    assert 0 < training.mean() < 1
    for layer, card in enumerate(region.layer_cards):
        values = sample.values[layer][training & sample.valid[layer]].astype(np.float64)
        assert card.mean == pytest.approx(values.mean(), rel=1e-12)
        assert card.std == pytest.approx(values.std(), rel=1e-9)
    everywhere = sample.values[0][sample.valid[0]].astype(np.float64)
    assert abs(region.layer_cards[0].mean - everywhere.mean()) > 1e-3
    assert [card.name for card in region.layer_cards] == ["mag", "grav", "rock"]


def test_infinite_values_are_counted_and_not_used(region, sample):
    assert region.scan.infinite.tolist() == [0, 4, 0]
    assert np.isinf(sample.values[1]).sum() == 4
    assert np.isfinite(region.scan.means).all()


def test_statistics_do_not_depend_on_the_pieces(sample, monkeypatch):
    """Tiles read in many blocks are merged to the same figures."""
    grid = sample.grid
    split = split_tiles(grid, 48, sample.points, WindowSettings())
    whole_blocks = scan_module.blocks
    found = []
    layers = [Layer("mag", sample.rasters[0], 1)]
    for largest in (1024, 8):
        monkeypatch.setattr(
            scan_module, "blocks", lambda tile, step, n=largest: whole_blocks(tile, step, n)
        )
        with Stack(layers, grid) as stack:
            found.append(
                scan_layers(stack, split, 4, sample.points, False, lambda done, total: None)
            )
    whole, pieces = found
    np.testing.assert_array_equal(pieces.counts, whole.counts)
    np.testing.assert_allclose(pieces.means, whole.means, rtol=1e-12)
    np.testing.assert_allclose(pieces.squares, whole.squares, rtol=1e-9)
    np.testing.assert_array_equal(pieces.footprint_cells, whole.footprint_cells)
    np.testing.assert_array_equal(pieces.on_data, whole.on_data)
    np.testing.assert_array_equal(pieces.cache, whole.cache)


def test_merging_statistics():
    generator = np.random.default_rng(4)
    parts = [generator.normal(1e6, 0.5, count) for count in (5, 0, 1, 300)]
    counts = np.array([len(part) for part in parts])
    means = np.array([part.mean() if len(part) else 0.0 for part in parts])
    squares = np.array([((part - m) ** 2).sum() for part, m in zip(parts, means, strict=True)])
    together = np.concatenate(parts)
    mean, std = merge_statistics(counts, means, squares)
    assert mean == pytest.approx(together.mean(), rel=1e-14)
    assert std == pytest.approx(together.std(), rel=1e-9)
    assert merge_statistics(counts[1:2], means[1:2], squares[1:2]) == (0.0, 0.0)


def test_footprint_share(region, sample):
    footprint = sample.valid.any(axis=0)
    starts = lattice_starts(sample.grid, 16, 4)
    expected = [footprint[row : row + 16, col : col + 16].mean() for row, col in starts]
    found = region.scan.footprint_share(starts, 16)
    np.testing.assert_allclose(found, expected)
    assert (found == 0).any()
    assert (found == 1).any()


def test_footprint_with_zero_as_no_data(make_region, sample):
    region = make_region(rasters=[sample.rasters[1]], classes=(), zero_is_nodata=True)
    footprint = sample.valid[1] & (sample.values[1] != 0)
    starts = lattice_starts(sample.grid, 16, 4)
    expected = [footprint[row : row + 16, col : col + 16].mean() for row, col in starts]
    np.testing.assert_allclose(region.scan.footprint_share(starts, 16), expected)


def test_occurrences_on_data(region, sample):
    col, row = np.floor(sample.points).astype(int).T
    expected = sample.valid.any(axis=0)[row, col]
    assert (~expected).sum() == 3
    np.testing.assert_array_equal(region.scan.on_data, expected)
    np.testing.assert_allclose(region.points, sample.points[expected], atol=1e-6)


def test_classes(region, sample, monkeypatch):
    rock = sample.values[2][sample.valid[2]].astype(int)
    assert region.scan.classes[2] == Counter(rock.tolist())
    assert region.scan.classes[0] == Counter()
    assert region.layer_cards[2].classes == (1, 2, 5, 200)
    assert region.layer_cards[0].classes == ()
    monkeypatch.setattr(scan_module, "MOST_CLASSES", 3)
    cards = region.scan.layer_cards(region.stack.layers, region.split)
    assert cards[2].classes == (1, 2, 5)  # the 16 cells of class 200 are the fewest


def test_a_layer_without_data_in_training_tiles_uses_all_tiles(make_region, sample, tmp_path):
    held_out = np.where(training_cells(make_region()), np.nan, sample.values[0])
    path = tmp_path / "far.tif"
    with (
        rasterio.open(sample.rasters[0]) as source,
        rasterio.open(path, "w", **source.profile) as raster,
    ):
        raster.write(held_out.astype(np.float32), 1)
    card = make_region([*sample.rasters, str(path)]).layer_cards[3]
    values = held_out[np.isfinite(held_out)].astype(np.float64)
    assert card.mean == pytest.approx(values.mean(), rel=1e-12)
    assert card.std == pytest.approx(values.std(), rel=1e-9)


WINDOWS = [
    Window(0, 0, 96, 80),
    Window(28, 4, 16, 16),
    Window(-5, 70, 16, 16),
    Window(90, -3, 16, 16),
    Window(200, 200, 4, 4),
]


@pytest.mark.parametrize("window", WINDOWS)
def test_reading_from_memory_and_from_files(make_region, sample, monkeypatch, window):
    kept = make_region()
    assert kept.scan.cache is not None
    monkeypatch.setattr(scan_module, "CACHE_BYTES", 0)
    streamed = make_region()
    assert streamed.scan.cache is None
    padded = np.pad(
        sample.values, ((0, 0), (150, 150), (150, 150)), constant_values=np.float32(np.nan)
    )
    row, col = window.row + 150, window.col + 150
    expected = padded[:, row : row + window.height, col : col + window.width]
    np.testing.assert_array_equal(kept.read(window), expected)
    np.testing.assert_array_equal(streamed.read(window), expected)


def test_progress_counts_every_cell_once(sample):
    calls: list[tuple[int, int]] = []
    split = split_tiles(sample.grid, 24, sample.points, WindowSettings())
    with Stack([Layer("mag", sample.rasters[0], 1)], sample.grid) as stack:
        scan_layers(stack, split, 4, sample.points, False, lambda *call: calls.append(call))
    assert len(calls) == len(split.tiles())
    assert calls[-1] == (96 * 80, 96 * 80)
    assert calls == sorted(calls)


@pytest.mark.parametrize("dtype", ["int32", "uint32", "float64"])
def test_classes_of_large_codes_have_channels_of_their_own(make_region, sample, tmp_path, dtype):
    codes = np.where(np.arange(80) < 30, 100_000_001, 100_000_002).astype(dtype)
    path = tmp_path / "codes.tif"
    write_raster(path, np.tile(codes, (96, 1)), sample.grid, nodata=0)
    region = make_region([*sample.rasters, str(path)], classes=("codes",))
    assert region.layer_cards[-1].classes == (100_000_001, 100_000_002)
    window = Window(0, 20, 16, 16)
    channels, _ = region.encoder.encode(region.read(window))
    assert channels.dtype == np.float32
    part = region.encoder.value_channels(3)
    np.testing.assert_array_equal(channels[part][0], np.tile(np.arange(20, 36) < 30, (16, 1)))
    np.testing.assert_array_equal(channels[part].sum(axis=0), 1)
    plain = make_region(sample.rasters, classes=())
    np.testing.assert_array_equal(
        channels[:3], plain.encoder.encode(plain.read(window))[0][:3]
    )  # the other layers are as they were


@pytest.mark.parametrize("code", [2.0**60, 1e300])
def test_codes_that_no_number_can_tell_apart_are_refused(make_region, sample, tmp_path, code):
    path = tmp_path / "codes.tif"
    write_raster(path, np.full((96, 80), code), sample.grid, nodata=0)
    with pytest.raises(UserError, match="is given as classes but holds"):
        make_region([*sample.rasters, str(path)], classes=("codes",))


def test_a_filler_is_found_behind_a_scale(make_region, sample, tmp_path):
    values = np.tile(np.arange(80, dtype=np.int16), (96, 1))
    values[:10, :10] = -9999
    path = tmp_path / "scaled.tif"
    write_raster(path, values, sample.grid, nodata=32767)
    with rasterio.open(path, "r+") as raster:
        raster.scales, raster.offsets = (0.01,), (5.0,)
    region = make_region([str(path)], classes=())
    assert region.scan.filler(0) == pytest.approx(-9999 * 0.01 + 5)
