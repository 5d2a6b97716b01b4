from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import safetensors
import typer
from geocfm.cli import READING, app
from geocfm.errors import UserError
from geocfm.job import (
    COMMANDS,
    CheckJob,
    EvaluateJob,
    Job,
    MapJob,
    SampleJob,
    TargetsJob,
    TrainJob,
    make_job,
)
from geocfm.model.checkpoint import checkpoint_bytes, load_card
from pydantic import ValidationError
from small_data import (
    LAYERS,
    TINY,
    UTM,
    SmallRegion,
    json_lines,
    layer_values,
    run_geocfm,
    write_raster,
)

Geocfm = Callable[..., Any]


def failed(result: Any, *words: str) -> str:
    """The job ended as a user's mistake does: exit code 2, sentences, no traceback."""
    said = result.output + (result.stderr or "")
    assert result.exit_code == 2, said
    assert "Traceback" not in said
    for word in words:
        assert word in " ".join(said.split()), said
    return said


def report(result: Any, kind: str) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    (found,) = [
        event["content"]
        for event in json_lines(result.stdout)
        if event["event"] == "report" and event["kind"] == kind
    ]
    content: dict[str, Any] = found
    return content


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_options_are_the_jobs_fields(name: str) -> None:
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    given = {option for parameter in command.params for option in parameter.opts}
    kind = COMMANDS[name]
    expected = {"--json"} | ({"--allow-network"} if issubclass(kind, READING) else set())
    for field, details in kind.model_fields.items():
        extra = details.json_schema_extra if isinstance(details.json_schema_extra, dict) else {}
        if extra.get("argument"):
            expected.add(field)
        else:
            expected.add(str(extra.get("option", "--" + field.replace("_", "-"))))
    assert given - {"--help"} == expected
    required = {p.name for p in command.params if p.required}
    assert required == {n for n, field in kind.model_fields.items() if field.is_required()}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_works_and_explains(name: str, geocfm: Geocfm) -> None:
    result = geocfm(name, "--help")
    assert result.exit_code == 0
    said = " ".join(result.output.split())
    assert inspect.cleandoc(COMMANDS[name].__doc__ or "").split(":")[0].split(".")[0] in said
    for field in COMMANDS[name].model_fields.values():
        assert field.description


def test_help_and_version_of_the_program(geocfm: Geocfm) -> None:
    result = geocfm("--help")
    assert result.exit_code == 0
    assert all(name in result.output for name in COMMANDS)
    assert geocfm("--version").output.startswith("geocfm ")


def test_the_fixed_names_of_the_commands_are_there() -> None:
    fixed: dict[type[Job], set[str]] = {
        CheckJob: {"raster", "occurrences", "where"},
        TrainJob: {
            *("raster", "occurrences", "where", "preset", "minutes", "iterations"),
            *("seed", "device", "out"),
        },
        MapJob: {"checkpoint", "raster", "out", "aoi"},
        SampleJob: {"checkpoint", "raster", "points", "draws", "seed", "out"},
        TargetsJob: {"map", "uncertainty", "occurrences", "number", "area_share", "exclude", "out"},
        EvaluateJob: {"checkpoint", "raster", "occurrences", "out"},
    }
    for kind, names in fixed.items():
        assert names <= set(kind.model_fields), kind


def test_jobs_are_frozen_and_know_no_other_keys() -> None:
    job = make_job(CheckJob, {"raster": ["a.tif"], "occurrences": "p.shp"})
    with pytest.raises(ValidationError):
        job.raster = ["b.tif"]  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="--rooster"):
        make_job(CheckJob, {"raster": ["a.tif"], "occurrences": "p.shp", "rooster": 1})
    assert type(job).model_validate_json(job.model_dump_json()) == job


@pytest.mark.parametrize(
    ("values", "option"),
    [
        ({"raster": []}, "--raster"),
        ({"window": 3}, "--window"),
        ({"extent": "1,2,3"}, "--extent"),
        ({"extent": "a,b,c,d"}, "--extent"),
        ({"extent": "3,2,1,4"}, "--extent"),
        ({"extent": "1,2,3,inf"}, "--extent"),
        ({"resolution": -5}, "--resolution"),
        ({"minutes": 0}, "--minutes"),
        ({"iterations": 0}, "--iterations"),
        ({"seed": -1}, "--seed"),
        ({"seed": 2**63}, "--seed"),
        ({"iterations": 10**9}, "--iterations"),
        ({"minutes": float("nan")}, "--minutes"),
        ({"out": ""}, "--out"),
    ],
)
def test_a_wrong_value_is_said_by_its_options_name(values: dict[str, Any], option: str) -> None:
    good = {"raster": ["a.tif"], "occurrences": "p.shp", "out": "m.safetensors"}
    with pytest.raises(UserError, match=option) as caught:
        make_job(TrainJob, {**good, **values})
    assert caught.value.hint


def test_an_extent_is_four_numbers() -> None:
    job = make_job(
        CheckJob, {"raster": ["a.tif"], "occurrences": "p.shp", "extent": "1,-2.5,3,4e2"}
    )
    assert job.extent == (1, -2.5, 3, 400)  # type: ignore[attr-defined]


def test_unknown_options_commands_and_choices(geocfm: Geocfm, small_region: SmallRegion) -> None:
    failed(geocfm("check", "--rooster", "a.tif"), "--rooster")
    failed(geocfm("mine"), "mine")
    failed(geocfm("info"))
    given = [*small_region.raster_options, "--occurrences", small_region.occurrences]
    failed(geocfm("check", *given, "--preset", "paper"), "--preset: 'paper'", "quick")
    failed(
        geocfm("check", *given, "--set", "network.girth=3"),
        "no setting 'network.girth'",
        "network.width",
    )
    failed(geocfm("check", *given, "--set", "network.width"), "has no value")
    failed(geocfm("check", *given, "--set", "network.width=nine"), "network.width", "nine")
    failed(geocfm("check", *given, "--classes", "ridgy"), "'ridgy'", "Did you mean 'ridge'?")
    failed(geocfm("check", *given, "--where", "metal ~ gold"), "metal")
    failed(geocfm("check", *given, "--where", "commodity ~ tin"), "Gold (40)")
    failed(
        geocfm("train", *given, "--device", "abacus", "--out", "m.safetensors"),
        "--device: 'abacus'",
        "cuda:1",
    )


def test_missing_files_are_named(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    points = ["--occurrences", small_region.occurrences]
    failed(geocfm("check", "--raster", "nowhere/mag.tif", *points), "nowhere/mag.tif")
    failed(geocfm("check", "--raster", "nowhere/*.tif", *points), "No raster matches")
    rasters = small_region.raster_options
    failed(geocfm("check", *rasters, "--occurrences", "nowhere.shp"), "nowhere.shp")
    failed(geocfm("check", *rasters, "--occurrences", "nowhere.csv"), "nowhere.csv")
    failed(geocfm("info", tmp_path / "no.safetensors"), "no checkpoint at", "no.safetensors")
    out = tmp_path / "map.tif"
    model = ["--checkpoint", trained.checkpoint]
    failed(geocfm("map", *model, *rasters, "--aoi", "no.gpkg", "--out", out), "no.gpkg")
    failed(geocfm("map", *model, *rasters, "--like", "no.tif", "--out", out), "no.tif")
    other = tmp_path / "text.safetensors"
    other.write_text("not a model")
    failed(geocfm("info", other), "cannot be read as a GeoCFM checkpoint")
    assert not out.exists()


def test_failures_are_events_too(geocfm: Geocfm) -> None:
    result = geocfm("check", "--raster", "no.tif", "--occurrences", "no.gpkg", "--json")
    assert result.exit_code == 2
    events = json_lines(result.stdout)
    assert events[0]["event"] == "started"
    assert events[-1]["event"] == "failed"
    assert "no.tif" in events[-1]["message"]
    assert events[-1]["hint"]


def test_layers_a_model_needs_are_named_when_they_are_not_given(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    result = geocfm(
        "map",
        *("--checkpoint", trained.checkpoint),
        *("--raster", small_region.raster("slope")),
        *("--raster", f"gravity={small_region.raster('noise')}"),
        *("--out", tmp_path / "map.tif"),
    )
    failed(result, "not given: ridge, noise", "unknown to it: gravity", "--raster NAME=path")
    assert list(tmp_path.iterdir()) == []


def test_layers_are_matched_by_name_not_by_order(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    swapped = [f"{name}={small_region.raster(name)}" for name in reversed(LAYERS)]
    maps = []
    for number, rasters in enumerate([small_region.rasters, [*swapped, *swapped[:0]]]):
        out = tmp_path / f"{number}.tif"
        options = [text for raster in rasters for text in ("--raster", raster)]
        result = geocfm("map", "--checkpoint", trained.checkpoint, *options, "--out", out)
        assert result.exit_code == 0, result.output
        with rasterio.open(out) as source:
            maps.append(source.read(1))
    assert np.array_equal(maps[0], maps[1], equal_nan=True)


def test_a_pattern_and_a_named_band_are_layers(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    two = tmp_path / "two.tif"
    ridge, slope, _ = layer_values().values()
    profile: dict[str, Any] = {"driver": "GTiff", "dtype": "float32", "nodata": -9999.0}
    with rasterio.open(
        two,
        "w",
        count=2,
        height=UTM.height,
        width=UTM.width,
        crs=UTM.crs,
        transform=UTM.transform,
        **profile,
    ) as raster:
        raster.write(np.stack([slope, ridge]))
    result = geocfm(
        "check",
        *("--raster", small_region.folder / "*.tif"),
        *("--raster", f"lineament={two}:2"),
        *("--occurrences", small_region.occurrences),
        *("--window", 32, "--tile", 40, "--json"),
    )
    found = report(result, "check")
    assert [layer["name"] for layer in found["layers"]] == ["noise", "ridge", "slope", "lineament"]
    assert found["can_train"]
    share = 1 - 14 * 18 / (120 * 100)
    assert all(layer["coverage"] == pytest.approx(share) for layer in found["layers"])


def test_where_and_csv_are_counted(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    from rasterio.warp import transform

    world = UTM.to_world(small_region.points)
    lon, lat = transform(UTM.crs, "EPSG:4326", *world.T)
    rows = ["name,Longitude,Latitude,commodity"]
    for number, (x, y) in enumerate(zip(lon, lat, strict=True)):
        metal = "copper/gold" if number % 3 == 0 else "gold"
        rows.append(f"p{number},{x:.9f},{y:.9f},{metal}")
    rows += ["far,10.0,50.0,copper", "nowhere,,,copper"]
    table = tmp_path / "points.csv"
    table.write_text("\n".join(rows), encoding="utf-8")
    result = geocfm(
        "check",
        *small_region.raster_options,
        *("--occurrences", table, "--where", "commodity ~ copper"),
        *("--window", 32, "--tile", 40, "--json"),
    )
    counts = report(result, "check")["occurrences"]
    assert counts["read"] == 62
    assert counts["filtered_out"] == 40
    assert counts["outside"] == 1
    assert counts["without_geometry"] == 1
    assert counts["used"] == 20


def test_what_makes_training_impossible_fails_the_check(
    geocfm: Geocfm, small_region: SmallRegion
) -> None:
    result = geocfm(
        "check",
        *small_region.raster_options,
        *("--occurrences", small_region.occurrences),
        *("--window", 96, "--tile", 16, "--json"),
    )
    assert result.exit_code == 2
    events = json_lines(result.stdout)
    (content,) = [e["content"] for e in events if e["event"] == "report"]
    assert not content["can_train"]
    assert content["problems"]
    assert events[-1]["event"] == "failed"
    assert content["problems"][0] in events[-1]["hint"]


def test_classes_become_channels_and_are_found_again_by_name(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    row, col = np.mgrid[: UTM.height, : UTM.width]
    codes = (1 + (row // 60) + 2 * (col // 50)).astype(np.uint8) * 10  # 10, 20, 30, 40
    geology = write_raster(tmp_path / "geology.tif", codes, UTM, nodata=255)
    rasters = ["--raster", small_region.raster("ridge"), "--raster", geology]
    out = tmp_path / "model.safetensors"
    result = geocfm(
        "train",
        *rasters,
        *("--occurrences", small_region.occurrences, "--classes", "geology"),
        *(*TINY, "--iterations", 3, "--out", out),
    )
    assert result.exit_code == 0, result.output
    card = load_card(out)
    assert [layer.categorical for layer in card.layers] == [False, True]
    assert card.layers[1].classes == (10, 20, 30, 40)
    assert card.channels == 1 + 4 + 2
    result = geocfm(
        "map", "--checkpoint", out, *rasters, *("--out", tmp_path / "map.tif"), "--json"
    )
    assert result.exit_code == 0, result.output
    with rasterio.open(tmp_path / "map.tif") as source:
        assert np.isfinite(source.read(1)).all()  # geology has data in the hole


def test_set_options_reach_the_checkpoint(trained: Any) -> None:
    card = load_card(trained.checkpoint)
    assert card.settings.network.width == 8
    assert card.settings.sampling.steps == 6
    assert card.settings.training.iterations == trained.iterations
    assert card.settings.training.minutes is None
    assert card.window_size == 32
    assert [layer.name for layer in card.layers] == list(LAYERS)
    ridge = layer_values()["ridge"]
    assert 0 < card.layers[0].mean < ridge.max()
    assert json.loads(card.model_dump_json())["occurrences"]["counts"]["used"] == 60


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("check", "--json"), "--raster"),
        (("train", "--json", "--minutes", "abc"), "--minutes"),
        (("map", "--json", "--nonsense"), "--nonsense"),
        (("run", "--json"), "files"),
        (("job", "train", "--json", "--minutes", "abc"), "--minutes"),
    ],
)
def test_a_wrong_option_is_an_event_too(arguments: tuple[str, ...], said: str) -> None:
    done = run_geocfm(*arguments)
    events = json_lines(done.stdout)
    assert done.returncode == 2
    assert [event["event"] for event in events] == ["started", "failed"]
    assert said in events[-1]["message"] or "issing" in events[-1]["message"]
    assert "Traceback" not in done.stderr


def test_a_place_that_cannot_be_written_is_found_before_the_work(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    failed(geocfm("sample", *given, "--out", tmp_path / "s.shp"), "s.shp", "end in .gpkg")
    failed(geocfm("map", *given, "--out", tmp_path), "end in .tif")
    learn = (*small_region.raster_options, "--occurrences", small_region.occurrences)
    failed(geocfm("train", *learn, "--out", "/proc/nope/m.safetensors"), "Nothing can be written")


def test_a_training_without_an_end_is_refused(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    result = geocfm(
        "train",
        *(*small_region.raster_options, "--occurrences", small_region.occurrences),
        *("--set", "training.minutes=none", "--out", tmp_path / "m.safetensors"),
    )
    failed(result, "never end", "--minutes")


def test_occurrences_that_share_a_cell_are_told(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    path = tmp_path / "twice.csv"
    world = small_region.grid.to_world(np.repeat(small_region.points, 2, axis=0))
    path.write_text("easting,northing\n" + "\n".join(f"{x},{y}" for x, y in world))
    options = ("--occurrences", path, "--occurrences-crs", "EPSG:32750", "--window", 32)
    given = (*small_region.raster_options, *options, "--tile", 32)
    kept = geocfm("check", *given)
    assert "share a cell with another one and are kept" in " ".join(kept.output.split())
    thinned = geocfm("check", *given, "--deduplicate")
    assert "in a cell that already had one" in " ".join(thinned.output.split())


def test_classes_that_cannot_serve_are_told(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    cells = np.arange(120 * 100, dtype=np.float32).reshape(120, 100)
    codes = write_raster(tmp_path / "codes.tif", cells % 50, small_region.grid)
    shares = write_raster(tmp_path / "shares.tif", (cells % 4) / 4, small_region.grid)
    learn = ("--occurrences", small_region.occurrences, "--window", 32, "--tile", 32)
    many = geocfm("check", "--raster", codes, "--classes", "codes", *learn)
    assert "has 50 classes; the 32 most frequent" in " ".join(many.output.split())
    failed(geocfm("check", "--raster", shares, "--classes", "shares", *learn), "holds fractions")


def test_a_forgotten_no_data_value_is_suspected(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    values = np.ones((120, 100), np.float32)
    values[:40] = -3.4e38
    layer = write_raster(tmp_path / "mag.tif", values, small_region.grid)
    learn = ("--occurrences", small_region.occurrences, "--window", 32, "--tile", 32)
    result = geocfm("check", "--raster", layer, *learn)
    assert "probably a no-data value" in " ".join(result.output.split())


def test_evaluation_filters_as_training_did(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    card = load_card(trained.checkpoint)
    seen = card.occurrences.model_copy(update={"where": ("no_such_field = gold",)})
    with safetensors.safe_open(trained.checkpoint, "pt") as file:
        weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    other = tmp_path / "filtered.safetensors"
    other.write_bytes(checkpoint_bytes([weights], card.model_copy(update={"occurrences": seen})))
    result = geocfm(
        "evaluate",
        *("--checkpoint", other, *small_region.raster_options),
        *("--occurrences", small_region.occurrences, "--out", tmp_path / "out"),
    )
    failed(result, "no_such_field")


def test_classes_the_model_never_learned_are_told_on_the_map(
    geocfm: Geocfm, small_region: SmallRegion, tmp_path: Path
) -> None:
    cells = np.arange(120 * 100, dtype=np.float32).reshape(120, 100)
    known = write_raster(tmp_path / "known.tif", cells % 5, small_region.grid)
    other = write_raster(tmp_path / "other.tif", np.where(cells % 4, 1, 77), small_region.grid)
    model = tmp_path / "m.safetensors"
    learn = ("--occurrences", small_region.occurrences, *TINY, "--iterations", 2, "--out", model)
    trained = geocfm("train", "--raster", f"rock={known}", "--classes", "rock", *learn)
    assert trained.exit_code == 0, trained.output
    apply = ("map", "--checkpoint", model, "--out", tmp_path / "map.tif")
    assert "never learned" not in geocfm(*apply, "--raster", f"rock={known}").output
    said = geocfm(*apply, "--raster", f"rock={other}", "--overwrite").output
    assert "rock: 25 % of its cells hold classes the model never learned" in " ".join(said.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--window", "abc"), ("--window: 'abc'", "a whole number, at least 16")),
        (("--window", "20.5"), ("--window: '20.5'", "a whole number")),
        (("--resolution", "ten"), ("--resolution: 'ten'", "a number, above 0")),
        (("--set", "network.widht=8"), ("Did you mean 'network.width'?",)),
        (("--set", "width=8"), ("Did you mean 'network.width'?",)),
        (("--set", "network.depth=9"), ("--set network.depth: '9'", "at least 1 and at most 4")),
        (("--set", "training.ema=nan"), ("--set training.ema: 'nan'", "below 1")),
    ],
)
def test_a_wrong_value_is_answered_with_what_is_allowed(
    options: tuple[str, str], words: tuple[str, ...], geocfm: Geocfm, small_region: SmallRegion
) -> None:
    given = [*small_region.raster_options, "--occurrences", small_region.occurrences]
    failed(geocfm("check", *given, *options), *words)


def test_a_pattern_that_the_shell_has_expanded_is_recognised() -> None:
    done = run_geocfm("check", "--raster", "a.tif", "b.tif", "--occurrences", "o.gpkg")
    assert done.returncode == 2
    assert "put it in quotes: --raster 'data/*.tif'" in done.stdout
