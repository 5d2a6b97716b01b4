"""Job files: what they mean, what is said of their mistakes, and how ``geocfm job`` writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from geocfm.errors import UserError
from geocfm.job import COMMANDS, EvaluateJob, Job, MapJob, Preset, SampleJob, TrainJob, make_job
from geocfm.job_file import FILE_COMMANDS, job_file_schema, load_jobs, parse
from geocfm.job_writing import add_job
from geocfm.layer_spec import matching_files
from geocfm.model.settings import PRESETS
from small_data import SmallRegion, child_environment

ENDINGS = {"train": ".safetensors", "map": ".tif", "sample": ".gpkg", "evaluate": "", "check": ""}
SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "job.schema.json"
GOOD = """
[[jobs]]
name = "north"
command = "train"
raster = ["a.tif"]
occurrences = "o.gpkg"
out = "m.safetensors"
"""
Geocfm = Callable[..., Any]


def write(folder: Path, text: str, name: str = "jobs.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def mistakes(*paths: Path) -> list[str]:
    """What is said of the files, a line for each mistake."""
    with pytest.raises(UserError) as caught:
        load_jobs(paths)
    lines = caught.value.hint.splitlines()
    count = "is a mistake" if len(lines) == 1 else f"are {len(lines)} mistakes"
    assert count in caught.value.message
    return [line.replace(f"{paths[0].parent}{os.sep}", "") for line in lines]


def only_job(path: Path) -> Job:
    (job,) = load_jobs([path])
    return job.job


def test_the_schema_in_the_docs_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == json.dumps(job_file_schema(), indent=2) + "\n", (
        "docs/job.schema.json is out of date: write json.dumps(job_file_schema(), indent=2) to it"
    )


def test_the_schema_knows_every_key_of_every_command() -> None:
    schema = job_file_schema()["$defs"]
    own = {"name", "command", "out"}
    every = set()
    for kind in FILE_COMMANDS.values():
        described = schema[kind.__name__]
        assert set(described["properties"]) == {*kind.model_fields, "name", "command"}
        assert described["additionalProperties"] is False
        # what the defaults may give is not required of a job
        assert set(described["required"]) == {"command", "out"} & set(described["properties"])
        every |= set(kind.model_fields)
    assert set(schema["Defaults"]["properties"]) == every - own
    assert not any("default" in field for field in schema["Defaults"]["properties"].values())
    assert set(FILE_COMMANDS) == set(COMMANDS) - {"info", "synth"}


def test_the_presets_of_jobs_are_those_of_models() -> None:
    assert get_args(Preset) == ("auto", *PRESETS)


def test_a_wrong_file_is_answered_without_loading_what_is_heavy(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("train", "trian"))
    code = (
        "import sys; from geocfm.cli import app;"
        f"app(['run', {str(path)!r}], standalone_mode=False);"
        "print({'torch', 'rasterio', 'numpy'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment(), capture_output=True, text=True
    )
    assert "Did you mean 'train'?" in done.stdout, done.stderr
    assert done.stdout.endswith("set()\n")


def test_defaults_apply_where_they_are_known_and_a_jobs_own_value_goes_first(
    tmp_path: Path,
) -> None:
    text = """
    [defaults]
    seed = 7
    raster = ["a.tif"]
    occurrences = "o.gpkg"
    steps = 9
    [[jobs]]
    command = "train"
    out = "m.safetensors"
    [[jobs]]
    command = "map"
    seed = 8
    checkpoint = "m.safetensors"
    out = "m.tif"
    [[jobs]]
    name = "look"
    command = "check"
    raster = ["b.tif"]
    """
    train, mapping, check = load_jobs([write(tmp_path, text)])
    assert [job.name for job in (train, mapping, check)] == ["train 1", "map 2", "look"]
    assert train.job == make_job(
        TrainJob,
        {
            "raster": [f"{tmp_path}/a.tif"],
            "occurrences": tmp_path / "o.gpkg",
            "seed": 7,
            "out": tmp_path / "m.safetensors",
        },
    )
    assert isinstance(mapping.job, MapJob)
    assert (mapping.job.seed, mapping.job.steps) == (8, 9)
    assert check.job.raster == [f"{tmp_path}/b.tif"]  # type: ignore[attr-defined]


def test_toml_and_json_of_the_same_shape_are_the_same_jobs(tmp_path: Path) -> None:
    text = f"[defaults]\nseed = 3\nextent = [1, 2.5, 3, 4]\n{GOOD}"
    toml = write(tmp_path, text)
    as_json = write(tmp_path, json.dumps(parse(text, toml)), "jobs.json")
    assert load_jobs([toml]) == load_jobs([as_json])
    assert only_job(toml).extent == (1, 2.5, 3, 4)  # type: ignore[attr-defined]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_files_of_windows_editors_are_read(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "jobs.toml"
    path.write_bytes(GOOD.replace("north", "Überall").replace("\n", "\r\n").encode(encoding))
    assert load_jobs([path])[0].name == "Überall"


@pytest.mark.parametrize("folder", ["plain", "maps [new] ü=1", "with space:2"])
def test_paths_are_relative_to_the_file(tmp_path: Path, folder: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("USERPROFILE", "/home/me")
    here = tmp_path / folder
    (here / "layers").mkdir(parents=True)
    for name in ("mag.tif", "u=th.tif", "k[1].tif", "a:1"):
        (here / "layers" / name).touch()
    (here / "x=y.tif").touch()
    specs = {
        "layers/mag.tif": "{}/layers/mag.tif",
        "mag=layers/mag.tif:2": "mag={}/layers/mag.tif:2",
        "layers/*.tif": "layers/*.tif",  # the folder's own brackets are tested below
        "layers/u=th.tif": "{}/layers/u=th.tif",
        "layers/k[1].tif": "{}/layers/k[1].tif",
        "layers/a:1": "{}/layers/a:1",
        "x=y.tif": "{}/x=y.tif",
        "not=there.tif:3": "not={}/there.tif:3",
        "/else/where.tif:1": "/else/where.tif:1",
        "~/mag.tif": "/home/me/mag.tif",
        "n=~/mag.tif": "n=/home/me/mag.tif",
        "NETCDF:c.nc:v": "NETCDF:c.nc:v",
        "n=/vsizip/a.zip/b.tif": "n=/vsizip/a.zip/b.tif",
        "https://host/a.tif": "https://host/a.tif",
    }
    text = GOOD.replace('["a.tif"]', json.dumps(list(specs))).replace("o.gpkg", "~/o.gpkg")
    job = only_job(write(here, text.replace("m.safe", "../results/m.safe")))
    assert isinstance(job, TrainJob)
    expected = [spec.format(here) for spec in specs.values()]
    pattern = list(specs).index("layers/*.tif")
    assert job.raster[:pattern] + job.raster[pattern + 1 :] == (
        expected[:pattern] + expected[pattern + 1 :]
    )
    assert len(matching_files(job.raster[pattern])) == 3
    assert job.occurrences == Path("/home/me/o.gpkg")
    assert job.out == here / "../results/m.safetensors"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("occurrences =", "occurences ="), ["occurences (north)", "mean 'occurrences'"]),
        (('"train"', '"trian"'), ["command", "'trian'", "check, train, map", "mean 'train'"]),
        (('"train"', "3"), ["command", "3 cannot be used", "check, train, map"]),
        (('command = "train"', ""), ["command", "must be given", "sample"]),
        (('["a.tif"]', '"a.tif"'), ["raster", "'a.tif'", "a list of texts"]),
        (('["a.tif"]', "[]"), ["raster", "at least one"]),
        (('"o.gpkg"', '""'), ["occurrences", "no name of a file"]),
        (("out =", "seed = -1\nout ="), ["seed", "-1", "at least 0"]),
        (("out =", "seed = true\nout ="), ["seed", "true", "a whole number"]),
        (("out =", "iterations = 1e9\nout ="), ["iterations", "at most 100,000,000"]),
        (("out =", "minutes = inf\nout ="), ["minutes", "inf", "above 0 and at most 100,000"]),
        (("out =", "resolution = nan\nout ="), ["resolution", "nan", "a number, above 0"]),
        (("out =", "window = '9'\nout ="), ["window", "'9'", "at least 16 and at most 4,096"]),
        (("out =", "preset = 'ful'\nout ="), ["preset", "quick, full", "mean 'full'"]),
        (("out =", "device = 'gpu'\nout ="), ["device", "auto, cpu, cuda"]),
        (("out =", "overwrite = 'no'\nout ="), ["overwrite", "true or false"]),
        (("out =", "extent = [1, 2, 3]\nout ="), ["extent", "four numbers"]),
        (("out =", "extent = [1, 2, 3, inf]\nout ="), ["extent", "inf", "4 numbers"]),
        (("out =", "extent = [3, 2, 1, 4]\nout ="), ["extent", "xmin must be less than xmax"]),
        (("out =", "set = ['a=b']\nout ="), ["set (north)", "'settings'"]),
        (("out =", "occurrences-crs = 'x'\nout ="), ["'occurrences_crs'"]),
        (("out =", "qqq = 1\nout ="), ["qqq", "The keys are: ", "x_column", "settings"]),
        (('"north"', '""'), ["jobs[1].name", "one line"]),
    ],
)
def test_a_mistake_is_answered_with_its_place_and_what_is_right(
    tmp_path: Path, change: tuple[str, str], said: list[str]
) -> None:
    assert change[0] in GOOD
    lines = mistakes(write(tmp_path, GOOD.replace(*change)))
    assert lines[0].startswith("jobs.toml: jobs[1].")
    for word in said:
        assert any(word in line for line in lines), lines


def test_every_mistake_of_every_file_is_said_at_once(tmp_path: Path) -> None:
    first = write(tmp_path, "[defaults]\nseed = -1\nout = 'x'\nsede = 2\n" + GOOD + GOOD)
    second = write(tmp_path, '{"jobs": [1, {"command": "map"}], "job": 2}', "b.json")
    broken = write(tmp_path, "[[jobs]]\ncommand 3\n", "c.toml")
    text = write(tmp_path, GOOD, "d.txt")
    empty = write(tmp_path, "", "e.toml")
    binary = tmp_path / "f.toml"
    binary.write_bytes(b"\x80\x81")
    lines = mistakes(first, second, broken, text, empty, binary, tmp_path / "no.toml", tmp_path)
    expected = [
        "jobs.toml: defaults.seed: -1 cannot be used; it must be a whole number",
        "jobs.toml: defaults.out: it belongs to each job",
        "jobs.toml: defaults.sede: there is no such key. Did you mean 'seed'?",
        "b.json: jobs[1]: 1 is no job",
        "b.json: jobs[2].out: it must be given",
        "b.json: jobs[2].raster: it must be given",
        "b.json: jobs[2].checkpoint: it must be given",
        "b.json: job: Did you mean 'jobs'?",
        "c.toml is not valid TOML: Expected '=' after a key in a key/value pair (at line 2, col",
        "'d.txt' is no job file",
        "e.toml: there are no jobs",
        "The job file 'f.toml' is no text",
        "There is no job file 'no.toml'",
        "cannot be read",
    ]
    assert len(lines) == len(expected), lines
    for line, start in zip(lines, expected, strict=True):
        assert start in line


def test_names_and_results_are_not_shared(tmp_path: Path) -> None:
    twice = write(tmp_path, GOOD + GOOD)
    assert mistakes(twice) == ["jobs.toml: several jobs have the name 'north'."]
    other = GOOD.replace("north", "south").replace('"m.', '"../x/m.')
    folder = tmp_path / "x"
    folder.mkdir()
    (line,) = mistakes(write(tmp_path / "x", GOOD), write(folder, other, "b.toml"))
    assert "north, south: they write the same result" in line


def test_a_file_with_a_mistake_starts_nothing(geocfm: Geocfm, tmp_path: Path) -> None:
    good = write(tmp_path, GOOD)
    bad = write(tmp_path, GOOD.replace("out", "uot"), "bad.toml")
    result = geocfm("run", good, bad, "--json")
    assert result.exit_code == 2
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events] == ["started", "failed"]
    assert events[0]["command"] == "run"
    assert "jobs[1].uot (north)" in events[1]["hint"]


JOBS: dict[str, tuple[type[Job], list[object]]] = {
    "train": (
        TrainJob,
        ["--where", 'a|b ~ "x", ü', "--extent", "1,2.5,3,4e6", "--minutes", "2.5", "--deduplicate"],
    ),
    "map": (MapJob, ["--checkpoint", "m.safetensors", "--aoi", "dir/a \\ b.gpkg", "--seed", "5"]),
    "sample": (SampleJob, ["--checkpoint", "m.safetensors", "--draws", "9", "--overwrite"]),
    "evaluate": (EvaluateJob, ["--checkpoint", "m.safetensors", "--device", "cuda:1"]),
}


@pytest.mark.parametrize("suffix", ["toml", "json"])
@pytest.mark.parametrize("command", JOBS)
def test_a_written_job_reads_back_as_the_same_job(
    command: str, suffix: str, geocfm: Geocfm, tmp_path: Path, monkeypatch: Any
) -> None:
    kind, options = JOBS[command]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maps [1] ü").mkdir()
    (tmp_path / "maps [1] ü" / "a.tif").touch()
    rasters = ["maps [1] ü/a.tif", "n=maps*/a.tif:2", "/abs/b.tif", "NETCDF:c.nc:v"]
    given = [text for raster in rasters for text in ("--raster", raster)]
    if command in ("train", "evaluate"):
        given += ["--occurrences", "o.gpkg"]
    path = Path("batch dir") / f"jobs.{suffix}"
    for number in (1, 2):
        last = ["--out", f"r{number}{ENDINGS[command]}", "--to", path, "--name", f"job {number} é"]
        result = geocfm("job", command, *given, *options, *last)
        assert result.exit_code == 0, result.output
    first, second = load_jobs([path])
    assert (first.name, second.name) == ("job 1 é", "job 2 é")
    assert first.command == command
    written = path.read_text(encoding="utf-8")
    assert "crs" not in written  # only what differs from the defaults
    assert str(tmp_path) not in written  # so that the folder can be moved
    assert isinstance(first.job, kind)
    # the same job, but for how the paths are written
    assert [os.path.normpath(spec) for spec in first.job.raster] == [  # type: ignore[attr-defined]
        f"{tmp_path}/maps [1] ü/a.tif",
        f"n={tmp_path}/maps*/a.tif:2",
        "/abs/b.tif",
        "NETCDF:c.nc:v",
    ]
    assert first.job.out.resolve() == tmp_path / f"r1{ENDINGS[command]}"  # type: ignore[attr-defined]
    paths = {name for name, value in first.job if isinstance(value, Path)}
    dumped = first.job.model_dump(exclude={"raster", *paths})
    printed = geocfm("job", command, *given, *options, "--out", f"r1{ENDINGS[command]}")
    again = only_job(write(tmp_path, printed.stdout, "printed.toml"))
    assert again.model_dump(exclude={"raster", *paths}) == dumped
    assert second.job.model_dump(exclude={"raster", *paths}) == dumped
    for name in paths:
        assert getattr(again, name).resolve() == getattr(first.job, name).resolve()


def test_adding_a_job_keeps_what_is_there(geocfm: Geocfm, tmp_path: Path) -> None:
    before = f"# mine\n[defaults]\nseed = 9  # not 1\nminutes = 3\n{GOOD.rstrip()}"
    path = write(tmp_path, before)
    options = ("--raster", "a.tif", "--occurrences", "o.gpkg")
    add = ("job", "train", *options, "--to", path)
    refused = geocfm(*add, "--iterations", 5, "--out", tmp_path / "n.safetensors")
    assert refused.exit_code == 2
    assert "'minutes'" in refused.output
    refused = geocfm(*add, "--minutes", 5, "--out", tmp_path / "m.safetensors")
    assert refused.exit_code == 2
    assert "the same result" in " ".join(refused.output.split())
    assert path.read_text(encoding="utf-8") == before
    added = geocfm(*add, "--minutes", 5, "--out", tmp_path / "n.safetensors")
    assert added.exit_code == 0, added.output
    assert "2 jobs" in added.output
    assert path.read_text(encoding="utf-8").startswith(before + "\n\n[[jobs]]\n")
    _, second = load_jobs([path])
    assert second.job.seed == 1  # type: ignore[attr-defined]  # as asked, not as the defaults say
    assert [p.name for p in tmp_path.iterdir()] == ["jobs.toml"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("jobs.toml", "jobs = [{ command = 'check', raster = ['a'], occurrences = 'b' }]\n"),
        ("jobs.toml", "not toml"),
        ("jobs.json", '{"jobs": {"command": "check"}}'),
        ("jobs.json", "[1]"),
        ("jobs.txt", "anything"),
    ],
)
def test_a_file_that_cannot_take_a_job_stays_as_it_was(
    name: str, text: str, geocfm: Geocfm, tmp_path: Path
) -> None:
    path = write(tmp_path, text, name)
    result = geocfm("job", "check", "--raster", "a.tif", "--occurrences", "o", "--to", path)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert path.read_text(encoding="utf-8") == text


def test_a_job_of_odd_characters_survives_the_writing(tmp_path: Path) -> None:
    odd = 'tab\t"quoted"\\back\x7f\x01 \u2028 𝄞'
    values = {
        "raster": ["a"],
        "occurrences": "o",
        "where": [odd],
        "out": tmp_path / "m.safetensors",
    }
    for path in (tmp_path / "a.toml", tmp_path / "a.json"):
        add_job(path, make_job(TrainJob, values), "train", None)
        assert only_job(path).where == [odd]  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="no text"):
        add_job(path, make_job(TrainJob, {**values, "occurrences": "\udcff"}), "train", None)


def test_mistakes_in_options_are_said_together(geocfm: Geocfm, small_region: SmallRegion) -> None:
    given = [*small_region.raster_options, "--occurrences", small_region.occurrences]
    one = geocfm("check", *given, "--window", 5)
    assert one.exit_code == 2
    assert "--window: 5 cannot be used; it must be a whole number, at least 16" in one.output
    several = geocfm("check", *given, "--window", 5, "--preset", "ful", "--resolution", "inf")
    assert "3 options cannot be used." in several.output
    for said in ("--window: 5", "--preset: 'ful'", "Did you mean 'full'?", "--resolution: inf"):
        assert said in several.output


@pytest.mark.parametrize("path", ["C:\\Users\\me\\ridge.tif", "D:\\temp\\ridge.tif"])
def test_windows_paths_in_double_quotes_are_explained(
    path: str, geocfm: Geocfm, tmp_path: Path
) -> None:
    text = f'[[jobs]]\ncommand = "check"\nraster = ["{path}"]\noccurrences = "o.gpkg"\n'
    result = geocfm("run", write(tmp_path, text, "jobs.toml"))
    assert result.exit_code == 2
    assert "write Windows paths in single quotes" in " ".join(result.output.split())
