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
    is_new: bool  # written by this run, rather than found there


def finished_results(outcome):
    """Give the maps and samples of the jobs that are done, in the order they were made."""
    kinds = {event.path: event.kind for event in outcome.artifacts}
    results = {}
    for job in outcome.jobs:
        for path in job.artifacts if job.status == "done" else ():
            found = kinds.get(path)
            kind = _MADE_BY.get(job.command) if found == EARLIER else found
            if kind in (PROSPECTIVITY, SAMPLES):
                results[os.path.normcase(path)] = Result(kind, path, found != EARLIER)
    return list(results.values())
