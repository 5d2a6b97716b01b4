"""How far a run is as a whole, for the one bar that QGIS shows for a task."""

from __future__ import annotations

from ..engine_client import JobStarted, Progress

EXPORT_SHARE = 0.1  # of a run that has layers to export first
STAGES = {  # the engine's stages: from which share of their job to which
    "Reading layers": (0.0, 0.05),
    "Training": (0.05, 1.0),
    "Mapping": (0.0, 1.0),
    "Drawing points": (0.0, 0.8),
    "Densities of the points": (0.8, 1.0),
}


class RunProgress:
    """Every job weighs the same; the bar never goes back."""

    def __init__(self, exports):
        self._exports = exports
        self._begin = EXPORT_SHARE if exports else 0.0
        self._job, self._jobs = 1, 1
        self.percent = 0.0

    def exporting(self, number, share):
        """Take in how much of an export, counted from 0, is done."""
        self._reach(self._begin * (number + share) / max(self._exports, 1))

    def hear(self, event):
        """Take in an event of the engine."""
        if isinstance(event, JobStarted):
            self._job, self._jobs = event.number, max(event.total, 1)
            self._reach_in_job(0.0)
        elif isinstance(event, Progress):
            start, end = STAGES.get(event.stage.partition(",")[0], (0.0, 1.0))
            self._reach_in_job(start + (end - start) * event.share)

    def _reach_in_job(self, share):
        done = (self._job - 1 + share) / self._jobs
        self._reach(self._begin + (1 - self._begin) * done)

    def _reach(self, share):
        self.percent = max(self.percent, 100 * min(share, 1.0))
