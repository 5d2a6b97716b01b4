"""The same job for a terminal or a server: as a `geocfm` call, and as a job file."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess

from ..translation import tr
from .engine_job import EngineJob
from .job_paths import network_options, with_paths

OPTIONS = {"settings": "--set"}  # keys whose option has another name
SPECIAL_ON_WINDOWS = frozenset("|<>&^%()!;,")


def as_command_line(job):
    """Give the one `geocfm` call that does the same, quoted for this computer's shell."""
    words = ["geocfm", job.command]
    for key, value in job.values.items():
        option = OPTIONS.get(key, "--" + key.replace("_", "-"))
        if value is True:
            words.append(option)
        elif isinstance(value, (list, tuple)):
            for each in value:
                words += _option(option, each)
        elif value is not None and value is not False:
            words += _option(option, value)
    words += network_options([job])
    return _for_windows(words) if os.name == "nt" else shlex.join(words)


def _for_windows(words):
    """Join words for cmd.exe and PowerShell, to which far more than a space means something."""
    return " ".join(_quoted_for_windows(word) for word in words)


def _quoted_for_windows(word):
    quoted = subprocess.list2cmdline([word])
    if quoted.startswith('"') or not SPECIAL_ON_WINDOWS.intersection(word):
        return quoted
    # backslashes before the last quote would take it for a letter
    backslashes = len(quoted) - len(quoted.rstrip("\\"))
    return f'"{quoted}{backslashes * chr(92)}"'


def _option(option, value):
    text = str(value)
    # a value that begins with a dash would be taken for an option
    return [f"{option}={text}"] if text.startswith("-") else [option, text]


def as_job_file(jobs):
    """Give the jobs as the TOML text of a job file."""
    return "\n\n".join(_table(job.entry()) for job in jobs) + "\n"


def _table(entry):
    """JSON's texts, numbers, booleans and lists are TOML's as well, but for the DEL character."""
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in entry.items()
        if value is not None
    ]
    return "\n".join(["[[jobs]]", *lines]).replace("\x7f", "\\u007f")


def save_for_server(jobs, path, feedback=None):
    """Write a job file with temporary inputs copied beside it and paths relative to it."""
    path = os.path.abspath(path)
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    moved = {}
    for job in jobs:
        for export in job.exports:
            if not os.path.exists(export.path):
                export.run(feedback)
        for source in job.temporary:
            if source not in moved:
                moved[source] = _copy(source, f"{os.path.splitext(path)[0]}_inputs")

    def move(each):
        return _relative(moved.get(each, each), folder)

    written = [EngineJob(job.command, with_paths(job.values, move), job.name) for job in jobs]
    text = as_job_file(written)
    comment = tr("Made by GeoCFM in QGIS. To run it: geocfm run {file}")
    words = " ".join([os.path.basename(path), *network_options(jobs)])
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(f"# {comment.format(file=words)}\n\n{text}")
    return path


def _copy(source, folder):
    """Copy a file under its own name, or one like it that is still free."""
    os.makedirs(folder, exist_ok=True)
    stem, suffix = os.path.splitext(os.path.basename(source))
    target, number = os.path.join(folder, stem + suffix), 2
    while os.path.exists(target):
        target, number = os.path.join(folder, f"{stem}_{number}{suffix}"), number + 1
    return shutil.copyfile(source, target)


def _relative(path, folder):
    """Give the path as seen from the folder; what is no plain file's, or far away, stays."""
    if not os.path.isabs(path) or path.startswith("/vsi"):
        return path
    try:
        seen = os.path.relpath(path, folder)
    except ValueError:  # another drive of Windows
        return path
    return seen.replace(os.sep, "/")
