"""The command line: thin. Options come from the job schema; work happens in run/."""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, get_args, get_origin

import typer

from geocfm import __version__
from geocfm.errors import Cancelled, UserError
from geocfm.events import (
    Failed,
    Finished,
    JsonSink,
    Reporter,
    Sink,
    Started,
    Stopped,
    TerminalSink,
)
from geocfm.job import (
    CheckJob,
    EvaluateJob,
    InfoJob,
    Job,
    MapJob,
    MemoryJob,
    SampleJob,
    TrainJob,
    make_job,
    option_name,
)
from geocfm.versions import software_versions

USER_ERROR, CANCELLED = 2, 130
COMMANDS: dict[str, type[Job]] = {
    "check": CheckJob,
    "train": TrainJob,
    "map": MapJob,
    "sample": SampleJob,
    "evaluate": EvaluateJob,
    "info": InfoJob,
}
BENCHMARKS: dict[str, type[Job]] = {"memory": MemoryJob}

app = typer.Typer(
    name="geocfm",
    help="Where mineral occurrences lie, given geo-images, learned from positives alone.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _option(kind: type[Job], name: str) -> inspect.Parameter:
    """A field of the schema as a parameter that typer understands."""
    field = kind.model_fields[name]
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    base = _option_type(field.annotation)
    said = (field.description or "").replace("[", "\\[")  # rich would take it for markup
    if extra.get("argument"):
        declared: Any = typer.Argument(help=said)
    else:
        declared = typer.Option(option_name(kind, name), help=said)
    default = inspect.Parameter.empty if field.is_required() else field.default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[base, declared]
    )


def _option_type(annotation: Any) -> Any:
    """What the shell can give: text, numbers, flags and lists of text; the schema checks it."""
    if get_origin(annotation) is list:
        return list[str]
    for plain in (bool, int, float, Path):
        if annotation is plain:
            return plain
        if set(get_args(annotation)) == {plain, type(None)}:
            return plain | None
    required = type(None) not in get_args(annotation)
    return str if required else str | None


def _command(name: str, kind: type[Job]) -> Callable[..., None]:
    def command(json: bool, **options: Any) -> None:
        raise typer.Exit(run_command(name, kind, options, JsonSink() if json else TerminalSink()))

    required_first = sorted(kind.model_fields, key=lambda f: not kind.model_fields[f].is_required())
    parameters = [_option(kind, field) for field in required_first]
    as_json = Annotated[
        bool, typer.Option("--json", help="One typed event per line on standard output.")
    ]
    parameters.append(
        inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=as_json)
    )
    command.__doc__ = kind.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


for _name, _kind in COMMANDS.items():
    app.command(_name)(_command(_name, _kind))
_benchmarks = typer.Typer(
    help="Measurements that docs/benchmarks.md reports.", no_args_is_help=True
)
for _name, _kind in BENCHMARKS.items():
    _benchmarks.command(_name)(_command(f"benchmark {_name}", _kind))
app.add_typer(_benchmarks, name="benchmark")


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"geocfm {__version__}")
        raise typer.Exit


def run_command(name: str, kind: type[Job], options: dict[str, Any], sink: Sink) -> int:
    """Build the job, run it, and turn how it ended into an exit code."""
    start = time.monotonic()
    cancelled = _stop_on_signals()
    try:
        sink.emit(Started(command=name, versions=software_versions()))
        job = make_job(kind, options)
        from geocfm.run import run_job  # torch and GDAL load only when there is work

        run_job(job, Reporter(sink, cancelled))
        sink.emit(Finished(seconds=time.monotonic() - start))
    except UserError as error:
        sink.emit(Failed(message=error.message, hint=error.hint))
        return USER_ERROR
    except (Cancelled, KeyboardInterrupt):
        sink.emit(Stopped(message="Stopped as asked; nothing half-finished was left behind."))
        return CANCELLED
    finally:
        sink.close()
    return 0


def _stop_on_signals() -> threading.Event:
    """The first Ctrl-C or SIGTERM asks the work to end; a second one ends it at once."""
    cancelled = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if cancelled.is_set():
            raise KeyboardInterrupt
        cancelled.set()

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
    return cancelled


def main() -> None:
    """The ``geocfm`` program."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # typer's own: an option that is missing, unknown or no number
        sink = JsonSink() if "--json" in sys.argv else TerminalSink()
        command = next((word for word in sys.argv[1:] if word in COMMANDS), "")
        sink.emit(Started(command=command, versions=software_versions()))
        asked = f"geocfm {command} --help".replace("  ", " ")
        hint = f"'{asked}' says what there is."
        sink.emit(Failed(message=error.format_message(), hint=hint))
        code = USER_ERROR
    sys.exit(code)


if __name__ == "__main__":
    main()
