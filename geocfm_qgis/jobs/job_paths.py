"""Which values of a job name files: those it reads, those it writes."""

from __future__ import annotations

import re

NETWORK_NAME = re.compile(
    r"/vsi(curl|s3|gs|az|adls|oss|swift|hdfs|webhdfs)|\b(https?|ftps?)://", re.IGNORECASE
)
ALLOW_NETWORK = "--allow-network"  # the engine's option
FILES = ("occurrences", "like", "aoi", "checkpoint", "map", "uncertainty")
WRITTEN = {"map": ("out", "uncertainty", "monte_carlo_error")}  # by a command; others: out
SPECS = "raster"  # texts like name=path:band
BANDED = "effort"  # a text like path:band


def input_paths(job):
    """Give the files that an EngineJob reads."""
    values, written = job.values, output_keys(job.command)
    paths = [_parts(spec)[1] for spec in values.get(SPECS, ())]
    paths += [values[key] for key in FILES if values.get(key) and key not in written]
    if values.get(BANDED):
        paths.append(_parts(values[BANDED])[1])
    return paths


def network_options(jobs):
    """Give the engine's option for jobs on layers that QGIS itself has from the network."""
    return [ALLOW_NETWORK] if any(map(_reads_network, jobs)) else []


def _reads_network(job):
    paths = list(input_paths(job))
    for path in job.temporary:
        if path.endswith(".vrt"):  # one of ours, around a layer
            try:
                with open(path, encoding="utf-8") as file:
                    paths.append(file.read())
            except OSError:
                continue
    return any(NETWORK_NAME.search(path) for path in paths)


def output_paths(job):
    """Give the files and folders that an EngineJob writes, its main result first."""
    return [job.values[key] for key in output_keys(job.command) if job.values.get(key)]


def output_keys(command):
    """Give the keys of what a command writes."""
    return WRITTEN.get(command, ("out",))


def with_paths(values, move):
    """Give the values of a job with `move(path)` in place of each path."""
    changed = dict(values)
    for key in (*FILES, *WRITTEN["map"]):
        if changed.get(key):
            changed[key] = move(changed[key])
    if SPECS in changed:
        changed[SPECS] = [_moved(spec, move) for spec in changed[SPECS]]
    if changed.get(BANDED):
        changed[BANDED] = _moved(changed[BANDED], move)
    return changed


def _moved(spec, move):
    start, path, band = _parts(spec)
    return f"{start}{move(path)}:{band}"


def _parts(spec):
    """Give ("name=" or "", path, band); a spec of ours always has a band.

    A name holds neither a slash nor a backslash, so what comes before an equals sign of a path is
    told from one.
    """
    rest, _, band = spec.rpartition(":")
    name, equals, path = rest.partition("=")
    if equals and "/" not in name and "\\" not in name:
        return f"{name}=", path, band
    return "", rest, band
