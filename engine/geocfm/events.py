"""What a job says while it runs: typed events, and the two sinks that show them.

With ``--json`` every event is one line on standard output; the schema is docs/events.schema.json.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TextIO

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    TypeAdapter,
    field_validator,
)
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from geocfm.errors import Cancelled
from geocfm.file_names import escaped
from geocfm.terminal_table import ResultsTable
from geocfm.visible import all_visible, visible

PROTOCOL = 1
PROGRESS_EVERY = 0.2  # seconds between progress events
PLAIN_EVERY = 10.0  # seconds between lines where there is no terminal to draw a bar on


def _as_text(value: Any) -> Any:
    """Names of files may hold bytes that are no text, which JSON cannot: they are shown escaped."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, dict):
        return {_as_text(key): _as_text(inner) for key, inner in value.items()}
    return [_as_text(inner) for inner in value] if isinstance(value, list) else value


_JSON: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, JsonValue])  # and no types of numpy's


def _as_json(content: dict[str, Any]) -> dict[str, Any]:
    return _JSON.validate_python(_with_lists(content))


def _with_lists(value: Any) -> Any:
    """A value with lists for its tuples, as JSON has no others."""
    if isinstance(value, dict):
        return {key: _with_lists(inner) for key, inner in value.items()}
    return [_with_lists(inner) for inner in value] if isinstance(value, list | tuple) else value


class _Event(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    _text = field_validator("*")(_as_text)


class Started(_Event):
    """First of all: who speaks."""

    event: Literal["started"] = "started"
    protocol: int = PROTOCOL
    command: str
    versions: dict[str, str]


class Progressed(_Event):
    """How far a stage is; ``values`` holds what matters meanwhile, such as the loss."""

    event: Literal["progress"] = "progress"
    stage: str
    done: float
    total: float
    seconds_left: float | None = None
    values: dict[str, float] = {}


class Noted(_Event):
    """A plain sentence worth reading."""

    event: Literal["note"] = "note"
    text: str


class Warned(_Event):
    """A sentence about something the user may want to change."""

    event: Literal["warning"] = "warning"
    text: str


class Reported(_Event):
    """A result as data: the pre-flight report, the model card, the evaluation."""

    event: Literal["report"] = "report"
    kind: str
    content: Annotated[dict[str, Any], AfterValidator(_as_json)]


class Wrote(_Event):
    """A file that is complete and in place."""

    event: Literal["artifact"] = "artifact"
    kind: str
    path: str
    description: str


class JobStarted(_Event):
    """A job of a batch begins."""

    event: Literal["job_started"] = "job_started"
    number: int
    total: int
    name: str
    command: str


class JobEnded(_Event):
    """How a job of a batch ended; broken is an error of ours, skipped was never begun."""

    event: Literal["job_ended"] = "job_ended"
    number: int
    name: str
    command: str
    status: Literal["done", "failed", "broken", "cancelled", "skipped"]
    seconds: float
    message: str = ""
    hint: str = ""
    log: str = ""
    artifacts: list[str] = []


class Finished(_Event):
    """Last of all: it went well."""

    event: Literal["finished"] = "finished"
    seconds: float


class Failed(_Event):
    """Last of all: what is wrong, and how to mend it."""

    event: Literal["failed"] = "failed"
    message: str
    hint: str = ""
    log: str = Field("", description="for an error of ours: the file with all its details")


class Stopped(_Event):
    """Last of all: the user asked to stop."""

    event: Literal["cancelled"] = "cancelled"
    message: str


Event = Annotated[
    Started
    | Progressed
    | Noted
    | Warned
    | Reported
    | Wrote
    | JobStarted
    | JobEnded
    | Finished
    | Failed
    | Stopped,
    Field(discriminator="event"),
]


def events_schema() -> dict[str, Any]:
    """The JSON Schema of one line of ``--json`` output."""
    schema: dict[str, Any] = TypeAdapter(Event).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "GeoCFM event",
        **schema,
    }


class Sink(Protocol):
    """Where events go."""

    def emit(self, event: _Event) -> None:
        """Show the event."""

    def close(self) -> None:
        """Nothing more will come."""


class JsonSink:
    """One JSON object per line."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout

    def emit(self, event: _Event) -> None:
        """Print the event and flush, so that a reader sees it at once."""
        # within texts, where alone they may stand, JSON means the characters themselves by this
        print(visible(event.model_dump_json()), file=self._stream, flush=True)

    def close(self) -> None:
        """Nothing to do: every line went out at once."""


class LastingSink:
    """Goes quiet when nothing more can be written, as to a log on a full disk: the work goes on.

    That nobody reads any more is a wish to stop, as Ctrl-C is; what is done by then stays done.
    """

    def __init__(self, sink: Sink, nobody_reads: threading.Event) -> None:
        self._sink = sink
        self._nobody_reads = nobody_reads
        self._quiet = False

    def emit(self, event: _Event) -> None:
        """Show the event while that is possible."""
        self._attempt(lambda: self._sink.emit(event))

    def close(self) -> None:
        """Nothing more will come."""
        self._attempt(self._sink.close)

    def _attempt(self, show: Callable[[], None]) -> None:
        if self._quiet:
            return
        try:
            show()
        except OSError as error:
            self._quiet = True
            if isinstance(error, BrokenPipeError):
                self._nobody_reads.set()


class _HonestConsole(Console):
    """Says that nobody reads any more, where rich would end the program."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled."""
        raise


class TerminalSink:
    """Sentences and progress bars for people; plain lines where there is no terminal."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _HonestConsole(highlight=False, soft_wrap=True)
        self._new_bars()
        self._last_line = time.monotonic()

    def emit(self, event: _Event) -> None:
        """Show what a person wants to see of the event; no name in it moves the cursor."""
        event = type(event).model_construct(**all_visible(event.model_dump()))
        if isinstance(event, Progressed):
            self._progress(event)
            return
        if isinstance(event, Noted):
            self._say(event.text)
        elif isinstance(event, Warned):
            self._say(("Note:", "yellow"), f" {event.text}")
        elif isinstance(event, Wrote):
            self._say(("Wrote", "green"), f" {event.path}: {event.description}")
        elif isinstance(event, JobStarted):
            self._say((f"\nJob {event.number} of {event.total}: {event.name}", "bold"))
        elif isinstance(event, JobEnded):
            self._end_bars()
            self._new_bars()  # the next job has stages of the same names
            if event.message:
                who = f"\n{event.name}: " if event.status == "skipped" else ""
                self._say(who, (event.message, "red"))
            if event.hint:
                self._say(event.hint)
        elif isinstance(event, Reported):
            if event.kind == "batch":
                self._console.print(_job_table(event.content["jobs"]), soft_wrap=False)
            elif event.kind == "table":
                self._console.print(ResultsTable(event.content), soft_wrap=False)
        elif isinstance(event, Failed):
            self._end_bars()
            self._say((event.message, "red"))
            if event.hint:
                self._say(event.hint)
        elif isinstance(event, Stopped):
            self._end_bars()
            self._say((event.message, "yellow"))

    def _say(self, *parts: str | tuple[str, str]) -> None:
        """Text with its style; names of files may hold what rich would take for markup."""
        self._console.print(Text.assemble(*parts))

    def close(self) -> None:
        """Leave the terminal as it was found."""
        self._end_bars()

    def _progress(self, event: Progressed) -> None:
        detail = "  ".join(f"{name} {value:.4g}" for name, value in event.values.items())
        left = "" if event.seconds_left is None else f"{_duration(event.seconds_left)} left"
        if not self._console.is_terminal:
            now = time.monotonic()
            if now - self._last_line >= PLAIN_EVERY or event.done >= event.total:
                self._last_line = now
                share = 100 * event.done / max(event.total, 1e-9)
                self._console.print(f"{event.stage}: {share:.0f} %  {detail}  {left}", markup=False)
            return
        if event.stage not in self._tasks:
            self._bars.start()
            self._tasks[event.stage] = self._bars.add_task(
                event.stage, total=event.total, detail=detail, left=left
            )
        self._bars.update(
            self._tasks[event.stage],
            completed=event.done,
            total=event.total,
            detail=detail,
            left=left,
        )

    def _new_bars(self) -> None:
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]}"),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}

    def _end_bars(self) -> None:
        if self._bars.live.is_started:
            self._bars.stop()


def _job_table(jobs: list[dict[str, Any]]) -> Table:
    """Each job in a row: its outcome, its time, and its first result or what stood in the way."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("name", max_width=20, overflow="fold")
    table.add_column("command", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("time", justify="right", no_wrap=True)
    table.add_column("result", overflow="fold")
    for job in jobs:
        style = "green" if job["status"] in ("done", "ready") else "red"
        said = job["message"] or _seen_from_here(next(iter(job["artifacts"]), ""))
        texts = (Text(job["name"]), job["command"], Text(job["status"], style))
        spent = _duration(job["seconds"]) if job["seconds"] else ""
        table.add_row(*texts, spent, Text(said))
    return table


def _seen_from_here(path: str) -> str:
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if here in Path(path).parents else path


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"


class Reporter:
    """What work says to the outside, and how the outside stops it."""

    def __init__(self, sink: Sink, cancelled: threading.Event | None = None) -> None:
        self.sink = sink
        self._cancelled = cancelled or threading.Event()
        self.artifacts: list[str] = []

    def note(self, text: str) -> None:
        """A sentence worth reading."""
        self.sink.emit(Noted(text=text))

    def warn(self, text: str) -> None:
        """A sentence about something the user may want to change."""
        self.sink.emit(Warned(text=text))

    def report(self, kind: str, content: dict[str, Any]) -> None:
        """A result as data."""
        self.sink.emit(Reported(kind=kind, content=content))

    def wrote(self, kind: str, path: object, description: str) -> None:
        """A file that is complete."""
        self.artifacts.append(str(path))
        self.sink.emit(Wrote(kind=kind, path=str(path), description=description))

    def stage(self, name: str) -> Stage:
        """A piece of work with a beginning and an end."""
        return Stage(self, name)

    def check_cancelled(self) -> None:
        """Raise Cancelled if the user asked to stop."""
        if self._cancelled.is_set():
            raise Cancelled


class Stage:
    """Progress of one piece of work: throttled, with time left, and a place to be cancelled.

    A value that is no number, as the loss of a training gone wrong, is left out: JSON has no NaN.
    """

    def __init__(self, reporter: Reporter, name: str) -> None:
        self._reporter = reporter
        self._name = name
        self._start = time.monotonic()
        self._last = float("-inf")
        self._begun_at: float | None = None  # what an interrupted run had done already

    def __call__(self, done: float, total: float, **values: float) -> None:
        """Say how far it is, now and then; raise Cancelled when asked to stop."""
        self._reporter.check_cancelled()
        now = time.monotonic()
        if self._begun_at is None:
            self._begun_at = done
        if now - self._last < PROGRESS_EVERY and done < total:
            return
        self._last = now
        elapsed = now - self._start
        gained = done - self._begun_at
        left = elapsed * (total - done) / gained if gained > 0 and elapsed > 1 else None
        numbers = {name: value for name, value in values.items() if math.isfinite(value)}
        self._reporter.sink.emit(
            Progressed(stage=self._name, done=done, total=total, seconds_left=left, values=numbers)
        )
