"""Running a job: opens what it names, does the work, writes what it asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from geocfm.evaluation.memory import measure_memory
from geocfm.events import Reporter
from geocfm.geo.writing import atomic_path
from geocfm.job import (
    CheckJob,
    EvaluateJob,
    InfoJob,
    Job,
    MapJob,
    MemoryJob,
    SampleJob,
    TrainJob,
)
from geocfm.model.checkpoint import load_card
from geocfm.run.apply import run_evaluate, run_map, run_sample
from geocfm.run.learn import run_check, run_train


def run_info(job: InfoJob, reporter: Reporter) -> None:
    """Print a model's card."""
    card = load_card(job.checkpoint)
    for line in card.sentences():
        reporter.note(line)
    reporter.report("model", card.model_dump(mode="json"))


def run_memory(job: MemoryJob, reporter: Reporter) -> None:
    """Measure peak memory and write the figures as JSON."""
    steps = measure_memory(job.out, job.size, job.layers, job.iterations, job.windows, reporter)
    content = {"job": job.model_dump(mode="json"), "steps": [asdict(step) for step in steps]}
    with atomic_path(job.out / "memory.json") as temporary:
        temporary.write_text(json.dumps(content, indent=1), encoding="utf-8")
    reporter.wrote("benchmark", job.out / "memory.json", "peak memory of each step")


_RUNNERS: dict[type[Job], Callable[[Any, Reporter], None]] = {
    CheckJob: run_check,
    TrainJob: run_train,
    MapJob: run_map,
    SampleJob: run_sample,
    EvaluateJob: run_evaluate,
    InfoJob: run_info,
    MemoryJob: run_memory,
}


def run_job(job: Job, reporter: Reporter) -> None:
    """Do what the job says; progress, results and files are told to the reporter."""
    _RUNNERS[type(job)](job, reporter)
