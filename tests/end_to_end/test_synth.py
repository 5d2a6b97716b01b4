"""A synthetic region by the real command: files that a geologist could have, and the truth."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from geocfm.data.synthetic import SyntheticSettings, make_image
from geocfm.errors import Cancelled
from geocfm.events import Progressed, Reporter
from geocfm.geo.grid import Grid
from geocfm.job import SynthJob, make_job
from geocfm.run import run_job
from numpy.typing import NDArray
from small_data import TINY, json_lines, read_points, run_geocfm

SMALL = ("--size", 96, "--bodies", 3, "--seed", 4)


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("synthetic") / "region"
    done = run_geocfm("synth", *SMALL, "--json", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    wrote = [event["path"] for event in json_lines(done.stdout) if event["event"] == "artifact"]
    assert sorted(map(Path, wrote)) == sorted(path for path in out.rglob("*") if path.is_file())
    return out


def read(path: Path) -> tuple[NDArray[np.float64], Grid, dict[str, str]]:
    with rasterio.open(path) as raster:
        grid = Grid(raster.crs, raster.transform, raster.height, raster.width)
        return raster.read(1).astype(np.float64), grid, raster.tags()


def test_the_region_is_the_image_of_its_seed_in_the_world(region: Path) -> None:
    image = make_image(SyntheticSettings(size=96, bodies=3, deposits=300), 4)
    expected = {
        "magnetics.tif": image.magnetics,
        "geochemistry.tif": image.geochemistry,
        "truth/intensity.tif": image.density / image.density.mean(),
        "truth/latent.tif": image.latent,
    }
    for name, values in expected.items():
        found, grid, tags = read(region / name)
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=1e-5)
        assert grid.crs.to_epsg() == 32750
        assert grid.transform.a == 100
        assert {"GEOCFM_MEANING", "GEOCFM_PROVENANCE"} <= tags.keys()
    points, _ = read_points(region / "occurrences.gpkg", grid)
    assert points == pytest.approx(image.points, abs=1e-6)


def test_what_can_be_known_is_blurred_truth(region: Path) -> None:
    truth, grid, _ = read(region / "truth" / "intensity.tif")
    known, _, tags = read(region / "truth" / "bayes.tif")
    assert 0 < float(tags["GEOCFM_NLL_STANDARD_ERROR"]) < 0.1
    assert 0 < float(tags["GEOCFM_RELATIVE_STANDARD_ERROR"]) < 0.3
    assert truth.mean() == pytest.approx(1, rel=1e-4)
    assert known.mean() == pytest.approx(1, rel=1e-4)
    points, _ = read_points(region / "occurrences.gpkg", grid)
    columns, rows = np.floor(points).astype(int).T
    at_known, at_truth = (np.log(field[rows, columns]).mean() for field in (known, truth))
    assert 0 < at_known < at_truth


def test_a_model_learns_from_the_region_as_it_is(
    region: Path, geocfm: Callable[..., Any], tmp_path: Path
) -> None:
    trained = geocfm(
        *("train", "--raster", region / "*.tif", "--occurrences", region / "occurrences.gpkg"),
        *(*TINY, "--iterations", 2, "--out", tmp_path / "model.safetensors"),
    )
    assert trained.exit_code == 0, trained.output
    card = geocfm("info", tmp_path / "model.safetensors").output
    assert "magnetics" in card
    assert "geochemistry" in card
    assert card.count("Layer ") == 2
    assert "intensity:" not in card  # as a layer would be told
    assert "latent" not in card


def test_the_same_region_is_not_made_twice(region: Path, geocfm: Callable[..., Any]) -> None:
    before = (region / "magnetics.tif").stat()
    again = geocfm("synth", *SMALL, "--out", region)
    assert again.exit_code == 0
    assert "done before" in again.output
    assert (region / "magnetics.tif").stat() == before
    other = geocfm("synth", *SMALL[:-1], 5, "--out", region)
    assert other.exit_code == 2
    assert "already there" in other.output + other.stderr


def test_more_bodies_than_cells_can_show_are_refused(
    refused: Callable[..., str], tmp_path: Path
) -> None:
    refused(
        ["synth", "--size", 64, "--bodies", 500, "--out", tmp_path / "region"],
        "On 64 x 64 cells the contacts of 500 bodies are thinner than a cell",
        "Choose at least 440 cells along a side or at most 10 bodies.",
    )


def test_redrawing_can_be_stopped(tmp_path: Path) -> None:
    stop = threading.Event()

    class StopAtRedraws:
        def emit(self, event: object) -> None:
            if isinstance(event, Progressed) and event.stage == "Redrawing the latents":
                stop.set()

        def close(self) -> None: ...

    values = {"size": 96, "bodies": 3, "out": tmp_path / "region"}
    with pytest.raises(Cancelled):
        run_job(make_job(SynthJob, values), Reporter(StopAtRedraws(), stop))
    assert not list((tmp_path / "region").glob("*.tif"))
