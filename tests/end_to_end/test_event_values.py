"""Every event of every command is JSON that keeps to its schema, whatever the layers hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geocfm.events import Event, JsonSink, Progressed, Reported, Reporter
from pydantic import TypeAdapter, ValidationError
from small_data import COLUMNS, ROWS, TINY_NETWORK, UTM, SmallRegion, write_raster

SAMPLE = Path(__file__).resolve().parents[2] / "resources" / "sample"
EVENT: TypeAdapter[Any] = TypeAdapter(Event)

Said = Callable[..., list[Any]]


@pytest.fixture
def said(geocfm: Callable[..., Any]) -> Said:
    """Run a command with --json, and give its events; all of them keep to the schema."""

    def run(*arguments: object, code: int = 0) -> list[Any]:
        result = geocfm(*arguments, "--json")
        assert result.exit_code == code, result.stdout[-2000:]
        return [EVENT.validate_json(line) for line in result.stdout.splitlines()]

    return run


@pytest.fixture(scope="module")
def odd_layers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Layers that leave a statistic without meaning, or hold other than measurements."""
    folder = tmp_path_factory.mktemp("odd")
    row, col = np.mgrid[:ROWS, :COLUMNS]
    values = {
        "constant": np.full((ROWS, COLUMNS), 7.5, np.float32),
        "integer": (row + 3 * col).astype(np.int16),
        "rock": (1 + row // 40).astype(np.uint8),
        "one": np.ones((ROWS, COLUMNS), np.uint8),
    }
    paths = {}
    for name, plane in values.items():
        paths[name] = write_raster(folder / f"{name}.tif", plane, UTM, nodata=None)
    empty = np.full((ROWS, COLUMNS), -9999, np.float32)
    paths["empty"] = write_raster(folder / "empty.tif", empty, UTM)
    return paths


def rasters(paths: dict[str, Path], *names: str) -> list[object]:
    return [text for name in names for text in ("--raster", f"{name}={paths[name]}")]


def report(events: list[Any], kind: str) -> dict[str, Any]:
    (found,) = [each for each in events if isinstance(each, Reported) and each.kind == kind]
    return dict(found.content)


@pytest.mark.parametrize(
    ("names", "classes", "code"),
    [
        (["constant"], [], 2),
        (["constant", "integer", "rock"], ["rock"], 0),
        (["rock", "one"], ["rock", "one"], 0),
        (["one"], ["one"], 2),
        (["integer", "empty"], [], 2),
        (["rock", "empty"], ["rock", "empty"], 2),
    ],
)
def test_a_check_of_odd_layers(
    said: Said,
    small_region: SmallRegion,
    odd_layers: dict[str, Path],
    names: list[str],
    classes: list[str],
    code: int,
) -> None:
    chosen = [text for name in classes for text in ("--classes", name)]
    events = said(
        *("check", *rasters(odd_layers, *names), *chosen, *TINY_NETWORK[:4]),
        *("--occurrences", small_region.occurrences),
        code=code,
    )
    found = report(events, "check")
    assert found["can_train"] is (code == 0)
    constant = {layer["name"]: layer["constant"] for layer in found["layers"]}
    assert constant == {name: name == "constant" for name in names}


def test_a_check_of_the_sample_with_the_paper_s_windows(said: Said) -> None:
    events = said(
        *("check", "--raster", SAMPLE / "rasters" / "*.tif", "--preset", "paper-earthmri"),
        *("--occurrences", next(SAMPLE.glob("*.gpkg"))),
    )
    assert report(events, "check")["can_train"] is True


def test_a_whole_run_on_odd_layers(
    said: Said, small_region: SmallRegion, odd_layers: dict[str, Path], tmp_path: Path
) -> None:
    layers = rasters(odd_layers, "constant", "integer", "rock")
    known = ["--occurrences", small_region.occurrences]
    model, density, unsure = (
        tmp_path / name for name in ("model.safetensors", "map.tif", "unsure.tif")
    )
    said(
        *("train", *layers, "--classes", "rock", *known, *TINY_NETWORK, "--iterations", 4),
        *("--set", "training.preview_every=4", "--out", model),
    )
    applied = ["--checkpoint", model, *layers]
    report(said("info", model), "model")
    mapped = said("map", *applied, "--uncertainty", unsure, "--out", density)
    found = report(mapped, "map")
    assert found.keys() == {"area_km2"}
    assert found["area_km2"] > 0
    said("sample", *applied, "--points", 20, "--draws", 2, "--out", tmp_path / "points.gpkg")
    ranked = said(
        *("targets", "--map", density, *known, "--uncertainty", unsure, *applied),
        *("--out", tmp_path / "targets.gpkg"),
    )
    assert report(ranked, "targets")["targets"]
    judged = said("evaluate", *applied, *known, "--out", tmp_path / "evaluation")
    assert report(judged, "evaluation")
    emptied = ["--raster", f"constant={odd_layers['empty']}", *layers[2:]]
    said("map", "--checkpoint", model, *emptied, "--out", tmp_path / "emptied.tif")


@pytest.mark.parametrize("value", [np.float32(1), np.int64(1), Path("a"), {1, 2}, object()])
def test_a_report_holds_only_what_json_has(value: Any) -> None:
    with pytest.raises(ValidationError):
        Reported(kind="check", content={"layers": [{"constant": value}]})


def test_a_report_has_lists_for_tuples() -> None:
    made = Reported(kind="cross-validation", content={"rates": [{"share": (0.0, (0.1, None))}]})
    assert made.content == {"rates": [{"share": [0.0, [0.1, None]]}]}


def test_a_report_makes_json_of_what_numpy_calls_true(capsys: pytest.CaptureFixture[str]) -> None:
    JsonSink().emit(Reported(kind="check", content={"layers": [{"constant": np.bool_(True)}]}))
    (event,) = map(EVENT.validate_json, capsys.readouterr().out.splitlines())
    assert event.content["layers"][0]["constant"] is True


def test_a_loss_that_is_no_number_keeps_to_the_schema(capsys: pytest.CaptureFixture[str]) -> None:
    stage = Reporter(JsonSink()).stage("Training")
    stage(1, 1, loss=math.nan, validation=math.inf, rate=0.5)
    (event,) = map(EVENT.validate_json, capsys.readouterr().out.splitlines())
    assert isinstance(event, Progressed)
    assert event.values == {"rate": 0.5}
