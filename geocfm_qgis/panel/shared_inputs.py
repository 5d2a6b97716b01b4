"""Temporary inputs that several jobs of a run need are written once."""

from __future__ import annotations

import os
from dataclasses import replace

from ..jobs.job_paths import with_paths


def share_inputs(jobs):
    """Give the jobs with later ones reading what an earlier one has written from the same layer.

    All jobs of a run are made from the same layers in the same order, so the first temporary file
    of a name is the same in each, and the second, and so on.
    """
    written, claimed = {}, set()
    return tuple(_shared(job, written, claimed) for job in jobs)


def _shared(job, written, claimed):
    seen, instead = {}, {}
    for path in job.temporary:
        name = os.path.basename(path)
        place = seen[name] = seen.get(name, -1) + 1
        instead[path] = written.setdefault((name, place), path)
    exports = [each for each in job.exports if instead.get(each.path, each.path) == each.path]
    exports = [each for each in exports if each.path not in claimed]
    claimed.update(each.path for each in exports)
    return replace(
        job,
        values=with_paths(job.values, lambda path: instead.get(path, path)),
        exports=tuple(exports),
        temporary=tuple(dict.fromkeys(instead.values())),
    )
