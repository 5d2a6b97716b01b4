"""A lock that one process holds: a file in a folder that is there as long as it is held."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from geocfm.errors import UserError
from geocfm.geo.writing import cannot_write

LOCK, OWNER = "lock", "owner.json"
LOCK_SECONDS = 1.0  # a process that just ends may hold the lock a moment longer
ATTEMPTS = 20  # a process that just ends may remove the folder while we lock


@contextmanager
def claim(folder: Path, what: Path) -> Iterator[None]:
    """Hold the lock in a folder, which is made, and removed in the end if nothing else is in it."""
    missing = [parent for parent in reversed(folder.parents) if not parent.exists()]
    try:
        lock = _acquire(folder, what)
        try:
            yield
        finally:
            _release(lock, folder)
    finally:
        for path in (folder, *reversed(missing)):
            with suppress(OSError):  # what is not empty stays
                path.rmdir()


def _acquire(folder: Path, what: Path) -> FileLock:
    lock = FileLock(folder / LOCK, timeout=LOCK_SECONDS)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            break
        except Timeout:
            raise UserError(
                f"Another GeoCFM is at work on {what}{_owner(folder)}.",
                "Wait until it has finished, stop it, or choose another name.",
            ) from None
        except FileNotFoundError as error:
            if attempt == ATTEMPTS:
                raise cannot_write(folder.parent, error) from error
        except OSError as error:
            raise cannot_write(folder.parent, error) from error
    owner = {
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    with suppress(OSError):  # on a full disk the work itself will say so
        (folder / OWNER).write_text(json.dumps(owner), encoding="utf-8")
    return lock


def _release(lock: FileLock, folder: Path) -> None:
    for name in (OWNER, LOCK):  # while it is locked: nobody shall lock a file without a name
        with suppress(OSError):
            (folder / name).unlink()
    lock.release()
    if os.name == "nt":  # where an open file cannot be removed
        with suppress(OSError):
            (folder / LOCK).unlink()


def _owner(folder: Path) -> str:
    try:
        owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        return f" (process {owner['process']} on {owner['machine']}, since {owner['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
