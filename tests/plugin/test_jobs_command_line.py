"""Jobs for a terminal and a server, read back by the engine itself."""

import json
import os
import shlex
import subprocess
from dataclasses import replace

import pytest

from geocfm_qgis.bundle import engine_folder, resources_folder
from geocfm_qgis.jobs import (
    EngineJob,
    as_command_line,
    as_job_file,
    run_arguments,
    save_for_server,
    write_job_file,
)
from geocfm_qgis.jobs.command_line import _for_windows
from geocfm_qgis.jobs.job_paths import input_paths, output_paths, with_paths

RASTERS = resources_folder() / "sample" / "rasters"
OCCURRENCES = str(resources_folder() / "sample" / "occurrences.gpkg")
AREA = str(resources_folder().parent / "docs" / "examples" / "north.geojson")


@pytest.fixture
def geocfm(engine_python):
    def run(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(engine_folder()), "OMP_NUM_THREADS": "1"}
        return subprocess.run(
            [engine_python, "-m", "geocfm", *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    return run


def train_job(folder, occurrences=OCCURRENCES, **more):
    values = {
        "raster": [
            f"dist fault={RASTERS / 'dist_fault.tif'}:1",
            f"größe={RASTERS / 'greenstone.tif'}:1",
        ],
        "raster_crs": ["größe=EPSG:20350"],
        "nodata": ["dist fault=-9999"],
        "classes": ["größe"],
        "occurrences": occurrences,
        "layer": "occurrences",
        "where": ["commodity ~ gold, copper", 'name != "it\'s $HOME"'],
        "like": str(RASTERS / "dist_fault.tif"),
        "aoi": AREA,
        "preset": "quick",
        "window": 32,
        "minutes": 2.5,
        "iterations": 8,
        "seed": 3,
        "device": "cpu",
        "settings": ["training.batch=4"],
        "deduplicate": True,
        "out": str(folder / "a model.safetensors"),
        **more,
    }
    return EngineJob("train", values, name="north model")


def map_job(folder, **more):
    values = {
        "raster": [f"dist fault={RASTERS / 'dist_fault.tif'}:1"],
        "checkpoint": str(folder / "a model.safetensors"),
        "out": str(folder / "map.tif"),
        **more,
    }
    return EngineJob("map", values, name="north map")


@pytest.mark.skipif(os.name == "nt", reason="the words are split as other shells do")
def test_the_command_line_means_the_same_job(geocfm, tmp_path):
    job = train_job(tmp_path)
    text = as_command_line(job)
    assert text.startswith("geocfm train --raster 'dist fault=")
    _, *words = shlex.split(text)
    written = tmp_path / "written.json"
    done = geocfm("job", *words, "--name", job.name, "--to", written)
    assert done.returncode == 0, done.stdout
    (entry,) = json.loads(written.read_text(encoding="utf-8"))["jobs"]

    ours = tmp_path / "ours.json"
    write_job_file([job], ours)
    (expected,) = json.loads(ours.read_text(encoding="utf-8"))["jobs"]
    # the engine writes paths as seen from the file, and leaves out what is so by itself
    for key in ("occurrences", "like", "aoi", "out"):
        entry[key] = os.path.normpath(tmp_path / entry[key])
    assert entry == expected


def test_values_that_begin_with_a_dash_stay_values(tmp_path):
    job = EngineJob("train", {"nodata": ["-9=1"], "seed": -1, "overwrite": False, "crs": None})
    assert as_command_line(job) == "geocfm train --nodata=-9=1 --seed=-1"


def test_a_layer_from_the_network_allows_the_engine_the_network(tmp_path):
    here = train_job(tmp_path)
    assert run_arguments([here], "jobs.json") == ["run", "jobs.json"]
    assert "--allow-network" not in as_command_line(here)
    there = map_job(tmp_path, raster=["mag=/vsicurl/https://example.org/mag.tif:1"])
    assert run_arguments([here, there], "jobs.json") == ["run", "jobs.json", "--allow-network"]
    assert as_command_line(there).endswith(" --allow-network")
    # a network layer with settings of its own reaches the engine as a small virtual raster
    around = tmp_path / "mag.vrt"
    around.write_text("<SourceFilename>/vsis3/bucket/mag.tif</SourceFilename>", encoding="utf-8")
    job = replace(map_job(tmp_path, raster=[f"mag={around}:1"]), temporary=(str(around),))
    assert run_arguments([job], "jobs.json") == ["run", "jobs.json", "--allow-network"]
    # a file of the user's may say what it likes
    job = map_job(tmp_path, raster=[f"mag={around}:1"])
    assert run_arguments([job], "jobs.json") == ["run", "jobs.json"]


def test_the_job_file_is_read_by_the_engine(geocfm, tmp_path):
    path = tmp_path / "jobs.toml"
    jobs = [train_job(tmp_path, where=[], classes=[], crs=None), map_job(tmp_path)]
    path.write_text(as_job_file(jobs), encoding="utf-8")
    done = geocfm("run", path, "--dry-run", "--json")
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (batch,) = [event["content"] for event in events if event.get("kind") == "batch"]
    assert [(row["name"], row["status"]) for row in batch["jobs"]] == [
        ("north model", "ready"),
        ("north map", "ready"),
    ], done.stdout
    assert done.returncode == 0


def test_for_a_server_temporary_inputs_go_along(geocfm, tmp_path):
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    raster, points = temporary / "mag.tif", temporary / "occurrences.gpkg"
    raster.write_bytes((RASTERS / "dist_fault.tif").read_bytes())

    class Export:
        path = str(points)

        def run(self, feedback=None):
            with open(OCCURRENCES, "rb") as source:
                points.write_bytes(source.read())

    job = train_job(tmp_path, str(points), where=[], classes=[], raster_crs=[])
    job.values["raster"][0] = f"dist fault={raster}:1"
    job = EngineJob("train", job.values, job.name, (Export(),), (str(raster), str(points)))
    folder = tmp_path / "for the server"
    path = save_for_server([job, map_job(tmp_path)], folder / "north.toml")
    raster.unlink()
    points.unlink()

    text = (folder / "north.toml").read_text(encoding="utf-8")
    assert text.startswith("# ")
    assert "geocfm run north.toml" in text.splitlines()[0]
    assert '"dist fault=north_inputs/mag.tif:1"' in text
    assert 'occurrences = "north_inputs/occurrences.gpkg"' in text
    assert 'out = "../a model.safetensors"' in text
    assert str(temporary) not in text
    done = geocfm("run", path, "--dry-run")
    assert done.returncode == 0, done.stdout


def test_targets_read_what_the_map_writes(geocfm, tmp_path):
    uncertainty = str(tmp_path / "u.tif")
    effort = str(RASTERS / "fault_density.tif")
    trained = train_job(
        tmp_path,
        where=[],
        classes=[],
        effort=f"{effort}:1",
        ground="window",
        positive_only=True,
        ensemble=2,
        folds=3,
        skip_report=True,
    )
    mapped = map_job(tmp_path, uncertainty=uncertainty)
    values = {
        "map": mapped.values["out"],
        "uncertainty": uncertainty,
        "occurrences": OCCURRENCES,
        "number": 5,
        "area_share": 0.02,
        "exclude": 3.0,
        "out": str(tmp_path / "targets.gpkg"),
    }
    ranked = EngineJob("targets", values, "north targets")
    jobs = [trained, mapped, ranked]
    path = save_for_server(jobs, tmp_path / "jobs.toml")
    text = (tmp_path / "jobs.toml").read_text(encoding="utf-8")
    assert 'map = "map.tif"' in text
    assert text.count('uncertainty = "u.tif"') == 2
    assert str(tmp_path) not in text
    assert geocfm("run", path, "--dry-run").returncode == 0
    assert input_paths(ranked) == [OCCURRENCES, mapped.values["out"], uncertainty]
    assert output_paths(mapped) == [mapped.values["out"], uncertainty]
    assert effort in input_paths(trained)
    assert uncertainty not in input_paths(mapped)


@pytest.mark.parametrize(
    "path",
    ["/data/a=b:c/x.tif", "C:\\data\\a=b.tif", "/data/x.tif"],
    ids=["unix", "windows", "plain"],
)
def test_paths_are_told_from_names_and_bands(path):
    values = {"raster": [f"mag={path}:2"], "effort": f"{path}:1", "seed": 1}
    job = EngineJob("train", values)
    assert input_paths(job) == [path, path]
    moved = with_paths(values, lambda each: each + ".moved")
    assert moved == {"raster": [f"mag={path}.moved:2"], "effort": f"{path}.moved:1", "seed": 1}


def test_inputs_of_an_earlier_file_are_not_replaced(tmp_path):
    source = tmp_path / "tmp.gpkg"
    folder = tmp_path / "server"
    for content in ("one", "two"):
        source.write_text(content)
        job = EngineJob("check", {"occurrences": str(source)}, temporary=(str(source),))
        save_for_server([job], folder / "job.toml")
    assert (folder / "job_inputs" / "tmp.gpkg").read_text() == "one"
    assert (folder / "job_inputs" / "tmp_2.gpkg").read_text() == "two"
    assert "job_inputs/tmp_2.gpkg" in (folder / "job.toml").read_text(encoding="utf-8")


def test_a_name_is_one_short_line():
    job = EngineJob("check", {}, name="a\nlong  name " * 20)
    assert job.entry()["name"].startswith("a long name a long")
    assert len(job.entry()["name"]) <= 60
    assert "name" not in EngineJob("check", {}).entry()


def test_a_dataset_of_gdals_keeps_its_name(tmp_path):
    spec = 'k=NETCDF:"/data/k.nc":potassium:1'
    save_for_server([EngineJob("check", {"raster": [spec]})], tmp_path / "j.toml")
    assert json.dumps(spec) in (tmp_path / "j.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("plain", "plain"),
        ("two words", '"two words"'),
        ("commod1|commod2", '"commod1|commod2"'),
        ("a=EPSG:4326;b", '"a=EPSG:4326;b"'),
        ("C:\\R&D\\", '"C:\\R&D\\\\"'),
        ('say"so"&more', '"say\\"so\\"&more"'),
        *((f"a{sign}b", f'"a{sign}b"') for sign in "<>^%()!,"),
    ],
)
def test_what_means_something_to_windows_is_quoted(word, expected):
    assert _for_windows(["geocfm", word]) == f"geocfm {expected}"
