"""A program that passes for the engine's Python and runs the fake engine instead."""

import os
import shlex
import sys
import time
from pathlib import Path

FAKE_ENGINE = Path(__file__).resolve().parent / "fake_engine"


def fake_python(folder, behaviour="succeed", python=sys.executable, **variables):
    """Write such a program into a folder; give its path, for settings.set_engine_python().

    It needs nothing of the environment it is started in, so it also serves a QGIS that is started
    as a program. `variables` are those that tests/plugin/fake_engine/geocfm/__main__.py tells of.
    """
    settings = {"PYTHONPATH": FAKE_ENGINE, "GEOCFM_FAKE": behaviour, **variables}
    lines = [f"export {name}={shlex.quote(str(value))}" for name, value in settings.items()]
    program = Path(folder) / "python"
    program.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(
        [
            "#!/bin/sh",
            f"cd {shlex.quote(str(FAKE_ENGINE))} || exit 1",  # before Python 3.11 this comes first
            *lines,
            f'exec {shlex.quote(str(python))} "$@"',
            "",
        ]
    )
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def is_gone(pid, within=2.0):
    """Whether a process has ended, or does so in a moment; its remains do not count."""
    deadline = time.monotonic() + within
    while _is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _is_running(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def noted_pids(path, count=1, within=10.0):
    """Wait until so many processes have noted their ids in the file; give them."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        found = Path(path).read_text().split() if os.path.exists(path) else []
        if len(found) >= count:
            return [int(pid) for pid in found]
        time.sleep(0.02)
    raise AssertionError(f"fewer than {count} processes were started")
