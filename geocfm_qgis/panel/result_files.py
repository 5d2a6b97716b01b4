"""Where the files of a run lie, and what of them is there already."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from qgis.core import QgsProcessingUtils

from .. import settings
from .products import product

MODEL_SUFFIX = ".safetensors"
UNFIT_FOR_FILES = re.compile(r'[<>:"/\\|?*\x00-\x1f]+')
LONGEST_NAME = 80  # letters; Windows allows 260 for the whole path
WINDOWS_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")


def file_name(text):
    """Give a text as a name that every file system takes."""
    name = UNFIT_FOR_FILES.sub("_", text).strip(" .")[:LONGEST_NAME].rstrip(" .")
    return f"_{name}" if not name or WINDOWS_DEVICES.fullmatch(name) else name


def default_folder(project):
    """Give where results are kept: as set in the options, beside the project, or at home."""
    beside = os.path.join(project.homePath(), "geocfm") if project.homePath() else ""
    return settings.results_folder() or beside or str(Path.home() / "GeoCFM")


def run_folder(results):
    """Give the folder of a run's own for these ResultChoices."""
    parent = results.folder or os.path.join(QgsProcessingUtils.tempFolder(), "geocfm_runs")
    return os.path.join(parent, file_name(results.name))


def model_path(results):
    """Give where the model to be trained will lie."""
    return os.path.join(run_folder(results), with_suffix(results.model_file, MODEL_SUFFIX))


def product_path(results, choice):
    """Give where one ProductChoice will lie."""
    name = with_suffix(choice.file_name, product(choice.key).suffix)
    return os.path.join(run_folder(results), name)


def output_paths(results, training):
    """Give all that the run will write, the model first if there is one."""
    models = [model_path(results)] if training else []
    return models + [product_path(results, each) for each in results.products]


def existing(paths):
    """Give those of a run's outputs that are there; an empty folder is none."""
    return [path for path in paths if os.path.isfile(path) or _holds_results(path)]


def is_writable(folder):
    """Whether a folder can be written to, or made where it is not there yet."""
    place = os.path.abspath(folder)
    while not os.path.lexists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    try:
        with tempfile.TemporaryFile(dir=place):  # permissions alone do not tell, least on Windows
            return True
    except OSError:
        return False


def interrupted(paths):
    """Whether an interrupted run has left work beside these outputs, to go on from."""
    return any(
        os.path.isdir(os.path.join(path, ".work"))
        or os.path.isdir(os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.work"))
        for path in paths
    )


def with_suffix(name, suffix):
    """Give a name with the suffix that programs go by; one that is there is kept once."""
    name = file_name(name)
    return name if suffix and name.lower().endswith(suffix) else name + suffix


def _holds_results(path):
    return os.path.isdir(path) and any(not name.startswith(".") for name in os.listdir(path))
