"""The report that an evaluation and a training end with, by the real commands."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from child_process import ended, read_until, started
from geocfm.data.split import TRAIN, Split
from geocfm.errors import UserError
from geocfm.geo.grid import Grid
from geocfm.model.checkpoint import load_card
from report_page import Page
from small_data import (
    ALONE,
    DEGREES,
    ROTATED,
    TINY_NETWORK,
    SmallRegion,
    json_lines,
    write_raster,
    write_region,
    write_shapes,
)

Geocfm = Callable[..., Any]
WITHIN = 15.0  # seconds


def training(region: SmallRegion, out: Path, *more: object) -> list[object]:
    return [
        *("train", *region.raster_options, "--occurrences", region.occurrences, *TINY_NETWORK),
        *("--iterations", 4, "--set", "training.save_every=0.01", *ALONE, *more, "--out", out),
    ]


def evaluating(region: SmallRegion, model: Path, out: Path, *more: object) -> list[object]:
    given = ("--checkpoint", model, *region.raster_options, "--occurrences", region.occurrences)
    return ["evaluate", *given, *ALONE, *more, "--out", out]


def done(result: Any) -> str:
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def told_by(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def without_time_and_place(told: dict[str, Any]) -> dict[str, Any]:
    """A report but for when and where it was made."""
    model = {**told["model"], "created": None, "name": None}
    training = {**(told["training"] or {}), "seconds": None}
    return {**told, "model": model, "training": training, "provenance": None}


@pytest.fixture(scope="module")
def of_training(trained: Any) -> dict[str, Any]:
    return told_by(trained.checkpoint.with_name("model.report.json"))


@pytest.fixture(scope="module")
def evaluated(
    small_region: SmallRegion, trained: Any, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    from geocfm.cli import app
    from typer.testing import CliRunner

    out = tmp_path_factory.mktemp("evaluated") / "figures"
    command = evaluating(small_region, trained.checkpoint, out, "--baselines", "auto")
    result = CliRunner().invoke(app, [str(part) for part in command])
    assert result.exit_code == 0, result.output
    return out


def test_the_usual_methods_are_in_every_report(
    of_training: dict[str, Any], evaluated: Path, trained: Any
) -> None:
    figures = told_by(evaluated / "evaluation.json")
    assert list(figures["baselines"]) == ["rf", "ipp"]
    assert "within_windows" not in figures  # which takes minutes, and is in no report
    for told in (of_training, told_by(evaluated / "report.json")):
        rows = told["extras"]["baselines"]["rows"]
        assert [row["title"] for row in rows] == ["Random Forest", "Poisson process"]
        assert told["extras"]["baselines_left_out"] is None
        assert "its keep" in told["summary"]["worth"][-1]
    assert trained.stderr == ""


def test_none_leaves_other_methods_out(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    done(geocfm(*training(small_region, tmp_path / "m.safetensors")))
    extras = told_by(tmp_path / "m.report.json")["extras"]
    assert extras["baselines"] is extras["baselines_left_out"] is None
    assert "Other methods" not in (tmp_path / "m.report.html").read_text(encoding="utf-8")


def test_what_nobody_asked_for_is_left_out_where_it_is_a_burden(
    geocfm: Geocfm,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def evaluate(out: str, *more: object) -> Any:
        quick = ("--skip-importance", "--steps", 1)
        return geocfm(*evaluating(small_region, trained.checkpoint, tmp_path / out, *quick, *more))

    def ensure_left_out(out: str, why: str) -> None:
        said = done(evaluate(out, "--baselines", "auto"))
        told = told_by(tmp_path / out / "report.json")["extras"]
        assert told["baselines"] is None
        assert why in told["baselines_left_out"]
        assert told["baselines_left_out"].endswith("by name: --baselines rf,ipp.")
        assert said.count(told["baselines_left_out"]) == 1
        page = (tmp_path / out / "report.html").read_text(encoding="utf-8")
        assert "Other methods were not measured beside the model" in page

    def refuse(*_: object) -> None:
        raise UserError("Looking at the layers would need 3 GB.", "Leave out --baselines.")

    def fail(*_: object) -> None:
        raise ValueError("no such forest")

    with monkeypatch.context() as changed:
        changed.setattr("geocfm.run.report_baselines.MOST_CELLS_UNASKED", 11_999)
        ensure_left_out("large", "the region has 12,000 cells, and with more than 11,999 they")
    with monkeypatch.context() as changed:
        changed.setattr("geocfm.run.baselines.ensure_baselines_fit", refuse)
        ensure_left_out("memory", ": looking at the layers would need 3 GB. They can")
        asked = evaluate("asked", "--baselines", "rf,ipp")
        assert asked.exit_code == 2
        assert "Leave out --baselines" in " ".join(asked.output.split())
    with monkeypatch.context() as changed:
        changed.setattr("geocfm.run.report_baselines.ensure_room", refuse)
        ensure_left_out("room", "would need 3 GB.")
    monkeypatch.setattr("geocfm.run.baselines.BaselineWork.beside", fail)
    ensure_left_out("failed", "ValueError: no such forest.")


def test_the_report_tells_what_the_evaluation_found(
    evaluated: Path, small_region: SmallRegion, trained: Any
) -> None:
    told, figures = told_by(evaluated / "report.json"), told_by(evaluated / "evaluation.json")
    names = {"prediction_rate": "test", "validation_rate": "validation", "success_rate": "train"}
    for name, role in names.items():
        assert told[name]["occurrences"] == figures[role]["occurrences"] > 0
        assert told[name]["area_km2"] == pytest.approx(figures[role]["area_km2"])
        assert told[name]["under_curve"]["value"] == pytest.approx(
            figures[role]["area_under_curve"]
        )
        for one in told[name]["at"]:
            captured = figures[role]["captured"][f"{one['area_share']:g}"]
            assert one["captured"]["value"] == pytest.approx(captured, abs=1e-9)
    own = figures["held_out_captured_at_0.1"]
    at_ten = told["prediction_rate"]["at"][2]["captured"]
    assert (at_ten["low"], at_ten["high"]) == (
        pytest.approx(own["low"]),
        pytest.approx(own["high"]),
    )
    crossing = told["prediction_area"]
    assert crossing["prediction_rate"] + crossing["occupied_area"] == pytest.approx(1)
    assert told["occurrences"]["read"] == told["occurrences"]["used"] == 60
    assert [layer["name"] for layer in told["layers"]] == ["ridge", "slope", "noise"]
    hole = 14 * 18 / 12_000
    assert [layer["coverage"] for layer in told["layers"]] == pytest.approx([1 - hole] * 3)
    targets = told["extras"]["targets"]
    assert targets
    places = small_region.grid.to_pixel(*np.array([(one["x"], one["y"]) for one in targets]).T)
    assert np.allclose(places % 1, 0.5)  # centres of cells
    assert ((places > 0) & (places < (100, 120))).all()
    assert told["training"]["iterations"] == trained.iterations  # the log lies beside the model
    assert told["provenance"] == figures["provenance"]
    assert told["effort"] is None
    trained_on = figures["train"]["occurrences"]
    assert (
        f"60 occurrences in occurrences.gpkg (it learned from the {trained_on} on"
        in (told["summary"]["found"][0])
    )
    assert (told["model"]["networks"], told["model"]["other_iterations"]) == (1, [])
    card = load_card(trained.checkpoint)
    assert told["model"]["created"] == card.created
    page = (evaluated / "report.html").read_text(encoding="utf-8")
    parsed = Page(page)
    assert parsed.foreign() == []
    pictures = [given["src"] for tag, given in parsed.tags if tag == "img"]
    assert sum(str(source).startswith("data:image/png") for source in pictures) == 1 + 3 + len(
        told["extras"]["uncertainty"]
    )
    assert f"{100 * at_ten['value']:.0f}\u00a0% of the" in page
    for sentence in told["summary"]["caveats"]:
        assert sentence[:40] in page


def test_a_training_reports_what_evaluating_it_would(
    of_training: dict[str, Any], evaluated: Path, trained: Any
) -> None:
    again = told_by(evaluated / "report.json")
    assert without_time_and_place(of_training) == without_time_and_place(again)
    assert of_training["provenance"]["job"]["command"] == "train"
    page = trained.checkpoint.with_name("model.report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "GeoCFM report: model" in page
    events = json_lines(trained.stdout)
    told = [event["path"] for event in events if event.get("kind") == "report"]
    assert told == [str(trained.checkpoint.with_name("model.report.html"))]
    assert not [event for event in events if "could not be made" in event.get("text", "")]


def test_a_report_that_was_not_asked_for_is_not_made(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "m.safetensors"
    said = geocfm(*training(small_region, out, "--skip-report"), "--json").output
    assert "Mapping" not in said
    assert {path.name for path in tmp_path.iterdir()} == {
        *("m.safetensors", "m.last.safetensors", "m.log.jsonl", "m.occurrences.gpkg"),
    }


@pytest.mark.parametrize("stop", ["kill", "terminate"])
def test_a_training_stopped_in_its_report_goes_on_with_it(
    stop: str, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    whole, out = tmp_path / "whole.safetensors", tmp_path / "m.safetensors"
    slow = ("--set", "sampling.steps=12")
    done(geocfm(*training(small_region, whole, *slow)))
    with started(*training(small_region, out, *slow)) as child:
        read_until(child, "Mapping", 0.6)
        if stop == "kill":
            child.kill()
        else:
            child.send_signal(signal.SIGTERM)
            events, error = ended(child, WITHIN)
            assert (child.returncode, error, events[-1]["event"]) == (130, "", "cancelled")
    unfinished = tmp_path / "m.unfinished.safetensors"
    assert unfinished.exists() == (stop == "terminate")  # the model is there to be used
    assert not out.exists()
    events = json_lines(geocfm(*training(small_region, out, *slow), "--json").output)
    mapped = [e["done"] for e in events if e["event"] == "progress" and e["stage"] == "Mapping"]
    assert not mapped or mapped[0] > 0  # what was mapped is not mapped again
    found, expected = (told_by(p.with_suffix(".report.json")) for p in (out, whole))
    assert without_time_and_place(found) == without_time_and_place(expected)
    names = {path.name.removeprefix("whole.") for path in tmp_path.glob("whole.*")}
    assert {path.name for path in tmp_path.glob("*")} == {
        f"{model}.{name}" for model in ("m", "whole") for name in names
    }


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("a bug"), UserError("No memory for it.", "Buy some.")]
)
def test_the_model_is_delivered_even_if_its_report_fails(
    error: Exception,
    geocfm: Geocfm,
    small_region: SmallRegion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stumble(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("geocfm.run.reporting.evaluate_map", stumble)
    out = tmp_path / "m.safetensors"
    page = tmp_path / "m.report.html"
    page.write_text("the report of an earlier model")
    said = done(geocfm(*training(small_region, out, "--overwrite")))
    assert "The report could not be made." in said
    assert ("No memory for it." in said) or ("ZeroDivisionError: a bug" in said)
    assert "geocfm evaluate" in said
    assert load_card(out).iterations
    assert not page.exists()
    assert not (tmp_path / ".m.safetensors.work").exists()


def test_a_model_made_anew_is_not_mapped_from_parts_of_the_old_one(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "m.safetensors"
    slow = ("--set", "sampling.steps=12")
    with started(*training(small_region, out, *slow)) as child:
        read_until(child, "Mapping", 0.3)
        child.kill()
    work = tmp_path / ".m.safetensors.work"
    assert list((work / "strips").glob("*.npz"))
    state = work / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    events = json_lines(geocfm(*training(small_region, out, *slow), "--json").output)
    assert any("begins anew" in event.get("text", "") for event in events)
    first = next(e for e in events if e["event"] == "progress" and e["stage"] == "Mapping")
    assert first["done"] == 0


def test_a_region_of_one_tile_has_a_report_that_says_so(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    name = 'größe <b>& "Ω"'
    out = tmp_path / "m.safetensors"
    one = [*TINY_NETWORK[:2], "--tile", 200, *TINY_NETWORK[4:]]
    result = geocfm(
        *("train", "--raster", f"{name}={small_region.raster('ridge')}"),
        *("--occurrences", small_region.occurrences, *one, "--iterations", 2, "--out", out),
    )
    assert "could not be made" not in done(result)
    told = told_by(tmp_path / "m.report.json")
    assert (told["prediction_rate"], told["calibration"]) == (None, None)
    assert told["success_rate"]["low"] is None  # one tile
    assert "on training tiles" not in told["model"]["learned_from"]  # all of them are
    assert told["training"]["best_validation"] is None
    assert "cannot be told" in told["summary"]["worth"][0]
    page = (tmp_path / "m.report.html").read_text(encoding="utf-8")
    assert "größe &lt;b&gt;&amp; &quot;Ω&quot;" in page
    assert name not in page
    assert "No known occurrence lies on the held-out tiles" in page
    assert told["extras"]["baselines_left_out"].startswith("The model learned from all tiles")


def test_an_evaluation_without_held_out_occurrences_says_so(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    split = Split.from_card(load_card(trained.checkpoint).split)
    seen = small_region.points[split.role_of_points(small_region.points) == TRAIN]
    outside = np.concatenate([seen, [[-50.0, -50.0], [60.0, 37.0]]])  # off the grid, in the hole
    world = shapely.points(small_region.grid.to_world(outside))
    points = write_shapes(tmp_path / "some.gpkg", world, small_region.grid.crs)
    command = evaluating(small_region, trained.checkpoint, tmp_path / "out", "--steps", 1)
    command[command.index(small_region.occurrences)] = points
    done(geocfm(*command))
    told = told_by(tmp_path / "out" / "report.json")
    assert told["prediction_rate"] is None
    used = told["occurrences"]
    assert used["sharing_a_cell"] > 0
    assert (used["read"], used["used"]) == (len(outside), len(seen))
    assert used["left_out"] == [
        {"count": 1, "reason": "outside the grid"},
        {"count": 1, "reason": "where no layer has data"},
    ]
    assert used["by_role"] == {"train": len(seen), "validation": 0, "test": 0}


@pytest.mark.parametrize("grid", [DEGREES, ROTATED], ids=["degrees", "rotated"])
def test_areas_are_those_of_the_cells_on_any_grid(
    grid: Grid, geocfm: Geocfm, tmp_path: Path
) -> None:
    region = write_region(tmp_path / "region", grid)
    out = tmp_path / "m.safetensors"
    assert "could not be made" not in done(geocfm(*training(region, out)))
    told = told_by(tmp_path / "m.report.json")
    km2 = np.broadcast_to(grid.cell_areas(grid.window()), (grid.height, grid.width)).copy()
    everywhere = km2.sum()
    km2[30:44, 52:70] = 0  # the hole
    rates = [told[name]["area_km2"] for name in ("prediction_rate", "success_rate")]
    assert sum(rates) + told["validation_rate"]["area_km2"] == pytest.approx(km2.sum(), rel=1e-6)
    assert told["map"]["area_km2"] == pytest.approx(km2.sum(), rel=1e-6)
    for layer in told["layers"]:
        assert layer["coverage"] == pytest.approx(km2.sum() / everywhere, rel=1e-6)


def test_a_model_of_an_area_is_evaluated_inside_it(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    grid, out = small_region.grid, tmp_path / "m.safetensors"
    corners = [(20.5, 5.4), (94.4, 5.4), (94.4, 109.6), (5.4, 109.6)]
    part = shapely.polygons(grid.to_world(corners))
    area = write_shapes(tmp_path / "area.gpkg", [part], grid.crs)
    assert "could not be made" not in done(geocfm(*training(small_region, out, "--aoi", area)))
    own, again = tmp_path / "m.report.json", tmp_path / "evaluation" / "report.json"
    done(geocfm(*evaluating(small_region, out, again.parent, "--baselines", "uniform")))
    trained, evaluated = (without_time_and_place(told_by(path)) for path in (own, again))
    assert 60 > trained["occurrences"]["used"] > 0
    assert {"count": 60 - trained["occurrences"]["used"], "reason": "outside the grid"} in (
        evaluated["occurrences"]["left_out"]
    )
    row, col = np.mgrid[:120, :100] + 0.5
    cells = shapely.contains_xy(shapely.polygons(corners), col, row)
    cells[30:44, 52:70] = False  # the hole
    assert evaluated["map"]["area_km2"] == pytest.approx(cells.sum() / 100, rel=1e-3)
    assert evaluated["extras"]["baselines"]["rows"][0]["title"] == "Uniform"
    for told in (trained, evaluated):
        told["extras"]["baselines"] = told["summary"]["worth"] = None
    assert evaluated == trained

    area.unlink()
    warned = done(geocfm(*evaluating(small_region, out, tmp_path / "all", "--steps", 1)))
    assert "area of interest that cannot be read any more" in warned
    told = told_by(tmp_path / "all" / "report.json")
    assert "cannot be read any more" in " ".join(told["summary"]["caveats"])
    assert told["map"]["area_km2"] > evaluated["map"]["area_km2"]


def test_a_copied_model_has_a_report_without_its_training_curves(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    model = Path(shutil.copy(trained.checkpoint, tmp_path / "copied.safetensors"))
    done(geocfm(*evaluating(small_region, model, tmp_path / "out", "--steps", 1)))
    assert told_by(tmp_path / "out" / "report.json")["training"] is None
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "does not lie beside the model" in page
    assert "done before" in done(
        geocfm(*evaluating(small_region, model, tmp_path / "out", "--steps", 1))
    )


def test_what_a_model_has_never_seen_is_told_and_shown(
    geocfm: Geocfm,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with rasterio.open(small_region.raster("slope")) as source:
        values = source.read(1)
    values[:, 70:] = np.where(values[:, 70:] == -9999, -9999, 5000)  # of 300 to 640
    strange = write_raster(tmp_path / "strange.tif", values, small_region.grid)
    layers = [f"slope={strange}", *(str(small_region.raster(n)) for n in ("ridge", "noise"))]
    given = [text for layer in layers for text in ("--raster", layer)]
    known = ("--occurrences", small_region.occurrences, "--steps", 1, "--skip-importance")
    command = ("evaluate", "--checkpoint", trained.checkpoint, *given, *known, *ALONE)
    done(geocfm(*command, "--out", tmp_path / "all"))
    told = told_by(tmp_path / "all" / "report.json")
    share = told["extras"]["outside_share"]
    assert share == pytest.approx(0.3, abs=0.05)
    assert f"Here {100 * share:.0f} % of the mapped area lies outside" in " ".join(
        told["summary"]["caveats"]
    )
    (picture,) = told["extras"]["uncertainty"]
    assert picture["title"] == "Where the model has never been"

    monkeypatch.setattr("geocfm.run.report_extras.MOST_JUDGED", 700)  # every fifth row and column
    done(geocfm(*command, "--out", tmp_path / "some"))
    some = told_by(tmp_path / "some" / "report.json")["extras"]
    assert some["outside_share"] == pytest.approx(share, abs=0.02)
    assert some["outside_share"] != share
    assert len(some["uncertainty"]) == 1
