"""Links: what is reached through one may be anybody's, so nothing is removed or locked there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from geocfm.errors import UserError

JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", 0xA0000003)  # Windows' link to a folder


def is_link(path: Path) -> bool:
    """Whether it is a symbolic link or a junction, wherever that leads."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(found.st_mode) or getattr(found, "st_reparse_tag", 0) == JUNCTION


def refuse_link(path: Path) -> None:
    """Refuse a link where there should be a file or folder of our own."""
    if is_link(path):
        raise UserError(
            f"'{path}' is a link, where GeoCFM keeps files of its own.",
            "Remove the link, or choose another --out.",
        )
