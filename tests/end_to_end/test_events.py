from __future__ import annotations

import io
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from geocfm.errors import Cancelled
from geocfm.events import (
    Event,
    Failed,
    Finished,
    JobEnded,
    JobStarted,
    JsonSink,
    Noted,
    Progressed,
    Reported,
    Reporter,
    Started,
    Stopped,
    TerminalSink,
    Warned,
    Wrote,
    events_schema,
)
from pydantic import TypeAdapter, ValidationError
from rich.console import Console

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "events.schema.json"
EVENT: TypeAdapter[Any] = TypeAdapter(Event)

AWKWARD = [
    "/data/[bold]mag[/bold].tif",
    "/data/[/].tif",
    "/data/[/nope]/x.tif",
    "/data/[gold].tif",
    r"C:\data\[/old]\mag.tif",
    "C:\\data\\",
    "/data/mag[1:3].tif",
    "/data/:smile:.tif",
]


def test_the_schema_in_the_docs_is_current() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == json.dumps(events_schema(), indent=2) + "\n", (
        "docs/events.schema.json is out of date: write json.dumps(events_schema(), indent=2) to it"
    )


def test_the_schema_names_every_event_by_its_word() -> None:
    words = set(events_schema()["discriminator"]["mapping"])
    assert words == {
        "started",
        "progress",
        "note",
        "warning",
        "report",
        "artifact",
        "job_started",
        "job_ended",
        "finished",
        "failed",
        "cancelled",
    }


@pytest.mark.parametrize(
    "event",
    [
        Started(command="map", versions={"geocfm": "0"}),
        Progressed(stage="Mapping", done=1, total=4, seconds_left=2.5, values={"loss": 0.1}),
        Noted(text="café\nnext line"),
        Warned(text="Look."),
        Reported(kind="check", content={"a": [1, None, {"b": 2.5}]}),
        Wrote(kind="map", path="/x.tif", description="the map"),
        JobStarted(number=1, total=2, name="north", command="train"),
        JobEnded(
            number=2,
            name="süd",
            command="map",
            status="failed",
            seconds=1.5,
            message="No.",
            hint="Yes.",
            artifacts=["/x.tif"],
        ),
        Finished(seconds=1.5),
        Failed(message="No.", hint="Yes."),
        Stopped(message="Stopped."),
    ],
)
def test_an_event_is_one_line_and_comes_back_whole(event: Any) -> None:
    stream = io.StringIO()
    JsonSink(stream).emit(event)
    assert stream.getvalue().count("\n") == 1
    assert EVENT.validate_json(stream.getvalue()) == event


def test_unknown_words_and_fields_are_refused() -> None:
    for line in ('{"event": "sang"}', '{"event": "note", "text": "a", "more": 1}'):
        with pytest.raises(ValidationError):
            EVENT.validate_json(line)


def test_every_line_of_a_real_run_validates(trained: Any) -> None:
    events = [EVENT.validate_json(line) for line in trained.stdout.splitlines()]
    assert isinstance(events[0], Started)
    assert events[0].command == "train"
    assert isinstance(events[-1], Finished)
    ends = [event for event in events if isinstance(event, Finished | Failed | Stopped)]
    assert len(ends) == 1
    stages = {event.stage for event in events if isinstance(event, Progressed)}
    assert stages >= {"Reading layers", "Training"}
    for stage in stages:
        told = [e for e in events if isinstance(e, Progressed) and e.stage == stage]
        assert told[-1].done == told[-1].total
        assert [e.done for e in told] == sorted(e.done for e in told)
    for event in events:
        if isinstance(event, Wrote):
            assert Path(event.path).is_file()


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("text", AWKWARD)
def test_brackets_in_names_are_shown_as_they_are(text: str, terminal: bool) -> None:
    shown = io.StringIO()
    console = Console(
        file=shown,
        force_terminal=terminal,
        color_system=None,
        width=200,
        highlight=False,
        soft_wrap=True,
        legacy_windows=False,
    )
    sink = TerminalSink(console)
    for event in (
        Noted(text=text),
        Warned(text=text),
        Wrote(kind="map", path=text, description=text),
        Failed(message=text, hint=text),
        Stopped(message=text),
        JobStarted(number=1, total=1, name=text, command="map"),
        _ended(text, message=text),
        Reported(kind="batch", content={"jobs": [_ended("a", message=text).model_dump()]}),
        Reported(kind="batch", content={"jobs": [_ended("a", artifacts=[text]).model_dump()]}),
    ):
        shown.seek(0)
        shown.truncate()
        sink.emit(event)
        times = 2 if isinstance(event, Wrote | Failed | JobEnded) else 1
        assert shown.getvalue().count(text) == times, event
    sink.close()


def _ended(name: str, **more: Any) -> JobEnded:
    return JobEnded(number=1, name=name, command="map", status="skipped", seconds=0, **more)


def test_a_stage_of_the_same_name_begins_anew_in_the_next_job() -> None:
    shown = io.StringIO()
    sink = TerminalSink(Console(file=shown, force_terminal=True, color_system=None, width=200))
    sink.emit(Progressed(stage="Training", done=100, total=100))
    sink.emit(_ended("first"))
    shown.seek(0)
    shown.truncate()
    sink.emit(Progressed(stage="Training", done=25, total=100))
    sink.close()
    assert "25 %" in shown.getvalue()
    assert "100 %" not in shown.getvalue()


def test_progress_on_a_terminal_shows_stage_values_and_time_left() -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, color_system=None, width=200)
    sink = TerminalSink(console)
    sink.emit(Progressed(stage="Training", done=0, total=100))
    sink.emit(
        Progressed(
            stage="Training", done=50, total=100, seconds_left=95.2, values={"loss": 1.23456}
        )
    )
    sink.close()
    for text in ("Training", "50 %", "loss 1.235", "1:35 left"):
        assert text in shown.getvalue()


def test_progress_without_a_terminal_is_plain_lines_now_and_then() -> None:
    shown = io.StringIO()
    sink = TerminalSink(Console(file=shown, width=200))
    for done in range(101):
        sink.emit(Progressed(stage="Mapping", done=done, total=100))
    sink.close()
    lines = shown.getvalue().splitlines()
    assert len(lines) <= 3
    assert lines[-1].startswith("Mapping: 100 %")


def test_stages_are_throttled_but_never_lose_the_end() -> None:
    stream = io.StringIO()
    stage = Reporter(JsonSink(stream)).stage("Reading")
    for done in range(1001):
        stage(done, 1000)
    events = [EVENT.validate_json(line) for line in stream.getvalue().splitlines()]
    assert len(events) < 100
    assert events[-1].done == 1000


def test_a_stage_is_a_place_to_be_cancelled() -> None:
    cancelled = threading.Event()
    stage = Reporter(JsonSink(io.StringIO()), cancelled).stage("Reading")
    stage(1, 10)
    cancelled.set()
    with pytest.raises(Cancelled):
        stage(2, 10)


HOSTILE = "mag\x1b[2J\x07\x08\r\x9b31m\x85\x7f\u202efit.tif\u2066[red]"
SHOWN = "mag\\u001b[2J\\u0007\\u0008\\u000d\\u009b31m\\u0085\\u007f\\u202efit.tif\\u2066[red]"
JOB = {"number": 1, "name": HOSTILE, "command": "map", "status": "failed", "seconds": 1.0}
CELL = {"ours": HOSTILE, "paper": HOSTILE, "best": False}
TABLE = {
    "title": HOSTILE,
    "headings": [HOSTILE, HOSTILE],
    "groups": [{"name": HOSTILE, "rows": [{"name": HOSTILE, "cells": [CELL]}]}],
    "notes": [HOSTILE],
}
NAMING = [
    Noted(text=HOSTILE),
    Warned(text=HOSTILE),
    Wrote(kind="prospectivity", path=HOSTILE, description=HOSTILE),
    Progressed(stage=HOSTILE, done=1, total=1, values={HOSTILE: 1.0}),
    JobStarted(number=1, total=1, name=HOSTILE, command="map"),
    JobEnded(**JOB, message=HOSTILE, hint=HOSTILE),
    Reported(kind="batch", content={"jobs": [{**JOB, "message": HOSTILE, "artifacts": []}]}),
    Reported(kind="table", content=TABLE),
    Failed(message=HOSTILE, hint=HOSTILE),
    Stopped(message=HOSTILE),
]


@pytest.mark.parametrize("is_terminal", [False, True])
@pytest.mark.parametrize("event", NAMING, ids=lambda event: event.event)
def test_names_do_not_command_the_terminal(event: Any, is_terminal: bool) -> None:
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=is_terminal, color_system=None, width=300)
    sink = TerminalSink(console)
    sink.emit(event)
    sink.close()
    said = shown.getvalue()
    wanted = SHOWN[:20] if event.event == "report" else SHOWN  # columns fold them
    assert wanted in said
    assert not set(HOSTILE) & set("\x07\x08\x9b\x85\x7f\u202e\u2066") & set(said)
    assert "\x1b[2J" not in said


@pytest.mark.parametrize("event", NAMING, ids=lambda event: event.event)
def test_json_lines_hold_names_without_their_commands(event: Any) -> None:
    stream = io.StringIO()
    JsonSink(stream).emit(event)
    line = stream.getvalue()
    assert line.rstrip("\n").isprintable()
    assert EVENT.validate_json(line) == event
