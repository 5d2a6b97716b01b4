"""Which layers matter, by ``geocfm evaluate``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from geocfm.data.split import Split
from geocfm.model.checkpoint import load_card
from small_data import ALONE, SmallRegion, json_lines, write_shapes


def evaluate_options(
    region: SmallRegion, model: Path, out: Path, *more: object, points: Path | None = None
) -> list[object]:
    quick = ("--solver", "euler", "--steps", 1, "--occurrences", points or region.occurrences)
    given = ("--checkpoint", model, *region.raster_options, *quick, *ALONE)
    return ["evaluate", *given, *more, "--out", out, "--json"]


def done(result: Any) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return json_lines(result.output)


def figures(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    return found


def test_evaluate_says_which_layers_matter(
    geocfm: Callable[..., Any], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "alone"
    events = done(geocfm(*evaluate_options(small_region, trained.checkpoint, out)))
    found = figures(out)["importance"]
    layers = found["layers"]
    assert {layer["layer"] for layer in layers} == {"ridge", "slope", "noise"}
    assert layers[0]["layer"] == "ridge"
    losses = [layer["loss_nats"] for layer in layers]
    assert losses == sorted(losses, reverse=True)
    for layer in layers:
        assert layer["occurrences"] > 0
        assert layer["tiles"] > 0
        if layer["tiles"] > 1:
            assert layer["low"] <= layer["loss_nats"] <= layer["high"]
        else:
            assert layer["low"] is layer["high"] is None
    notes = [event["text"] for event in events if event["event"] == "note"]
    assert any(f"are {losses[0]:.2f} nats less likely" in note for note in notes)
    reported = [event["content"] for event in events if event["event"] == "report"]
    assert reported[-1]["importance"] == found
    assert (out / "importance.png").read_bytes().startswith(b"\x89PNG")

    # the region that baselines look at gives the same
    options = evaluate_options(small_region, trained.checkpoint, tmp_path / "beside")
    done(geocfm(*options, "--baselines", "uniform"))
    assert figures(tmp_path / "beside")["importance"] == found


def test_it_can_be_skipped(
    geocfm: Callable[..., Any], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "figures"
    options = evaluate_options(small_region, trained.checkpoint, out, "--skip-importance")
    events = done(geocfm(*options))
    assert "importance" not in figures(out)
    assert not (out / "importance.png").exists()
    assert not any("nats" in event.get("text", "") for event in events)


@pytest.mark.parametrize("role", ["train", "validation"])
def test_without_held_out_occurrences_it_is_said(
    role: str, geocfm: Callable[..., Any], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    split = Split.from_card(load_card(trained.checkpoint).split)
    roles = split.role_of_points(small_region.points)
    kept = small_region.points[(roles == 0) | ((roles == 1) & (role == "validation"))]
    world = shapely.points(small_region.grid.to_world(kept))
    path = write_shapes(tmp_path / "some.gpkg", np.asarray(world), small_region.grid.crs)
    out = tmp_path / "figures"
    events = done(geocfm(*evaluate_options(small_region, trained.checkpoint, out, points=path)))
    said = " ".join(event.get("text", "") for event in events)
    found = figures(out)["importance"]
    if role == "validation":
        assert found["role"] == "validation"
        assert "They lie on validation tiles" in said
    else:
        assert found["layers"] == []
        assert "Which layers matter cannot be told" in said
    assert (out / "importance.png").exists()
