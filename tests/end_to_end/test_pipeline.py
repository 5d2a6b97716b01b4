"""The commands one after the other, each in a process of its own, as a geologist runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pytest
import rasterio
from geocfm.data.split import TEST, Split
from geocfm.events import Event
from geocfm.geo.grid import Grid
from geocfm.model.checkpoint import load_card
from pydantic import TypeAdapter
from small_data import ALONE, HOLE, UTM, SmallRegion, in_hole, json_lines, read_points, run_geocfm

UNIT = "relative density, 1 = regional mean"
EVENT: TypeAdapter[Any] = TypeAdapter(Event)


def ended_well(done: Any) -> list[dict[str, Any]]:
    """The events of a run with ``--json`` that finished; nothing else was printed."""
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for line in done.stdout.splitlines():
        EVENT.validate_json(line)
    events = json_lines(done.stdout)
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "finished"
    return events


def written(events: list[dict[str, Any]]) -> list[str]:
    return [event["path"] for event in events if event["event"] == "artifact"]


def test_check_says_in_sentences_that_training_is_possible(small_region: SmallRegion) -> None:
    done = run_geocfm(
        "check",
        *small_region.raster_options,
        *("--occurrences", small_region.occurrences, "--window", 32, "--tile", 40),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for sentence in (
        "The grid has 120 rows x 100 columns of 100 m cells in EPSG:32750.",
        "98 % of the cells have data.",
        "Of 60 occurrences 60 are used.",
        "Windows of 32 x 32 cells (3200 m across), as set",
        "Training is possible.",
    ):
        assert sentence in done.stdout


def test_train_writes_the_best_the_last_and_a_log(trained: Any) -> None:
    assert trained.exit_code == 0, trained.stdout + trained.stderr
    assert trained.stderr == ""
    folder = trained.checkpoint.parent
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors",
        "model.last.safetensors",
        "model.log.jsonl",
        "model.preview.png",
        "model.occurrences.gpkg",
        "model.report.html",
        "model.report.json",
    }
    events = json_lines(trained.stdout)
    assert written(events)[0] == str(trained.checkpoint)
    assert {Path(path).name for path in written(events)} >= {
        "model.safetensors",
        "model.last.safetensors",
        "model.log.jsonl",
        "model.occurrences.gpkg",
        "model.report.html",
    }


def test_the_occurrences_used_are_written_beside_the_model(
    small_region: SmallRegion, trained: Any
) -> None:
    points, fields = read_points(
        trained.checkpoint.with_name("model.occurrences.gpkg"), small_region.grid
    )
    given, _ = read_points(small_region.occurrences, small_region.grid)
    used = ~in_hole(given)
    np.testing.assert_allclose(points, given[used], atol=1e-6)
    ids = pyogrio.raw.read(small_region.occurrences, return_fids=True)[1]
    np.testing.assert_array_equal(fields["source_id"], ids[used])


def test_map_is_a_cog_that_says_what_it_means(
    small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "new folder" / "prospectivity.tif"
    events = ended_well(
        run_geocfm(
            "map",
            *("--checkpoint", trained.checkpoint, *small_region.raster_options),
            *("--out", out, "--json"),
        )
    )
    assert written(events) == [str(out)]
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    with rasterio.open(out) as source:
        assert source.driver == "GTiff"
        assert source.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert source.block_shapes == [(512, 512)]
        assert source.units == (UNIT,)
        assert source.descriptions == ("relative density",)
        assert np.isnan(source.nodata)
        grid = Grid(source.crs, source.transform, source.height, source.width)
        values = source.read(1)
        tags = source.tags()
    assert grid.aligned_with(UTM)
    hole = np.zeros(values.shape, dtype=bool)
    hole[HOLE.slices_in(UTM.window())] = True
    assert np.array_equal(np.isnan(values), hole)
    assert np.nanmean(values) == pytest.approx(1, abs=1e-4)
    assert "no probability of a deposit" in " ".join(tags["GEOCFM_MEANING"].split())
    provenance = json.loads(tags["GEOCFM_PROVENANCE"])
    assert provenance["job"]["checkpoint"] == trained.checkpoint.as_posix()
    assert json.loads(tags["GEOCFM_MODEL"])["layers"] == ["ridge", "slope", "noise"]
    assert "torch" in provenance["versions"]
    # it learned something: the known points lie on better cells than others do
    col, row = np.floor(small_region.points).astype(int).T
    assert values[row, col].mean() > 1.5


def test_sample_is_a_geopackage_of_named_draws(
    small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "samples.gpkg"
    events = ended_well(
        run_geocfm(
            "sample",
            *("--checkpoint", trained.checkpoint, *small_region.raster_options),
            *("--points", 150, "--draws", 3, "--seed", 5, "--out", out, "--json"),
        )
    )
    assert written(events) == [str(out)]
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    details = pyogrio.read_info(out)
    assert details["layer_name"] == "samples"
    assert details["geometry_type"] == "Point"
    assert details["features"] == 450
    assert "GEOCFM_MEANING" in details["layer_metadata"]
    points, fields = read_points(out, UTM)
    assert set(fields) == {"draw", "log_relative_density"}
    assert np.bincount(fields["draw"]).tolist() == [0, 150, 150, 150]
    assert np.isfinite(fields["log_relative_density"]).all()
    assert ((points >= 0) & (points < (100, 120))).all()
    assert not in_hole(points).any()
    # as dense as the map is said to be: far more than the mean where the points are
    assert np.median(fields["log_relative_density"]) > 0


def test_evaluate_uses_the_models_own_held_out_tiles(
    small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "evaluation"
    events = ended_well(
        run_geocfm(
            "evaluate",
            *("--checkpoint", trained.checkpoint, *small_region.raster_options),
            *("--occurrences", small_region.occurrences, *ALONE, "--out", out, "--json"),
        )
    )
    names = ["evaluation.json", "capture.png", "map.png", "importance.png", "occurrences.gpkg"]
    names += ["report.html", "report.json"]
    assert written(events) == [str(out / name) for name in names]
    assert sorted(path.name for path in out.iterdir()) == sorted(names)
    for picture in names[1:4]:
        assert (out / picture).read_bytes().startswith(b"\x89PNG")
    figures = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    split = Split.from_card(load_card(trained.checkpoint).split)
    roles = split.role_of_points(small_region.points)
    assert figures["test"]["occurrences"] == (roles == TEST).sum() > 0
    assert figures["train"]["occurrences"] == (roles == 0).sum()
    held_out = sum(
        (tile.height * tile.width for tile, role in split.tiles() if role == TEST), start=0
    )
    assert figures["test"]["area_km2"] <= held_out * 0.01 + 1e-9
    areas = [figures[role]["area_km2"] for role in ("train", "validation", "test")]
    assert sum(areas) == pytest.approx((120 * 100 - HOLE.height * HOLE.width) * 0.01)
    assert set(figures["test"]["captured"]) >= {"0.1"}
    assert figures["train"]["area_under_curve"] > 0.6
    assert any("Held-out tiles" in e.get("text", "") for e in events)


def test_info_prints_the_card(trained: Any) -> None:
    done = run_geocfm("info", trained.checkpoint)
    assert done.returncode == 0, done.stdout + done.stderr
    for text in (
        "GeoCFM model, preset 'quick'",
        "Learned from 60 occurrences in occurrences.gpkg",
        "Layer ridge: mean",
        "120 rows x 100 columns, cell size 100, WGS 84 / UTM zone 50S; windows of 32 cells",
        "Seed 1",
        "not the probability of a deposit",
    ):
        assert text in done.stdout
