"""One window at a time works on an environment."""

import contextlib
from pathlib import Path

from qgis.PyQt.QtCore import QLockFile

from ..translation import tr
from .problem import EnvironmentProblem


@contextlib.contextmanager
def locked(folder):
    """Hold the lock beside a folder; refuse if another window holds it, and say which."""
    path = Path(f"{folder}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path.parent, error) from error
    lock = QLockFile(str(path))
    lock.setStaleLockTime(0)  # an installation may take hours; a dead holder's lock is taken over
    if not lock.tryLock(0):
        if lock.error() == QLockFile.LockError.PermissionError:
            raise _unwritable(path.parent)
        known, process, host, program = lock.getLockInfo()
        holder = tr("process {number}, {program}, on {host}") if known else tr("of unknown number")
        raise EnvironmentProblem(
            tr("Another window is working on this environment ({holder}).").format(
                holder=holder.format(number=process, program=program, host=host)
            ),
            tr("Wait until it is done, or cancel it there."),
        )
    try:
        yield
    finally:
        lock.unlock()


def _unwritable(folder, error=""):
    return EnvironmentProblem(
        tr("The folder {folder} cannot be written.").format(folder=folder),
        tr("Choose a folder in which you may make files."),
        str(error),
    )
