"""The paper's benchmarks as jobs: a folder is claimed, its settings are compared, work goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from geocfm.benchmark_job import AblationJob, SyntheticBenchmarkJob
from geocfm.errors import UserError
from geocfm.evaluation.benchmark.ablations import RECIPE, run_ablation
from geocfm.evaluation.benchmark.bench import ABLATIONS, FLOW, Bench, is_network
from geocfm.evaluation.benchmark.folder import (
    clear,
    clear_ablation,
    clear_methods,
    refuse_foreign,
)
from geocfm.evaluation.benchmark.methods import choose_methods
from geocfm.evaluation.benchmark.paper import GAP
from geocfm.evaluation.benchmark.protocol import (
    CHOICES,
    BenchmarkSettings,
    benchmark_settings,
    ensure_same,
    refuse_other,
    settings_there,
)
from geocfm.evaluation.benchmark.recipe import RECIPES, recipe_bench
from geocfm.evaluation.benchmark.synthetic import run_synthetic
from geocfm.events import Reporter
from geocfm.mistakes import choose_names
from geocfm.model.device import choose_device
from geocfm.results import work_folder
from geocfm.run.claim import claim, lock_folder
from geocfm.run.needs import ensure_benchmark_fits
from geocfm.run.workplace import explained

ELSEWHERE = (
    "An ablation keeps to the settings of the benchmark in its folder, --overwrite or not: "
    "choose another folder for other settings."
)


def run_synthetic_benchmark(job: SyntheticBenchmarkJob, reporter: Reporter) -> None:
    """Every method on the synthetic benchmark; what is there of an earlier run is taken."""
    _refuse_file(job.out)
    settings = _settings({name: getattr(job, name) for name in CHOICES})
    keys = choose_methods(job.methods, with_head=settings.settings.network.density)
    with _working(job):
        bench = _bench(job, settings, reporter)
        if not job.overwrite:
            refuse_other(settings, job.out)
        _ensure_memory(bench, keys, anew=job.overwrite)
        if job.overwrite:
            _begin_anew(settings, keys, job.out)
        ensure_same(settings, job.out)
        run_synthetic(bench, keys)


def run_ablation_benchmark(job: AblationJob, reporter: Reporter) -> None:
    """One ablation; options that are not given are those of the benchmark in the folder.

    Overwriting does the ablation again, with the methods and the weights that are there.
    """
    _refuse_file(job.out)
    recipes = choose_names(job.recipes, list(RECIPES), "recipe")
    if job.kind != RECIPE and job.recipes != "all":
        raise UserError("--recipes is for the ablation recipe.", "Leave it out, or ablate recipe.")
    chosen = {name: SyntheticBenchmarkJob.model_fields[name].default for name in CHOICES}
    earlier = settings_there(job.out, ELSEWHERE)
    if earlier is not None:
        chosen |= {name: getattr(earlier, name) for name in CHOICES}
    given = {name: getattr(job, name) for name in CHOICES}
    chosen |= {name: value for name, value in given.items() if value is not None}
    settings = _settings(chosen)
    with _working(job):
        bench = _bench(job, settings, reporter)
        refuse_other(settings, job.out, ELSEWHERE)
        if job.kind == RECIPE:
            for key in recipes:
                _ensure_memory(recipe_bench(bench, job.out / ABLATIONS / RECIPE, key), [FLOW])
        else:
            _ensure_memory(bench, list(GAP) if job.kind == "gap" else [FLOW])
        if job.overwrite:
            clear_ablation(job.out, job.kind, recipes)
        ensure_same(settings, job.out)
        run_ablation(bench, job.kind, recipes)


def _begin_anew(settings: BenchmarkSettings, keys: Sequence[str], folder: Path) -> None:
    """Remove what is to be made again: all of a benchmark with other settings, or some methods."""
    try:
        earlier = settings_there(folder)
        same = earlier is not None and not settings.differences(earlier)
    except UserError:  # of another version
        same = False
    if same:
        clear_methods(folder, keys)
    else:
        clear(folder)


@contextmanager
def _working(job: SyntheticBenchmarkJob | AblationJob) -> Iterator[None]:
    """Claim the folder; a full disk or a folder that vanished is said in a sentence."""
    folder = work_folder(job)
    with claim({folder: job.out}):
        try:
            yield
        except Exception as error:
            raise explained(error, lock_folder(folder)) from error


def _settings(chosen: dict[str, object]) -> BenchmarkSettings:
    device = str(choose_device(str(chosen["device"])))
    return benchmark_settings(**{**chosen, "device": device})  # type: ignore[arg-type]


def _bench(
    job: SyntheticBenchmarkJob | AblationJob, settings: BenchmarkSettings, reporter: Reporter
) -> Bench:
    refuse_foreign(job.out)
    return Bench(job.out, settings, choose_device(settings.device), reporter)


def _ensure_memory(bench: Bench, keys: Sequence[str], *, anew: bool = False) -> None:
    """Refuse, before anything is written, networks that are yet to be trained and cannot be."""
    settings = bench.settings
    for key in filter(is_network, keys):
        if anew or not (bench.has_weights(key) or bench.result(key)):
            deposits = settings.synthetic.deposits
            ensure_benchmark_fits(settings.settings, settings.size, deposits, bench.device)


def _refuse_file(out: Path) -> None:
    if out.is_file():
        raise UserError(f"'{out}' is a file.", "Give the name of a folder.")
