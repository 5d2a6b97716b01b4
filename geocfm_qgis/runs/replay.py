"""An earlier run as it was when it had ended, from its record: to show its results again."""

from __future__ import annotations

from ..engine_client import DONE, Artifact, JobEnded, Outcome
from .own_files import own_file
from .run import Run


def replay(record):
    """Give (Run, Outcome) of a RunRecord, with those of its own files that are still there."""
    there = [each for each in record.artifacts if own_file(each["path"], record.folder)]
    files = tuple(Artifact(each["kind"], each["path"]) for each in there)
    ended = JobEnded(1, record.name, "train", DONE, artifacts=tuple(each.path for each in files))
    run = Run(record.name, (), record.folder, record.choices, temporary=record.temporary)
    return run, Outcome(DONE, events=(*files, ended))
