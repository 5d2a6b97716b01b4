"""The engine's sentences for a reader in QGIS: labels of the panel instead of options."""

from __future__ import annotations

import re

from .translation import tr

JOB_FILE_NAME = "geocfm-job.json"  # of the job files that the plugin writes for its own runs

_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z-]*[a-z])(?![\w-])")
_SETTING = re.compile(r"(?<![\w-])--set (?=[\w.]+)")
_COMMAND = re.compile(r"'geocfm ([a-z]+)'")
_KEY_OF_OUR_FILE = re.compile(
    rf"^.*{re.escape(JOB_FILE_NAME)}: jobs\[\d+\]\.(\w+)( \(.*?\))?: ", re.MULTILINE
)
_MISSING_FILE = re.compile(r"^(\w+)(?=: '.*' does not exist\.$)", re.MULTILINE)

# What means something else in QGIS than on a command line. The engine speaks English, so these
# pieces of its sentences do too; only the labels, filled in afterwards, are in the user's language.
_PHRASES = (
    (r"\s*'geocfm[^']* --help' says what there is\.", ""),
    (r"the same command (?:then )?goes on from here", "run it again, and it goes on from here"),
    (r"\(in QGIS: (.*?); on the command\s+line: [^)]*\)", r"(\1)"),
    (r"[Tt]hen run the command again", "Then run it again"),
    (
        r"Give each as --raster NAME=path, with the name the model knows\.",
        "Choose a layer of the project for each.",
    ),
    (r"Give them names of their own, for example --raster .+\.", "Give them names of their own."),
    (r"Name at least one, for example --raster \S+\.", "Tick at least one."),
    (r"give --classes (.+?)(?=\.$)", r"tick --classes for \1"),
    (r"leave it out of --classes", "do not tick --classes for it"),
    (r"give --occurrences-crs (\S+?)(?=\.$)", r"set it as the CRS of the layer in QGIS: \1"),
    (
        r"Give it, for example --occurrences-crs",
        "Set the CRS of the layer in QGIS, for example",
    ),
    (r"Say it with --raster-crs NAME=\S+, or give it one", "Set it for the layer, or in the file,"),
    (
        r"Exchange --x-column and --y-column of a CSV; for other files QGIS has the tool",
        "The Processing toolbox has the tool",
    ),
    (r"another --out", "another name for the result"),
    (r"Give it as --checkpoint", "Choose it as --checkpoint"),
    (r"with --overwrite", "by ticking --overwrite"),
    (r"--overwrite does it again", "tick --overwrite to do it again"),
    (r"with --layer \(--aoi-layer for an area\)", "as a layer of the project"),
    (r" \(--layer\)| with --aoi-layer", ""),
)


def labels():
    """Give the label in QGIS of every option of the engine, by the option's name in job files."""
    return {
        "raster": tr("Layers"),
        "classes": tr("Classes"),
        "raster_crs": tr("Layer CRS"),
        "nodata": tr("No data"),
        "like": tr("Reference grid"),
        "crs": tr("CRS of the grid"),
        "resolution": tr("Cell size"),
        "extent": tr("Extent"),
        "aoi": tr("Area of interest"),
        "aoi_layer": tr("Area of interest"),
        "occurrences": tr("Occurrences"),
        "layer": tr("Occurrences"),
        "occurrences_crs": tr("Layer CRS"),
        "where": tr("Filter by field"),
        "x_column": tr("X field"),
        "y_column": tr("Y field"),
        "deduplicate": tr("One per cell"),
        "preset": tr("Preset"),
        "minutes": tr("Train for"),
        "iterations": tr("Iterations"),
        "seed": tr("Seed"),
        "device": tr("Compute on"),
        "window": tr("Window"),
        "tile": tr("Held-out tile"),
        "set": tr("Other settings"),
        "settings": tr("Other settings"),
        "checkpoint": tr("Trained model"),
        "points": tr("Points in each"),
        "draws": tr("Draws"),
        "solver": tr("Solver"),
        "steps": tr("Steps of the solver"),
        "combine": tr("How windows are combined"),
        "out": tr("Result"),
        "overwrite": tr("Replace results that are there"),
        "name": tr("Name"),
    }


def _commands():
    return {
        "check": tr("Check data"),
        "train": tr("Train model"),
        "map": tr("Prospectivity map"),
        "sample": tr("Sample occurrences"),
        "evaluate": tr("Evaluate"),
        "run": tr("Run job file"),
        "info": tr("Model"),
    }


def in_qgis_words(sentence):
    """Give the engine's sentence with the labels that stand in QGIS instead of its options."""
    if not sentence:
        return sentence
    known, commands = labels(), _commands()

    def label(found):
        name = found[1].replace("-", "_")
        return _quoted(known.get(name, name.replace("_", " ")))

    def key(found):
        return f"{_quoted(known.get(found[1], found[1]))}{found[2] or ''}: "

    for pattern, words in _PHRASES:
        sentence = re.sub(pattern, words, sentence, flags=re.MULTILINE)
    sentence = _COMMAND.sub(lambda found: _quoted(commands.get(found[1], found[1])), sentence)
    sentence = _SETTING.sub(_quoted(known["settings"]) + " ", sentence)
    sentence = _OPTION.sub(label, sentence)
    sentence = _KEY_OF_OUR_FILE.sub(key, sentence)
    return _MISSING_FILE.sub(lambda found: known.get(found[1], found[1]), sentence)


def _quoted(label):
    return f"“{label}”"
