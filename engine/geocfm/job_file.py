"""Job files: several jobs in one TOML or JSON file, with defaults and paths relative to the file.

A file is made of the jobs' own schema; docs/job.schema.json tells it to editors and programs.
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Union

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from geocfm.errors import UserError
from geocfm.file_names import BACKSLASHES, refuse_endless
from geocfm.job import COMMANDS, Job, WritingJob, option_name
from geocfm.layer_spec import is_dataset_name, move_spec
from geocfm.mistakes import explain, nearest_name, shown
from geocfm.results import results_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

NOT_IN_FILES = ("info", "synth")
FILE_COMMANDS = {name: kind for name, kind in COMMANDS.items() if name not in NOT_IN_FILES}
OWN = ("name", "command", "out")  # what each job says for itself


@dataclass(frozen=True)
class BatchJob:
    """A job with its place in a batch."""

    number: int
    name: str
    command: str
    job: Job


class _Entry(Job):
    """A job as it stands in a file."""

    name: str | None = Field(
        None, pattern=r"^.+$", max_length=60, description="A name for it: one line, at most 60 long"
    )


def _entry_kind(command: str, kind: type[Job]) -> type[Job]:
    fields: dict[str, Any] = {"command": (Literal[command], Field(description=kind.__doc__))}
    return create_model(kind.__name__, __base__=(kind, _Entry), __doc__=kind.__doc__, **fields)


def _defaults_kind() -> type[Job]:
    """The fields of all commands, none of them required."""
    fields: dict[str, Any] = {
        name: (
            field.rebuild_annotation(),
            Field(
                default_factory=lambda: None,  # as a plain default it would stand in the schema
                description=field.description,
                json_schema_extra=field.json_schema_extra,
            ),
        )
        for kind in FILE_COMMANDS.values()
        for name, field in kind.model_fields.items()
        if name not in OWN
    }
    said = "Values for every job whose command knows the key; a job's own value goes first."
    return create_model("Defaults", __base__=Job, __doc__=said, **fields)


_ENTRIES = {command: _entry_kind(command, kind) for command, kind in FILE_COMMANDS.items()}
_DEFAULTS = _defaults_kind()
_ANY_ENTRY: Any = Annotated[
    Union[tuple(_ENTRIES.values())],  # noqa: UP007
    Field(discriminator="command"),
]
_FILE: type[BaseModel] = create_model(
    "GeoCFM job file",
    __config__=Job.model_config,
    defaults=(_DEFAULTS, Field(default_factory=_DEFAULTS, description=_DEFAULTS.__doc__)),
    jobs=(list[_ANY_ENTRY], Field(min_length=1, description="What is done, in this order.")),
)


def job_file_schema() -> dict[str, Any]:
    """The JSON Schema of a job file; what a job lacks may stand in the defaults."""
    schema = _FILE.model_json_schema()
    for kind in FILE_COMMANDS.values():
        entry = schema["$defs"][kind.__name__]
        entry["required"] = [name for name in entry["required"] if name in OWN]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def load_jobs(paths: Sequence[Path], *, overwrite: bool = False) -> list[BatchJob]:
    """All jobs of the files in order; everything that is wrong in any of them is said at once."""
    jobs: list[BatchJob] = []
    mistakes: list[str] = []
    for path in paths:
        try:
            found, wrong = check_text(read_text(path), path, first=len(jobs) + 1)
        except UserError as error:
            mistakes.append(str(error))
            continue
        jobs += found
        mistakes += wrong
    mistakes += written_twice(jobs)
    if mistakes:
        count = "is a mistake" if len(mistakes) == 1 else f"are {len(mistakes)} mistakes"
        files = "file" if len(paths) == 1 else "files"
        raise UserError(f"There {count} in the job {files}.", "\n".join(mistakes))
    return [_overwriting(job) for job in jobs] if overwrite else jobs


def _overwriting(job: BatchJob) -> BatchJob:
    if not isinstance(job.job, WritingJob):
        return job
    return replace(job, job=job.job.model_copy(update={"overwrite": True}))


def read_text(path: Path) -> str:
    """The text of a file, as editors and shells of all systems write it."""
    refuse_endless(str(path))
    try:
        content = path.read_bytes()
        wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # PowerShell's >
        return content.decode("utf-16" if wide else "utf-8-sig")
    except FileNotFoundError:
        raise UserError(f"There is no job file '{path}'.", "Check its spelling.") from None
    except OSError as error:
        raise UserError(f"The job file '{path}' cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError:
        raise UserError(f"The job file '{path}' is no text.", "Save it as UTF-8.") from None


def parse(text: str, path: Path) -> Any:
    """What the text holds, by the kind of file that its name says."""
    suffix = path.suffix.lower()
    if suffix not in (".toml", ".json"):
        raise UserError(f"'{path}' is no job file.", "Its name must end in .toml or .json.")
    try:
        return json.loads(text) if suffix == ".json" else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        hint = f"{BACKSLASHES}." if "\\" in text else "Compare it with the example in the guide."
        said = f"{path} is not valid {suffix[1:].upper()}: {error}."
        raise UserError(said, hint) from None


def check_text(text: str, path: Path, first: int = 1) -> tuple[list[BatchJob], list[str]]:
    """The jobs of a file, numbered from the first, or else all its mistakes."""
    content = parse(text, path)
    try:
        file: Any = _FILE.model_validate(_with_defaults(content))
    except ValidationError as error:
        found = (_mistake(details, content) for details in error.errors())
        return [], [f"{path}: {said}" for said in found if said]
    names = Counter(entry.name for entry in file.jobs if entry.name)
    twice = [name for name, count in names.items() if count > 1]
    if twice:
        return [], [f"{path}: several jobs have the name '{name}'." for name in twice]
    folder = os.path.realpath(
        path.parent
    )  # so that results mean the same wherever they are run from
    jobs = []
    for number, entry in enumerate(file.jobs, first):
        kind = FILE_COMMANDS[entry.command]
        values = {name: getattr(entry, name) for name in kind.model_fields}
        job = move_paths(kind.model_validate(values), folder, folder)
        name = entry.name or f"{entry.command} {number}"
        jobs.append(BatchJob(number, name, entry.command, job))
    return jobs, []


def move_paths(job: Job, seen_from: str, prefix: str) -> Job:
    """The job with its relative paths put behind a prefix; GDAL's own names stay."""
    changes: dict[str, Any] = {}
    for name, value in job:
        if name == "raster":
            changes[name] = [move_spec(spec, seen_from, prefix) for spec in value]
        elif name == "effort" and value is not None:
            changes[name] = move_spec(value, seen_from, prefix)
        elif isinstance(value, Path) and (name == "out" or not is_dataset_name(value.as_posix())):
            changes[name] = Path(prefix, os.path.expanduser(value))
    return job.model_copy(update=changes)


def place(path: Path | str) -> str:
    """The same text for the same file, however its path is written."""
    return os.path.normcase(os.path.realpath(path))


def written_twice(jobs: Sequence[BatchJob]) -> list[str]:
    """A sentence for every result that several jobs would write."""
    writers: dict[str, list[str]] = {}
    for job in jobs:
        if isinstance(job.job, WritingJob):
            for path in results_of(job.job):
                writers.setdefault(place(path), []).append(job.name)
    found: dict[str, str] = {}  # one sentence for all that the same jobs write
    for result, names in writers.items():
        if len(names) > 1:
            found.setdefault(", ".join(names), result)
    return [f"{names}: they write the same result, {result}." for names, result in found.items()]


def _with_defaults(content: Any) -> Any:
    """Each job with the defaults that its command knows; what is no job stays as it is."""
    if not isinstance(content, dict):
        return content
    defaults, jobs = content.get("defaults"), content.get("jobs")
    if not isinstance(defaults, dict) or not isinstance(jobs, list):
        return content
    return {**content, "jobs": [_completed(job, defaults) for job in jobs]}


def _completed(job: Any, defaults: dict[str, Any]) -> Any:
    command = job.get("command") if isinstance(job, dict) else None
    kind = FILE_COMMANDS.get(command) if isinstance(command, str) else None
    if kind is None:
        return job
    known = {key: defaults[key] for key in defaults if key in kind.model_fields and key not in OWN}
    return {**known, **job}


def _mistake(error: ErrorDetails, content: Any) -> str:
    """Where and what; empty for a wrong default that is met again in a job."""
    match error["loc"]:
        case ("jobs", int(index), command, key, *_):
            own = content["jobs"][index]
            if key not in own and error["type"] != "missing":
                return ""
            name = f" ({own['name']})" if isinstance(own.get("name"), str) else ""
            said = _explained(error, _ENTRIES[str(command)], str(key), 4)
            return f"jobs[{index + 1}].{key}{name}: {said}"
        case ("jobs", int(index)):
            return f"jobs[{index + 1}]{_no_command(content['jobs'][index])}"
        case ("jobs",):
            return (
                "there are no jobs; each is a [[jobs]] table, in JSON an entry of the list 'jobs'."
            )
        case ("defaults", str(key), *_) if key in OWN:
            return f"defaults.{key}: it belongs to each job, not to the defaults."
        case ("defaults", str(key), *_):
            return f"defaults.{key}: {_explained(error, _DEFAULTS, key, 2)}"
        case ("defaults",):
            return "defaults: they must be a [defaults] table."
        case (key,):
            near = nearest_name(str(key), ["jobs", "defaults"]).rstrip()
            own = "only 'defaults' and 'jobs' stand here; a job's keys belong to a job."
            return f"{key}: {near or own}"
    return "it must hold a table with 'jobs'."


def _no_command(job: Any) -> str:
    if not isinstance(job, dict):
        return f": {shown(job)} is no job; write it as a [[jobs]] table."
    allowed = f"one of: {', '.join(FILE_COMMANDS)}"
    if "command" not in job:
        return f".command: it must be given, {allowed}."
    near = nearest_name(str(job["command"]), list(FILE_COMMANDS))
    said = f".command: {shown(job['command'])} cannot be used; it must be {allowed}. {near}"
    return said.rstrip()


def _explained(error: ErrorDetails, kind: type[Job], key: str, depth: int) -> str:
    options = {option_name(kind, name).lstrip("-"): name for name in kind.model_fields}
    if error["type"] == "extra_forbidden" and key in options:
        return f"in a file it is called '{options[key]}'."
    if error["type"] == "extra_forbidden" and key == "allow_network":
        return "it is no key of a file; say geocfm run --allow-network."
    return explain(error, kind, key, depth)
