"""Running the jobs of job files one after another: each ends by itself, none stops the others."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from geocfm.errors import Cancelled, Interrupted
from geocfm.events import Failed, Finished, JobEnded, JobStarted, Reporter, Stopped
from geocfm.job import Job, WritingJob
from geocfm.job_file import BatchJob, place
from geocfm.layer_spec import readings
from geocfm.outcome import Outcome, attempt, load_engine
from geocfm.results import read_paths, results_of


def run_batch(jobs: Sequence[BatchJob], files: Sequence[Path], reporter: Reporter) -> Outcome:
    """Run the jobs of the files in order, unless another process is at work on one of them."""
    load_engine()
    from geocfm.run.claim import claim

    with ExitStack() as claims:
        for path in dict.fromkeys(map(place, files)):
            with suppress(Interrupted):  # beside a file that is only for reading there is no lock
                claims.enter_context(claim({Path(path): Path(path)}))
        return _run_all(jobs, reporter)


def _run_all(jobs: Sequence[BatchJob], reporter: Reporter) -> Outcome:
    """One whose input was to come from a job that did not finish is skipped."""
    start = time.monotonic()
    ended: list[JobEnded] = []
    missing: dict[str, str] = {}  # what was to be written, and the name of the job that did not
    cancelled = False
    for job in jobs:
        cancelled = cancelled or _asked_to_stop(reporter)
        lacking = [missing[path] for path in _inputs(job.job) if path in missing]
        if cancelled:
            end = _skipped(job, "Not begun: the batch was stopped.")
        elif lacking:
            end = _skipped(job, f"Not begun: it needs the result of '{lacking[0]}'.")
        else:
            end = _run(job, len(jobs), reporter)
        if end.status != "done":
            missing |= dict.fromkeys(_outputs(job.job), job.name)
        cancelled = cancelled or end.status == "cancelled"
        reporter.sink.emit(end)
        ended.append(end)
    reporter.report("batch", {"jobs": [end.model_dump(exclude={"event"}) for end in ended]})
    return _outcome(ended, cancelled, time.monotonic() - start)


def _run(job: BatchJob, total: int, reporter: Reporter) -> JobEnded:
    reporter.sink.emit(
        JobStarted(number=job.number, total=total, name=job.name, command=job.command)
    )
    before = len(reporter.artifacts)
    outcome = attempt(job.job, reporter)
    end = outcome.event
    return JobEnded(
        number=job.number,
        name=job.name,
        command=job.command,
        status=outcome.status,
        seconds=outcome.seconds,
        message="" if isinstance(end, Finished) else end.message,
        hint=end.hint if isinstance(end, Failed) else "",
        log=end.log if isinstance(end, Failed) else "",
        artifacts=reporter.artifacts[before:],
    )


def _skipped(job: BatchJob, why: str) -> JobEnded:
    return JobEnded(
        number=job.number,
        name=job.name,
        command=job.command,
        status="skipped",
        seconds=0,
        message=why,
    )


def _asked_to_stop(reporter: Reporter) -> bool:
    try:
        reporter.check_cancelled()
    except Cancelled:
        return True
    return False


def _outcome(ended: Sequence[JobEnded], cancelled: bool, seconds: float) -> Outcome:
    counts = Counter(end.status for end in ended)
    if counts["done"] == len(ended):
        return Outcome("done", Finished(seconds=seconds), seconds)
    said = f"{len(ended) - counts['done']} of {len(ended)} jobs did not finish"
    names = ", ".join(end.name for end in ended if end.status != "done")
    if cancelled:
        stopped = Stopped(message=f"Stopped as asked; {said}: {names}.")
        return Outcome("cancelled", stopped, seconds)
    failed = Failed(message=f"{said}.", hint=f"Not finished: {names}.")
    return Outcome("broken" if counts["broken"] else "failed", failed, seconds)


def check_batch(jobs: Sequence[BatchJob], reporter: Reporter) -> Outcome:
    """Say of each job what stands in its way, and run none."""
    load_engine()
    from geocfm.run.rehearsal import is_done, problems_of

    start = time.monotonic()
    coming: set[str] = set()
    rows = []
    for job in jobs:
        problems = problems_of(job.job, coming & _inputs(job.job))
        if not is_done(job.job):
            coming |= _outputs(job.job)
        rows.append(
            {
                "number": job.number,
                "name": job.name,
                "command": job.command,
                "status": "problem" if problems else "ready",
                "seconds": 0.0,
                "message": "\n".join(problems),
                "artifacts": [str(job.job.out)] if isinstance(job.job, WritingJob) else [],
            }
        )
    reporter.report("batch", {"jobs": rows})
    seconds = time.monotonic() - start
    wrong = [str(row["name"]) for row in rows if row["message"]]
    if not wrong:
        return Outcome("done", Finished(seconds=seconds), seconds)
    said = f"{len(wrong)} of {len(rows)} jobs cannot be run as they are."
    return Outcome("failed", Failed(message=said, hint=f"Look at: {', '.join(wrong)}."), seconds)


def _raster_places(job: Job) -> set[str]:
    specs = [*getattr(job, "raster", []), getattr(job, "effort", None)]
    return {place(path) for spec in specs if spec for _, path, _ in readings(spec)}


def _inputs(job: Job) -> set[str]:
    return {place(path) for path in read_paths(job).values()} | _raster_places(job)


def _outputs(job: Job) -> set[str]:
    return {place(path) for path in results_of(job)} if isinstance(job, WritingJob) else set()
