"""What the engine says in one run, from its first line to the outcome."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from . import engine_troubles as troubles
from .engine_events import (
    LAST_EVENTS,
    PROTOCOL,
    Artifact,
    Cancelled,
    Failed,
    Finished,
    JobEnded,
    JobStarted,
    Note,
    Progress,
    Report,
    Started,
    Warning,
    as_text,
    parse_event,
)
from .wording import in_qgis_words

TRANSCRIPT_LINES = 2000  # the last ones are kept
TRANSCRIPT_WIDTH = 2000  # characters; a longer line is cut
DONE, FAILED, BROKEN, CANCELLED = "done", "failed", "broken", "cancelled"
_EXIT_CODE_OF_OUR_ERROR = 1
_SENTENCES = (Note, Warning, JobEnded, Failed, Cancelled)  # the other events hold names and paths


@dataclass(frozen=True)
class Outcome:
    """How the engine's work ended: done, failed, broken (an error of ours) or cancelled."""

    status: str
    message: str = ""
    hint: str = ""
    log: str = ""  # the path of the engine's error log, if there is one
    events: tuple = ()  # all but Progress
    transcript: str = ""  # what was said, for people to read

    @property
    def artifacts(self):
        """Every file that was written, also by jobs that did not finish."""
        return tuple(event for event in self.events if isinstance(event, Artifact))

    @property
    def finished_artifacts(self):
        """The files of jobs that finished."""
        if not any(isinstance(event, JobStarted) for event in self.events):
            return self.artifacts if self.status == DONE else ()
        finished = {path for job in self.jobs if job.status == DONE for path in job.artifacts}
        return tuple(each for each in self.artifacts if each.path in finished)

    @property
    def jobs(self):
        """How each job of the job file ended."""
        return tuple(event for event in self.events if isinstance(event, JobEnded))

    def reports(self, kind):
        """Give the content of each report of a kind."""
        found = (event for event in self.events if isinstance(event, Report))
        return [event.content for event in found if event.kind == kind]


class Conversation:
    """What the engine has said so far, and what follows from it."""

    def __init__(self, python, on_event):
        self._python = python
        self._on_event = on_event
        self._events = []
        self._transcript = deque(maxlen=TRANSCRIPT_LINES)
        self._last = None
        self.misfit = False

    def write(self, text):
        """Add to the transcript."""
        for line in text.splitlines():
            cut = len(line) > TRANSCRIPT_WIDTH
            self._transcript.append(f"{line[:TRANSCRIPT_WIDTH]}…" if cut else line)

    def hear(self, line):
        """Take in a line of standard output."""
        try:
            event = parse_event(line)
        except ValueError:  # not from the engine: a package of its Python that prints
            self.write(line.rstrip())
            return
        if event is None:
            return
        if not self._events and not self._fits(event):
            self.write(line.rstrip())
            self.misfit = True
            return
        if isinstance(event, LAST_EVENTS):
            self._last = event
        if not isinstance(event, Progress):
            self._events.append(event)
            said = as_text(event)
            self.write(in_qgis_words(said) if isinstance(event, _SENTENCES) else said)
        self._on_event(event)

    @staticmethod
    def _fits(first):
        """A Python that lacks packages may fail before it can say who speaks."""
        if isinstance(first, Started):
            return first.protocol == PROTOCOL
        return isinstance(first, Failed)

    def end(self, child, was_cancelled):
        """Give the outcome of an engine that has ended."""
        if child.last_words:
            self.write(child.last_words)
        if self.misfit:
            return self.outcome(FAILED, troubles.other_protocol())
        if isinstance(self._last, Finished):
            return self.outcome(DONE)
        if isinstance(self._last, Cancelled):
            said = self._own_sentence({CANCELLED}) or self._last
            return self.outcome(CANCELLED, _in_qgis_words(said))
        if isinstance(self._last, Failed):
            return self._failed(self._last, child.exit_code)
        if was_cancelled or child.was_asked:
            return self.outcome(CANCELLED, troubles.not_ended() if child.was_ended else None)
        if child.was_ended:
            return self.outcome(BROKEN, troubles.fell_silent())
        code, words = child.exit_code or 0, child.last_words
        if not self._events and troubles.is_no_engine(code, words):
            return self.outcome(FAILED, troubles.other_program(self._python, words))
        return self.outcome(BROKEN, troubles.ended_without_word(code, words))

    def _failed(self, last, exit_code):
        """Of several jobs the one that failed first has the sentence that helps."""
        job = self._own_sentence({FAILED, BROKEN, "problem"})
        if job is not None:
            broken = job.status == BROKEN
            return self.outcome(BROKEN if broken else FAILED, _in_qgis_words(job), job.log)
        broken = last.log or exit_code == _EXIT_CODE_OF_OUR_ERROR
        return self.outcome(BROKEN if broken else FAILED, _in_qgis_words(last), last.log)

    def _own_sentence(self, statuses):
        """The first job that ended so, or that a rehearsal found wanting."""
        ended = [event for event in self._events if isinstance(event, JobEnded)]
        rehearsed = [
            JobEnded(
                *(job.get(key) for key in ("number", "name", "command", "status")),
                message=str(job.get("message", "")),
            )
            for event in self._events
            if isinstance(event, Report) and event.kind == "batch"
            for job in event.content.get("jobs", ())
            if not ended
        ]
        found = (job for job in (*ended, *rehearsed) if job.status in statuses and job.message)
        return next(found, None)

    def outcome(self, status, said=None, log=""):
        """Give the outcome with all that was said; `said` is a Trouble, or None."""
        said = said or troubles.Trouble("")
        transcript = "\n".join(self._transcript)
        return Outcome(status, said.message, said.hint, log, tuple(self._events), transcript)


def _in_qgis_words(said):
    """Give a sentence of the engine's as a Trouble that names what stands in QGIS."""
    hint = getattr(said, "hint", "")
    return troubles.Trouble(in_qgis_words(said.message), in_qgis_words(hint))
