"""The command line: thin. Options come from the job schema; work happens in run/."""

from __future__ import annotations

import inspect
import os
import sys
import time
import warnings
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from geocfm import __version__
from geocfm.batch import check_batch, run_batch
from geocfm.benchmark_job import BENCHMARKS
from geocfm.doctor import examine
from geocfm.events import Failed, Finished, JsonSink, LastingSink, Reporter, Started, TerminalSink
from geocfm.job import (
    COMMANDS,
    ApplyingJob,
    Job,
    LearningJob,
    TargetsJob,
    make_job,
    option_name,
)
from geocfm.job_file import FILE_COMMANDS, load_jobs
from geocfm.job_writing import add_job, job_as_toml
from geocfm.network import guard
from geocfm.outcome import Outcome, attempt, ended_by
from geocfm.stopping import stop_requests
from geocfm.versions import software_versions
from geocfm.visible import visible

GROUPS = ("job", "benchmark")

AsJson = Annotated[
    bool, typer.Option("--json", help="One typed event per line on standard output.")
]
To = Annotated[
    Path | None, typer.Option("--to", help="Add it to this job file, .toml or .json; may be new.")
]
Name = Annotated[str | None, typer.Option("--name", help="A name for it in messages and tables.")]
# never a key of a job: files of others must not allow it to themselves
AllowNetwork = Annotated[
    bool,
    typer.Option("--allow-network", help="Files may name others on the network: /vsicurl/, WCS."),
]
READING = (LearningJob, ApplyingJob, TargetsJob)  # jobs that open files of GDAL's formats

app = typer.Typer(
    name="geocfm",
    help="Where mineral occurrences lie, given geo-images, learned from where some are known.",
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
        number = _number_type(field.annotation)
        shown = {int: "INTEGER", float: "NUMBER"}.get(number)
        declared = typer.Option(option_name(kind, name), help=said, metavar=shown)
    default = inspect.Parameter.empty if field.is_required() else field.default
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[base, declared]
    )


def _option_type(annotation: Any) -> Any:
    """What the shell can give: flags, paths, lists and text; the schema checks it."""
    if get_origin(annotation) is list:
        return list[str]
    for plain in (bool, Path):
        if annotation is plain:
            return plain
        if set(get_args(annotation)) == {plain, type(None)}:
            return plain | None
    return str | None


def _number_type(annotation: Any) -> Any:
    """int or float for a field that holds such a number."""
    return next((kind for kind in (int, float) if annotation in (kind, kind | None)), None)


def _as_number(kind: type[Job], name: str, value: Any) -> Any:
    """A number for the schema to check; text that is none is left for it to refuse."""
    number = _number_type(kind.model_fields[name].annotation)
    try:
        return number(value) if number and value is not None else value
    except ValueError:
        return value


def _command(kind: type[Job], work: Callable[..., int], **more: Any) -> Callable[..., None]:
    """A command with an option for every field of the job, and some more of its own."""

    def command(**options: Any) -> None:
        own = {name: options.pop(name) for name in more}
        values = {name: _as_number(kind, name, value) for name, value in options.items()}
        raise typer.Exit(work(values, **own))

    required_first = sorted(kind.model_fields, key=lambda f: not kind.model_fields[f].is_required())
    parameters = [_option(kind, field) for field in required_first]
    for name, annotation in more.items():
        default = False if annotation in (AsJson, AllowNetwork) else None
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
        )
    command.__doc__ = kind.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _running(name: str, kind: type[Job]) -> Callable[..., None]:
    def work(options: dict[str, Any], json: bool, allow_network: bool = False) -> int:
        def run(reporter: Reporter) -> Outcome:
            return attempt(make_job(kind, options), reporter)

        return speak(name, json, run, allow_network=allow_network)

    more = {"allow_network": AllowNetwork} if issubclass(kind, READING) else {}
    return _command(kind, work, **more, json=AsJson)


def _writing(command: str, kind: type[Job]) -> Callable[..., None]:
    def write(reporter: Reporter, job: Job, to: Path | None, name: str | None) -> Outcome:
        start = time.monotonic()
        if to is None:
            reporter.note(job_as_toml(job, command, name))
        else:
            count = add_job(to, job, command, name)
            reporter.wrote("job file", to, f"{count} {'job' if count == 1 else 'jobs'}")
        seconds = time.monotonic() - start
        return Outcome("done", Finished(seconds=seconds), seconds)

    def work(options: dict[str, Any], json: bool, to: Path | None, name: str | None) -> int:
        return speak(
            f"job {command}",
            json,
            lambda reporter: write(reporter, make_job(kind, options), to, name),
        )

    return _command(kind, work, to=To, name=Name, json=AsJson)


for _name, _kind in COMMANDS.items():
    app.command(_name)(_running(_name, _kind))
_benchmarks = typer.Typer(
    help="Measurements that docs/benchmarks.md reports.", no_args_is_help=True
)
for _name, _kind in BENCHMARKS.items():
    _benchmarks.command(_name)(_running(f"benchmark {_name}", _kind))
app.add_typer(_benchmarks, name="benchmark")
_jobs = typer.Typer(
    help="Write a job into a file for 'geocfm run', instead of doing it.", no_args_is_help=True
)
for _name, _kind in FILE_COMMANDS.items():
    _jobs.command(_name)(_writing(_name, _kind))
app.add_typer(_jobs, name="job")


@app.command("run")
def _run(
    files: Annotated[list[Path], typer.Argument(help="Job files, .toml or .json.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all jobs and their inputs; run none.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace results that are already there.")
    ] = False,
    allow_network: AllowNetwork = False,
    json: AsJson = False,
) -> None:
    """Run the jobs of job files in order; one that fails does not stop the others."""

    def work(reporter: Reporter) -> Outcome:
        jobs = load_jobs(files, overwrite=overwrite)
        return check_batch(jobs, reporter) if dry_run else run_batch(jobs, files, reporter)

    raise typer.Exit(speak("run", json, work, allow_network=allow_network))


@app.command("doctor")
def _doctor(json: AsJson = False) -> None:
    """Say which Python, packages and devices there are, and what is missing."""

    def work(reporter: Reporter) -> Outcome:
        start = time.monotonic()
        examine(reporter)
        seconds = time.monotonic() - start
        return Outcome("done", Finished(seconds=seconds), seconds)

    raise typer.Exit(speak("doctor", json, work))


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"geocfm {__version__}")
        raise typer.Exit


def speak(
    command: str,
    as_json: bool,
    work: Callable[[Reporter], Outcome],
    *,
    allow_network: bool = False,
) -> int:
    """Say who speaks, do the work, say how it ended, and give the exit code for it."""
    guard(allow_network=allow_network)
    asked = stop_requests(watch_stdin=as_json)
    sink = LastingSink(JsonSink() if as_json else TerminalSink(), asked)
    try:
        sink.emit(Started(command=command, versions=software_versions()))
        try:
            outcome = work(Reporter(sink, asked))
        except (Exception, KeyboardInterrupt) as error:  # within a job, attempt() sees to it
            outcome = ended_by(error, command)
        sink.emit(outcome.event)
        return outcome.exit_code
    finally:
        sink.close()


def main() -> None:
    """The ``geocfm`` program."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    plain = warnings.formatwarning  # of packages, which may have names in them
    warnings.formatwarning = lambda *given, **more: visible(plain(*given, **more))
    try:
        code = app(standalone_mode=False)
    except Exception as error:
        words = {*COMMANDS, *BENCHMARKS, *GROUPS, "run", "doctor"}
        command = " ".join(takewhile(words.__contains__, sys.argv[1:]))
        if hasattr(error, "format_message"):  # typer's own: an option missing, unknown, no number
            asked = " ".join(filter(None, ("geocfm", command, "--help")))
            hint = f"'{asked}' says what there is."
            if "extra argument" in error.format_message() and "--raster" in sys.argv:
                hint = "If these come of a pattern, put it in quotes: --raster 'data/*.tif'."
            end = Failed(message=error.format_message(), hint=hint)
            outcome = Outcome("failed", end, 0)
        else:
            outcome = ended_by(error, command)
        code = speak(command, "--json" in sys.argv, lambda reporter: outcome)
    try:
        if sys.stdout is not None:  # None where it was closed before we began
            sys.stdout.flush()
    except OSError:  # else Python would try again at the end, and complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)
