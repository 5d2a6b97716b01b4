"""The real QGIS with the built zip: a user's way from the sample data to finished layers."""

import os
import subprocess
import time
from pathlib import Path

import desktop
import numpy as np
import pyogrio
import pytest
import rasterio
from matplotlib.image import imread


@pytest.fixture(scope="module")
def screen():
    with desktop.screen() as shown:
        yield shown


@pytest.fixture
def tell(screen, archive, settings, tmp_path):
    """Let a story happen in a QGIS of its own; failures come with what QGIS printed."""

    def run(story):
        pictures = tmp_path / "pictures"
        pictures.mkdir()
        choices = {"pictures": str(pictures), "folder": str(tmp_path / "results")}
        told = desktop.tell(story, tmp_path / "home", screen, settings, archive, choices)
        assert "failure" not in told.answer, told.answer["failure"] + told.output
        assert "errors" not in told.answer, told.answer["errors"]
        assert told.exit_code == 0, told.output
        assert "Traceback" not in told.output, told.output
        return told, tmp_path

    return run


def assert_shows_something(picture):
    """A picture of the whole screen that is not one colour all over."""
    pixels = imread(picture)
    assert pixels.shape[1::-1] == desktop.SIZE
    assert len(np.unique(pixels[..., 0])) > 50


def test_a_run_through_the_panel_ends_in_finished_layers(tell):
    told, folder = tell("a_short_run")
    assert told.left_running == []
    assert told.answer["sentence"].startswith("Finished in ")
    results = told.answer["results"]
    assert results["group"] == "short run"
    layers = results["layers"]
    assert list(layers) == ["Occurrences used", "Targets", "Draw 1", "Draw 2", "Prospectivity"]
    assert all(layer["valid"] for layer in layers.values())
    prospectivity, draw = layers["Prospectivity"], layers["Draw 1"]
    assert prospectivity["renderer"] == "singlebandpseudocolor"
    assert any("geocfm" in line.lower() for line in prospectivity["history"])
    with rasterio.open(prospectivity["path"]) as opened:
        values = opened.read(1, masked=True)
        assert opened.crs.to_epsg() == 20350
        assert opened.res == (6000, 6000)
    assert values.compressed().mean() == pytest.approx(1, abs=0.05)  # relative to the mean
    assert pyogrio.read_info(draw["path"])["features"] == 100
    for path in (prospectivity["path"], draw["path"]):
        assert Path(path).is_relative_to(folder / "results")
        assert Path(path).with_suffix(".qml").is_file()
    assert_shows_something(folder / "pictures" / "finished.png")
    (preset, above), (preset_after, below) = told.answer["scrolled"]
    assert preset_after == preset
    assert below > above
    assert told.answer["toolbox"] == [{"name": "Prospectivity", "kind": "prospectivity"}]


def test_quitting_ends_the_run_and_leaves_no_process(tell):
    told, folder = tell("quitting")
    assert any("GeoCFM" in question or "short run" in question for question in told.answer["asked"])
    assert told.left_running == []
    assert not list((folder / "results").rglob("prospectivity.tif"))
    assert not (folder / "results" / "short run" / "model.safetensors").exists()


def test_a_process_that_is_left_would_be_seen():
    environment = {**os.environ, desktop.MARK: "left behind"}
    with subprocess.Popen(["sleep", "60"], env=environment) as left:
        while not Path(f"/proc/{left.pid}/environ").read_bytes():
            time.sleep(0.01)  # for a moment a new program has none
        assert desktop.running("left behind", patience_s=0) == {left.pid: "sleep 60 "}
        left.kill()
    assert desktop.running("left behind", patience_s=0) == {}
