"""What a job leaves in the folder it works in, by name: nothing else there is ever taken away."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from geocfm.errors import UserError
from geocfm.geo.links import is_link, refuse_link
from geocfm.job import BASELINE_NAMES
from geocfm.run.provenance import Provenance

JOB = "job.json"  # whose work it is; a folder with it is ours

_raster = r"\.tif(?:\.aux\.xml|\.ovr|\.ovr\.tmp)?"
_half_written = r"\.geocfm-[0-9a-f]{8}[^/]*"
_state = r"(?:state|averaged-\d+|best-\d+)\.(?:safetensors|tmp)"
_result = "|".join(
    (
        r"best|last|log|log\.jsonl|provenance\.json|evaluation\.json|memory\.json",
        r"(?:preview|map|capture|importance)\.png|report\.(?:html|json)",
        r"points\.(?:gpkg|geojson|json|csv)|(?:occurrences|targets)\.gpkg|(?:mosaic|folds)\.(?:json|md)",
        rf"(?:map|raw|folds|experience|monte_carlo|uncertainty|uncertainty_raw){_raster}",
        rf"(?:plain_)?(?:magnetics|geochemistry|intensity|bayes|latent){_raster}",
    )
)
_part = rf"[\w-]+\.(?:npz|tmp)|[\w-]+{_raster}|log\.jsonl|{_state}"
_names = "|".join(map(re.escape, BASELINE_NAMES))
_folder = "|".join(
    (
        r"strips(?:-[\w-]+)?|draws|baselines|folds|geocfm\d?|network|(?:fold|member)-\d+",
        rf"maps|maps/[\w-]+|study-\d+|scores|process|forest|start|{_names}",
    )
)
FILES = re.compile(rf"(?:{_result}|{_state}|{_half_written})|(?:(?:{_folder})/)+(?:{_part})")
FOLDERS = re.compile(rf"(?:{_folder})(?:/(?:{_folder}))*")
"""Paths within the folder, with slashes."""
NOBODYS = re.compile(rf"{_half_written}|\.DS_Store|Thumbs\.db|desktop\.ini|\.nfs[0-9a-f]+")
"""What is in the way of nobody: a file half written by a killed run, and what systems leave."""


def job_of(folder: Path) -> Provenance | None:
    """Whose work a folder holds; None if it is not ours."""
    try:
        return Provenance.model_validate_json((folder / JOB).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def refuse_foreign(folder: Path) -> None:
    """Refuse to work in a folder that is somebody's, or that leads to one."""
    refuse_link(folder)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(
            f"'{folder}' is a file, where the job has to work.",
            "Move it elsewhere, or choose another --out.",
        )
    refuse_link(folder / JOB)
    if job_of(folder) is not None:
        for path in _entries(folder):
            refuse_link(path)
        return
    foreign = sorted(path.name for path in folder.iterdir() if not NOBODYS.fullmatch(path.name))
    if foreign:
        raise UserError(
            f"The job would work in '{folder}', which holds what is not GeoCFM's: '{foreign[0]}'.",
            "Move it elsewhere, or choose another --out.",
        )


def clear(folder: Path) -> None:
    """Remove what a job left, and last what says that it is a job's; the folder itself stays."""
    if not is_link(folder) and job_of(folder) is not None:
        clear_part(folder, "")
        with suppress(OSError):
            (folder / JOB).unlink()


def clear_part(folder: Path, part: str) -> None:
    """Remove what a job left in a folder of its work."""
    if is_link(folder / part):
        return
    within = list(_entries(folder / part))
    for path in within:
        name = path.relative_to(folder).as_posix()
        if FILES.fullmatch(name) and (is_link(path) or path.is_file()):
            with suppress(OSError):
                path.unlink()
    for path in (*reversed(within), folder / part):  # the inner ones first
        if FOLDERS.fullmatch(path.relative_to(folder).as_posix()) and not is_link(path):
            with suppress(OSError):  # somebody's files are in it
                path.rmdir()


def _entries(folder: Path) -> Iterator[Path]:
    """All there is in a folder and in those in it; where links lead is left alone."""
    with suppress(OSError):  # it may have vanished
        for path in sorted(folder.iterdir()):
            yield path
            if path.is_dir() and not is_link(path):
                yield from _entries(path)
