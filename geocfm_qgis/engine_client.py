"""Talking with the engine: a child process that answers in events, and ends with an outcome."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from . import engine_troubles as troubles
from .bundle import engine_folder
from .child_environment import engine_environment, popen_options
from .engine_conversation import BROKEN, CANCELLED, DONE, FAILED, Conversation, Outcome
from .engine_events import (
    PROTOCOL,
    Artifact,
    Cancelled,
    Failed,
    Finished,
    JobEnded,
    JobStarted,
    Note,
    Progress,
    Report,
    Started,
    Warning,
    as_text,
    parse_event,
)
from .engine_process import GRACE_SECONDS, EngineProcess

__all__ = [
    "BROKEN",
    "CANCELLED",
    "DONE",
    "FAILED",
    "PROTOCOL",
    "Artifact",
    "Cancelled",
    "Device",
    "EngineUnusable",
    "Failed",
    "Finished",
    "Handshake",
    "JobEnded",
    "JobStarted",
    "Note",
    "Outcome",
    "Progress",
    "Report",
    "Started",
    "Warning",
    "as_text",
    "handshake",
    "parse_event",
    "run_engine",
]

OLDEST_PYTHON = (3, 10)
HANDSHAKE_SECONDS = 180.0  # a first import of PyTorch under a virus scanner takes minutes
VERSION_SECONDS = 30.0


def run_engine(python, arguments, on_event=None, is_cancelled=None, grace=None):
    """Run `geocfm` with these arguments to its end; wait for it, in whichever thread this is.

    `on_event(event)` is called for each event, in this thread. Once `is_cancelled()` is true the
    engine is asked to stop, and has `grace()` seconds to save its work.
    """
    python = str(python or "")
    conversation = Conversation(python, on_event or (lambda event: None))
    trouble = _trouble_with_file(python)
    if trouble is not None:
        return conversation.outcome(FAILED, trouble)
    if not (engine_folder() / "geocfm").is_dir():
        return conversation.outcome(FAILED, troubles.engine_files_missing())
    command = [python, "-m", "geocfm", *map(str, arguments), "--json"]
    conversation.write(" ".join(command))
    try:
        child = EngineProcess(
            command,
            cwd=str(engine_folder()),  # holds nothing that a Python could take for a package
            env=engine_environment(python=python),
        )
    except (OSError, ValueError) as error:  # ValueError: a path that no system has
        conversation.write(str(error))
        return conversation.outcome(FAILED, troubles.cannot_start(python, error))
    asked = is_cancelled or (lambda: False)
    with child:
        for line in child.lines(asked, grace or (lambda: GRACE_SECONDS)):
            conversation.hear(line)
            if conversation.misfit:
                break
    return conversation.end(child, asked())


@dataclass(frozen=True)
class Device:
    """What the engine can compute on."""

    name: str  # as jobs name it: cpu, cuda, cuda:1, mps
    description: str = ""
    memory_bytes: int = 0


@dataclass(frozen=True)
class Handshake:
    """What an engine that can be used tells of itself."""

    versions: dict
    devices: tuple
    python: str = ""
    executable: str = ""


class EngineUnusable(Exception):
    """A Python that cannot run the engine: why, and what to do; `details` are for a log."""

    def __init__(self, message, hint="", details=""):
        super().__init__(f"{message} {hint}".strip())
        self.message = message
        self.hint = hint
        self.details = details


def handshake(python, is_cancelled=None, timeout=HANDSHAKE_SECONDS):
    """Ask a Python's engine who it is; wait for the answer. Raises EngineUnusable."""
    _ensure_python(str(python or ""))
    deadline = time.monotonic() + timeout
    asked = is_cancelled or (lambda: False)

    def is_enough():
        return asked() or time.monotonic() > deadline

    outcome = run_engine(python, ["doctor"], is_cancelled=is_enough, grace=lambda: 0.0)
    told = (outcome.reports("engine") or [{}])[-1]
    missing = [str(name) for name in told.get("missing") or ()]
    if outcome.status == DONE and not missing:
        return _as_handshake(told, outcome)
    trouble = troubles.recognised(f"{outcome.message}\n{outcome.hint}")
    if trouble is None and outcome.status == CANCELLED and not asked():
        trouble = troubles.no_answer(timeout)
    elif trouble is None:
        trouble = outcome if outcome.message else troubles.packages_missing(missing)
    raise EngineUnusable(trouble.message, trouble.hint, outcome.transcript)


def _as_handshake(told, outcome):
    started = next((event for event in outcome.events if isinstance(event, Started)), Started())
    devices = tuple(
        Device(
            str(each.get("name", "")),
            str(each.get("description", "")),
            int(each.get("memory_bytes") or 0),
        )
        for each in told.get("devices") or ()
    )
    versions = told.get("versions") or started.versions
    return Handshake(
        versions, devices, str(told.get("python", "")), str(told.get("executable", ""))
    )


def _ensure_python(python):
    """Refuse what is no Python, or too old, before the engine is tried on it."""
    trouble, details = _trouble_with_python(python)
    if trouble is not None:
        raise EngineUnusable(trouble.message, trouble.hint, details)


def _trouble_with_file(python):
    """Refuse what need not be started to be refused; QGIS itself must not be."""
    if not python:
        return troubles.no_engine()
    if not Path(python).is_file():
        return troubles.cannot_start(python)
    if Path(python).name.lower().startswith("qgis"):
        return troubles.is_qgis(python)
    return None


def _trouble_with_python(python):
    trouble = _trouble_with_file(python)
    if trouble is not None:
        return trouble, ""
    code = "import sys; sys.stdout.write('Python %d.%d.%d' % sys.version_info[:3])"
    try:
        answer = subprocess.run(
            [python, "-S", "-c", code],
            cwd=str(engine_folder()),
            env=engine_environment(python=python),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_SECONDS,
            check=False,
            **popen_options(),
        )
    except subprocess.TimeoutExpired:
        return troubles.no_answer(VERSION_SECONDS), ""
    except (OSError, ValueError) as error:
        return troubles.cannot_start(python, error), str(error)
    said = (answer.stdout + answer.stderr).decode("utf-8", "replace").strip()
    word, _, version = answer.stdout.decode("utf-8", "replace").strip().partition(" ")
    numbers = version.split(".")
    if word != "Python" or not all(number.isdigit() for number in numbers):
        if "Microsoft Store" in said:
            return troubles.store_stub(python), said
        return troubles.recognised(said) or troubles.no_python(python, said[:200]), said
    if tuple(map(int, numbers)) < OLDEST_PYTHON:
        return troubles.too_old(version, ".".join(map(str, OLDEST_PYTHON))), said
    return None, said
