"""Running a job: opens what it names, does the work, writes what it asks for."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from geocfm.benchmark_job import (
    AblationJob,
    FoldsJob,
    MemoryJob,
    MosaicJob,
    SyntheticBenchmarkJob,
)
from geocfm.evaluation.memory import measure_memory
from geocfm.events import Reporter
from geocfm.job import (
    CheckJob,
    EvaluateJob,
    InfoJob,
    Job,
    MapJob,
    SampleJob,
    SynthJob,
    TargetsJob,
    TrainJob,
    WritingJob,
)
from geocfm.model.checkpoint import load_card
from geocfm.results import OCCURRENCES, REPORT, fold_results, results_of
from geocfm.run.apply import run_map, run_sample
from geocfm.run.evaluate import run_evaluate
from geocfm.run.learn import run_check, run_train
from geocfm.run.provenance import trace
from geocfm.run.synth import run_synth
from geocfm.run.targets import run_targets
from geocfm.run.workplace import Workplace, made_before, tidy, working


def run_info(job: InfoJob, reporter: Reporter) -> None:
    """Print a model's card."""
    card = load_card(job.checkpoint)
    for line in card.sentences():
        reporter.note(line)
    reporter.report("model", card.model_dump(mode="json"))


def run_memory(job: MemoryJob, place: Workplace, reporter: Reporter) -> None:
    """Measure peak memory and write the figures as JSON."""
    # models and maps of its own, lest it replace the user's in that folder
    with tempfile.TemporaryDirectory(prefix="memory-", dir=job.out) as folder:
        steps, least = measure_memory(
            *(Path(folder), job.size, job.layers, job.iterations, job.mapped, job.whole), reporter
        )
    (result,) = results_of(job)
    content = {
        "steps": [asdict(step) for step in steps],
        "least": asdict(least) if least else None,
        "provenance": place.provenance.model_dump(mode="json"),
    }
    (place.folder / result.name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    place.deliver(result.name, result)
    reporter.wrote("benchmark", result, "peak memory and time of each step")


def run_benchmark(job: SyntheticBenchmarkJob | AblationJob, reporter: Reporter) -> None:
    """The paper's tables; scikit-learn and matplotlib load only when they are asked for."""
    from geocfm.run.benchmarks import run_ablation_benchmark, run_synthetic_benchmark

    if isinstance(job, AblationJob):
        run_ablation_benchmark(job, reporter)
    else:
        run_synthetic_benchmark(job, reporter)


def run_regional_benchmark(job: MosaicJob | FoldsJob, place: Workplace, reporter: Reporter) -> None:
    """Maps of regions held against each other; scikit-learn loads only when it is asked for."""
    from geocfm.run.regional_benchmarks import run_folds, run_mosaic

    if isinstance(job, FoldsJob):
        run_folds(job, place, reporter)
    else:
        run_mosaic(job, place, reporter)


_WITHOUT_WORKPLACE: dict[type[Job], Callable[[Any, Reporter], None]] = {
    CheckJob: run_check,
    InfoJob: run_info,
    # whose results are many files, each kept as soon as it is made
    SyntheticBenchmarkJob: run_benchmark,
    AblationJob: run_benchmark,
}
_WRITING: dict[type[WritingJob], Callable[[Any, Workplace, Reporter], None]] = {
    TrainJob: run_train,
    MapJob: run_map,
    SampleJob: run_sample,
    TargetsJob: run_targets,
    EvaluateJob: run_evaluate,
    MemoryJob: run_memory,
    MosaicJob: run_regional_benchmark,
    FoldsJob: run_regional_benchmark,
    SynthJob: run_synth,
}


def run_job(job: Job, reporter: Reporter) -> None:
    """Do what the job says; progress, results and files are told to the reporter."""
    if type(job) in _WITHOUT_WORKPLACE:
        _WITHOUT_WORKPLACE[type(job)](job, reporter)
        return
    assert isinstance(job, WritingJob)
    provenance = trace(job)
    if not job.overwrite and made_before(job, provenance):
        tidy(job)
        reporter.note("This very job has been done before; --overwrite does it again.")
        main, *others = results_of(job)
        reporter.wrote("earlier", main, "made earlier from the same inputs")
        for path in others:
            if path.name.endswith(OCCURRENCES) and path.exists():
                reporter.wrote("occurrences", path, "those that were used")
            elif path.name.endswith(REPORT[0]) and path.exists():
                reporter.wrote("report", path, "the report, to be read in a browser")
            elif isinstance(job, MapJob) and path == job.uncertainty:
                reporter.wrote("uncertainty", path, "how far the map can be trusted")
            elif isinstance(job, TrainJob) and job.folds and path == fold_results(job.out)[0]:
                reporter.wrote("out-of-fold", path, "map of tiles by models that never saw them")
        return
    with working(job, provenance) as place:
        if place.continued and not isinstance(job, TrainJob):  # which says from which iteration
            reporter.note("Going on from what an interrupted run left.")
        _WRITING[type(job)](job, place, reporter)
