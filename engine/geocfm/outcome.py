"""How a job ended: as an exit code for scripts, and as the last event for people and programs."""

from __future__ import annotations

import gc
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from geocfm.doctor import unloadable
from geocfm.errors import FULL, TOO_MANY_OPEN, Cancelled, UserError, disk_full, hindrance
from geocfm.events import Failed, Finished, Reporter, Stopped
from geocfm.job import Job
from geocfm.versions import software_versions
from geocfm.visible import visible

EXIT_CODES = {"done": 0, "broken": 1, "failed": 2, "cancelled": 130}


@dataclass(frozen=True)
class Outcome:
    """done; failed by what the user can mend; broken by an error of ours; or cancelled."""

    status: Literal["done", "failed", "broken", "cancelled"]
    event: Finished | Failed | Stopped
    seconds: float

    @property
    def exit_code(self) -> int:
        """0, 2, 1 or 130."""
        return EXIT_CODES[self.status]


def attempt(job: Job, reporter: Reporter) -> Outcome:
    """Run the job; nothing it raises gets past here."""
    start = time.monotonic()
    try:
        load_engine()(job, reporter)
    except BaseException as error:
        return ended_by(error, job, time.monotonic() - start)
    seconds = time.monotonic() - start
    return Outcome("done", Finished(seconds=seconds), seconds)


def load_engine() -> Callable[[Job, Reporter], None]:
    """Import what does the work: torch and GDAL load only when there is some."""
    first = "geocfm.run" not in sys.modules  # to freeze again would keep a job's garbage for ever
    if first:
        gc.disable()  # its rounds over what torch brings take longer than half the import
    try:
        from geocfm.run import run_job
    finally:
        if first:
            gc.freeze()
            gc.enable()
    return run_job


def ended_by(error: BaseException, work: object, seconds: float = 0.0) -> Outcome:
    """What an exception means; an error of ours gets a log that tells of the work."""
    if isinstance(error, Cancelled | KeyboardInterrupt):
        said = str(error) or "Stopped as asked; the same command goes on from here."
        return Outcome("cancelled", Stopped(message=said), seconds)
    mistake = _as_user_error(error)
    if mistake is not None:
        return Outcome("failed", Failed(message=mistake.message, hint=mistake.hint), seconds)
    return Outcome("broken", _apology(error, work), seconds)


def _as_user_error(error: BaseException) -> UserError | None:
    """The sentence for what the user can mend: a full disk or memory may show anywhere."""
    if isinstance(error, UserError):
        return error
    if isinstance(error, ImportError) and not (error.name or "").startswith("geocfm"):
        return unloadable(error)
    if isinstance(error, OSError) and error.errno in FULL:
        return disk_full(error.filename)
    if isinstance(error, OSError) and error.errno in TOO_MANY_OPEN:
        return hindrance(error.filename, error)
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return UserError(
            "The memory of this machine was not enough.",
            "Close other programs, or use smaller windows (--window) or batches "
            "(--set training.batch=2).",
        )
    if type(error).__name__ == "OutOfMemoryError":  # torch's; importing it here would take seconds
        return UserError(
            "The memory of the graphics card was not enough.",
            "Close other programs that use it, use smaller batches (--set training.batch=2), "
            "or --device cpu.",
        )
    return None


def _apology(error: BaseException, work: object) -> Failed:
    """For an error of ours: one line, and a log file with all that a developer needs."""
    try:
        handle, path = _new_log(getattr(work, "out", None))
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as log:
            log.write(
                visible(
                    f"{datetime.now().astimezone().isoformat(timespec='seconds')}\n"
                    f"{platform.platform()}\n{software_versions()}\n"
                    f"{sys.argv}\n{work!r}\n\n{''.join(traceback.format_exception(error))}"
                )
            )
    except OSError:
        path = ""
    return Failed(
        message="Sorry, GeoCFM made a mistake and had to stop: "
        f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",
        hint=f"Please report it with this log: {path}" if path else "",
        log=path,
    )


def _new_log(out: Path | None) -> tuple[int, str]:
    """A file beside the result, where a server's user finds it, or else a temporary one."""
    if out is not None:
        with suppress(OSError):
            return tempfile.mkstemp(".log", "geocfm-error-", os.path.abspath(out.parent))
    return tempfile.mkstemp(".log", "geocfm-error-")
