"""Writing a job into a job file, so that it reads back as the same job."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from geocfm.errors import UserError
from geocfm.file_names import refuse_virtual
from geocfm.job import Job
from geocfm.job_file import check_text, move_paths, parse, read_text, written_twice


def job_as_toml(job: Job, command: str, name: str | None) -> str:
    """The job as a table of a job file, its paths as they are."""
    return _toml(_entry(job, command, name))


def add_job(path: Path, job: Job, command: str, name: str | None) -> int:
    """Add the job to the file, which may be new; gives how many jobs it then holds."""
    try:
        refuse_virtual(path)
    except ValueError as error:
        raise UserError(f"'{path}' cannot be written: {error}.", "Choose another file.") from None
    text = read_text(path) if path.exists() else ""
    content = parse(text, path) if text.strip() else {}
    prefix = _way_here(path.parent)
    entry = _entry(move_paths(job, ".", prefix), command, name)
    entry |= _against_defaults(content, entry, job, path)
    if path.suffix.lower() == ".json":
        new = _json_with(content, entry)
    else:
        gap = "\n" if not text or text.endswith("\n") else "\n\n"
        new = f"{text}{gap if text else ''}{_toml(entry)}\n"
    jobs, mistakes = check_text(new, path)
    mistakes += written_twice(jobs)
    if mistakes:
        raise UserError(f"The job was not added to {path}.", "\n".join(mistakes))
    from geocfm.geo.writing import atomic_path  # GDAL loads only now that there is work

    with atomic_path(path) as temporary:
        temporary.write_bytes(new.encode())
    return len(jobs)


def _way_here(folder: Path) -> str:
    """From the folder to where the job's own paths begin."""
    here = os.path.realpath(".")
    try:
        return os.path.relpath(here, os.path.realpath(folder))
    except ValueError:  # another drive of Windows
        return here


def _entry(job: Job, command: str, name: str | None) -> dict[str, Any]:
    """What a file says of a job: all that is not so by itself."""
    entry: dict[str, Any] = {"name": name} if name else {}
    entry["command"] = command
    entry |= job.model_dump(mode="json", exclude_defaults=True)
    entry |= {key: value.as_posix() for key, value in job if isinstance(value, Path)}
    return entry


def _against_defaults(content: Any, entry: dict[str, Any], job: Job, path: Path) -> dict[str, Any]:
    """What the entry leaves out, but the file's defaults would change."""
    defaults = content.get("defaults", {}) if isinstance(content, dict) else {}
    plain = job.model_dump(mode="json")
    missing = {key: plain[key] for key in defaults if key in plain and key not in entry}
    for key, value in missing.items():
        if value is None:
            raise UserError(
                f"The defaults of {path} give every job '{key}', which this one is without.",
                f"Give the job its own '{key}', or add it to another file.",
            )
    return missing


def _json_with(content: Any, entry: dict[str, Any]) -> str:
    """The file with one more job; what is no job file stays, to be told its mistakes."""
    if isinstance(content, dict) and isinstance(content.get("jobs", []), list):
        content = {**content, "jobs": [*content.get("jobs", []), entry]}
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _toml(entry: dict[str, Any]) -> str:
    """JSON's texts, numbers, booleans and lists are TOML's as well, but for the DEL character."""
    lines = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    return "\n".join(["[[jobs]]", *lines]).replace("\x7f", "\\u007f")
