"""Which files of a run are results to show: those of jobs that ended well, and no others."""

from __future__ import annotations

import os
from dataclasses import dataclass

PROSPECTIVITY, SAMPLES, OCCURRENCES = "prospectivity", "samples", "occurrences"

EARLIER = "earlier"  # the engine's word for a result that was there, of the same job and inputs
_MADE_BY = {"map": PROSPECTIVITY, "sample": SAMPLES}


@dataclass(frozen=True)
class Result:
    """A complete file that becomes a layer, or several."""

    kind: str
    path: str


def finished_results(outcome):
    """Give the maps and samples of the jobs that are done, in the order they were made."""
    results = {}
    for job, kind, path in _finished_files(outcome):
        made = _MADE_BY.get(job.command) if kind == EARLIER else kind
        if made in (PROSPECTIVITY, SAMPLES):
            results[os.path.normcase(path)] = Result(made, path)
    return list(results.values())


def used_occurrences(outcome):
    """Give the file of the occurrences a model has learned from, else those it was judged by."""
    found = [
        (job.command != "train", Result(kind, path))
        for job, kind, path in _finished_files(outcome)
        if kind == OCCURRENCES
    ]
    return min(found, key=lambda each: each[0])[1] if found else None


def _finished_files(outcome):
    kinds = {event.path: event.kind for event in outcome.artifacts}
    for job in outcome.jobs:
        for path in job.artifacts if job.status == "done" else ():
            yield job, kinds.get(path), path
