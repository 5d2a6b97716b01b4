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

STEM = 4  # cells of the grid along the side of one of the network's
ON_THE_RIDGE = ((20, 40), (60, 10), (10, 45), (40, 20), (70, 15))  # windows, from row and column


def logits(predictor: Predictor, window: Window) -> NDArray[np.float64]:
    """The density head's own, without the process of single cells that it corrects."""
    network = predictor.sampler._network
    images = predictor._reader.read((window,))
    with torch.no_grad():
        features = network.unet(torch.from_numpy(images.channels))
        score = network.score(features, torch.Size((window.height, window.width)))
        return score[0].double().numpy()


def levels(predictor: Predictor, combine: str, folder: Path) -> NDArray[np.float64]:
    mosaic, windows = region_mosaic(predictor, None)
    said = io.StringIO()
    reporter = Reporter(JsonSink(said))
    given = (predictor, mosaic, windows, combine, "head", 1, Parts(folder), reporter)
    (found,) = region_levels(*given).by_member
    return np.array([found[window] for window in windows])


@pytest.mark.parametrize(
    ("shifts", "most"),
    [
        (((4, 0), (0, 8), (8, 4)), 0.4),
        (((5, 0), (0, 9), (7, 3)), 0.85),  # off the network's cells, which changes more
    ],
)
def test_logits_of_one_cell_in_shifted_windows_differ_by_little_but_a_constant(
    predictor: Predictor, shifts: tuple[tuple[int, int], ...], most: float
) -> None:
    """A softmax is blind to a constant; what else changes is small beside the logits' own spread,
    as long as windows differ by whole cells of the network.
    """
    assert predictor.card.settings.network.stem == STEM
    inner = (slice(STEM, -STEM),) * 2  # away from the borders, which see less
    offsets, left, spread, elsewhere = [], [], [], []
    for row, col in ON_THE_RIDGE:
        whole = logits(predictor, Window(row, col, 32, 32))
        for down, right in shifts:
            other = logits(predictor, Window(row + down, col + right, 32, 32))
            other = other[: 32 - down, : 32 - right][inner]
            one, same_corner = whole[down:, right:][inner], whole[: 32 - down, : 32 - right][inner]
            offsets.append((other - one).mean())
            left.append((other - one).std())
            spread.append(one.std())
            elsewhere.append((other - same_corner).std())
    assert root_mean_square(left) < most * root_mean_square(spread)
    assert root_mean_square(elsewhere) > root_mean_square(spread)  # of cells that are not the same
    assert np.median(np.abs(offsets)) < 0.3 * np.median(spread)


def root_mean_square(values: list[float]) -> float:
    return float(np.sqrt(np.square(values).mean()))


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


@pytest.mark.parametrize("combine", ["count", "average"])
def test_parts_that_do_not_compare_are_told_to_whoever_keeps_the_map(
    predictor: Predictor, checkpoint: Checkpoint, tmp_path: Path, combine: str
) -> None:
    device = torch.device("cpu")
    parted = Predictor(checkpoint, Parted(predictor.layers), predictor.sampling, device)
    for number, (one, parts) in enumerate(((predictor, 1), (parted, 2))):
        said = io.StringIO()
        reporter, kept = Reporter(JsonSink(said)), Parts(tmp_path / str(number))
        found = FlowDensities(one, None, combine, "head", 1, kept, reporter)
        told = [e["text"] for e in json_lines(said.getvalue()) if e["event"] == "warning"]
        assert list(found.warnings) == told
        assert len(told) == parts - 1
        assert all(f"falls into {parts} parts that share no window" in text for text in told)
