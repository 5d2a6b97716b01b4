"""Temporary inputs that several jobs of a run need are written once."""

from __future__ import annotations

import os
from dataclasses import replace

PATHS = ("occurrences", "like", "aoi")


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
    values = dict(job.values)
    for key in PATHS:
        if key in values:
            values[key] = instead.get(values[key], values[key])
    if "raster" in values:
        values["raster"] = [_moved(spec, instead) for spec in values["raster"]]
    exports = [each for each in job.exports if instead.get(each.path, each.path) == each.path]
    exports = [each for each in exports if each.path not in claimed]
    claimed.update(each.path for each in exports)
    return replace(
        job,
        values=values,
        exports=tuple(exports),
        temporary=tuple(dict.fromkeys(instead.values())),
    )


def _moved(spec, instead):
    """A spec of ours is always name=path:band."""
    name, _, rest = spec.partition("=")
    path, _, band = rest.rpartition(":")
    return f"{name}={instead.get(path, path)}:{band}"
