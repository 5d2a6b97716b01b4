"""geocfm targets, from the command line to the GeoPackage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyogrio
import pyogrio.raw
import pytest
import rasterio
import shapely
from geocfm.geo.grid import Grid
from geocfm.model.checkpoint import load_card
from geocfm.run.provenance import read_provenance
from rasterio.crs import CRS
from small_data import UTM, SmallRegion, json_lines, write_raster, write_shapes

Geocfm = Callable[..., Any]
Refused = Callable[..., str]

FIELDS = [
    *("rank", "area_km2", "mass_share", "lift", "peak", "uncertainty", "outside_experience"),
    *("nearest_known_km", "known_inside", "layers"),
]


def ridges(grid: Grid) -> np.ndarray:
    """Two round hills and a flat plain, in no particular unit; a corner has no data."""
    row, col = np.mgrid[: grid.height, : grid.width] + 0.5
    high = 60 * np.exp(-((row - 30) ** 2 + (col - 25) ** 2) / 60)
    low = 45 * np.exp(-((row - 80) ** 2 + (col - 70) ** 2) / 30)
    density = (1 + high + low).astype(np.float32)
    density[:10, :10] = -9999
    return density


@pytest.fixture
def hills(tmp_path: Path) -> Path:
    return write_raster(tmp_path / "hills.tif", ridges(UTM), UTM)


@pytest.fixture
def uncertainty(tmp_path: Path) -> Path:
    path = tmp_path / "u.tif"
    profile = {"driver": "GTiff", "count": 3, "dtype": "float32", "nodata": np.nan}
    place = {"crs": UTM.crs, "transform": UTM.transform, "height": UTM.height, "width": UTM.width}
    col = np.broadcast_to(np.arange(UTM.width) + 0.5, (UTM.height, UTM.width))
    with rasterio.open(path, "w", **profile, **place) as raster:
        raster.write(np.where(col < 50, 0.25, 0.75).astype(np.float32), 1)
        raster.write(np.full(col.shape, 9, dtype=np.float32), 2)
        raster.write((col > 70).astype(np.float32), 3)
        raster.descriptions = (
            "Coefficient of variation",
            "mutual information",
            "outside experience",
        )
    return path


def places(path: Path, *points: tuple[float, float], crs: CRS = UTM.crs) -> Path:
    """Points given as (column, row)."""
    kinds = np.array(["gold", "tin"] * len(points), dtype=object)[: len(points)]
    return write_shapes(path, shapely.points(UTM.to_world(points)), crs, commodity=kinds)


def read(path: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    meta, _, geometry, values = pyogrio.raw.read(path, layer="targets")
    assert CRS.from_user_input(meta["crs"]) == UTM.crs
    return shapely.from_wkb(geometry), dict(zip(meta["fields"], values, strict=True))


def done(result: Any) -> str:
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_a_map_of_a_model_becomes_ranked_targets(
    geocfm: Geocfm, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "targets.gpkg"
    given = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    done(geocfm("map", *given, "--steps", 2, "--out", tmp_path / "map.tif"))
    command = ("targets", "--map", tmp_path / "map.tif", "--occurrences", small_region.occurrences)
    command = (*command, "--number", 5, "--area-share", 0.2, "--out", out)
    result = geocfm(*command, "--json")
    events = json_lines(result.stdout)
    assert result.exit_code == 0, result.output
    assert not [event for event in events if event["event"] == "warning"]
    shapes, fields = read(out)
    assert list(fields) == FIELDS
    count = len(shapes)
    assert 1 <= count <= 5
    assert fields["rank"].tolist() == list(range(1, count + 1))
    np.testing.assert_allclose(fields["area_km2"], shapely.area(shapes) / 1e6)
    assert shapely.is_valid(shapes).all()
    assert (np.diff(fields["mass_share"]) <= 0).all()
    for name in ("uncertainty", "outside_experience"):
        assert np.isnan(fields[name]).all()
    assert fields["layers"].tolist() == [None] * count

    with rasterio.open(tmp_path / "map.tif") as raster:
        density = raster.read(1)
    valid = np.isfinite(density)
    for shape, share, lift, peak, known in zip(
        shapes, *(fields[n] for n in ("mass_share", "lift", "peak", "known_inside")), strict=True
    ):
        inside = shapely.contains_xy(shape, *UTM.to_world(centres()).T).reshape(density.shape)
        assert not (inside & ~valid).any()
        assert share == pytest.approx(density[inside].sum() / density[valid].sum(), rel=1e-5)
        assert lift == pytest.approx(density[inside].mean(), rel=1e-4)
        assert peak == pytest.approx(density[inside].max(), rel=1e-4)
        column, row = np.floor(small_region.points).astype(int).T
        assert known == inside[row, column].sum()
    assert fields["known_inside"].sum() > 10  # the model has learned where points lie

    (report,) = [e["content"] for e in events if e["event"] == "report"]
    assert [target["rank"] for target in report["targets"]] == fields["rank"].tolist()
    assert list(report["targets"][0]) == FIELDS
    (artifact,) = [e for e in events if e["event"] == "artifact"]
    assert (artifact["kind"], artifact["path"]) == ("targets", str(out))
    stages = {event["stage"] for event in events if event["event"] == "progress"}
    assert stages == {"Reading the map", "Finding targets", "Outlining targets"}

    provenance = read_provenance(out)
    assert provenance is not None
    assert provenance.job["command"] == "targets"
    assert {entry.use for entry in provenance.inputs} == {"map", "occurrences"}
    assert "mass_share" in pyogrio.read_info(out)["layer_metadata"]["GEOCFM_MEANING"]
    assert "done before" in done(geocfm(*command))


def centres() -> np.ndarray:
    row, col = np.mgrid[: UTM.height, : UTM.width] + 0.5
    return np.stack([col.ravel(), row.ravel()], axis=1)


def test_another_raster_of_density_is_taken_with_a_warning(
    geocfm: Geocfm, hills: Path, uncertainty: Path, tmp_path: Path
) -> None:
    # on the lower hill, beyond the map to the west, and a tin occurrence that is filtered out
    known = places(tmp_path / "known.gpkg", (70.2, 80.1), (25, 30), (-15.0, 30.5))
    out = tmp_path / "targets.gpkg"
    given = ("--map", hills, "--occurrences", known, "--where", "commodity = gold")
    command = ("targets", *given, "--uncertainty", uncertainty, "--threshold", 3, "--out", out)
    said = done(geocfm(*command, "--smooth", 0))
    assert "does not say that 'geocfm map' made it" in said
    assert "on the map: 1, and 1 around it" in said
    shapes, fields = read(out)
    density = ridges(UTM)
    mean = density[density > 0].mean()
    middles = np.array([(shape.centroid.x, shape.centroid.y) for shape in shapes])
    np.testing.assert_allclose(UTM.to_pixel(*middles.T), [(25, 30), (70, 80)], atol=0.5)
    assert fields["peak"][0] == pytest.approx(density.max() / mean, rel=1e-5)
    assert fields["uncertainty"] == pytest.approx([0.25, 0.75])
    assert fields["outside_experience"][0] == 0
    assert fields["outside_experience"][1] == pytest.approx(0.5, abs=0.1)
    assert fields["known_inside"].tolist() == [0, 1]
    west = UTM.to_pixel(shapes[0].bounds[0], 0)[0, 0]
    assert fields["nearest_known_km"][0] == pytest.approx((west + 15) * 0.1, abs=0.01)
    assert fields["nearest_known_km"][1] == 0

    done(geocfm(*command, "--smooth", 0, "--exclude", 2, "--overwrite"))
    _, fields = read(out)
    assert len(fields["rank"]) == 1
    assert fields["uncertainty"] == pytest.approx([0.25])


def test_the_same_targets_from_a_job_file(
    geocfm: Geocfm, hills: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    places(tmp_path / "known.gpkg", (70.2, 80.1))
    options = ("--map", hills.name, "--area-share", 0.1, "--exclude", 1.5, "--minimum-area", 0.5)
    given = ("targets", *options, "--occurrences", "known.gpkg")
    jobs = tmp_path / "jobs.toml"
    done(geocfm("job", *given, "--out", "a.gpkg", "--to", jobs))
    assert str(tmp_path) not in jobs.read_text(encoding="utf-8")
    assert "ready" in done(geocfm("run", jobs, "--dry-run"))
    assert not (tmp_path / "a.gpkg").exists()
    done(geocfm("run", jobs))
    done(geocfm(*given, "--out", "b.gpkg"))
    (shapes, fields), (others, same) = read(tmp_path / "a.gpkg"), read(tmp_path / "b.gpkg")
    assert shapely.equals_exact(shapes, others).all()
    for name in FIELDS[:-1]:
        np.testing.assert_array_equal(fields[name], same[name])


def test_a_batch_knows_that_targets_need_their_map(geocfm: Geocfm, tmp_path: Path) -> None:
    jobs = [
        {"command": "map", "raster": ["no.tif"], "checkpoint": "no.safetensors", "out": "map.tif"},
        {"command": "targets", "map": "map.tif", "out": "t.gpkg"},
    ]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    result = geocfm("run", path, "--json")
    ended = [event for event in json_lines(result.stdout) if event["event"] == "job_ended"]
    assert [end["status"] for end in ended] == ["failed", "skipped"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--exclude", 5), ("--exclude", "Give --occurrences")),
        (("--threshold", 2, "--area-share", 0.1), ("both given",)),
        (("--threshold", 1e6), ("No cell of the map", "lower --threshold")),
        (("--minimum-area", 1000), ("None of the", "1,000 km2 or more", "--minimum-area")),
        (("--area-share", 1), ("--area-share", "below 1")),
        (("--number", 0), ("--number", "at least 1")),
        (("--uncertainty", "hills.tif"), ("coefficient of variation", "geocfm map --uncertainty")),
        (("--uncertainty", "none.tif"), ("none.tif", "does not exist")),
        (("--map", "none.tif"), ("none.tif", "does not exist")),
        (("--map", "u.tif"), ("3 bands", "geocfm map")),
        (("--out", "t.shp"), ("t.shp", ".gpkg")),
        (("--occurrences", "far.gpkg"), ("No occurrence", "inside the grid")),
    ],
)
def test_what_does_not_fit_is_said(
    options: tuple[Any, ...],
    words: tuple[str, ...],
    refused: Refused,
    hills: Path,
    uncertainty: Path,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    monkeypatch.chdir(tmp_path)
    places(tmp_path / "far.gpkg", (90_000, 90_000))
    given: dict[Any, Any] = {"--map": "hills.tif", "--out": "t.gpkg"}
    given |= dict(zip(options[::2], options[1::2], strict=True))
    refused(["targets", *(text for pair in given.items() for text in pair)], *words)


def test_a_filter_of_no_occurrences_is_said_to_be_idle(
    geocfm: Geocfm, hills: Path, tmp_path: Path
) -> None:
    said = done(geocfm("targets", "--map", hills, "--where", "a = 1", "--out", tmp_path / "t.gpkg"))
    assert "not used: --where." in said


def test_with_the_maps_model_targets_tell_the_layers_that_matter(
    geocfm: Any, trained: Any, small_region: SmallRegion, tmp_path: Path
) -> None:
    model = ("--checkpoint", trained.checkpoint, *small_region.raster_options)
    done(geocfm("map", *model, "--out", tmp_path / "map.tif"))
    given = ("targets", "--map", tmp_path / "map.tif", "--number", 2)
    done(geocfm(*given, *model, "--out", tmp_path / "targets.gpkg"))
    names = {layer.name for layer in load_card(trained.checkpoint).layers}
    meta, _, _, values = pyogrio.raw.read(tmp_path / "targets.gpkg")
    told = dict(zip(meta["fields"], values, strict=True))["layers"]
    assert len(told) == 2
    for text in filter(None, told):
        for part in text.split(", "):
            layer, effect = part.rsplit(" ", 1)
            assert layer in names
            assert effect.startswith("+")
    assert any(told)
    refused = geocfm(*given, "--checkpoint", trained.checkpoint, "--out", tmp_path / "other.gpkg")
    assert refused.exit_code == 2
    assert "--raster" in refused.output


def test_a_model_whose_windows_do_not_compare_tells_no_layers_and_it_is_said(
    geocfm: Any, paper_model: Path, small_region: SmallRegion, hills: Path, tmp_path: Path
) -> None:
    model = ("--checkpoint", paper_model, *small_region.raster_options)
    said = done(geocfm("targets", "--map", hills, *model, "--out", tmp_path / "targets.gpkg"))
    assert "Which layers matter in a target cannot be told" in " ".join(said.split())
    meta, _, _, values = pyogrio.raw.read(tmp_path / "targets.gpkg")
    told = dict(zip(meta["fields"], values, strict=True))["layers"]
    assert len(told)
    assert not any(told)
