"""What a benchmark wrote into a folder, by name: nothing else there is ever taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from geocfm.errors import UserError
from geocfm.evaluation.benchmark.ablations import ABLATION, RECIPE
from geocfm.evaluation.benchmark.bench import (
    ABLATIONS,
    FIGURES,
    FIT_FILE,
    FLOW,
    METHODS_FOLDER,
    TRAINING,
    WEIGHTS,
    is_network,
)
from geocfm.evaluation.benchmark.methods import METHODS
from geocfm.evaluation.benchmark.protocol import SETTINGS_FILE
from geocfm.evaluation.benchmark.recipe import RECIPES
from geocfm.geo.links import is_link
from geocfm.training.fit import LOG

OUR_FOLDERS = (METHODS_FOLDER, WEIGHTS, TRAINING, FIGURES, ABLATIONS)
OUR_FILES = ("synthetic.json", "table.md", SETTINGS_FILE)  # in the order they are removed

_method = "|".join(map(re.escape, METHODS))
_kind = "|".join((*ABLATION, RECIPE))
_network = "|".join(re.escape(key) for key in METHODS if is_network(key))
_network = rf"(?:{_network}|{FLOW}-\d+-seed-\d+)"
_state = r"(?:state|averaged-\d+|best-\d+)\.(?:safetensors|tmp)"
_file = "|".join(
    (
        rf"{METHODS_FOLDER}/(?:{_method})\.(?:json|npz)",
        rf"{WEIGHTS}/{_network}\.(?:json|safetensors)",
        rf"{TRAINING}/{_network}/(?:{re.escape(LOG)}|{re.escape(FIT_FILE)}|{_state})",
        rf"{FIGURES}/(?:draws|densities|all-methods|capture)\.png",
        rf"{ABLATIONS}/(?:{_kind})\.(?:json|md)",
        rf"{ABLATIONS}/(?:{_kind})/[^/]+\.json",
        rf"(?:{'|'.join(OUR_FOLDERS)})/(?:[^/]+/)?\.geocfm-[0-9a-f]{{8}}[^/]*",  # half written
    )
)


def _recipe_files(keys: Iterable[str]) -> str:
    """A recipe is a benchmark of its own."""
    within = f"{_file}|{re.escape(SETTINGS_FILE)}"
    return rf"{ABLATIONS}/{RECIPE}/(?:{'|'.join(keys)})/(?:{within})"


OURS = re.compile(f"{_file}|{_recipe_files(RECIPES)}")
"""Paths within the folder, with slashes."""


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder with files by our names that no benchmark wrote: they are somebody's."""
    if _is_benchmark(folder):
        return
    there = [name for name in (*OUR_FOLDERS, *OUR_FILES) if (folder / name).exists()]
    if there:
        raise UserError(
            f"{folder} holds {', '.join(there)}, and not from a benchmark.",
            "Choose another folder.",
        )


def _is_benchmark(folder: Path) -> bool:
    """Whether the settings there are a benchmark's, of whatever version."""
    try:
        content = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"preset", "generator", "bayes_redraws"} <= content.keys()


def clear(folder: Path) -> None:
    """Remove what a benchmark wrote into a folder of its own, and nothing else.

    The settings go last: if that is interrupted, what is left is still known for what it is.
    """
    for name in OUR_FOLDERS:
        _remove(folder, name)
    for name in OUR_FILES:
        (folder / name).unlink(missing_ok=True)


def clear_methods(folder: Path, keys: Iterable[str]) -> None:
    """Remove results, weights and training of some methods; the others and ablations stay."""
    names = "|".join(map(re.escape, keys))
    file = rf"(?:{METHODS_FOLDER}|{WEIGHTS})/(?:{names})\.[a-z]+|{TRAINING}/(?:{names})/[^/]+"
    for name in (METHODS_FOLDER, WEIGHTS, TRAINING):
        _remove(folder, name, re.compile(rf"(?={OURS.pattern})(?:{file})"))


def clear_ablation(folder: Path, kind: str, recipes: Iterable[str] = ()) -> None:
    """Remove what one ablation wrote; methods, weights, settings and other recipes stay."""
    file = rf"{ABLATIONS}/{kind}(?:\.(?:json|md)|/[^/]+\.json)"
    if kind == RECIPE:
        file += f"|{_recipe_files(recipes)}"
    _remove(folder, ABLATIONS, re.compile(file))


def _remove(folder: Path, name: str, files: re.Pattern[str] = OURS) -> None:
    """Remove such files in one of our folders, and folders that are empty then."""
    within = list(_entries(folder / name))
    for path in within:
        if not path.is_dir() and files.fullmatch(path.relative_to(folder).as_posix()):
            path.unlink()
    for path in (*reversed(within), folder / name):  # the inner ones first
        if path.is_dir() and not is_link(path):
            with suppress(OSError):  # somebody's files are in it
                path.rmdir()


def _entries(folder: Path) -> Iterator[Path]:
    """All there is in a folder and in those in it; links to other folders are left alone."""
    if is_link(folder) or not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        yield path
        yield from _entries(path)
