"""Killed between two writings, continued with something changed: nothing is lost or mixed up."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rasterio
import rasterio.shutil
from child_process import ended, read_until, started
from geocfm.model.checkpoint import load_card
from small_data import ALONE, LAYERS, TINY, SmallRegion, child_environment, training_log

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")

Geocfm = Callable[..., Any]
Refused = Callable[..., str]
ITERATIONS = 12

KILLING = """
import os, signal, sys
moment, sys.argv = sys.argv[1], ["geocfm", *sys.argv[2:]]
from geocfm.run import workplace
deliver, dump = workplace.Workplace.deliver, workplace.Provenance.model_dump_json
def killing_deliver(self, name, final):
    deliver(self, name, final)
    if moment == f"after {final.name}":
        os.kill(os.getpid(), signal.SIGKILL)
def killing_dump(self, **options):
    if moment == "writing job.json":
        os.kill(os.getpid(), signal.SIGKILL)
    return dump(self, **options)
workplace.Workplace.deliver = killing_deliver
workplace.Provenance.model_dump_json = killing_dump
from geocfm.cli import main
main()
"""


def killed(moment: str, *arguments: object) -> None:
    """Run ``geocfm ...`` until it kills itself at the moment."""
    command = [sys.executable, "-c", KILLING, moment, *map(str, arguments)]
    done = subprocess.run(command, env=child_environment(), capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def training(region: SmallRegion, out: Path, *more: object) -> list[object]:
    return [
        *("train", *region.raster_options, "--occurrences", region.occurrences, *TINY),
        *("--iterations", ITERATIONS, "--set", "training.save_every=0", "--out", out, *more),
    ]


def mapping(region: SmallRegion, model: Path, out: Path, steps: int = 1) -> list[object]:
    """steps: of a model that is mapped by draws, so long does it take."""
    solver = ("--solver", "heun", "--steps", steps)
    return ["map", "--checkpoint", model, *region.raster_options, *solver, "--out", out]


def done(result: Any) -> str:
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture
def region(small_region: SmallRegion, tmp_path: Path) -> SmallRegion:
    """A copy of the region that a test may spoil."""
    folder = tmp_path / "inputs"
    shutil.copytree(small_region.folder, folder)
    return SmallRegion(folder, small_region.grid, small_region.points)


@pytest.mark.parametrize(
    "moment",
    [
        *("writing job.json", "after m.occurrences.gpkg", "after m.last.safetensors"),
        *("after m.log.jsonl", "after m.safetensors"),
    ],
)
def test_training_killed_between_two_writings_ends_complete(
    moment: str, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    command = training(small_region, tmp_path / "m.safetensors")
    killed(moment, *command)
    done(geocfm(*command))
    names = {"m.safetensors", "m.last.safetensors", "m.log.jsonl", "m.occurrences.gpkg"}
    assert {path.name for path in tmp_path.iterdir()} == names
    rows = training_log(tmp_path / "m.log.jsonl")
    steps = [row["iteration"] for row in rows if "loss" in row]
    assert steps == list(range(1, ITERATIONS + 1))


@pytest.mark.parametrize("moment", ["after m.report.html", "after m.report.json"])
def test_training_killed_beside_its_report_ends_complete(
    moment: str, geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    command = training(small_region, tmp_path / "m.safetensors")
    command.remove("--skip-report")
    killed(moment, *command)
    assert not (tmp_path / "m.safetensors").exists()
    assert "Mapping" not in done(geocfm(*command))  # the map was finished before
    names = {"m.safetensors", "m.last.safetensors", "m.log.jsonl", "m.occurrences.gpkg"}
    names |= {"m.report.html", "m.report.json"}
    assert {path.name for path in tmp_path.iterdir()} == names


@pytest.fixture
def interrupted(region: SmallRegion, tmp_path: Path) -> Path:
    """The output of a training that was killed when only the log was in place."""
    out = tmp_path / "m.safetensors"
    killed("after m.log.jsonl", *training(region, out))
    return out


def test_other_order_of_layers_is_another_training(
    geocfm: Geocfm, refused: Refused, region: SmallRegion, interrupted: Path
) -> None:
    shutil.rmtree(interrupted.parent / ".geocfm.locks")  # what the killed one could not remove
    turned = [part for name in LAYERS[::-1] for part in ("--raster", region.raster(name))]
    command = ["train", *turned, *training(region, interrupted)[7:]]
    assert "--occurrences" in command
    refused(command, "Unfinished work of another job", "in another order")
    done(geocfm(*training(region, interrupted)))
    refused(command, "already there, and not from this very job")


def test_a_mistake_while_going_on_does_not_cost_the_work_so_far(
    geocfm: Geocfm, region: SmallRegion, interrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = interrupted.parent / ".m.safetensors.work" / "state.safetensors"
    with monkeypatch.context() as patched:
        patched.setattr("geocfm.run.needs.available_bytes", lambda device=None: 1000)
        result = geocfm(*training(region, interrupted))
        assert result.exit_code == 2
        assert "of memory" in result.output
    assert state.exists()
    moved = region.occurrences.rename(region.folder / "elsewhere.gpkg")
    result = geocfm(*training(region, interrupted, "--overwrite"))
    assert result.exit_code == 2
    assert "does not exist" in result.output
    assert state.exists()
    moved.rename(region.occurrences)
    assert "Going on from iteration" in done(geocfm(*training(region, interrupted)))


def test_a_state_that_does_not_fit_is_said_and_begun_anew(
    geocfm: Geocfm, region: SmallRegion, interrupted: Path
) -> None:
    state = interrupted.parent / ".m.safetensors.work" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    assert "cannot be used; training begins anew" in done(geocfm(*training(region, interrupted)))
    assert load_card(interrupted).iterations <= ITERATIONS


def test_parts_of_a_map_survive_a_missing_input_but_not_a_changed_one(
    geocfm: Geocfm, region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    model = Path(shutil.copy(paper_model, region.folder))
    out = tmp_path / "map.tif"
    with started(*mapping(region, model, out, steps=60)) as child:
        read_until(child, "Mapping", 0.2)
        child.kill()
    strips = tmp_path / ".map.tif.work" / "strips"
    assert list(strips.iterdir())
    moved = model.rename(region.folder / "elsewhere.safetensors")
    assert geocfm(*mapping(region, model, out, steps=60)).exit_code == 2
    assert list(strips.iterdir())
    moved.rename(model)
    os.utime(region.raster("noise"), (1_000_000_000, 1_000_000_000))
    assert "Going on" not in done(geocfm(*mapping(region, model, out, steps=60)))


def test_a_raster_replaced_while_it_is_mapped_ends_the_job_with_its_name(
    geocfm: Geocfm, region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    out = tmp_path / "map.tif"
    noise = region.raster("noise")
    with started(*mapping(region, paper_model, out, steps=20)) as child:
        read_until(child, "Mapping", 0.1)
        noise.write_bytes(region.raster("slope").read_bytes())
        events, error = ended(child, 100)
        assert child.returncode == 2, events[-1]
    assert f"{noise.as_posix()} has changed" in events[-1]["message"]
    assert "mix old and new" in events[-1]["hint"]
    assert error == ""
    assert {path.name for path in tmp_path.iterdir()} == {"inputs"}
    assert "Going on" not in done(geocfm(*mapping(region, paper_model, out)))


def test_a_map_is_not_done_any_more_when_the_source_of_a_virtual_raster_is_replaced(
    geocfm: Geocfm, refused: Refused, region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    source = region.raster("noise")
    virtual = source.with_name("noise.vrt")
    with rasterio.open(source) as raster:
        rasterio.shutil.copy(raster, virtual, driver="VRT")
    layers = [region.raster("ridge"), region.raster("slope"), virtual]
    command = [
        *("map", "--checkpoint", trained.checkpoint, "--solver", "euler", "--steps", 1),
        *(text for path in layers for text in ("--raster", path)),
        *("--out", tmp_path / "map.tif"),
    ]
    done(geocfm(*command))
    assert "done before" in done(geocfm(*command))
    source.write_bytes(region.raster("ridge").read_bytes())
    refused(command, "map.tif: already there")


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_a_link_beside_a_job_file_leads_to_nothing_that_is_lost(
    overwrite: tuple[str, ...],
    geocfm: Geocfm,
    refused: Refused,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
) -> None:
    jobs, victim = tmp_path / "jobs.toml", tmp_path / "victim"
    command = mapping(small_region, trained.checkpoint, tmp_path / "map.tif")
    done(geocfm("job", *command, "--to", jobs))
    (victim / "deeper").mkdir(parents=True)
    (victim / "thesis.txt").write_text("years of work")
    (victim / "deeper" / "job.json").write_text("{}")
    (tmp_path / ".map.tif.work").symlink_to(victim)
    refused(["run", jobs, *overwrite], ".map.tif.work' is a link")
    refused(["run", jobs, "--dry-run"], ".map.tif.work' is a link")
    refused([*command, *overwrite], ".map.tif.work' is a link")


def test_the_same_files_by_another_path_are_the_same_job(
    geocfm: Geocfm, region: SmallRegion, trained: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    out = tmp_path / "map.tif"
    done(geocfm(*mapping(region, trained.checkpoint, out)))
    (tmp_path / "link").symlink_to(region.folder)
    for folder in (tmp_path / "link", region.folder / ".." / "inputs", Path("inputs")):
        monkeypatch.chdir(tmp_path)
        spelled = SmallRegion(folder, region.grid, region.points)
        assert "done before" in done(geocfm(*mapping(spelled, trained.checkpoint, Path("map.tif"))))


def test_a_link_stays_a_link(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = tmp_path / "map.tif"
    out.symlink_to(elsewhere / "real.tif")
    done(geocfm(*mapping(small_region, trained.checkpoint, out)))
    assert out.is_symlink()
    assert [path.name for path in elsewhere.iterdir()] == ["real.tif"]


def test_an_evaluation_in_the_folder_one_stands_in(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options, *ALONE, "--steps", 1)
    done(geocfm("evaluate", *given, "--occurrences", small_region.occurrences, "--out", "."))
    names = {"evaluation.json", "capture.png", "map.png", "importance.png", "occurrences.gpkg"}
    names |= {"report.html", "report.json"}
    assert {path.name for path in tmp_path.iterdir()} == names


def test_somebody_elses_unfinished_model_stays(
    geocfm: Geocfm, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    other = tmp_path / "m.unfinished.safetensors"
    other.write_text("a novel")
    command = training(small_region, tmp_path / "m.safetensors")
    refused(command, "m.unfinished.safetensors", "already there")
    done(geocfm(*command, "--overwrite"))
    assert other.read_text() == "a novel"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("as_json", [False, True])
def test_a_full_disk_under_the_log_does_not_stop_the_work(
    as_json: bool, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "map.tif"
    command = [sys.executable, "-m", "geocfm", *mapping(small_region, trained.checkpoint, out)]
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*map(str, command), *(["--json"] if as_json else [])],
            env=child_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    assert out.exists()


def test_ctrl_c_at_the_very_beginning_is_a_sentence(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "typer.py").write_text(code)  # found before the real one
    environment = child_environment()
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), environment["PYTHONPATH"]])
    result = subprocess.run(
        [sys.executable, "-m", "geocfm", "info", "x"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 130
    assert "Stopped" in result.stdout
    assert result.stderr == ""


def test_a_second_run_of_the_same_job_file_is_refused(
    geocfm: Geocfm, small_region: SmallRegion, paper_model: Path, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs.toml"
    command = mapping(small_region, paper_model, tmp_path / "map.tif", steps=200)
    done(geocfm("job", *command, "--to", jobs))
    with started("run", jobs) as child:
        read_until(child, "Mapping", 0)
        again = geocfm("run", jobs)
        assert again.exit_code == 2
        assert "Another GeoCFM is at work on" in again.output
        assert child.poll() is None
        child.send_signal(signal.SIGTERM)
        child.communicate()
    assert {path.name for path in tmp_path.iterdir()} == {"jobs.toml", ".map.tif.work"}
