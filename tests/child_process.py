"""``geocfm ... --json`` at work in a process of its own, to be watched, stopped and killed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from geocfm.events import Event
from pydantic import TypeAdapter
from small_data import child_environment, command_line, json_lines

EVENT: TypeAdapter[Any] = TypeAdapter(Event)


@contextmanager
def started(*arguments: object, stdin: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command at work, ended for sure in the end."""
    with subprocess.Popen(
        command_line(*arguments, "--json"),
        env=child_environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def read_until(child: subprocess.Popen[str], stage: str, share: float) -> list[Any]:
    """The events up to the progress of a stage beyond a share of it."""
    assert child.stdout is not None
    events = []
    for line in child.stdout:
        event = EVENT.validate_json(line)
        events.append(event)
        at_stage = event.event == "progress" and event.stage == stage
        if at_stage and event.done / event.total > share:
            return events
    raise AssertionError(f"no {stage}: {events[-3:]} {child.communicate()[1]}")


def ended(child: subprocess.Popen[str], within: float) -> tuple[list[dict[str, Any]], str]:
    """Wait for the end; give the events that followed, and what stands on standard error."""
    sent = time.monotonic()
    out, error = child.communicate(timeout=3 * within)
    assert time.monotonic() - sent < within
    return json_lines(out), error
