"""Finished parts of a long computation, on disk, so that an interrupted one goes on from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from geocfm.geo.writing import replace_file

Arrays = dict[str, NDArray[Any]]


class Parts:
    """Arrays under a name, each set in a file that is there in full or not at all."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, name: str) -> Arrays | None:
        """The part of that name, if it is finished."""
        try:
            with np.load(self._path(name), allow_pickle=False) as file:
                return {key: file[key] for key in file.files}
        except (OSError, ValueError, EOFError, BadZipFile):  # missing, or harmed from outside
            return None

    def save(self, name: str, **arrays: Any) -> None:
        """Keep a finished part."""
        temporary = self._folder / "unfinished.tmp"
        with temporary.open("wb") as file:
            np.savez(file, **arrays)
        replace_file(temporary, self._path(name))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.npz"
