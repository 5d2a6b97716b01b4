"""What windows say of each other: logits of one place, and levels that make windows compare."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from geocfm.events import JsonSink, Reporter
from geocfm.geo.grid import Window
from geocfm.inference.parts import Parts
from geocfm.inference.predictor import Layers, Predictor
from geocfm.inference.region_windows import region_mosaic, window_step
from geocfm.inference.regional_map import FlowDensities
from geocfm.inference.window_survey import region_levels
from geocfm.model.checkpoint import Checkpoint
from numpy.typing import NDArray
from small_data import SmallRegion, json_lines


def logits(predictor: Predictor, window: Window) -> NDArray[np.float64]:
    network = predictor.sampler._network
    images = predictor._reader.read((window,))
    with torch.no_grad():
        channels = torch.from_numpy(images.channels)
        score = network.score(network.unet(channels), torch.Size((32, 32)))
        return (score + network.process(channels))[0].double().numpy()


def levels(predictor: Predictor, combine: str, folder: Path) -> NDArray[np.float64]:
    mosaic, windows = region_mosaic(predictor, None)
    said = io.StringIO()
    reporter = Reporter(JsonSink(said))
    given = (predictor, mosaic, windows, combine, "head", 1, Parts(folder), reporter)
    (found,) = region_levels(*given).by_member
    return np.array([found[window] for window in windows])


def test_logits_of_one_cell_in_shifted_windows_differ_by_little_but_a_constant(
    predictor: Predictor,
) -> None:
    """A softmax is blind to a constant; what else changes with the window is small beside them."""
    offsets, left, spread = [], [], []
    for row, col in ((0, 0), (20, 40), (60, 10), (80, 60)):
        for down, right in ((4, 0), (0, 8), (8, 4)):
            one = logits(predictor, Window(row, col, 32, 32))[down:, right:]
            other = logits(predictor, Window(row + down, col + right, 32, 32))
            inner = slice(6, 18), slice(6, 18)  # away from the borders, which see less
            gap = (other[: one.shape[0], : one.shape[1]] - one)[inner]
            offsets.append(gap.mean())
            left.append(gap.std())
            spread.append(one[inner].std())
    assert np.median(left) < 0.5 * np.median(spread)
    assert np.median(np.abs(offsets)) < np.median(spread)


@pytest.mark.parametrize("combine", ["consistent", "head", "count"])
def test_windows_that_hold_more_occurrences_get_higher_levels(
    predictor: Predictor, small_region: SmallRegion, tmp_path: Path, combine: str
) -> None:
    _, windows = region_mosaic(predictor, None)
    points = small_region.points
    held = [
        ((points >= (w.col, w.row)) & (points < (w.col_stop, w.row_stop))).all(axis=1).sum()
        for w in windows
    ]
    found = levels(predictor, combine, tmp_path)
    assert (found > 0).all()
    assert np.corrcoef(np.log(found), held)[0, 1] > 0.3


def test_what_was_surveyed_is_not_surveyed_again(predictor: Predictor, tmp_path: Path) -> None:
    first = levels(predictor, "count", tmp_path)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert times
    assert np.array_equal(levels(predictor, "count", tmp_path), first)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times


@pytest.mark.parametrize("size", [16, 32, 48, 96, 128, 220])
def test_windows_step_by_odd_numbers_of_cells(size: int) -> None:
    step = window_step(size)
    assert step % 2 == 1
    assert size / 3 - 2 < step <= size / 3


class Parted:
    """Layers without data in a belt that is wider than a window."""

    def __init__(self, layers: Layers) -> None:
        self._layers, self.grid = layers, layers.grid

    def read(self, window: Window) -> NDArray[np.float32]:
        values = self._layers.read(window).copy()
        rows = np.arange(window.row, window.row_stop)
        values[:, (rows >= 40) & (rows < 80)] = np.nan
        return values


def test_parts_that_do_not_compare_are_told_to_whoever_keeps_the_map(
    predictor: Predictor, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    device = torch.device("cpu")
    parted = Predictor(checkpoint, Parted(predictor.layers), predictor.sampling, device)
    for number, (one, parts) in enumerate(((predictor, 1), (parted, 2))):
        said = io.StringIO()
        reporter, kept = Reporter(JsonSink(said)), Parts(tmp_path / str(number))
        found = FlowDensities(one, None, "count", "head", 1, kept, reporter)
        told = [e["text"] for e in json_lines(said.getvalue()) if e["event"] == "warning"]
        assert list(found.warnings) == told
        assert len(told) == parts - 1
        assert all(f"falls into {parts} parts that share no window" in text for text in told)
