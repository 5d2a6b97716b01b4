"""What lies around a run: variables of other programs, who reads its words, odd names, pipes."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio.raw
import pytest
from geocfm.cli import speak
from geocfm.events import Event, Failed, Finished, Noted, Reporter
from geocfm.outcome import Outcome, ended_by
from pydantic import TypeAdapter
from small_data import SmallRegion, child_environment, command_line

CHECKPOINT = (
    Path(__file__).resolve().parents[2] / "resources/checkpoints/murchison_gold.safetensors"
)
EVENT: TypeAdapter[Any] = TypeAdapter(Event)
ODD = os.fsdecode(b"m\xffg")


@pytest.mark.parametrize("name", ["PROJ_LIB", "PROJ_DATA", "GDAL_DATA", "GDAL_DRIVER_PATH"])
def test_another_installation_s_data_are_not_used(name: str, tmp_path: Path) -> None:
    (tmp_path / "proj.db").write_bytes(b"another PROJ's")
    (tmp_path / "gdal_Odd.so").write_bytes(b"another GDAL's")
    code = (
        "from geocfm.geo.crs import parse_crs; import os\n"
        f"print(parse_crs('EPSG:20350').linear_units, os.environ.get('{name}'))"
    )
    environment = {**child_environment(), name: str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("metre None\n", "")


@contextmanager
def nobody_reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Standard output is a pipe whose other end is closed."""
    read, write = os.pipe()
    os.close(read)
    stream = os.fdopen(write, "w", encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    yield
    monkeypatch.undo()
    with suppress(BrokenPipeError):
        stream.close()


@pytest.mark.parametrize("as_json", [True, False])
@pytest.mark.parametrize(("stages", "code"), [(0, 0), (1, 130)])
def test_work_that_nobody_reads_of_ends_as_asked_or_done(
    as_json: bool, stages: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = []

    def work(reporter: Reporter) -> Outcome:
        try:
            reporter.note("the pipe breaks here")
            for _ in range(stages):
                reporter.stage("Mapping")(1, 2)
            reporter.wrote("map", "map.tif", "the map")
            done.append("delivered")
        except Exception as error:
            return ended_by(error, "map")
        return Outcome("done", Finished(seconds=0), 0)

    with nobody_reading(monkeypatch):
        assert speak("map", as_json, work) == code
    assert done == ["delivered"] * (stages == 0)


@pytest.mark.parametrize("arguments", [["info", CHECKPOINT], ["--help"], ["info", "nowhere"]])
def test_a_closed_standard_output_is_no_error(arguments: list[object]) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", *command_line(*arguments)],
        env=child_environment(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2 if "nowhere" in arguments else 0, "")


@pytest.mark.parametrize("as_json", [[], ["--json"]])
@pytest.mark.parametrize("option", ["--raster", "--occurrences", "--aoi", "--where", "pattern"])
def test_names_that_are_no_text(
    refused: Callable[..., str],
    small_region: SmallRegion,
    tmp_path: Path,
    option: str,
    as_json: list[str],
) -> None:
    values: dict[str, object] = {
        "--raster": small_region.raster("ridge"),
        "--occurrences": small_region.occurrences,
    }
    if option == "pattern":
        shutil.copy(small_region.raster("ridge"), tmp_path / f"{ODD}.tif")
        values["--raster"] = tmp_path / "*.tif"
    else:
        values[option] = tmp_path / f"{ODD}.tif"
    arguments = [text for pair in values.items() for text in pair]
    said = refused(["check", *arguments, *as_json], "holds bytes that are no text")
    assert "m\\udcffg.tif" in said.replace("\\\\", "\\")  # the byte is shown, escaped


def test_a_folder_whose_name_is_no_text(
    refused: Callable[..., str],
    small_region: SmallRegion,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / ODD
    folder.mkdir()
    monkeypatch.chdir(folder)
    arguments = ["map", "--checkpoint", CHECKPOINT, *small_region.raster_options]
    refused([*arguments, "--out", "map.tif"], "holds bytes that are no text")


@pytest.mark.parametrize(
    "event",
    [
        Noted(text=f"{ODD}.tif"),
        Failed(message=ODD, hint=ODD),
        Reporter,
    ],
)
def test_an_event_with_such_a_name_is_json(event: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from geocfm.events import JsonSink

    reporter = Reporter(JsonSink())
    if event is Reporter:
        reporter.report("check", {ODD: [ODD, {"a": ODD}]})
    else:
        reporter.sink.emit(event)
    (line,) = capsys.readouterr().out.splitlines()
    assert "udcff" in line
    EVENT.validate_json(line)


def test_attributes_in_another_encoding_than_the_file_says(
    geocfm: Callable[..., Any], small_region: SmallRegion, tmp_path: Path
) -> None:
    meta, _, shapes, _ = pyogrio.raw.read(small_region.occurrences)
    path = tmp_path / "mines.shp"
    names = np.array(["Café"] * len(shapes), dtype=object)
    pyogrio.raw.write(
        *(path, shapes, [names], ["name"]),
        crs=meta["crs"],
        geometry_type="Point",
        encoding="ISO-8859-1",
        driver="ESRI Shapefile",
    )
    path.with_suffix(".cpg").write_text("UTF-8")
    arguments = ["check", *small_region.raster_options, "--occurrences", path]
    result = geocfm(*arguments, "--where", "name = café", "--window", 32, "--tile", 40)
    assert result.exit_code == 0, result.output


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody writes into, as a raster, a table or a model."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("endless", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("--raster", "a.tif"),
        ("--raster", "/vsigzip/"),
        ("--raster", "/vsistdin/"),
        ("--like", "a.tif"),
        ("--effort", "a.tif"),
        ("--occurrences", "a.csv"),
        ("--occurrences", "a.gpkg"),
        ("--aoi", "a.geojson"),
    ],
)
def test_inputs_without_an_end_are_refused(
    geocfm: Callable[..., Any],
    small_region: SmallRegion,
    pipe: Path,
    endless: str,
    use: str,
    name: str,
) -> None:
    link = pipe.with_name(name if name[0] != "/" else "b.gz")
    link.symlink_to(pipe if endless == "pipe" else endless)
    values: dict[str, object] = {
        "--raster": small_region.raster("ridge"),
        "--occurrences": small_region.occurrences,
    }
    values[use] = {"/vsigzip/": f"/vsigzip/{link}", "/vsistdin/": name}.get(name, link)
    arguments = [text for pair in values.items() for text in pair]
    for command in (["check"], ["train", "--out", pipe.with_name("model.safetensors")]):
        result = geocfm(*command, *arguments)
        assert result.exit_code == 2, result.output
        assert "is a pipe or a device, not a file" in " ".join(result.output.split())


@pytest.mark.parametrize("command", ["info", "run", "map", "evaluate", "targets", "out"])
def test_other_files_without_an_end_are_refused(
    geocfm: Callable[..., Any], small_region: SmallRegion, pipe: Path, command: str
) -> None:
    names = {"info": "m.safetensors", "run": "j.toml", "targets": "m.tif", "out": "o.tif"}
    link = pipe.with_name(names.get(command, "m.safetensors"))
    link.symlink_to(pipe)
    layers, out = small_region.raster_options, pipe.with_name("out")
    arguments: dict[str, list[object]] = {
        "info": ["info", link],
        "run": ["run", link],
        "map": ["map", "--checkpoint", link, *layers, "--out", f"{out}.tif"],
        "evaluate": [
            *("evaluate", "--checkpoint", link, *layers, "--out", out),
            *("--occurrences", small_region.occurrences),
        ],
        "targets": ["targets", "--map", link, "--out", f"{out}.gpkg"],
        "out": ["map", "--checkpoint", CHECKPOINT, *layers, "--out", link],
    }
    result = geocfm(*arguments[command])
    assert result.exit_code == 2, result.output
    assert "Sorry" not in result.output


def test_a_locked_geopackage_is_not_called_damaged(
    refused: Callable[..., str], small_region: SmallRegion, tmp_path: Path
) -> None:
    path = tmp_path / "locked.gpkg"
    shutil.copy(small_region.occurrences, path)
    code = (
        "import sqlite3, sys\n"
        "holder = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "holder.execute('BEGIN EXCLUSIVE')\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        arguments = ["check", *small_region.raster_options, "--occurrences", path]
        said = refused(arguments, f"Another program holds '{path}'.", "Save and close it there")
        other.stdin.close()
    assert "damaged" not in said


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process has as many files open as it may."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, before[1]))
    held: list[int] = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for handle in held:
            os.close(handle)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_too_many_open_files_are_not_called_damage(small_region: SmallRegion) -> None:
    from geocfm.errors import UserError
    from geocfm.geo.layers import open_raster
    from geocfm.geo.tables import read_table
    from geocfm.geo.vectors import read_features
    from geocfm.model.checkpoint import load_card

    table = small_region.folder / "table.csv"
    table.write_text("x,y\n1,2\n")
    ways: list[Callable[[], object]] = [
        lambda: open_raster(str(small_region.raster("ridge"))).__enter__(),
        lambda: read_features(str(small_region.occurrences), None, "Point"),
        lambda: read_table(str(table), None, None),
        lambda: load_card(CHECKPOINT),
    ]
    for way in ways:
        with no_more_files(), pytest.raises(UserError, match="too many files are open already"):
            way()
    outcome = ended_by(OSError(errno.EMFILE, "Too many open files", "a.tif"), "map")
    assert outcome.exit_code == 2


def test_a_run_of_jobs_stops_where_nobody_reads(
    small_region: SmallRegion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from geocfm.batch import run_batch
    from geocfm.job_file import load_jobs

    jobs = tmp_path / "jobs.toml"
    entry = f"""[[jobs]]
command = "check"
raster = ['{small_region.raster("ridge")}']
occurrences = '{small_region.occurrences}'
"""
    jobs.write_text(entry * 2)
    with nobody_reading(monkeypatch):
        code = speak("run", False, lambda reporter: run_batch(load_jobs([jobs]), [jobs], reporter))
    assert code == 130
