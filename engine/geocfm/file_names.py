"""What is no file to read from: a pipe or a device; and what is no name of one."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

from geocfm.errors import UserError
from geocfm.mistakes import LONGEST_SHOWN
from geocfm.network import is_on_network

BACKSLASHES = "In a job file write Windows paths in single quotes, 'D:\\maps\\mag.tif', or with /"
GDAL_PREFIXES = re.compile(r"^(/vsi\w+/)+")


def is_text(name: str) -> bool:
    """Whether a name can be written into a result; file systems allow any bytes."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def escaped(text: str) -> str:
    """The text with bytes that are none made visible."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def file_name(value: Any) -> Any:
    """A value of a job that names a file; a ValueError says what is wrong with it."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("it is no name of a file")
    if isinstance(value, str) and any(ord(letter) < ord(" ") for letter in value):
        raise ValueError(f"it holds what no path does. {BACKSLASHES}")
    return value


def text_only(value: Any) -> Any:
    """A value of a job whose texts can be written down again; a ValueError says which cannot."""
    for part in value if isinstance(value, list) else [value]:
        if isinstance(part, str | PurePath) and not is_text(str(part)):
            end = escaped(str(part))[-LONGEST_SHOWN:]
            raise ValueError(
                f"'{end}' holds bytes that are no text (UTF-8); write it anew, or rename the file"
            )
    return value


def refuse_virtual(path: Path | None) -> Path | None:
    """Refuse a place for results that only GDAL knows, or that lies on the network."""
    if path is not None and (path.as_posix().startswith("/vsi") or is_on_network(path.as_posix())):
        raise ValueError("results are written into folders of this computer")
    return path


def refuse_no_text(path: str) -> None:
    """Refuse the name of a file that no result, job file or message can hold."""
    if not is_text(path):
        raise UserError(
            f"The name of '{path}' holds bytes that are no text (UTF-8).",
            "Rename the file or the folder.",
        )


def refuse_endless(path: str) -> None:
    """Refuse what is not read like a file: a pipe waits for ever, a device may have no end.

    Also where GDAL's /vsigzip/ or NETCDF: leads to one.
    """
    if path.startswith("/vsistdin") or any(map(_is_endless, _named_in(path))):
        raise UserError(
            f"'{path}' is a pipe or a device, not a file.",
            "Save what comes out of it as a file, and give that.",
        )


def _named_in(path: str) -> Iterator[str]:
    """What a path or a name of GDAL's may mean on the disk, with the folders above it."""
    plain = GDAL_PREFIXES.sub("", path)
    for name in {path, plain, *re.split(r'[:"{}]', plain)}:
        yield from map(str, (PurePath(name), *PurePath(name).parents))


def _is_endless(path: str) -> bool:
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):  # not there, or no path at all
        return False
    return not (stat.S_ISREG(kind) or stat.S_ISDIR(kind))
