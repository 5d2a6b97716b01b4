"""The text of a layer, `[name=]path[:band]`, before any raster is opened."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path

SIDECARS = (".aux.xml", ".ovr", ".msk", ".tfw", ".prj", ".qml", ".qmd")


def readings(spec: str) -> list[tuple[str | None, str, int | None]]:
    """All ways to read a spec as name, path and band, the most literal first.

    Paths may themselves contain '=' and ':', so what exists decides.
    """
    found: list[tuple[str | None, str, int | None]] = []
    named = re.fullmatch(r"([^=/\\]+)=(.+)", spec)
    whole: list[tuple[str | None, str]] = [(None, spec)]
    if named:
        whole.append((named[1].strip() or None, named[2]))
    for name, text in whole:
        found.append((name, text, None))
        banded = re.fullmatch(r"(.+):(\d+)", text)
        if banded:
            found.append((name, banded[1], int(banded[2])))
    return found


def matching_files(path: str) -> list[str]:
    """The file of that name, or those that a pattern means."""
    if os.path.exists(path):
        return [path]
    if not glob.has_magic(path):
        return []
    matches = sorted(glob.glob(path, recursive=True))
    return [match for match in matches if not match.lower().endswith(SIDECARS)]


def is_dataset_name(path: str) -> bool:
    """Tell whether a text names something GDAL opens that is no plain file: /vsizip/, NETCDF:..."""
    return path.startswith(("/vsi", "<")) or re.match(r"[A-Za-z_0-9+]{2,}:", path) is not None


def gdal_name(path: str | os.PathLike[str]) -> str:
    """A path as GDAL knows it: of an address, Path has left one slash."""
    text = Path(path).as_posix()
    if not is_dataset_name(text):
        return os.fspath(path)
    return re.sub(r"\b([a-z0-9]{2,}):/(?!/)", r"\1://", text)


def move_spec(spec: str, seen_from: str, prefix: str) -> str:
    """The spec with a relative path put behind `prefix`; GDAL's own names stay as they are.

    What exists, seen from a folder, decides what of the spec is the path.
    """
    possible = readings(spec)
    there = [way for way in possible if matching_files(_moved(way[1], seen_from, seen_from))]
    if not there and any(is_dataset_name(path) for _, path, _ in possible):
        return spec
    name, path, band = there[0] if there else possible[-1]
    start = "" if name is None else f"{name}="
    end = "" if band is None else f":{band}"
    return f"{start}{_moved(path, seen_from, prefix)}{end}"


def _moved(path: str, seen_from: str, prefix: str) -> str:
    path = os.path.expanduser(path)
    if os.path.isabs(path):
        return path
    is_pattern = glob.has_magic(path) and not os.path.exists(os.path.join(seen_from, path))
    # brackets in the name of a folder are no part of the pattern
    return Path(glob.escape(prefix) if is_pattern else prefix, path).as_posix()
