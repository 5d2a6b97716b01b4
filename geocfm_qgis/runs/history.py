"""The runs of a project, newest first, kept in the project itself so that each can be repeated."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timezone

from ..engine_client import Started
from ..jobs import as_job_file
from ..redaction import without_credentials_within
from ..translation import tr
from .kept_inputs import keep_inputs
from .own_files import is_far
from .run import unfinished_model

SCOPE, KEY = "GeoCFM", "/runs"
FILE_KEYS = ("kind", "path")
MADE_BY = {
    "train": "checkpoint",
    "map": "prospectivity",
    "sample": "samples",
    "targets": "targets",
}
EARLIER = "earlier"  # the engine's word for a result that was there, of the same job and inputs
MOST_RUNS = 50  # older ones are forgotten: a project file is not an archive


@dataclass(frozen=True)
class RunRecord:
    """What a run was asked for, how it ended and what it made."""

    name: str
    time: str  # when it ended: ISO 8601, with the offset from UTC
    status: str  # "done", "failed", "broken" or "cancelled"
    message: str = ""  # of one that did not end well: what was wrong
    choices: dict = field(default_factory=dict)  # for Choices.from_dict, to repeat it
    artifacts: tuple = ()  # {"kind", "path"} of each file of a job that finished
    job: str = ""  # the text of the job file
    versions: dict = field(default_factory=dict)  # of the engine's software
    temporary: bool = False  # its files are gone when QGIS closes
    folder: str = ""  # where its files lie
    model: str = ""  # the model it made, or the best one until it was stopped


def record(project, run, outcome):
    """Add a run that has ended to the project's history; give its RunRecord."""
    made = RunRecord(
        name=run.name,
        time=datetime.now(timezone.utc).astimezone().isoformat(timespec="seconds"),
        status=outcome.status,
        message=f"{outcome.message} {outcome.hint}".strip(),
        choices=run.choices,
        artifacts=tuple(_files(outcome)),
        job=_job_text(run),
        versions=next((e.versions for e in outcome.events if isinstance(e, Started)), {}),
        temporary=run.temporary,
        folder=run.folder,
        model=_model(run, outcome),
    )
    _write(project, [made, *runs(project)])
    return runs(project)[0]  # as it will be read: JSON knows no tuples


def runs(project):
    """Give the RunRecords of a project, newest first; what cannot be read is passed over.

    The project may be a stranger's: see own_files.py.
    """
    text, _ = project.readEntry(SCOPE, KEY, "[]")
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = (_read(entry) for entry in (entries if isinstance(entries, list) else []))
    return [_without_far_files(each, project) for each in found if each is not None]


def forget(project, record):
    """Take a run out of the history; its files and layers stay."""
    kept = runs(project)
    if record in kept:
        kept.remove(record)
        _write(project, kept)


def _files(outcome):
    """Give the files of the jobs that are done, those made before by their kind as well."""
    made_by = {path: job.command for job in outcome.jobs for path in job.artifacts}
    for each in outcome.finished_artifacts:
        made = MADE_BY.get(made_by.get(each.path), each.kind)
        yield {"kind": made if each.kind == EARLIER else each.kind, "path": each.path}


def _model(run, outcome):
    finished = {artifact.path for artifact in outcome.finished_artifacts}
    trained = [job.values.get("out") for job in run.jobs if job.command == "train"]
    whole = next((path for path in trained if path in finished), "")
    return whole or unfinished_model(run, outcome)


def _job_text(run):
    jobs, lost = keep_inputs(run)
    text = as_job_file(jobs)
    if lost:
        comment = tr("These inputs are temporary files, gone when QGIS closes: {names}")
        names = ", ".join(os.path.basename(path) for path in lost)
        text = f"# {comment.format(names=names)}\n\n{text}"
    return text


def _write(project, records):
    entries = without_credentials_within([asdict(each) for each in records[:MOST_RUNS]])
    text = json.dumps(entries, ensure_ascii=False)
    project.writeEntry(SCOPE, KEY, text)  # marks the project as changed


_TYPES = {"str": str, "dict": dict, "tuple": list, "bool": bool}


def _read(entry):
    """Give the RunRecord of an entry, or None if it is damaged; unknown keys are passed over."""
    if not isinstance(entry, dict):
        return None
    values = {}
    for each in fields(RunRecord):
        if each.name in entry:
            if not isinstance(entry[each.name], _TYPES[each.type]):
                return None
            values[each.name] = entry[each.name]
    files = values.get("artifacts", ())
    values["artifacts"] = tuple(each for each in files if _is_artifact(each))
    try:
        return RunRecord(**values)
    except TypeError:  # it has no name, time or status
        return None


def _without_far_files(record, project):
    """Give a record without the files of a computer that neither project nor results lie on."""
    artifacts = tuple(each for each in record.artifacts if not is_far(each["path"], project))
    folder, model = (
        "" if is_far(each, project) else each for each in (record.folder, record.model)
    )
    return replace(record, artifacts=artifacts, folder=folder, model=model)


def _is_artifact(entry):
    return isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in FILE_KEYS)
