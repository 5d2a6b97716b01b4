"""An interrupted job, however rudely, goes on with the same command and ends the same."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import safetensors
from child_process import ended, read_until, started
from geocfm.model.checkpoint import load_card
from numpy.typing import NDArray
from small_data import (
    TINY,
    SmallRegion,
    child_environment,
    json_lines,
    read_points,
    run_geocfm,
    training_log,
)

MOMENTS = (0.1, 0.4, 0.8)  # shares of the work at which the process is killed
ITERATIONS = 150
WITHIN = 15.0  # seconds


def training(region: SmallRegion, out: Path) -> list[object]:
    return [
        *("train", *region.raster_options, "--occurrences", region.occurrences, *TINY),
        *("--iterations", ITERATIONS, "--set", "training.save_every=0.01", "--out", out),
    ]


def mapping(region: SmallRegion, model: Path, out: Path) -> list[object]:
    """Of a model that is mapped by draws: long enough to interrupt."""
    steps = ("--solver", "heun", "--steps", 30)
    return ["map", "--checkpoint", model, *region.raster_options, *steps, "--out", out]


IN_TILES = """
import os, sys
tile, parts, sys.argv = int(sys.argv[1]), int(sys.argv[2]), ["geocfm", *sys.argv[3:]]
from geocfm.inference.parts import Parts
from geocfm.run import needs
needs.LARGEST_TILE = needs.SMALLEST_TILE = tile
save, saved = Parts.save, []
def killing_save(self, name, **arrays):
    save(self, name, **arrays)
    saved.append(name)
    if len(saved) == parts:
        os._exit(9)
Parts.save = killing_save
from geocfm.cli import main
main()
"""
TILE = 32  # cells along the side of what is looked at in one pass, as if memory were scarce


def in_tiles(
    *arguments: object, tile: int = TILE, killed_after: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run ``geocfm ...`` in small tiles, until it has saved so many parts of its work."""
    given = [str(part) for part in (tile, killed_after, *arguments, "--json")]
    return subprocess.run(
        [sys.executable, "-c", IN_TILES, *given],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def work_folder(out: Path) -> Path:
    return out.with_name(f".{out.name}.work")


def left_of_a_killed_run(out: Path) -> set[str]:
    """The names beside a result that is not made yet: the work, and locks that nobody holds."""
    return {work_folder(out).name, ".geocfm.locks"}


def finish(*arguments: object) -> list[dict[str, Any]]:
    done = run_geocfm(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json_lines(done.stdout)


def begun_at(events: list[dict[str, Any]], stage: str) -> float:
    """The share of the stage that was done when this process began with it."""
    first = next(e for e in events if e["event"] == "progress" and e["stage"] == stage)
    return float(first["done"] / first["total"])


def weights(path: Path) -> dict[str, NDArray[Any]]:
    with safetensors.safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def same_model(one: Path, other: Path) -> None:
    """Bit for bit the same weights and figures."""
    left, right = weights(one), weights(other)
    assert left.keys() == right.keys()
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)
    assert load_card(one).iterations == load_card(other).iterations
    assert load_card(one).metrics == load_card(other).metrics


def losses(log: Path) -> list[tuple[Any, ...]]:
    rows = training_log(log)
    return [(r["iteration"], r.get("loss"), r.get("validation_loss")) for r in rows]


@pytest.fixture(scope="module")
def undisturbed(small_region: SmallRegion, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model trained in one go."""
    out = tmp_path_factory.mktemp("undisturbed") / "model.safetensors"
    finish(*training(small_region, out))
    return out


@pytest.fixture(scope="module")
def undisturbed_map(
    small_region: SmallRegion, paper_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A map made in one go."""
    out = tmp_path_factory.mktemp("undisturbed") / "map.tif"
    finish(*mapping(small_region, paper_model, out))
    return out


def test_training_killed_three_times_equals_training_in_one_go(
    small_region: SmallRegion, undisturbed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    for moment in MOMENTS:
        with started(*training(small_region, out)) as child:
            read_until(child, "Training", moment)
            child.kill()  # SIGKILL; on Windows, TerminateProcess
        assert {path.name for path in tmp_path.iterdir()} == left_of_a_killed_run(out)
    state = work_folder(out) / "state.safetensors"
    assert state.stat().st_size <= 3 * undisturbed.stat().st_size
    events = finish(*training(small_region, out))
    assert begun_at(events, "Training") > MOMENTS[-2]
    same_model(undisturbed, out)
    same_model(
        undisturbed.with_name("model.last.safetensors"), out.with_name("model.last.safetensors")
    )
    assert losses(undisturbed.with_name("model.log.jsonl")) == losses(tmp_path / "model.log.jsonl")
    assert {path.name for path in tmp_path.iterdir()} == {
        *("model.safetensors", "model.last.safetensors", "model.log.jsonl"),
        "model.occurrences.gpkg",
    }


@pytest.mark.parametrize("moment", [0.4, 0.7, "assembling"])
def test_a_killed_map_goes_on_and_equals_one_made_in_one_go(
    moment: float | str,
    small_region: SmallRegion,
    paper_model: Path,
    undisturbed_map: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "map.tif"
    command = mapping(small_region, paper_model, out)
    with started(*command) as child:
        read_until(child, "Mapping", 0.05 if isinstance(moment, str) else moment)
        if isinstance(moment, str):
            wait_for(lambda: (work_folder(out) / "raw.tif").exists())
        child.kill()
    assert {path.name for path in tmp_path.iterdir()} == left_of_a_killed_run(out)
    events = finish(*command)
    if isinstance(moment, float):
        assert begun_at(events, "Mapping") > 0  # two rows of windows before are needed again
    else:
        assert not any(e["event"] == "progress" and e["stage"] == "Mapping" for e in events)
    same_map(undisturbed_map, out)
    assert [path.name for path in tmp_path.iterdir()] == ["map.tif"]


def same_map(one: Path, other: Path) -> None:
    """Bit for bit the same cells, made by the same job."""
    with rasterio.open(one) as left, rasterio.open(other) as right:
        assert left.read().tobytes() == right.read().tobytes()
        assert without_out(left.tags()) == without_out(right.tags())


@pytest.mark.parametrize("going_on_in", [TILE, 2 * TILE], ids=["as before", "more memory"])
def test_a_killed_map_of_one_intensity_goes_on_and_equals_one_made_in_one_go(
    going_on_in: int, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    def mapping(name: str) -> list[object]:
        given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
        return ["map", *given, "--out", tmp_path / name]

    out = tmp_path / "killed.tif"
    killed = in_tiles(*mapping(out.name), killed_after=2)
    assert killed.returncode == 9, killed.stdout + killed.stderr
    assert {path.name for path in tmp_path.iterdir()} == left_of_a_killed_run(out)
    assert len(list((work_folder(out) / "strips").glob("*.npz"))) == 2
    done = in_tiles(*mapping(out.name), tile=going_on_in)
    assert done.returncode == 0, done.stdout + done.stderr
    begun = begun_at(json_lines(done.stdout), "Mapping")
    assert begun == (0.5 if going_on_in == TILE else 0)  # two of four strips, as 32 cells are few
    finish(*mapping("whole.tif"))  # in a single pass
    same_map(tmp_path / "whole.tif", out)
    assert {path.name for path in tmp_path.iterdir()} == {"killed.tif", "whole.tif"}


def without_out(tags: dict[str, str]) -> dict[str, Any]:
    provenance = json.loads(tags["GEOCFM_PROVENANCE"])
    provenance["job"].pop("out")
    return {**tags, "GEOCFM_PROVENANCE": provenance}


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def drawing(region: SmallRegion, model: Path, out: Path) -> list[object]:
    return [
        *("sample", "--checkpoint", model, *region.raster_options),
        *("--solver", "heun", "--steps", 30, "--points", 100, "--out", out),
    ]


def same_points(region: SmallRegion, one: Path, other: Path) -> None:
    """Exactly the same points, with the same values."""
    left, right = read_points(one, region.grid), read_points(other, region.grid)
    assert np.array_equal(left[0], right[0])
    assert left[1].keys() == right[1].keys()
    assert all(np.array_equal(left[1][field], right[1][field]) for field in left[1])


def near_points(region: SmallRegion, one: Path, other: Path) -> None:
    """The same points but for rounding, which may choose another cell for a few."""
    left, right = read_points(one, region.grid), read_points(other, region.grid)
    same = np.abs(left[0] - right[0]).max(axis=1) < 1e-3
    assert same.mean() > 0.98
    logs = "log_relative_density"
    assert np.abs(left[1][logs] - right[1][logs])[same].max() < 1e-4
    assert np.array_equal(left[1]["draw"], right[1]["draw"])


def test_killed_draws_go_on_and_equal_those_made_in_one_go(
    small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    out, whole = tmp_path / "killed.gpkg", tmp_path / "whole.gpkg"
    with started(*drawing(small_region, paper_model, out)) as child:
        read_until(child, "Drawing points", 0.3)
        child.kill()
    assert {path.name for path in tmp_path.iterdir()} == left_of_a_killed_run(out)
    assert list((work_folder(out) / "strips").glob("drawn-*.npz"))
    events = finish(*drawing(small_region, paper_model, out))
    assert not any(e["event"] == "progress" and e["stage"] == "Mapping" for e in events)
    finish(*drawing(small_region, paper_model, whole))
    same_points(small_region, whole, out)
    assert {path.name for path in tmp_path.iterdir()} == {"killed.gpkg", "whole.gpkg"}


@pytest.mark.parametrize("going_on_in", [TILE, 2 * TILE], ids=["as before", "more memory"])
def test_killed_draws_of_one_intensity_go_on_and_equal_those_made_in_one_go(
    going_on_in: int, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out, whole = tmp_path / "killed.gpkg", tmp_path / "whole.gpkg"
    command = drawing(small_region, trained.checkpoint, out)
    killed = in_tiles(*command, killed_after=8)  # four of the map, and four that are drawn
    assert killed.returncode == 9, killed.stdout + killed.stderr
    assert {path.name for path in tmp_path.iterdir()} == left_of_a_killed_run(out)
    assert len(list((work_folder(out) / "strips").glob("drawn-*.npz"))) == 4
    done = in_tiles(*command, tile=going_on_in)
    assert done.returncode == 0, done.stdout + done.stderr
    done = in_tiles(*drawing(small_region, trained.checkpoint, whole), tile=going_on_in)
    assert done.returncode == 0, done.stdout + done.stderr
    same_points(small_region, whole, out)
    assert {path.name for path in tmp_path.iterdir()} == {"killed.gpkg", "whole.gpkg"}


def test_draws_do_not_depend_on_how_much_memory_there_is(
    small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    little, much = tmp_path / "little.gpkg", tmp_path / "much.gpkg"
    done = in_tiles(*drawing(small_region, trained.checkpoint, little))
    assert done.returncode == 0, done.stdout + done.stderr
    finish(*drawing(small_region, trained.checkpoint, much))
    near_points(small_region, much, little)


STOPS: dict[str, Callable[[subprocess.Popen[str]], None]] = {
    "closed stdin": lambda child: child.stdin.close(),  # type: ignore[union-attr]
}
if os.name != "nt":
    STOPS["ctrl-c"] = lambda child: child.send_signal(signal.SIGINT)
    STOPS["sigterm"] = lambda child: child.send_signal(signal.SIGTERM)


@pytest.mark.parametrize("how", STOPS)
def test_stopped_training_keeps_the_best_so_far_and_goes_on(
    how: str, small_region: SmallRegion, undisturbed: Path, tmp_path: Path
) -> None:
    out, unfinished = tmp_path / "model.safetensors", tmp_path / "model.unfinished.safetensors"
    with started(*training(small_region, out), stdin=subprocess.PIPE) as child:
        read_until(child, "Training", 0.2)
        STOPS[how](child)
        child.stdin = None  # communicate() would write to it
        events, error = ended(child, WITHIN)
        assert child.returncode == 130
    assert error == ""
    assert events[-1]["event"] == "cancelled"
    assert "same command" in events[-1]["message"]
    assert [e["path"] for e in events if e["event"] == "artifact"] == [str(unfinished)]
    stopped_at = load_card(unfinished).iterations
    assert 1 <= stopped_at < ITERATIONS
    assert not out.exists()
    events = finish(*training(small_region, out))
    assert begun_at(events, "Training") > stopped_at / ITERATIONS
    same_model(undisturbed, out)
    assert not unfinished.exists()


def test_a_time_budget_goes_on_with_the_time_that_is_left(
    small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    command = [
        *("train", *small_region.raster_options, "--occurrences", small_region.occurrences),
        *(*TINY, "--minutes", 0.1, "--set", "training.save_every=0.01", "--out", out),
        *("--set", "training.patience=0"),  # else so few occurrences are learned before the time
    ]
    with started(*command, stdin=subprocess.PIPE) as child:
        read_until(child, "Training", 0.5)
        child.send_signal(signal.SIGINT)  # saves where it stands; a kill leaves what was saved last
        child.stdin = None
        ended(child, WITHIN)
        assert child.returncode == 130
    assert begun_at(finish(*command), "Training") >= 0.5
    steps = [row["seconds"] for row in training_log(tmp_path / "model.log.jsonl") if "loss" in row]
    assert steps[-2] < 6 <= steps[-1]
