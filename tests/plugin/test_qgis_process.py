"""The built zip in qgis_process with the real engine: train, map, rank, sample, and look at it."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from osgeo import gdal
from qgis.core import QgsRasterLayer, QgsRectangle, QgsVectorLayer

from building.plugin_zip import build_plugin_zip

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("qgis_process.bin", "qgis_process")  # Debian's own wrapper of that name is broken
# around the Murchison's middle; north of it lies a part of the grid that is left out
EXTENT = QgsRectangle(450_000, 6_850_000, 490_000, 6_890_000)
CELL_M = 500
DRAWS, POINTS = 2, 40


@pytest.fixture(scope="module")
def qgis_process(tmp_path_factory, engine_python):
    """Run qgis_process with the plugin from its zip, in a home of its own."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program, "qgis_process is not installed"
    folder = tmp_path_factory.mktemp("qgis process ä")  # as a user's home may be called
    archive, _ = build_plugin_zip(ROOT, folder / "dist")
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder / "plugins")
    environment = {
        **{name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ},
        "HOME": str(folder / "home"),
        "QGIS_PLUGINPATH": str(folder / "plugins"),
        "QT_QPA_PLATFORM": "offscreen",
        "GEOCFM_PYTHON": engine_python,
        "OMP_NUM_THREADS": "1",
    }
    (folder / "home").mkdir()

    def run(*arguments):
        done = subprocess.run(
            [program, *map(str, arguments)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    run.plugins = folder / "plugins"
    run("plugins", "enable", "geocfm_qgis")
    return run


def result(said, name):
    """An output as qgis_process prints it: `NAME:	value`."""
    lines = (line.partition(":") for line in said.partition("Results")[2].splitlines())
    return next(value.strip() for key, _, value in lines if key == name)


def test_train_map_rank_and_sample_from_the_zip(qgis_process, tmp_path):
    listed = qgis_process("list")
    for name in ("checkdata", "train", "sample", "map", "targets", "evaluate", "runjobfile"):
        assert f"geocfm:{name}\t" in listed
    assert "OCCURRENCES: Occurrences" in qgis_process("help", "geocfm:train")

    sample = qgis_process.plugins / "geocfm_qgis" / "resources" / "sample"
    rasters = [f"RASTERS={path}" for path in sorted(sample.glob("rasters/*.tif"))]
    occurrences = f"OCCURRENCES={sample / 'occurrences.gpkg'}|layername=occurrences"
    model = tmp_path / "a model.safetensors"
    training = (*rasters, occurrences, "ITERATIONS=8", "PRESET=quick", "WINDOW=32", "ENSEMBLE=2")
    said = qgis_process("run", "geocfm:train", "--", *training, f"OUTPUT={model}")
    assert result(said, "OUTPUT") == str(model)
    assert "Of 255 occurrences 255 are used." in said
    report = tmp_path / "a model.report.html"
    assert result(said, "REPORT") == str(report)
    assert "<html" in report.read_text(encoding="utf-8")

    numbers = (EXTENT.xMinimum(), EXTENT.xMaximum(), EXTENT.yMinimum(), EXTENT.yMaximum())
    extent = "EXTENT=" + ",".join(f"{number:.0f}" for number in numbers) + " [EPSG:20350]"
    applying = (f"CHECKPOINT={model}", *rasters, extent)
    raster = tmp_path / "prospectivity ä.tif"
    beside = tmp_path / "uncertainty.tif"
    written = (f"OUTPUT={raster}", f"UNCERTAINTY={beside}")
    said = qgis_process("run", "geocfm:map", "--", *applying, *written)
    assert result(said, "OUTPUT") == str(raster)
    assert result(said, "UNCERTAINTY") == str(beside)
    check_map(raster, model)
    check_uncertainty(beside)

    targets = tmp_path / "targets.gpkg"
    ranking = (f"MAP={raster}", f"UNCERTAINTY={beside}", f"CHECKPOINT={model}", *rasters)
    choice = (occurrences, "NUMBER=3", "AREA_SHARE=20", f"OUTPUT={targets}")
    qgis_process("run", "geocfm:targets", "--", *ranking, *choice)
    check_targets(targets)

    points = tmp_path / "samples.gpkg"
    counts = (f"DRAWS={DRAWS}", f"POINTS={POINTS}")
    qgis_process("run", "geocfm:sample", "--", *applying, *counts, f"OUTPUT={points}")
    check_samples(points)


def check_map(path, model):
    layer = QgsRasterLayer(str(path), "map")
    assert layer.isValid()
    assert layer.crs().authid() == "EPSG:20350"
    assert layer.rasterUnitsPerPixelX() == CELL_M
    # whole cells of the model's grid around the extent, none more
    assert layer.extent().contains(EXTENT)
    wider = EXTENT.buffered(1.01 * CELL_M)
    assert wider.contains(layer.extent())
    statistics = layer.dataProvider().bandStatistics(1)
    assert statistics.minimumValue >= 0
    assert statistics.maximumValue > statistics.minimumValue
    assert statistics.mean == pytest.approx(1, abs=0.01)  # relative to the mean of what is mapped
    beside = path.with_suffix(".qml")
    assert beside.exists()
    # QGIS takes up the style that lies beside the file
    assert layer.renderer().type() == "singlebandpseudocolor"
    assert layer.customProperty("geocfm/kind") == "prospectivity"
    dataset = gdal.Open(str(path))
    assert dataset.GetMetadata("IMAGE_STRUCTURE")["LAYOUT"] == "COG"
    provenance = json.loads(dataset.GetMetadata()["GEOCFM_PROVENANCE"])
    assert provenance["job"]["checkpoint"] == str(model)
    assert "geocfm" in provenance["versions"]


def check_uncertainty(path):
    layer = QgsRasterLayer(str(path), "uncertainty")
    assert layer.customProperty("geocfm/kind") == "uncertainty"
    bands = [layer.bandName(number) for number in range(1, layer.bandCount() + 1)]
    assert bands[0].endswith("coefficient of variation")
    assert bands[-1].endswith("outside experience")
    assert layer.renderer().band() == 1
    assert layer.dataProvider().bandStatistics(1).maximumValue > 0


def check_targets(path):
    layer = QgsVectorLayer(str(path), "targets", "ogr")
    ranks = sorted(feature["rank"] for feature in layer.getFeatures())
    assert ranks == list(range(1, len(ranks) + 1))
    assert 1 <= len(ranks) <= 3
    assert EXTENT.buffered(CELL_M).contains(layer.extent())
    assert layer.customProperty("geocfm/kind") == "targets"
    assert layer.labelsEnabled()
    fields = layer.fields()
    named = {name for name in fields.names() if fields[fields.indexOf(name)].alias()}
    assert set(fields.names()) - named == {"fid"}
    best = next(each for each in layer.getFeatures() if each["rank"] == 1)
    assert 0 < best["mass_share"] <= 1
    assert best["uncertainty"] >= 0
    assert isinstance(best["layers"], str)  # so little was learned that none may matter


def check_samples(path):
    layer = QgsVectorLayer(str(path), "samples", "ogr")
    assert layer.isValid()
    assert layer.featureCount() == DRAWS * POINTS
    assert {feature["draw"] for feature in layer.getFeatures()} == set(range(1, DRAWS + 1))
    assert EXTENT.buffered(CELL_M).contains(layer.extent())
    densities = [feature["log_relative_density"] for feature in layer.getFeatures()]
    assert max(densities) > min(densities)
    assert path.with_suffix(".qml").exists()
    assert layer.renderer().type() != "singleSymbol"
    assert layer.customProperty("geocfm/kind") == "samples"


def test_the_interpreter_of_qgis_stays_without_the_engine(qgis_process):
    """Importing the plugin brings in nothing that QGIS does not have by itself."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import geocfm_qgis.algorithms.provider;"
        "print(sorted({'torch', 'rasterio', 'shapely', 'pyogrio', 'geocfm'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(qgis_process.plugins)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
