"""Which files of a run are results to show: those of jobs that ended well, and no others."""

from __future__ import annotations

import os
from dataclasses import dataclass

PROSPECTIVITY, SAMPLES, OCCURRENCES = "prospectivity", "samples", "occurrences"
TARGETS, UNCERTAINTY, OUT_OF_FOLD = "targets", "uncertainty", "out-of-fold"
REPORT = "report"
LAYERS = (PROSPECTIVITY, UNCERTAINTY, TARGETS, SAMPLES, OUT_OF_FOLD)

EARLIER = "earlier"  # the engine's word for a result that was there, of the same job and inputs
MADE_BY = {"map": PROSPECTIVITY, "sample": SAMPLES, "targets": TARGETS}


@dataclass(frozen=True)
class Result:
    """A complete file that becomes a layer, or several."""

    kind: str
    path: str


def finished_results(outcome):
    """Give the layers of the jobs that are done, in the order they were made."""
    results = {}
    for job, kind, path in _finished_files(outcome):
        made = MADE_BY.get(job.command) if kind == EARLIER else kind
        if made in LAYERS:
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


def report_of(outcome):
    """Give the page to read first, or an empty text: an evaluation tells more than a training."""
    found = [path for _, kind, path in _finished_files(outcome) if kind == REPORT]
    return next((path for path in reversed(found) if os.path.isfile(path)), "")


def _finished_files(outcome):
    kinds = {event.path: event.kind for event in outcome.artifacts}
    for job in outcome.jobs:
        for path in job.artifacts if job.status == "done" else ():
            yield job, kinds.get(path), path
