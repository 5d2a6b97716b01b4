"""What stands in the way of a job, found in seconds, without running it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from geocfm.errors import UserError
from geocfm.job import (
    ApplyingJob,
    EvaluateJob,
    Job,
    LearningJob,
    TargetsJob,
    TrainJob,
    WritingJob,
)
from geocfm.job_file import place
from geocfm.layer_spec import is_dataset_name
from geocfm.model.checkpoint import load_card
from geocfm.model.device import choose_device
from geocfm.results import read_paths
from geocfm.run.apply import find_region
from geocfm.run.inputs import given_layers, open_occurrences
from geocfm.run.learn import choose_settings, find_data
from geocfm.run.provenance import trace
from geocfm.run.targets import opened
from geocfm.run.workplace import ensure_place, made_before


def problems_of(job: Job, coming: set[str]) -> list[str]:
    """Sentences; ``coming`` are those of its inputs that earlier jobs will have written."""
    problems = [
        f"{name}: '{path}' does not exist."
        for name, path in read_paths(job).items()
        if not (path.exists() or place(path) in coming or is_dataset_name(path.as_posix()))
    ]
    if isinstance(job, TrainJob | ApplyingJob):
        with _noted(problems):
            choose_device(job.device)
    if isinstance(job, LearningJob):
        with _noted(problems):
            choose_settings(job, accelerated=False)
    if isinstance(job, LearningJob | ApplyingJob) and not coming:
        with _noted(problems):
            given_layers(job)
    complete = not problems and not coming  # what is yet to come cannot be looked into
    with _noted(problems):
        if complete and isinstance(job, LearningJob):
            find_data(job)
        if complete and isinstance(job, ApplyingJob):
            _look_at_region(job)
        if complete and isinstance(job, TargetsJob):
            with opened(job):
                pass
    with _noted(problems):
        if isinstance(job, WritingJob) and not is_done(job):
            ensure_place(job, trace(job) if complete else None)
    return problems


def is_done(job: Job) -> bool:
    """Whether running the job would find its result there, from the same inputs."""
    if not isinstance(job, WritingJob) or job.overwrite:
        return False
    try:
        return made_before(job, trace(job))
    except UserError:  # an input is missing
        return False


def _look_at_region(job: ApplyingJob) -> None:
    card = load_card(job.checkpoint)
    grid = find_region(job, card).grid
    if isinstance(job, EvaluateJob):
        open_occurrences(job, grid, job.where or list(card.occurrences.where))


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    try:
        yield
    except UserError as error:
        problems.append(str(error))
