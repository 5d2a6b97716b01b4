"""The engine's sentences for a reader in QGIS: labels of the panel instead of options."""

from __future__ import annotations

import re

from .labels import labels
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
    (r"'geocfm map --uncertainty'", "'geocfm map'"),
    (r"the same command (?:then )?goes on from here", "run it again, and it goes on from here"),
    (r"run the same command once more", "run it once more"),
    (r"\(in QGIS: (.*?); on the command\s+line: [^)]*\)", r"(\1)"),
    (r"[Tt]hen run the command again", "Then run it again"),
    (
        r"Give each as --raster NAME=path, with the name the model knows\.",
        "Choose a layer of the project for each.",
    ),
    (r"Give them names of their own, for example --raster .+\.", "Give them names of their own."),
    (r"Name at least one, for example --raster \S+\.", "Tick at least one."),
    (r"give --classes (.+?)(?=\.$)", r"mark \1 as --classes"),
    (r"leave it out of --classes", "do not mark it as --classes"),
    (r"^There (?:is|are) \w+ mistakes? in the job files?\.", "It cannot be run like this."),
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
    (r"; or add --allow-network to the command, if you know where the name comes from", ""),
    (r"; say geocfm run --allow-network", ""),
    (r"with --overwrite", "by ticking --overwrite"),
    (r"--overwrite does it again", "tick --overwrite to do it again"),
    (r"with --layer \(--aoi-layer for an area\)", "as a layer of the project"),
    (r" \(--layer\)| with --aoi-layer", ""),
)


def _commands():
    return {
        "check": tr("Check data"),
        "train": tr("Train model"),
        "map": tr("Prospectivity map"),
        "sample": tr("Sample occurrences"),
        "targets": tr("Rank targets"),
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
