"""The files that a job writes, by name."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from geocfm.benchmark_job import (
    AblationJob,
    FoldsJob,
    MemoryJob,
    MosaicJob,
    SyntheticBenchmarkJob,
)
from geocfm.job import (
    EvaluateJob,
    Job,
    MapJob,
    SampleJob,
    SynthJob,
    TrainJob,
    WritingJob,
)

FIGURES = ("evaluation.json", "capture.png", "map.png")
IMPORTANCE = "importance.png"  # unless an evaluation is told to skip it
REPORT = ("report.html", "report.json")
OCCURRENCES = "occurrences.gpkg"  # those that were used, by training and by evaluation
TRUTH = "truth"  # a folder apart, so that the region's *.tif are what may be learned from
# jobs whose result is a folder
FOLDER_JOBS = (
    *(EvaluateJob, MemoryJob, MosaicJob, FoldsJob, SynthJob),
    *(SyntheticBenchmarkJob, AblationJob),
)
LONGEST_NAME = 200  # bytes; file systems allow 255, and the work folder's name is a little longer


def results_of(job: WritingJob) -> list[Path]:
    """The files a job writes. The first is moved into place last, so it means all are there."""
    out: Path = job.out
    if isinstance(job, TrainJob):
        ends = (f"last{out.suffix}", "log.jsonl", "preview.png", OCCURRENCES)
        folds = fold_results(job.out) if job.folds else ()
        return [out, *(_beside(out, end) for end in ends), *folds, *report_of(job)]
    if isinstance(job, EvaluateJob):
        names = [*FIGURES, OCCURRENCES] + [IMPORTANCE] * (not job.skip_importance)
        return [*(out / name for name in names), *report_of(job)]
    if isinstance(job, SynthJob):
        observed = [out / name for name in ("magnetics.tif", "geochemistry.tif", OCCURRENCES)]
        return observed + [out / TRUTH / f"{name}.tif" for name in ("intensity", "bayes", "latent")]
    if isinstance(job, MemoryJob):
        return [out / "memory.json"]
    if isinstance(job, MosaicJob | FoldsJob):
        name = "mosaic" if isinstance(job, MosaicJob) else "folds"
        return [out / f"{name}.json", out / f"{name}.md"]
    if isinstance(job, MapJob):
        return [out, *filter(None, (job.uncertainty, job.monte_carlo_error))]
    described = sidecar(out) if isinstance(job, SampleJob) else None
    return [out, described] if described else [out]


def read_paths(job: Job) -> dict[str, Path]:
    """The files that a job names to read from, by field."""
    written = {job.out, *results_of(job)} if isinstance(job, WritingJob) else set()
    return {name: path for name, path in job if isinstance(path, Path) and path not in written}


def fold_results(model: Path) -> tuple[Path, Path]:
    """What cross-validation leaves beside a model: the out-of-fold map, and its figures."""
    return _beside(model, "folds.tif"), _beside(model, "folds.json")


def report_of(job: TrainJob | EvaluateJob) -> list[Path]:
    """The report of a job and its figures; none where a training is to write none."""
    if isinstance(job, EvaluateJob):
        return [job.out / name for name in REPORT]
    return [] if job.skip_report else [_beside(job.out, name) for name in REPORT]


def unfinished_model(out: Path) -> Path:
    """Where a stopped training leaves its best model so far."""
    return _beside(out, f"unfinished{out.suffix}")


def work_folder(job: WritingJob) -> Path:
    """Where a job works, on the disk of its results; the name is the same for every run."""
    out = job.out.resolve() if job.out.is_symlink() else job.out
    if isinstance(job, FOLDER_JOBS):
        return out / ".work"
    name = out.name
    if len(os.fsencode(name)) > LONGEST_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return out.with_name(f".{name}.work")


def sidecar(path: Path) -> Path | None:
    """The file that carries the provenance of a format that cannot: CSV and GeoJSON."""
    if path.suffix.lower() in (".csv", ".geojson", ".json"):
        return path.with_name(f"{path.name}.provenance.json")
    return None


def _beside(out: Path, end: str) -> Path:
    """A file named after a result: model.safetensors and 'log.jsonl' give model.log.jsonl."""
    return out.with_name(f"{out.stem}.{end}")
