"""How a job ends when it does not finish: the user's mistake, or the user's wish."""

import errno
import re

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # no room on the disk

TOO_MANY_OPEN = {errno.EMFILE, errno.ENFILE}
HELD = ("database is locked", "being used by another process")  # as SQLite and Windows say it


LONGEST_LINE = re.compile(r"(.{2000})(.{1000,})(.{500})")  # of a sentence; paths have 4096 at most


class UserError(Exception):
    """A mistake the user can mend: one sentence what is wrong, one how to mend it.

    Both repeat what was given; of what has no end they leave out the middle.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = LONGEST_LINE.sub(r"\1…\3", message)
        self.hint = LONGEST_LINE.sub(r"\1…\3", hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class Interrupted(UserError):
    """What does not spoil the work so far: a full disk, a lost drive. The same command goes on."""


class Cancelled(Exception):
    """The user asked to stop (Ctrl-C, SIGTERM); what was good so far has been kept."""


def hindrance(path: object, error: BaseException) -> Interrupted | None:
    """The sentence for a file that is sound but cannot be had now; None if that is not why."""
    said = str(error)
    if any(words in said for words in HELD):
        return Interrupted(
            f"Another program holds '{path}'.",
            "Save and close it there (in QGIS, end the layer's editing), or make a copy and give "
            "that.",
        )
    if getattr(error, "errno", None) in TOO_MANY_OPEN or "Too many open files" in said:
        return Interrupted(
            f"'{path}' cannot be opened: too many files are open already.",
            "Allow more (ulimit -n 4096), or give fewer rasters at a time.",
        )
    return None


def disk_full(place: object) -> Interrupted:
    """The sentence for a disk without room."""
    where = f" for {place}" if place else ""
    return Interrupted(
        f"There is no room left on the disk{where}.",
        "Free some space, or write to another disk; the same command then goes on from here.",
    )
