"""Where a report's content comes from: the layers looked over once, and the training's log."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from geocfm.evaluation.report.history import MOST_POINTS, read_history
from geocfm.evaluation.report.overview import LayerView, look_over
from geocfm.evaluation.report.pictures import layer_picture
from geocfm.events import JsonSink, Reporter
from geocfm.geo.grid import Grid, Window
from geocfm.model.checkpoint import Checkpoint, LayerCard, ModelCard
from geocfm.run.report_extras import centre_of
from numpy.typing import NDArray
from PIL import Image
from small_data import DEGREES, UTM


class Planes:
    """Layers in memory."""

    def __init__(self, values: NDArray[np.float32], grid: Grid) -> None:
        self.values, self.grid = values, grid

    def read(self, window: Window) -> NDArray[np.float32]:
        return self.values[(slice(None), *window.slices_in(self.grid.window()))]


@pytest.mark.parametrize("grid", [UTM, DEGREES], ids=["metres", "degrees"])
@pytest.mark.parametrize("block", [1024, 32])
def test_coverage_is_by_area_and_pictures_are_means(
    grid: Grid, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("geocfm.evaluation.report.overview.THUMBNAIL", 25)  # squares of 5 cells
    monkeypatch.setattr("geocfm.data.windows.blocks.__defaults__", (block,))
    generator = np.random.default_rng(0)
    values = generator.normal(size=(3, grid.height, grid.width)).astype(np.float32)
    values[0, :70] = np.nan
    values[1] = generator.integers(1, 4, values.shape[1:])
    values[2, 17, 33] = np.inf
    values[2, :10, :10] = 0.0
    cards = [LayerCard(name="a"), LayerCard(name="b", categorical=True), LayerCard(name="c")]
    reporter = Reporter(JsonSink(io.StringIO()))
    views = look_over(Planes(values, grid), cards, True, reporter.stage("Looking"))
    km2 = np.broadcast_to(grid.cell_areas(grid.window()), values.shape[1:])
    valid = np.isfinite(values) & (values != 0)
    for view, card, plane, mask in zip(views, cards, values, valid, strict=True):
        assert view.coverage == pytest.approx(km2[mask].sum() / km2.sum())
        assert view.values.shape == (24, 20)
        squares = np.where(mask, plane, np.nan).reshape(24, 5, 20, 5)
        if card.categorical:
            np.testing.assert_array_equal(view.values, squares[:, 0, :, 0])
            continue
        for row, col in ((0, 0), (3, 6), (15, 2), (23, 19)):
            square = squares[row, :, col]
            if np.isfinite(square).any():
                assert view.values[row, col] == pytest.approx(np.nanmean(square), abs=1e-5)
            else:
                assert np.isnan(view.values[row, col])
    assert (views[0].coverage == pytest.approx(50 / 120)) == (grid is UTM)


def test_pictures_are_transparent_where_nothing_is_known() -> None:
    values = np.linspace(-5, 5, 600).reshape(20, 30).astype(np.float32)
    values[:4] = np.nan
    for classes, shown in (((), values), ((-1, 0, 2), np.sign(values) * 2)):
        png = layer_picture(LayerView(1.0, np.asarray(shown, dtype=np.float32)), classes)
        with Image.open(io.BytesIO(png)) as picture:
            pixels = np.asarray(picture.convert("RGBA"))
        assert pixels.shape == (20, 30, 4)
        assert (pixels[:4, :, 3] == 0).all()
        assert (pixels[4:, :, 3] == 255).all()
        assert len(np.unique(pixels[4:, :, :3].reshape(-1, 3), axis=0)) > 1
    for odd in (np.full((3, 3), np.nan), np.ones((3, 3))):
        assert layer_picture(LayerView(0.0, odd.astype(np.float32)), ()).startswith(b"\x89PNG")


def test_the_centre_of_a_target_lies_in_it() -> None:
    # x = 500000 + 100 column, y = 7000000 - 100 row
    assert centre_of(shapely.box(10, 20, 13, 25), UTM) == (501_150.0, 6_997_750.0)
    bent = shapely.Polygon([(0, 0), (9, 0), (9, 1), (1, 1), (1, 8), (9, 8), (9, 9), (0, 9)])
    ((col, row),) = UTM.to_pixel(*np.array([centre_of(bent, UTM)]).T)
    assert shapely.contains_xy(bent, col, row)
    assert not bent.contains(bent.centroid)
    # cells of 0.05 degrees from 10 E, 68 N
    assert centre_of(shapely.box(10, 20, 13, 25), DEGREES) == (10.575, 66.875)


def write_log(path: Path, provenance: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    lines = [{"provenance": provenance}, *rows]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def card(checkpoint: Checkpoint) -> ModelCard:
    metrics = {"training_loss": 3.0, "validation_loss": 2.5}
    return checkpoint.card.model_copy(update={"iterations": 600, "metrics": metrics})


def test_a_long_log_becomes_a_short_curve(card: ModelCard, tmp_path: Path) -> None:
    count = 3001
    losses = np.random.default_rng(1).normal(5, 1, count)
    rows: list[dict[str, Any]] = []
    for number, loss in enumerate(losses.tolist(), 1):
        rows.append({"iteration": number, "seconds": number / 10, "loss": loss})
        if number % 100 == 0:
            rows.append({"iteration": number, "seconds": number / 10, "validation_loss": 4.0})
    found = read_history(write_log(tmp_path / "log.jsonl", card.provenance, rows), card)
    assert found is not None
    assert (found.iterations, found.seconds) == (count, pytest.approx(count / 10))
    assert (found.best_iteration, found.best_validation) == (600, 2.5)
    assert len(found.loss.value) <= MOST_POINTS
    assert np.mean(found.loss.value) == pytest.approx(losses.mean(), abs=0.01)
    assert found.loss.value[0] == pytest.approx(losses[:10].mean())
    assert found.loss.iteration[0] in range(1, 11)
    assert found.loss.iteration[-1] > 2990
    assert found.validation.iteration == tuple(range(100, count, 100))
    assert set(found.validation.value) == {4.0}


def test_the_real_log_is_read(checkpoint: Checkpoint, trained: Any) -> None:
    log = trained.checkpoint.with_name("model.log.jsonl")
    found = read_history(log, checkpoint.card)
    assert found is not None
    assert found.iterations == trained.iterations
    assert found.best_iteration == checkpoint.card.iterations
    steps = [row["loss"] for row in trained.log if "loss" in row]
    assert found.loss.value == pytest.approx(tuple(steps))


def test_a_log_that_is_not_the_models_is_none(card: ModelCard, tmp_path: Path) -> None:
    row = {"iteration": 1, "seconds": 0.1, "loss": 2.0}
    path = tmp_path / "log.jsonl"
    assert read_history(path, card) is None
    assert read_history(write_log(path, {"job": {}}, [row]), card) is None
    assert read_history(write_log(path, card.provenance, []), card) is None
    write_log(path, card.provenance, [row])
    path.write_text(path.read_text() + '{"iterat', encoding="utf-8")
    assert read_history(path, card) is None
    broken = {**row, "iteration": 2, "loss": "nan"}
    found = read_history(write_log(path, card.provenance, [row, broken]), card)
    assert found is not None
    assert found.loss.value == (2.0,)
    unjudged = card.model_copy(update={"metrics": {"training_loss": 3.0}})
    last = read_history(path, unjudged)
    assert last is not None
    assert last.best_validation is None
