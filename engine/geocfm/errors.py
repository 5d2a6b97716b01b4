"""How a job ends when it does not finish: the user's mistake, or the user's wish."""

import errno

FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}  # no room on the disk


class UserError(Exception):
    """A mistake the user can mend: one sentence what is wrong, one how to mend it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class Interrupted(UserError):
    """What does not spoil the work so far: a full disk, a lost drive. The same command goes on."""


class Cancelled(Exception):
    """The user asked to stop (Ctrl-C, SIGTERM); what was good so far has been kept."""


def disk_full(place: object) -> Interrupted:
    """The sentence for a disk without room."""
    where = f" for {place}" if place else ""
    return Interrupted(
        f"There is no room left on the disk{where}.",
        "Free some space, or write to another disk; the same command then goes on from here.",
    )
