"""What the engine says, shown in the log and on the progress bar of an algorithm."""

from __future__ import annotations

import time

from ..engine_client import Artifact, JobStarted, Note, Progress, Warning
from ..runs.run_progress import RunProgress
from ..stage_names import stage_name
from ..translation import tr
from ..wording import in_qgis_words

TEXT_EVERY = 10.0  # seconds; each progress text becomes a line of the log


class EventFeedback:
    """Passes events on to a feedback of Processing; call it with each event."""

    def __init__(self, feedback, words=in_qgis_words, exports=0):
        """Say sentences in these words; `exports` are what was written before the engine began."""
        self._feedback = feedback
        self._words = words
        self._overall = RunProgress(exports)
        self._stage = ""
        self._told = 0.0

    def __call__(self, event):
        """Show an event."""
        self._overall.hear(event)
        if isinstance(event, Progress):
            self._progress(event)
        elif isinstance(event, Note):
            self._feedback.pushInfo(self._words(event.text))
        elif isinstance(event, Warning):
            self._feedback.pushWarning(self._words(event.text))
        elif isinstance(event, Artifact):
            written = tr("Written: {path} ({description})")
            self._feedback.pushInfo(written.format(path=event.path, description=event.description))
        elif isinstance(event, JobStarted) and event.total > 1:
            text = tr("Job {number} of {total}: {name}")
            self._feedback.pushInfo(
                text.format(number=event.number, total=event.total, name=event.name)
            )

    def _progress(self, event):
        self._feedback.setProgress(self._overall.percent)
        now = time.monotonic()
        if event.stage == self._stage and now - self._told < TEXT_EVERY:
            return
        self._stage, self._told = event.stage, now
        parts = [stage_name(event.stage)]
        parts += [f"{name.replace('_', ' ')} {value:.4g}" for name, value in event.values.items()]
        if event.seconds_left is not None:
            minutes, seconds = divmod(round(event.seconds_left), 60)
            parts.append(tr("{time} left").format(time=f"{minutes}:{seconds:02d}"))
        self._feedback.setProgressText(", ".join(parts))
