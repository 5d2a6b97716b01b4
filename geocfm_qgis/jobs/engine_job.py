"""One job of the engine, as plain values, and the file in which jobs reach it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field

from .job_paths import network_options

LONGEST_NAME = 60  # letters; the engine's own bound


@dataclass(frozen=True)
class EngineJob:
    """What the engine shall do; all that has to be written before it can begin is in `exports`."""

    command: str  # "train", "map", ...
    values: dict = field(default_factory=dict)  # keys as in docs/job.schema.json; absolute paths
    name: str = ""  # shown in events
    exports: tuple = ()  # RasterExport and VectorExport: .run(feedback), in the background
    temporary: tuple[str, ...] = ()  # inputs that are temporary files of ours
    aliases: dict = field(default_factory=dict)  # {temporary file: name of the layer it is of}

    def entry(self):
        """Give the job as a table of a job file."""
        name = " ".join(self.name.split())[:LONGEST_NAME].strip()
        return {**({"name": name} if name else {}), "command": self.command, **self.values}


def in_layer_names(text, jobs):
    """Give a text with the names of layers instead of the temporary files written of them."""
    for job in jobs:
        for path, name in job.aliases.items():
            text = text.replace(f"'{path}'", f"'{name}'").replace(path, f"'{name}'")
    return text


def run_arguments(jobs, path):
    """Give the words after `geocfm` that run a file of these jobs."""
    return ["run", path, *network_options(jobs)]


def write_job_file(jobs, path):
    """Write jobs as a JSON job file for `geocfm run`; give its path."""
    path = os.fspath(path)
    entries = [job.entry() for job in jobs]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        json.dump({"jobs": entries}, file, indent=1, ensure_ascii=False)
    return path
