"""The engine as a child process, and the end of all engines when QGIS quits."""

from __future__ import annotations

import subprocess
import time
import weakref

from .child_process import POLL_SECONDS, TERMINATE_SECONDS, ChildProcess

GRACE_SECONDS = 20.0  # for the engine to save its work once it is asked to stop
HURRIED_GRACE_SECONDS = 4.0  # the same when QGIS is about to quit

_alive = weakref.WeakSet()


class EngineProcess(ChildProcess):
    """A running engine: its standard input is open for as long as it shall work."""

    def __init__(self, command, **options):
        super().__init__(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        _alive.add(self)

    def __exit__(self, *_):
        _alive.discard(self)
        super().__exit__()


def end_all_engines():
    """End every engine, whoever started it, as QGIS is about to quit; let them save their work."""
    engines = list(_alive)
    for engine in engines:
        engine.ask_to_stop(HURRIED_GRACE_SECONDS)
    # whoever reads an engine's lines also presses it; it may be hindered, though
    deadline = time.monotonic() + HURRIED_GRACE_SECONDS + TERMINATE_SECONDS
    while any(engine.exit_code is None for engine in engines) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS / 2)
    for engine in engines:
        engine.end()
