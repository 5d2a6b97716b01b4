"""What the engine says while it works: one event per line, as docs/events.schema.json tells."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, field, fields

from .translation import tr

PROTOCOL = 1


@dataclass(frozen=True)
class Started:
    """First of all: who speaks. Lenient, so that another protocol can be told from garbage."""

    protocol: int = 0
    command: str = ""
    versions: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """How far a stage is; `values` holds what matters meanwhile, such as the loss."""

    stage: str
    done: float
    total: float
    seconds_left: float | None = None
    values: dict = field(default_factory=dict)

    @property
    def share(self):
        """What is done of the stage, from 0 to 1."""
        return min(max(self.done / self.total, 0.0), 1.0) if self.total > 0 else 0.0


@dataclass(frozen=True)
class Note:
    """A plain sentence worth reading."""

    text: str


@dataclass(frozen=True)
class Warning:
    """A sentence about something the user may want to change."""

    text: str


@dataclass(frozen=True)
class Report:
    """A result as data: the pre-flight report, the model card, the evaluation."""

    kind: str
    content: dict


@dataclass(frozen=True)
class Artifact:
    """A file that is complete and in place."""

    kind: str
    path: str
    description: str = ""


@dataclass(frozen=True)
class JobStarted:
    """A job of the job file begins."""

    number: int
    total: int
    name: str
    command: str


@dataclass(frozen=True)
class JobEnded:
    """How a job of the job file ended: done, failed, broken, cancelled or skipped."""

    number: int
    name: str
    command: str
    status: str
    seconds: float = 0.0
    message: str = ""
    hint: str = ""
    log: str = ""
    artifacts: tuple = ()


@dataclass(frozen=True)
class Finished:
    """Last of all: it went well."""

    seconds: float = 0.0


@dataclass(frozen=True)
class Failed:
    """Last of all: what is wrong, and how to mend it."""

    message: str
    hint: str = ""
    log: str = ""


@dataclass(frozen=True)
class Cancelled:
    """Last of all: the user asked to stop."""

    message: str = ""


LAST_EVENTS = (Finished, Failed, Cancelled)
_EVENTS = {
    "started": Started,
    "progress": Progress,
    "note": Note,
    "warning": Warning,
    "report": Report,
    "artifact": Artifact,
    "job_started": JobStarted,
    "job_ended": JobEnded,
    "finished": Finished,
    "failed": Failed,
    "cancelled": Cancelled,
}
_TYPES = {  # an annotation above: what JSON may hold for it
    "str": str,
    "int": int,
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "dict": dict,
    "tuple": list,
}


def parse_event(line):
    """Give the event of a line, None for one of a kind not known here; garbage is a ValueError."""
    try:
        content = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(content, dict) or not isinstance(content.get("event"), str):
        raise ValueError("no event")
    kind = _EVENTS.get(content["event"])
    if kind is None:
        return None
    values = {}
    for each in fields(kind):
        required = each.default is MISSING and each.default_factory is MISSING
        if each.name not in content and not required:
            continue
        value = content.get(each.name)
        if not isinstance(value, _TYPES[each.type]):
            raise ValueError(f"{content['event']}: {each.name} is {value!r}")
        values[each.name] = tuple(value) if each.type == "tuple" else value
    if kind is Progress and "values" in values:
        # a loss that is no number any more comes as null
        values["values"] = {
            k: v for k, v in values["values"].items() if isinstance(v, (int, float))
        }
    return kind(**values)


def as_text(event):
    """Give the event as a line or lines for a log that people read; empty for what is only data."""
    if isinstance(event, Note):
        return event.text
    if isinstance(event, Warning):
        return tr("Worth a look: {sentence}").format(sentence=event.text)
    if isinstance(event, Artifact):
        return tr("Wrote {path}: {description}").format(
            path=event.path, description=event.description
        )
    if isinstance(event, JobStarted):
        return tr("Job {number} of {total}: {name}").format(
            number=event.number, total=event.total, name=event.name
        )
    if isinstance(event, JobEnded):
        said = f"{event.message}\n{event.hint}".strip()
        return f"{event.name}: {said}" if said else ""
    if isinstance(event, Finished):
        return tr("Done in {seconds} s.").format(seconds=f"{event.seconds:.0f}")
    if isinstance(event, Failed):
        return f"{event.message}\n{event.hint}".strip()
    if isinstance(event, Cancelled):
        return event.message
    if isinstance(event, Started):
        return ", ".join(f"{name} {version}" for name, version in event.versions.items())
    return ""
