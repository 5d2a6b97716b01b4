"""``geocfm run``: each job ends by itself, and the table and the exit code tell how."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from child_process import ended, read_until, started
from geocfm.outcome import load_engine
from small_data import TINY_SETTINGS, SmallRegion, json_lines

Geocfm = Callable[..., Any]
TRAIN = {
    "command": "train",
    "window": 32,
    "tile": 40,
    "device": "cpu",
    "iterations": 2,
    "skip_report": True,
    "settings": list(TINY_SETTINGS),
}


@pytest.fixture
def folder(small_region: SmallRegion, trained: Any, tmp_path: Path) -> Path:
    """A folder to work in: the region and a model, under a name that needs care."""
    place = tmp_path / "région [1] of data"
    shutil.copytree(small_region.folder, place / "layers")
    shutil.copy(trained.checkpoint, place / "model.safetensors")
    return place


def batch(folder: Path, *jobs: dict[str, Any], **defaults: Any) -> Path:
    """A job file in the folder; every job reads the region unless it says otherwise."""
    known = {"raster": ["layers/*.tif"], "occurrences": "layers/occurrences.gpkg"}
    path = folder / "jobs.json"
    path.write_text(json.dumps({"defaults": {**known, **defaults}, "jobs": jobs}), encoding="utf-8")
    return path


def rows(result: Any) -> list[dict[str, Any]]:
    """The jobs as the report at the end tells them."""
    events = json_lines(result.stdout)
    (content,) = [e["content"] for e in events if e["event"] == "report" and e["kind"] == "batch"]
    jobs: list[dict[str, Any]] = content["jobs"]
    return jobs


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_one_that_fails_does_not_stop_the_others(geocfm: Geocfm, folder: Path) -> None:
    bad = {"name": "bad", "where": ["metal ~ gold"], "out": "bad.safetensors"}
    path = batch(
        folder,
        {**TRAIN, "name": "Süd", "out": "new results/süd.safetensors"},
        {**TRAIN, **bad, "overwrite": True},
        {"command": "map", "checkpoint": "new results/süd.safetensors", "out": "m.tif"},
        {"command": "sample", "checkpoint": "bad.last.safetensors", "out": "s.gpkg"},
        {"command": "check", "name": "after [all]", "window": 32, "tile": 40},
    )
    # an older model, which must not be used in place of the one that was to be made
    shutil.copy(folder / "model.safetensors", folder / "bad.last.safetensors")
    result = geocfm("run", path, "--json")
    assert result.exit_code == 2, result.output
    found = rows(result)
    assert [(job["name"], job["status"]) for job in found] == [
        ("Süd", "done"),
        ("bad", "failed"),
        ("map 3", "done"),
        ("sample 4", "skipped"),
        ("after [all]", "done"),
    ]
    assert found[0]["artifacts"][0] == str(folder / "new results" / "süd.safetensors")
    assert "metal" in found[1]["message"]
    assert "commodity" in found[1]["hint"]
    assert "'bad'" in found[3]["message"]
    assert (folder / "m.tif").is_file()
    assert not (folder / "s.gpkg").exists()
    events = json_lines(result.stdout)
    begun = [e["number"] for e in events if e["event"] == "job_started"]
    assert begun == [1, 2, 3, 5]
    assert [e["status"] for e in events if e["event"] == "job_ended"] == [
        job["status"] for job in found
    ]
    assert events[-1]["event"] == "failed"
    assert events[-1]["message"] == "2 of 5 jobs did not finish."
    assert "bad, sample 4" in events[-1]["hint"]


def test_the_table_at_the_end_is_readable_without_a_terminal(
    geocfm: Geocfm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    path = batch(
        folder,
        {"command": "map", "checkpoint": "model.safetensors", "out": "results/m.tif"},
        {"command": "map", "name": "no [model]", "checkpoint": "no.safetensors", "out": "n.tif"},
    )
    result = geocfm("run", path)
    assert result.exit_code == 2
    lines = result.output[result.output.index("name ") :].splitlines()
    assert all(len(line) <= 80 for line in lines)
    table = [line.strip() for line in lines]
    assert table[0].split() == ["name", "command", "outcome", "time", "result"]
    assert table[2].split()[:4] == ["map", "1", "map", "done"]
    assert table[2].split()[-1] == os.path.join("results", "m.tif")
    assert table[3].startswith("no [model]")
    assert "failed" in table[3]
    assert "1 of 2 jobs did not finish." in table
    for said in ("Job 1 of 2: map 1", "Job 2 of 2: no [model]"):
        assert said in result.output


def test_all_done_is_exit_code_0_and_results_are_replaced_only_when_asked(
    geocfm: Geocfm, folder: Path
) -> None:
    sample = {"command": "sample", "checkpoint": "model.safetensors", "out": "s.gpkg"}
    path = batch(folder, {**sample, "draws": 1, "points": 5})
    result = geocfm("run", path, "--json")
    assert result.exit_code == 0, result.output
    assert json_lines(result.stdout)[-1]["event"] == "finished"
    batch(folder, {**sample, "draws": 2, "points": 5})
    assert geocfm("run", path).exit_code == 2
    assert geocfm("run", path, "--overwrite").exit_code == 0


def test_an_error_of_ours_is_exit_code_1(
    geocfm: Geocfm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(job: Any, reporter: Any) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("geocfm.run.run_job", wrong)
    path = batch(folder, {"command": "check"}, {"command": "check", "raster": ["no.tif"]})
    result = geocfm("run", path, "--json")
    assert result.exit_code == 1
    first, second = rows(result)
    assert first["status"] == second["status"] == "broken"
    assert "ZeroDivisionError: a bug" in first["message"]
    for job in (first, second):
        assert "Traceback" in Path(job["log"]).read_text(encoding="utf-8")
        Path(job["log"]).unlink()
    assert "Traceback" not in result.stdout


def test_an_error_of_the_batch_itself_is_told_as_one(
    geocfm: Geocfm, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any) -> Any:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("geocfm.batch.attempt", wrong)
    result = geocfm("run", batch(folder, {"command": "check"}), "--json")
    assert result.exit_code == 1
    end = json_lines(result.stdout)[-1]
    assert end["event"] == "failed"
    assert "ZeroDivisionError" in end["message"]
    Path(end["log"]).unlink()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_stopping_ends_the_batch_and_the_rest_is_skipped(folder: Path) -> None:
    path = batch(
        folder,
        {"command": "check", "window": 32, "tile": 40},
        {**TRAIN, "iterations": 1_000_000, "out": "m.safetensors"},
        {"command": "map", "checkpoint": "model.safetensors", "out": "m.tif"},
    )
    with started("run", path) as child:
        read_until(child, "Training", share=0)
        child.send_signal(signal.SIGTERM)
        events, error = ended(child, within=15)
        assert child.returncode == 130
    assert error == ""
    assert events[-1]["event"] == "cancelled"
    (content,) = [e["content"] for e in events if e["event"] == "report"]
    statuses = [job["status"] for job in content["jobs"]]
    assert statuses == ["done", "cancelled", "skipped"]
    assert "stopped" in content["jobs"][2]["message"]
    assert not (folder / "m.tif").exists()


def test_a_dry_run_finds_what_is_wrong_and_writes_nothing(geocfm: Geocfm, folder: Path) -> None:
    path = batch(
        folder,
        {**TRAIN, "out": "new/m.safetensors"},
        {"command": "map", "checkpoint": "new/m.safetensors", "out": "m.tif"},
        {"command": "map", "checkpoint": "no.safetensors", "out": "n.tif"},
        {"command": "map", "checkpoint": "jobs.json", "out": "o.tif"},
        {"command": "check", "raster": ["no/*.tif"], "occurrences": "no.gpkg"},
        {**TRAIN, "settings": ["network.girth=3"], "out": "q.safetensors"},
        {"command": "map", "checkpoint": "model.safetensors", "out": "layers/ridge.tif"},
    )
    before = names(folder)
    result = geocfm("run", path, "--dry-run", "--json")
    assert result.exit_code == 2, result.output
    assert names(folder) == before
    found = rows(result)
    assert [job["status"] for job in found] == ["ready"] * 2 + ["problem"] * 5
    for job, said in zip(
        found[2:],
        ["no.safetensors' does not exist", "jobs.json", "no.gpkg", "girth", "is an input"],
        strict=True,
    ):
        assert said in job["message"]
    assert "No raster matches" in found[4]["message"]
    assert json_lines(result.stdout)[-1]["message"] == "5 of 7 jobs cannot be run as they are."
    good = batch(folder, {"command": "check"}, {**TRAIN, "out": "m.safetensors"})
    ready = geocfm("run", good, "--dry-run")
    assert ready.exit_code == 0, ready.output
    assert "ready" in ready.output
    assert names(folder) == before


def test_only_the_first_job_of_a_batch_freezes_what_is_loaded() -> None:
    load_engine()
    before = gc.get_freeze_count()
    load_engine()
    assert gc.get_freeze_count() == before
    assert gc.isenabled()
