"""A run: the jobs that the engine does in one go, and all that belongs to them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

UNFINISHED = ".unfinished.safetensors"  # how the engine names what a stopped training leaves


@dataclass(frozen=True)
class Run:
    """What the user asked for by one click."""

    name: str
    jobs: tuple  # of EngineJob, in the order they are done
    folder: str  # of the job file, and of the results
    choices: dict = field(default_factory=dict)  # of the panel, to repeat the run
    temporary: bool = False  # the results are gone when QGIS closes


def unfinished_model(run, outcome):
    """Give the path of the model that a stopped training of the run kept, or an empty text."""
    outs = [str(job.values.get("out", "")) for job in run.jobs if job.command == "train"]
    expected = {_place(os.path.splitext(out)[0] + UNFINISHED) for out in outs if out}
    for artifact in outcome.artifacts:
        if _place(artifact.path) in expected and os.path.exists(artifact.path):
            return artifact.path
    return ""


def _place(path):
    return os.path.normcase(os.path.realpath(path))
