"""Several networks as one model, and models that never saw the tile they are asked about."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
import safetensors
from child_process import read_until, started
from geocfm.data.split import ROLES
from geocfm.model.checkpoint import load_card
from geocfm.run.folds import read_pooled_rates
from geocfm.run.pooled import Pooled, read_pooled
from numpy.typing import NDArray
from small_data import ALONE, TINY, TINY_NETWORK, SmallRegion, json_lines, run_geocfm

ITERATIONS = 25


def training(
    region: SmallRegion, out: Path, *more: object, network: list[str] = TINY
) -> list[object]:
    return [
        *("train", *region.raster_options, "--occurrences", region.occurrences, *network),
        *("--iterations", ITERATIONS, "--set", "training.save_every=0.01", *more, "--out", out),
    ]


def finish(*arguments: object) -> list[dict[str, Any]]:
    done = run_geocfm(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json_lines(done.stdout)


def notes(events: list[dict[str, Any]]) -> str:
    return "\n".join(event["text"] for event in events if event["event"] == "note")


def tensors(path: Path) -> dict[str, NDArray[Any]]:
    with safetensors.safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def ensemble(small_region: SmallRegion, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ensemble") / "model.safetensors"
    finish(*training(small_region, out, "--ensemble", 3))
    return out


def test_an_ensemble_is_one_file_with_networks_that_differ(ensemble: Path) -> None:
    card, found = load_card(ensemble), tensors(ensemble)
    assert len(card.others) == 2
    assert len({card.seed, *(other.seed for other in card.others)}) == 3
    own = [name for name in found if not name.startswith(("member.", "experience."))]
    for number in (1, 2):
        assert {f"member.{number}.{name}" for name in own} <= found.keys()
        assert not np.array_equal(
            found["unet.final.weight"], found[f"member.{number}.unet.final.weight"]
        )
    assert any("ensemble of 3 networks" in sentence for sentence in card.sentences())
    assert not list(ensemble.parent.glob("*unfinished*"))
    assert not list(ensemble.parent.glob(".*"))  # nothing is left of the work


def test_an_ensemble_tells_its_uncertainty_beside_the_map(
    ensemble: Path, small_region: SmallRegion, tmp_path: Path
) -> None:
    given = ("--checkpoint", ensemble, *small_region.raster_options)
    beside = tmp_path / "uncertainty.tif"
    events = finish("map", *given, "--uncertainty", beside, "--out", tmp_path / "map.tif")
    with rasterio.open(beside) as source, rasterio.open(tmp_path / "map.tif") as map_:
        assert source.descriptions == (
            *("coefficient of variation", "mutual information", "outside experience"),
        )
        assert (source.crs, source.transform) == (map_.crs, map_.transform)
        variation, information, outside = source.read()
        density = map_.read(1)
    shown = np.isfinite(density)
    for band in (variation, information, outside):
        assert np.array_equal(np.isfinite(band), shown)
    assert (variation[shown] >= 0).all()
    assert variation[shown].mean() > 0.01
    assert (information[shown] > -1e-6).all()
    assert set(np.unique(outside[shown])) <= {0.0, 1.0}
    assert "what the model has seen" in notes(events)
    assert [str(beside)] == [
        event["path"] for event in events if event.get("kind") == "uncertainty"
    ]


def test_a_single_network_has_only_its_experience_to_tell(
    trained: Any, small_region: SmallRegion, tmp_path: Path
) -> None:
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    beside = tmp_path / "uncertainty.tif"
    events = finish("map", *given, "--uncertainty", beside, "--out", tmp_path / "map.tif")
    with rasterio.open(beside) as source:
        assert source.descriptions == ("outside experience",)
    assert "--ensemble 3" in notes(events)


def test_the_error_of_draws_is_told_of_draws_alone(
    paper_model: Path,
    trained: Any,
    small_region: SmallRegion,
    refused: Callable[..., str],
    tmp_path: Path,
) -> None:
    layers = small_region.raster_options
    error = ("--monte-carlo-error", tmp_path / "error.tif", "--out", tmp_path / "map.tif")
    refused(
        ["map", "--checkpoint", trained.checkpoint, *layers, *error],
        "has no Monte-Carlo error: it is one pass of the network",
        "Leave out --monte-carlo-error",
    )
    finish("map", "--checkpoint", paper_model, *layers, *error)
    assert {path.name for path in tmp_path.iterdir()} == {"error.tif", "map.tif"}  # no work left
    with rasterio.open(tmp_path / "error.tif") as source:
        assert source.descriptions == ("Monte-Carlo error",)
        assert "more draws make it smaller" in source.tags()["GEOCFM_MEANING"]
        assert 0 < np.nanmean(source.read(1)) < 1


def test_an_ensemble_draws_and_is_evaluated(
    ensemble: Path, small_region: SmallRegion, tmp_path: Path
) -> None:
    given = ("--checkpoint", ensemble, *small_region.raster_options)
    finish("sample", *given, "--points", 30, "--draws", 2, "--out", tmp_path / "points.gpkg")
    assert pyogrio.read_info(tmp_path / "points.gpkg")["features"] == 60
    known = ("--occurrences", small_region.occurrences)
    finish("evaluate", *given, *known, *ALONE, "--out", tmp_path / "evaluation")
    page = (tmp_path / "evaluation" / "report.html").read_text(encoding="utf-8")
    assert "Where the members of the ensemble disagree" in page
    told = json.loads((tmp_path / "evaluation" / "report.json").read_text(encoding="utf-8"))
    assert told["model"]["networks"] == 3
    kept = [other.iterations for other in load_card(ensemble).others]
    assert told["model"]["other_iterations"] == kept
    assert "an ensemble of 3 networks" in " ".join(told["summary"]["found"])


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_an_ensemble_killed_in_its_second_member_goes_on(
    ensemble: Path, small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    command = training(small_region, out, "--ensemble", 3)
    with started(*command) as child:
        read_until(child, "Training member 2", 0.4)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    assert (tmp_path / "model.unfinished.safetensors").exists()
    finish(*command)
    one, other = tensors(ensemble), tensors(out)
    assert one.keys() == other.keys()
    assert all(one[name].tobytes() == other[name].tobytes() for name in one)
    assert not list(tmp_path.glob("*unfinished*"))


def test_folds_map_every_tile_by_a_model_that_has_not_seen_it(
    small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    events = finish(*training(small_region, out, "--folds", 3, network=TINY_NETWORK))
    assert "each mapped by a model that had not seen its tile" in notes(events)
    card = load_card(out)
    assert {role for row in card.split.roles for role in row} == {ROLES[0]}
    assert not list(tmp_path.glob(".*"))  # nothing is left of the work
    figures = json.loads((tmp_path / "model.folds.json").read_text(encoding="utf-8"))
    assert len(figures["best_iterations"]) == 3
    assert card.settings.training.iterations == round(np.median(figures["best_iterations"]))
    with rasterio.open(tmp_path / "model.folds.tif") as source:
        density = source.read(1)
    shown = np.isfinite(density)
    assert density[shown].mean() == pytest.approx(1, rel=1e-3)
    # capture by another way: how many cells are denser than an occurrence's
    col, row = np.floor(small_region.points).astype(int).T
    inside = shown[row, col]
    denser = [(density[shown] > value).mean() for value in density[row, col][inside]]
    rates = figures["rates"]
    assert rates["occurrences"] == inside.sum()
    assert rates["under_curve"]["value"] == pytest.approx(1 - np.mean(denser), abs=0.01)
    captured = {one["area_share"]: one["captured"]["value"] for one in rates["at"]}
    assert captured[0.1] == pytest.approx(np.mean(np.array(denser) < 0.1), abs=0.03)
    told = json.loads((tmp_path / "model.report.json").read_text(encoding="utf-8"))
    assert told["extras"]["cross_validation"] == rates
    area = told["prediction_area"]
    assert area["occurrences"] == inside.sum()
    assert area["prediction_rate"] + area["occupied_area"] == pytest.approx(1)
    above = density[shown] >= area["crossing"]
    assert area["occupied_area"] == pytest.approx(above.mean(), abs=0.01)
    found = density[row, col][inside] >= area["crossing"]
    assert area["prediction_rate"] == pytest.approx(found.mean(), abs=0.03)
    calibration = told["calibration"]["before"]
    mass = density[shown].sum(dtype=np.float64)
    before = [density[density > value].sum() / mass for value in density[row, col][inside]]
    for share in (0.3, 0.5, 0.8):
        observed = calibration["observed"][calibration["nominal"].index(share)]
        assert observed == pytest.approx(np.mean(np.array(before) < share), abs=0.04)
    assert told["calibration"]["after"] is None
    assert told["summary"]["worth"][0].startswith("Cross-validated")
    assert "cannot be told" not in " ".join(told["summary"]["worth"])
    page = (tmp_path / "model.report.html").read_text(encoding="utf-8")
    assert "Which layers matter cannot be told: no occurrence" in page
    assert told["extras"]["baselines"] is None
    assert told["extras"]["baselines_left_out"].startswith("The model learned from all tiles")

    # what judges the model is beside it, so evaluating it tells the same
    given = (*small_region.raster_options, "--occurrences", small_region.occurrences)
    events = finish("evaluate", "--checkpoint", out, *given, "--out", tmp_path / "own")
    own = json.loads((tmp_path / "own" / "report.json").read_text(encoding="utf-8"))
    assert own["extras"]["cross_validation"] == rates
    for worth in ("prediction_area", "calibration"):
        assert own[worth] == told[worth] == figures[worth]
    assert own["extras"]["baselines_left_out"] == told["extras"]["baselines_left_out"]
    assert own["summary"]["worth"] == told["summary"]["worth"]
    assert "When it was made, cross-validation found" in notes(events)
    assert not [event for event in events if "cannot be judged" in event.get("text", "")]
    evaluated = json.loads((tmp_path / "own" / "evaluation.json").read_text(encoding="utf-8"))
    assert evaluated["cross_validation"] == rates


def test_the_folds_of_another_model_judge_none(trained: Any, tmp_path: Path) -> None:
    card, figures = load_card(trained.checkpoint), tmp_path / "model.folds.json"
    curve = {
        "occurrences": 3,
        "tiles": 2,
        "area_km2": 5.0,
        "area_of_half": 0.2,
        "area_share": [0.0, 1.0],
        "captured": [0.0, 1.0],
        "low": None,
        "high": None,
        "at": [{"area_share": 0.1, "captured": {"value": 0.5, "low": None, "high": 1.0}}],
        "under_curve": {"value": 0.8, "low": None, "high": None},
    }
    assert read_pooled_rates(figures, card) is None
    for provenance, content in (
        (card.provenance, curve),
        ({"job": {}}, curve),
        (card.provenance, {**curve, "at": 3}),
        (card.provenance, None),
    ):
        text = json.dumps({"rates": content, "provenance": provenance})
        figures.write_text(text, encoding="utf-8")
        found = read_pooled_rates(figures, card)
        right = provenance == card.provenance and content == curve
        assert (found is not None) == right
        assert read_pooled(figures, card) == Pooled(found)  # of before: with the rates alone
        if found is not None:
            assert json.loads(json.dumps(asdict(found))) == curve
    figures.write_text("[1", encoding="utf-8")
    assert read_pooled_rates(figures, card) is None


def test_folds_that_leave_nothing_to_learn_from_are_refused(
    small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    refused = run_geocfm(*training(small_region, out, "--folds", 3), "--tile", 120)
    assert refused.returncode == 2
    assert "--folds" in refused.stdout + refused.stderr
