"""``--effort``: survey effort as users give it, from the report to the model's card."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.geo.grid import Window
from geocfm.job import CheckJob
from geocfm.job_file import load_jobs
from geocfm.model.checkpoint import load_card
from geocfm.run.provenance import trace
from small_data import ALONE, COLUMNS, ROWS, TINY, UTM, SmallRegion, json_lines, write_raster

Geocfm = Callable[..., Any]
Refused = Callable[..., str]

EFFORT = np.broadcast_to(np.linspace(1, 20, ROWS)[:, None], (ROWS, COLUMNS)).astype(np.float32)


@pytest.fixture
def effort(tmp_path: Path) -> Path:
    return write_raster(tmp_path / "effort.tif", EFFORT, UTM)


def learning(region: SmallRegion, *options: object) -> list[object]:
    given = (*region.raster_options, "--occurrences", region.occurrences)
    return [*given, *options, "--window", 32, "--tile", 40]


def reported(output: str, kind: str) -> dict[str, Any]:
    (found,) = [e["content"] for e in json_lines(output) if e.get("kind") == kind]
    return dict(found)


def test_check_tells_of_the_effort(geocfm: Geocfm, small_region: SmallRegion, effort: Path) -> None:
    plain = geocfm("check", *learning(small_region), "--json")
    assert reported(plain.output, "check")["effort"] is None
    assert "No survey effort is given (--effort)" in plain.output
    result = geocfm("check", *learning(small_region, "--effort", effort), "--json")
    assert result.exit_code == 0, result.output
    told = reported(result.output, "check")["effort"]
    assert told["source"] == "effort.tif"
    assert 0 < told["effective"] < told["training"]
    assert told["floored"] > 0
    assert f"tell as much as {told['effective']:.1f} of equal weight" in result.output


def test_a_model_is_trained_and_judged_with_effort(
    geocfm: Geocfm, small_region: SmallRegion, effort: Path, tmp_path: Path
) -> None:
    train = ("train", *small_region.raster_options, "--occurrences", small_region.occurrences)
    budget = (*TINY, "--iterations", 4)
    models = {}
    for name, options in {"plain": (), "mended": ("--effort", f"{effort}:1")}.items():
        models[name] = tmp_path / f"{name}.safetensors"
        result = geocfm(*train, *options, *budget, "--out", models[name])
        assert result.exit_code == 0, result.output
    assert models["plain"].read_bytes()[-1000:] != models["mended"].read_bytes()[-1000:]
    card = load_card(models["mended"])
    assert load_card(models["plain"]).occurrences.effort is None
    assert card.occurrences.effort is not None
    assert card.occurrences.effort.floor == pytest.approx(3, abs=2)
    uses = {entry["use"]: entry["path"] for entry in card.provenance["inputs"]}
    assert uses["effort, band 1"] == effort.resolve().as_posix()
    for name, words in {"plain": "No survey effort", "mended": "by 1 / survey effort"}.items():
        assert words in " ".join(geocfm("info", models[name]).output.split())
    judged = tmp_path / "judged"
    result = geocfm(
        *("evaluate", "--checkpoint", models["mended"], *small_region.raster_options),
        *("--occurrences", small_region.occurrences, *ALONE, "--steps", 1, "--out", judged),
    )
    assert "every occurrence counts alike" in " ".join(result.output.split())
    content = json.loads((judged / "evaluation.json").read_text(encoding="utf-8"))
    assert content["survey_effort"] == card.occurrences.effort.model_dump()


def test_another_effort_makes_another_job(
    small_region: SmallRegion, effort: Path, tmp_path: Path
) -> None:
    def traced(spec: str | None) -> Any:
        files = {"raster": small_region.rasters, "occurrences": small_region.occurrences}
        return trace(CheckJob(**files, effort=spec))

    before = traced(str(effort))
    assert before.differences(traced(f"{effort}:1")) == []
    assert "effort.tif is no longer given" in " ".join(traced(None).differences(before))
    assert "effort.tif is new" in " ".join(before.differences(traced(None)))
    write_raster(tmp_path / "effort.tif", EFFORT[:60], UTM)
    assert "effort.tif has changed" in " ".join(traced(str(effort)).differences(before))


def test_effort_of_a_job_file_is_found_from_the_file(effort: Path, tmp_path: Path) -> None:
    path = tmp_path / "jobs.toml"
    path.write_text(
        '[[jobs]]\ncommand = "check"\nraster = ["a.tif"]\noccurrences = "o.gpkg"\n'
        'effort = "effort.tif:1"\n',
        encoding="utf-8",
    )
    (job,) = load_jobs([path])
    assert isinstance(job.job, CheckJob)
    assert job.job.effort == f"{effort.resolve().as_posix()}:1"


def test_effort_that_cannot_serve(
    refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    def check(path: object, *words: str) -> None:
        refused(["check", *learning(small_region, "--effort", path)], *words)

    check(tmp_path / "gone.tif", "The raster", "gone.tif' does not exist")
    two = tmp_path / "two.tif"
    profile = {"driver": "GTiff", "height": ROWS, "width": COLUMNS, "dtype": "float32"}
    place = {"crs": UTM.crs, "transform": UTM.transform}
    with rasterio.open(two, "w", count=2, **profile, **place) as raster:
        raster.write(np.stack([EFFORT, EFFORT]))
    check(two, "means 2 bands", f"--effort {two}:1")
    check(f"{two}:3", "has no band 3")
    nowhere = tmp_path / "nowhere.tif"
    with rasterio.open(nowhere, "w", count=1, **profile, transform=UTM.transform) as raster:
        raster.write(EFFORT, 1)
    check(nowhere, "nowhere.tif' has no coordinate reference system", "Assign Projection")
    far = UTM.subgrid(Window(0, 4000, ROWS, COLUMNS))
    check(write_raster(tmp_path / "far.tif", EFFORT, far), "'survey effort'", "does not overlap")
    none = write_raster(tmp_path / "none.tif", 0 * EFFORT, UTM)
    check(none, "unknown or 0 at every training occurrence", "leave it out")
    check(small_region.occurrences, "is not a raster")
