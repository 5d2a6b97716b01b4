"""Inputs as they were: what tells a file that was read from one that has changed since."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from geocfm.file_names import refuse_endless, refuse_no_text
from geocfm.geo.files_behind import FOLDERS
from geocfm.layer_spec import is_dataset_name

DATABASES = (".gpkg", ".sqlite")
LARGEST_HASHED = 256 * 2**20
SQLITE_COUNTERS = ((18, 20), (24, 28), (92, 100))  # journal mode; changes; writer's version
NOTES = ".aux.xml"  # what GDAL keeps beside a raster; QGIS adds statistics when it shows one
STATISTICS = re.compile(  # and the band's name, which GDAL repeats there; a layer's is compared
    r"\s*<(?:MDI key=\"STATISTICS_[^>]*>[^<]*</MDI|Description>[^<]*</Description|"
    r"Histograms\s*/|Histograms>.*?</Histograms)>",
    re.DOTALL,
)
EMPTY = re.compile(r"\s*<Metadata(?:\s*/>|>\s*</Metadata>)")
EMPTY_BAND = re.compile(r"\s*<PAMRasterBand[^>]*?(?:/>|>\s*</PAMRasterBand>)")
NO_NOTES = re.compile(r"(?:<\?xml[^>]*>\s*)?<PAMDataset>\s*</PAMDataset>")
LOCKS = (".lock",)  # of a file geodatabase that somebody looks at
MOST_NAMED = 300  # files behind one input; of more only their number and a hash are kept


class InputFile(BaseModel):
    """A file that was read: what it was for, how large, and when it was last changed.

    files: how many it stands for, if it is a folder or names very many others.
    """

    model_config = ConfigDict(frozen=True)

    use: str
    path: str
    size: int | None
    modified: str | None
    content: str | None = None  # a hash, where size and time would say too much or too little
    files: int = 1

    def same_as(self, other: InputFile) -> bool:
        """Whether nothing has happened to the file."""
        if self.content and other.content:
            return self.content == other.content
        return self == other


def input_files(use: str, name: str, behind: Sequence[str]) -> Iterator[InputFile]:
    """An input, and the files behind it that are not itself."""
    main = input_file(use, name)
    others = [
        other
        for other in behind
        if full_path(Path(other)) != main.path
        and (not other.lower().endswith(NOTES) or _notes(Path(other)))
    ]
    if len(others) > MOST_NAMED:
        yield _together(main, [name, *others])
    else:
        yield main
        yield from (input_file(use, other) for other in others)


def input_file(use: str, name: str) -> InputFile:
    """One file, or a folder with all that is in it, as it is now."""
    path = Path(name)
    if is_dataset_name(name) and not path.exists():
        return InputFile(use=use, path=name, size=None, modified=None)
    found = path.stat()
    refuse_endless(name)
    entry = InputFile(
        use=use,
        path=full_path(path),
        size=found.st_size,
        modified=_time(found.st_mtime),
        content=_content(path, found.st_size),
    )
    return _together(entry, _within(name)) if path.is_dir() else entry


def untouched(entry: InputFile) -> bool:
    """Whether size and time are those of the file as it was; of a folder they do not tell."""
    try:
        found = os.stat(entry.path)
    except (OSError, ValueError):
        return entry.size is None
    return entry.files == 1 and (entry.size, entry.modified) == (
        found.st_size,
        _time(found.st_mtime),
    )


def full_path(path: Path) -> str:
    """The same text for the same file, wherever the command is run and however it is spelled."""
    there = Path(os.path.realpath(path)).as_posix()
    refuse_no_text(there)
    return there


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _together(main: InputFile, files: Sequence[str]) -> InputFile:
    """Many files as one: any that changes, comes or goes makes it another."""
    digest = hashlib.sha256()
    for name in sorted(files):
        path = Path(name)
        found = path.stat()
        told = _content(path, found.st_size) or f"{found.st_size} {found.st_mtime_ns}"
        digest.update(f"{name}\0{told}\n".encode("utf-8", "surrogateescape"))
    return main.model_copy(update={"content": digest.hexdigest(), "files": len(files)})


def _within(folder: str) -> list[str]:
    """The files of a folder; in those within it, if the folder is opened as one file."""
    walk = os.walk(folder) if folder.lower().endswith(FOLDERS) else islice(os.walk(folder), 1)
    found = (os.path.join(place, name) for place, _, names in walk for name in names)
    return [path for path in found if not path.lower().endswith(LOCKS) and os.path.isfile(path)]


def _content(path: Path, size: int) -> str | None:
    """A hash of what counts, where a file changes when somebody only looks at it."""
    name = path.name.lower()
    if name.endswith(NOTES):
        return _notes(path)
    if not name.endswith(DATABASES):
        return None
    pending = path.with_name(f"{path.name}-wal")  # changes that are not in the file itself yet
    if size <= LARGEST_HASHED:
        return _database(path, pending)
    waiting = pending.stat() if pending.exists() else None
    if waiting is None or not waiting.st_size:
        return None
    return f"{path.stat().st_mtime_ns} {waiting.st_size} {waiting.st_mtime_ns}"


def _database(path: Path, pending: Path) -> str:
    """A hash of what the user put into it: QGIS writes counters into one that it only shows."""
    with path.open("rb") as file:
        header = bytearray(file.read(100))
        for start, stop in SQLITE_COUNTERS:
            header[start:stop] = bytes(len(header[start:stop]))
        digest = hashlib.sha256(header)
        while block := file.read(2**20):
            digest.update(block)
    if pending.exists():
        digest.update(pending.read_bytes())
    return digest.hexdigest()


def _notes(path: Path) -> str | None:
    """A hash of what GDAL reads beside a raster; none if that is statistics, read by nobody."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for useless in (STATISTICS, EMPTY, EMPTY_BAND):
        text = useless.sub("", text)
    said = " ".join(text.split())
    return None if NO_NOTES.fullmatch(said) else hashlib.sha256(said.encode()).hexdigest()
