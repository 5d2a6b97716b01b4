"""Results: never replaced unasked, one process at a time, with their provenance, or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyogrio
import pytest
import rasterio
from child_process import ended, read_until, started
from geocfm.model.checkpoint import load_card
from PIL import Image
from small_data import (
    ALONE,
    TINY,
    SmallRegion,
    child_environment,
    command_line,
    json_lines,
    run_geocfm,
)

Geocfm = Callable[..., Any]
Refused = Callable[..., str]
WITHIN = 15.0  # seconds
not_windows = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


def train_command(region: SmallRegion, out: Path, iterations: int = 2) -> list[object]:
    return [
        *("train", *region.raster_options, "--occurrences", region.occurrences, *TINY),
        *("--iterations", iterations, "--out", out),
    ]


def map_command(region: SmallRegion, model: Path, out: Path) -> list[object]:
    quick = ("--solver", "euler", "--steps", 1)
    return ["map", "--checkpoint", model, *region.raster_options, *quick, "--out", out]


def slow_map(region: SmallRegion, model: Path, out: Path, *more: object) -> list[object]:
    """Of a model that is mapped by draws."""
    slow = ("--solver", "heun", "--steps", 100)
    return ["map", "--checkpoint", model, *region.raster_options, *slow, "--out", out, *more]


def sample_command(region: SmallRegion, model: Path, out: Path) -> list[object]:
    few = ("--points", 5, "--draws", 1, "--solver", "euler", "--steps", 1)
    return ["sample", "--checkpoint", model, *region.raster_options, *few, "--out", out]


def evaluate_command(region: SmallRegion, model: Path, out: Path) -> list[object]:
    quick = ("--solver", "euler", "--steps", 1, *ALONE, "--occurrences", region.occurrences)
    return ["evaluate", "--checkpoint", model, *region.raster_options, *quick, "--out", out]


def done(result: Any) -> str:
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


# --- replacing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "name", "existing"),
    [
        ("train", "model.safetensors", "model.safetensors"),
        ("train", "model.safetensors", "model.last.safetensors"),
        ("train", "model.safetensors", "model.log.jsonl"),
        ("map", "map.tif", "map.tif"),
        ("sample", "points.gpkg", "points.gpkg"),
        ("sample", "points.csv", "points.csv.provenance.json"),
        ("evaluate", "figures", "figures/capture.png"),
    ],
)
def test_what_is_there_is_only_replaced_when_told(
    command: str,
    name: str,
    existing: str,
    geocfm: Geocfm,
    refused: Refused,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
) -> None:
    out, old = tmp_path / name, tmp_path / existing
    old.parent.mkdir(exist_ok=True)
    old.write_bytes(b"somebody's work")
    commands = {
        "train": lambda: train_command(small_region, out),
        "map": lambda: map_command(small_region, trained.checkpoint, out),
        "sample": lambda: sample_command(small_region, trained.checkpoint, out),
        "evaluate": lambda: evaluate_command(small_region, trained.checkpoint, out),
    }
    refused(commands[command](), str(old), "already there", "--overwrite")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [old]
    assert old.read_bytes() == b"somebody's work"
    done(geocfm(*commands[command](), "--overwrite"))
    assert old.read_bytes() != b"somebody's work"


@pytest.mark.parametrize("name", ["map.tif", "points.gpkg", "points.csv", "figures"])
def test_the_very_same_job_is_not_done_twice(
    name: str,
    geocfm: Geocfm,
    refused: Refused,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
) -> None:
    make = {"map": map_command, "points": sample_command, "figures": evaluate_command}
    command = make[name.split(".")[0]](small_region, trained.checkpoint, tmp_path / name)
    done(geocfm(*command))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert "done before" in done(geocfm(*command))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    refused([*command, "--seed", 2], "already there")


def test_a_trained_model_is_not_trained_twice_unless_an_input_changed(
    geocfm: Geocfm, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    folder = tmp_path / "inputs"
    shutil.copytree(small_region.folder, folder)
    region = SmallRegion(folder, small_region.grid, small_region.points)
    command = train_command(region, tmp_path / "model.safetensors")
    done(geocfm(*command))
    assert "done before" in done(geocfm(*command))
    _as_if_shown_in_qgis(region.occurrences)
    assert "done before" in done(geocfm(*command))
    kept = region.occurrences.read_bytes()
    with sqlite3.connect(region.occurrences) as database:
        database.execute("CREATE TABLE note (text)")
    database.close()
    refused(command, "already there")
    region.occurrences.write_bytes(kept)
    os.utime(region.raster("slope"), (1_000_000_000, 1_000_000_000))
    refused(command, "already there")


def _as_if_shown_in_qgis(path: Path) -> None:
    """QGIS switches a GeoPackage to another journal while it shows it, and back at the end."""
    before = path.read_bytes()
    for mode in ("WAL", "DELETE"):
        database = sqlite3.connect(path)
        database.execute(f"PRAGMA journal_mode={mode}")
        database.close()
    assert path.read_bytes() != before


@not_windows
def test_stopping_a_map_leaves_the_one_it_would_replace(
    small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "map.tif"
    out.write_bytes(b"an older map")
    with started(*slow_map(small_region, paper_model, out, "--overwrite")) as child:
        read_until(child, "Mapping", 0)
        child.send_signal(signal.SIGTERM)
        events, error = ended(child, WITHIN)
        assert child.returncode == 130
    assert error == ""
    assert events[-1]["event"] == "cancelled"
    assert not any(event["event"] == "artifact" for event in events)
    assert out.read_bytes() == b"an older map"


def test_unfinished_work_of_another_job_is_not_thrown_away(
    geocfm: Geocfm, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    command = train_command(small_region, out, iterations=400)
    with started(*command, "--set", "training.save_every=0.01") as child:
        read_until(child, "Training", 0.02)
        child.kill()
    work = tmp_path / ".model.safetensors.work"
    shutil.rmtree(tmp_path / ".geocfm.locks")  # what the killed one could not remove
    before = sorted(path.name for path in work.iterdir() if path.suffix == ".safetensors")
    said = refused(train_command(small_region, out), "Unfinished work", "--overwrite")
    assert "iterations was 400 and is 2" in said
    assert sorted(p.name for p in work.iterdir() if p.suffix == ".safetensors") == before
    done(geocfm(*train_command(small_region, out), "--overwrite"))
    assert load_card(out).iterations <= 2
    assert not work.exists()


# --- one process at a time -----------------------------------------------------------------------


def test_a_second_process_on_the_same_result_is_refused(
    geocfm: Geocfm, small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "map.tif"
    with started(*slow_map(small_region, paper_model, out)) as child:
        read_until(child, "Mapping", 0)
        again = geocfm(*map_command(small_region, paper_model, out))
        assert again.exit_code == 2
        for word in ("Another GeoCFM is at work", f"process {child.pid}", "another name"):
            assert word in " ".join(again.output.split())
        assert child.poll() is None
        child.kill()
        child.wait()
    # a killed process holds no lock
    done(geocfm(*map_command(small_region, paper_model, out), "--overwrite"))
    assert [path.name for path in tmp_path.iterdir()] == ["map.tif"]


# --- provenance ----------------------------------------------------------------------------------


def test_every_result_carries_its_provenance(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    model = trained.checkpoint
    for make, name in (
        (map_command, "map.tif"),
        (sample_command, "points.gpkg"),
        (sample_command, "points.csv"),
        (sample_command, "points.geojson"),
        (evaluate_command, "figures"),
    ):
        done(geocfm(*make(small_region, model, tmp_path / name), "--seed", 5))
    with rasterio.open(tmp_path / "map.tif") as raster:
        found = {"map": json.loads(raster.tags()["GEOCFM_PROVENANCE"])}
    package = pyogrio.read_info(tmp_path / "points.gpkg")["layer_metadata"]
    found["gpkg"] = json.loads(package["GEOCFM_PROVENANCE"])
    for name in ("points.csv", "points.geojson"):
        found[name] = json.loads((tmp_path / f"{name}.provenance.json").read_text("utf-8"))
    found["figures"] = json.loads((tmp_path / "figures/evaluation.json").read_text("utf-8"))[
        "provenance"
    ]
    for name in ("capture.png", "map.png", "importance.png"):
        with Image.open(tmp_path / "figures" / name) as picture:
            found[name] = json.loads(picture.info["Description"])
    for provenance in found.values():
        assert provenance["seed"] == 5
        assert provenance["job"]["seed"] == 5
        assert provenance["versions"]["geocfm"]
        inputs = {entry["use"]: entry for entry in provenance["inputs"]}
        entry = inputs["layer ridge, band 1"]
        file = small_region.raster("ridge").stat()
        assert entry["path"] == small_region.raster("ridge").as_posix()
        assert entry["size"] == file.st_size
        changed = datetime.fromtimestamp(file.st_mtime, timezone.utc)
        assert datetime.fromisoformat(entry["modified"]) == changed
        assert inputs["checkpoint"]["size"] == model.stat().st_size
    assert found["map"]["job"]["command"] == "map"
    assert "occurrences" in {entry["use"] for entry in found["figures"]["inputs"]}


def test_a_model_carries_its_provenance(trained: Any, small_region: SmallRegion) -> None:
    provenance = load_card(trained.checkpoint).provenance
    assert provenance["job"]["iterations"] == trained.iterations
    assert provenance["seed"] == 1
    sizes = {entry["use"]: entry["size"] for entry in provenance["inputs"]}
    assert sizes["occurrences"] == small_region.occurrences.stat().st_size


# --- places that cannot be written ---------------------------------------------------------------


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(0o500)
    if not os.access(folder, os.W_OK):
        yield folder
    elif sys.platform == "linux":
        yield Path("/sys/kernel")  # where not even root may
    else:
        pytest.skip("this user may write anywhere")
    folder.chmod(0o700)


def test_a_folder_that_may_not_be_written_to(
    refused: Refused, small_region: SmallRegion, read_only: Path
) -> None:
    refused(
        [*train_command(small_region, read_only / "model.safetensors")],
        "Nothing can be written",
        str(read_only),
        "Choose a folder",
    )


def test_a_file_where_a_folder_should_be_and_a_folder_where_a_file_should_be(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "folder.tif").mkdir()
    below = map_command(small_region, trained.checkpoint, tmp_path / "file" / "map.tif")
    refused(below, "is a file", "name of a folder")
    long = map_command(small_region, trained.checkpoint, tmp_path / f"{'m' * 300}.tif")
    refused(long, "cannot be written", "Choose another name")
    folder = map_command(small_region, trained.checkpoint, tmp_path / "folder.tif")
    refused(folder, "is a folder", "name of a file")
    refused([*folder, "--overwrite"], "is a folder", "name of a file")
    figures = evaluate_command(small_region, trained.checkpoint, tmp_path / "file")
    refused(figures, "is a file", "name of a folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.tif"]


def test_an_input_is_never_replaced_by_the_result(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "inputs"
    shutil.copytree(small_region.folder, folder)
    region = SmallRegion(folder, small_region.grid, small_region.points)
    model = Path(shutil.copy(trained.checkpoint, folder))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for command in (
        map_command(region, model, region.raster("ridge")),
        map_command(region, model, folder / ".." / "inputs" / "ridge.tif"),
        [*sample_command(region, model, region.occurrences), "--aoi", region.occurrences],
    ):
        refused([*command, "--overwrite"], "is an input of this very job", "another --out")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_refused_job_leaves_no_folder_behind(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "folder" / "map.tif"
    nowhere = ("--aoi", tmp_path / "nowhere.gpkg")
    refused([*map_command(small_region, trained.checkpoint, out), *nowhere], "nowhere.gpkg")
    assert list(tmp_path.iterdir()) == []


@not_windows
def test_a_folder_that_vanishes_during_the_work(
    small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "stick" / "map.tif"
    with started(*slow_map(small_region, paper_model, out)) as child:
        read_until(child, "Mapping", 0)
        out.parent.rename(tmp_path / "elsewhere")  # at once, as a stick that is pulled out
        events, error = ended(child, 60)
        assert child.returncode == 2, events[-1]
    assert events[-1]["event"] == "failed"
    assert "vanished" in events[-1]["message"]
    assert "again" in events[-1]["hint"]
    assert error == ""


SMALL_DISK = """
mount -t tmpfs -o size={size} tmpfs {place} && shift 0 && {command}
code=$?
ls -A {place} > {place}.left
exit $code
"""


def on_small_disk(place: Path, size: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``geocfm ...`` where `place` is a disk of its own, of a few kilobytes."""
    command = " ".join(f"'{part}'" for part in command_line(*arguments))
    script = SMALL_DISK.format(place=place, size=size, command=command)
    return subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script],
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def can_mount() -> bool:
    if sys.platform != "linux" or not shutil.which("unshare"):
        return False
    trial = "mount -t tmpfs tmpfs /mnt"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", trial]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("make", [train_command, map_command, sample_command, evaluate_command])
def test_a_full_disk(
    make: Callable[..., list[object]], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    if not can_mount():
        pytest.skip("a disk of a few kilobytes cannot be made here")
    place = tmp_path / "disk"
    place.mkdir()
    names = {"train_command": "m.safetensors", "map_command": "m.tif", "sample_command": "p.gpkg"}
    out = place / names.get(make.__name__, "figures")
    model = () if make is train_command else (trained.checkpoint,)
    result = on_small_disk(place, "36k", *make(small_region, *model, out))
    said = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 2, said
    assert "no room left on the disk" in said or "needs about" in said
    assert "Free some space" in said
    assert "Traceback" not in said
    left = Path(f"{place}.left").read_text().split()
    assert out.name not in left


@not_windows
@pytest.mark.parametrize("kilobytes", [20, 60])
def test_a_limit_on_file_sizes(
    kilobytes: int, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    """As quotas and full disks do, this makes writing fail in the middle; it works everywhere."""
    out = tmp_path / "map.tif"
    arguments = map_command(small_region, trained.checkpoint, out)
    command = " ".join(f"'{part}'" for part in command_line(*arguments))
    result = subprocess.run(
        ["sh", "-c", f"ulimit -f {2 * kilobytes} && exec {command}"],  # blocks of 512 bytes
        env=child_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    said = " ".join((result.stdout + result.stderr).split())
    assert result.returncode == 2, said
    assert "room" in said
    assert "Traceback" not in said
    assert not out.exists()


# --- names and places ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "folder", ["Größe-Ω 矿产 & 'quotes' %20", "d" * 120 + "/" + "e" * 120], ids=["letters", "long"]
)
def test_paths_with_spaces_letters_and_great_length(
    folder: str, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    place = tmp_path / folder
    shutil.copytree(small_region.folder, place)
    region = SmallRegion(place, small_region.grid, small_region.points)
    model = place / ("modèle " + "m" * 221 + ".safetensors")
    assert len(model.name.encode()) + len(".last") <= 255  # as long as names can be
    result = run_geocfm(*train_command(region, model), "--json")  # a real process: its output too
    assert result.returncode == 0, result.stdout + result.stderr
    written = [e["path"] for e in json_lines(result.stdout) if e["event"] == "artifact"]
    assert str(model) in written
    assert all(Path(path).exists() for path in written)
    for make, name in (
        (map_command, "carte dorée.tif"),
        (sample_command, "точки.gpkg"),
        (evaluate_command, "résultats ø"),
    ):
        done(geocfm(*make(region, model, place / name)))
        assert (place / name).exists()
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


# --- errors of ours ------------------------------------------------------------------------------


def test_an_error_of_ours_is_one_line_and_a_log(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a bug that no test foresaw")

    monkeypatch.setattr("geocfm.run.learn.train", stumble)
    out = tmp_path / "results" / "model.safetensors"
    result = geocfm(*train_command(small_region, out), "--json")
    assert result.exit_code == 1
    last = json_lines(result.stdout)[-1]
    assert last["event"] == "failed"
    assert last["message"].startswith("Sorry")
    assert "\n" not in last["message"]
    assert last["log"] in last["hint"]
    log = Path(last["log"]).read_text(encoding="utf-8")
    assert "Traceback" in log
    assert "a bug that no test foresaw" in log
    assert "model.safetensors" in log  # the job
    assert "Traceback" not in result.output
    Path(last["log"]).unlink()


@not_windows
def test_a_reader_that_goes_away_ends_the_job_quietly(
    small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    with started(*slow_map(small_region, paper_model, tmp_path / "map.tif")) as child:
        read_until(child, "Mapping", 0)
        assert child.stdout
        assert child.stderr
        child.stdout.close()
        begun = time.monotonic()
        child.wait(timeout=60)
        assert child.returncode == 130
        assert time.monotonic() - begun < WITHIN
        assert "Traceback" not in child.stderr.read()
