"""Locks that one process holds: each a file in a folder beside what is claimed.

The folder is there only as long as something in it is held, or was when its process was killed.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from geocfm.errors import UserError
from geocfm.geo.links import refuse_link
from geocfm.geo.writing import cannot_write
from geocfm.job_file import place
from geocfm.results import LONGEST_NAME

LOCKS = ".geocfm.locks"
LOCK_SECONDS = 1.0  # a process that just ends may hold the lock a moment longer
ATTEMPTS = 20  # a process that just ends may remove the folder while we lock


@contextmanager
def claim(wanted: Mapping[Path, Path]) -> Iterator[None]:
    """Hold the locks of files or folders, each with the name that people know it by.

    All processes take them in the same order, and none waits long for another.
    """
    known = {place(path): name for path, name in wanted.items()}
    with ExitStack() as held:
        for path in sorted(known):
            held.enter_context(_held(Path(path), known[path]))
        yield


@contextmanager
def _held(path: Path, what: Path) -> Iterator[None]:
    folder = lock_folder(path)
    missing = [parent for parent in reversed(folder.parents) if not parent.exists()]
    name = path.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    file, owner = folder / f"{name}.lock", folder / f"{name}.json"
    try:
        lock = _acquire(file, owner, what)
        try:
            yield
        finally:
            _release(lock, file, owner)
    finally:
        for made in (folder, *reversed(missing)):
            with suppress(OSError):  # what is not empty stays
                made.rmdir()


def lock_folder(path: Path) -> Path:
    """Where the lock of a file lies."""
    return path.parent / LOCKS


def _acquire(file: Path, owner: Path, what: Path) -> FileLock:
    for path in (file.parent, file, owner):
        refuse_link(path)
    lock = FileLock(file, timeout=LOCK_SECONDS)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
            break
        except Timeout:
            raise UserError(
                f"Another GeoCFM is at work on {what}{_said_of(owner)}.",
                "Wait until it has finished, stop it, or choose another name.",
            ) from None
        except FileNotFoundError as error:
            if attempt == ATTEMPTS:
                raise cannot_write(file.parent.parent, error) from error
        except OSError as error:
            raise cannot_write(file.parent.parent, error) from error
    said = {
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
    }
    with suppress(OSError):  # on a full disk the work itself will say so
        owner.write_text(json.dumps(said), encoding="utf-8")
    return lock


def _release(lock: FileLock, file: Path, owner: Path) -> None:
    for path in (owner, file):  # while it is locked: nobody shall lock a file without a name
        with suppress(OSError):
            path.unlink()
    lock.release()
    if os.name == "nt":  # where an open file cannot be removed
        with suppress(OSError):
            file.unlink()


def _said_of(owner: Path) -> str:
    try:
        said = json.loads(owner.read_text(encoding="utf-8"))
        return f" (process {said['process']} on {said['machine']}, since {said['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
