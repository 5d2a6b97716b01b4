"""The engine's sentences as a reader in QGIS sees them."""

import ast
import json
import re
from pathlib import Path

import pytest

from geocfm_qgis.labels import label, labels
from geocfm_qgis.wording import JOB_FILE_NAME, in_qgis_words

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "engine" / "geocfm"
# the shell's own mistakes, and what benchmarks say
NOT_FOR_QGIS = {"cli.py", "memory.py", "benchmark", "benchmarks.py"}
OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*)")


def sentences():
    """Every text of the engine's source but docstrings; what is filled in stands as X."""
    for path in sorted(ENGINE.rglob("*.py")):
        if NOT_FOR_QGIS & {path.name, path.parent.name}:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        passed_over = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr):  # a docstring
                passed_over.add(id(node.value))
            elif isinstance(node, ast.JoinedStr):
                passed_over.update(map(id, node.values))
        for node in ast.walk(tree):
            if id(node) in passed_over:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(
                    part.value if isinstance(part, ast.Constant) else "X" for part in node.values
                )


def test_no_option_reaches_the_reader():
    found = [sentence for sentence in sentences() if OPTION.search(sentence)]
    assert len(found) > 40  # the search sees what is there
    unknown = {
        option
        for sentence in found
        for option in OPTION.findall(sentence)
        if option.replace("-", "_") not in labels() and option not in ("json", "allow-network")
    }
    assert unknown == set()
    for sentence in found:
        assert "--" not in in_qgis_words(sentence), sentence


def test_no_command_reaches_the_reader():
    for sentence in sentences():
        if re.search(r"'geocfm [a-z]|the (same )?command\b|pip install", sentence):
            said = in_qgis_words(sentence)
            assert not re.search(r"'geocfm|same command|the command|pip install", said), sentence


def test_every_key_of_a_job_has_a_label():
    schema = json.loads((ROOT / "docs" / "job.schema.json").read_text(encoding="utf-8"))
    keys = {key for kind in schema["$defs"].values() for key in kind["properties"]}
    assert keys - set(labels()) == {"command"}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (
            "3 occurrences share a cell and are kept; --deduplicate keeps one per cell.",
            "3 occurrences share a cell and are kept; “One per cell” keeps one per cell.",
        ),
        (
            "/a/b.tif: already there. Choose another name, or replace what is there with "
            "--overwrite.",
            "/a/b.tif: already there. Choose another name, or replace what is there by ticking "
            "“Replace results that are there”.",
        ),
        (
            "Layer geology holds 7 different whole numbers: if they are codes, give --classes "
            "geology.",
            "Layer geology holds 7 different whole numbers: if they are codes, mark geology as "
            "“Classes”.",
        ),
        (
            "Use --window 64 or --set training.batch=2.",
            "Use “Window” 64 or “Other settings” training.batch=2.",
        ),
        (
            "If that is their CRS, give --occurrences-crs EPSG:20350.",
            "If that is their CRS, set it as the CRS of the layer in QGIS: EPSG:20350.",
        ),
        (
            "Choose a .safetensors file made by 'geocfm train', or copy it again.",
            "Choose a .safetensors file made by “Train model”, or copy it again.",
        ),
        (
            "Stopped as asked; the same command goes on from here.",
            "Stopped as asked; run it again, and it goes on from here.",
        ),
        (
            "Install the engine's packages (in QGIS: Settings > Options > GeoCFM; on the command "
            "line: pip install ./engine).",
            "Install the engine's packages (Settings > Options > GeoCFM).",
        ),
        (
            "'/data/my--layer--window.tif' is no raster.",
            "'/data/my--layer--window.tif' is no raster.",
        ),
        (
            f"/tmp/x y/{JOB_FILE_NAME}: jobs[1].window (model): 8 cannot be used; it must be more.",
            "“Window” (model): 8 cannot be used; it must be more.",
        ),
        (
            "mine.toml: jobs[1].window: 8 cannot be used.",
            "mine.toml: jobs[1].window: 8 cannot be used.",
        ),
        ("occurrences: '/a b.gpkg' does not exist.", "Occurrences: '/a b.gpkg' does not exist."),
        ("There is a mistake in the job file.", "It cannot be run like this."),
        ("There are 12 mistakes in the job file.", "It cannot be run like this."),
        ("", ""),
    ],
)
def test_sentences(said, expected):
    assert in_qgis_words(said) == expected
    assert in_qgis_words(expected) == expected  # so it does no harm twice


IN_THE_PANEL = (
    *("like", "aoi", "where", "deduplicate", "preset", "minutes", "iterations", "seed", "device"),
    *("window", "tile", "resolution", "ground", "positive_only", "settings", "overwrite"),
)


@pytest.mark.parametrize("name", IN_THE_PANEL)
def test_labels_stand_in_the_panel(name):
    forms = (ROOT / "resources" / "forms").glob("*.ui")
    texts = "".join(form.read_text(encoding="utf-8") for form in forms)
    assert f"<string>{label(name)}</string>" in texts
