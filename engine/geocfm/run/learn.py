"""Check and train: from rasters and occurrences to a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from geocfm.benchmark_job import FoldsJob
from geocfm.data.preflight import Preflight, inspect_region
from geocfm.data.region import Region, prepare_region
from geocfm.data.seen_cells import gather_experience
from geocfm.data.split import TRAIN
from geocfm.errors import Cancelled, Interrupted, UserError
from geocfm.events import Reporter
from geocfm.geo.area import Area, read_area
from geocfm.geo.grid import Grid
from geocfm.geo.layers import find_effort
from geocfm.geo.occurrences import Occurrences
from geocfm.geo.rasters import Layer, Stack, reference_grid
from geocfm.geo.writing import Band, write_cog
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import DENSITY, UNIT
from geocfm.job import CheckJob, LearningJob, TrainJob
from geocfm.layer_spec import gdal_name
from geocfm.model.checkpoint import (
    Checkpoint,
    GridCard,
    MemberCard,
    ModelCard,
    OccurrenceCard,
    checkpoint_bytes,
)
from geocfm.model.device import choose_device, describe_device
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import Settings, change_settings, choose_preset
from geocfm.results import fold_results, results_of, unfinished_model
from geocfm.run.apply import MAP_PARTS
from geocfm.run.folds import OUT_OF_FOLD, CrossValidation, all_of_role, cross_validate
from geocfm.run.inputs import given_layers, open_occurrences, write_occurrences
from geocfm.run.needs import ensure_learning_fits
from geocfm.run.pooled import Pooled, pooled_worth
from geocfm.run.provenance import TAG, Provenance
from geocfm.run.report_baselines import BASELINE_PARTS
from geocfm.run.reporting import report_on_training, tell_report
from geocfm.run.workplace import Workplace, remove_unfinished
from geocfm.training.loop import train
from geocfm.training.losses import flow_loss
from geocfm.training.members import (
    ensemble_of,
    fit_member,
    share_of_budget,
    with_iterations,
    with_start,
)
from geocfm.training.resume import STATE, Snapshot, discard_state, load_state, save_state
from geocfm.training.shrink import SHARE, shrunk

PREVIEW_DRAWS = 4


def choose_settings(job: LearningJob, *, accelerated: bool) -> Settings:
    """The preset with what the job changes."""
    changes = {}
    for text in job.settings:
        key, equals, value = text.partition("=")
        if not equals:
            raise UserError(f"--set {text} has no value.", "Write it as --set name=value.")
        changes[key.strip()] = value.strip()
    if job.window:
        changes["windows.size"] = str(job.window)
        changes.setdefault("windows.stride", "none")
    if job.tile:
        changes["windows.tile"] = str(job.tile)
    if isinstance(job, TrainJob | FoldsJob) and (job.minutes or job.iterations):
        changes["training.minutes"] = str(job.minutes)
        changes["training.iterations"] = str(job.iterations)
    if isinstance(job, TrainJob):
        changes |= _searched_ground(job)
    settings = change_settings(choose_preset(job.preset, accelerated=accelerated), changes)
    if settings.training.minutes is None and settings.training.iterations is None:
        raise UserError("Training would never end.", "Give --minutes or --iterations.")
    return settings


def _searched_ground(job: TrainJob) -> dict[str, str]:
    """The settings that say which ground counts as searched, if the job does."""
    if not job.positive_only and job.ground == "auto":
        return {}
    if job.preset.startswith("paper-"):
        raise UserError(
            f"The preset {job.preset} knows windows alone: it has no ground to choose.",
            "Leave out --ground and --positive-only, or use the preset quick or full.",
        )
    if not job.positive_only:
        return {"training.ground": job.ground}
    if job.ground == "region":
        raise UserError(
            "--ground region counts ground without occurrences as searched, and --positive-only "
            "does not.",
            "Leave one of them out.",
        )
    return {"training.ground": "window", "network.start": "even"}


@dataclass(frozen=True)
class FoundData:
    """The layers, the grid they will be aligned on, and the occurrences there."""

    layers: list[Layer]
    grid: Grid
    area: Area | None
    occurrences: Occurrences
    effort: Layer | None  # of surveys, that occurrences are weighted by


def find_data(job: LearningJob) -> FoundData:
    """Find what the job names; with an area of interest the grid ends where the area does."""
    layers = given_layers(job)
    like = gdal_name(job.like) if job.like else None
    grid = reference_grid(layers, like, job.crs, job.resolution, job.extent)
    area = None
    if job.aoi:
        grid = grid.subgrid(read_area(job.aoi, grid, job.aoi_layer).bounds)
        area = read_area(job.aoi, grid, job.aoi_layer)
    occurrences = open_occurrences(job, grid, job.where)
    effort = find_effort(job.effort) if job.effort else None
    inside = occurrences.inside(area) if area else occurrences
    return FoundData(layers, grid, area, inside, effort)


@contextmanager
def open_region(
    job: LearningJob, settings: Settings, device: torch.device, reporter: Reporter
) -> Iterator[Region]:
    """Find the layers, align them, read the occurrences, look at every cell once.

    What could not fit into the memory when training on the device is refused first.
    """
    found = find_data(job)
    points = found.occurrences.points
    ensure_learning_fits(found.grid, len(found.layers), points, settings, device)
    with ExitStack() as files:
        stack = files.enter_context(Stack(found.layers, found.grid, found.area))
        effort = None
        if found.effort is not None:
            effort = files.enter_context(Stack([found.effort], found.grid))
        stage = reporter.stage("Reading layers")
        yield prepare_region(stack, found.occurrences, settings.windows, stage, effort)


def run_check(job: CheckJob, reporter: Reporter) -> None:
    """Say what there is and what will be done; what makes training impossible fails the job."""
    device = choose_device("auto")
    settings = choose_settings(job, accelerated=device.type == "cuda")
    with open_region(job, settings, device, reporter) as region:
        found = inspect_region(region)
    _tell(found, reporter)
    reporter.report("check", found.to_dict())
    _refuse(found)
    reporter.note("Training is possible.")


def _tell(found: Preflight, reporter: Reporter) -> None:
    for sentence in found.sentences:
        reporter.note(sentence)
    for sentence in found.warnings:
        reporter.warn(sentence)


def _refuse(found: Preflight) -> None:
    if found.problems:
        raise UserError("Training is not possible with these inputs.", " ".join(found.problems))


def run_train(job: TrainJob, place: Workplace, reporter: Reporter) -> None:
    """Prepare the region, train, and keep the best and the last model."""
    device = choose_device(job.device)
    settings = choose_settings(job, accelerated=device.type == "cuda")
    unfinished = unfinished_model(job.out)
    _, last, log_path, preview_path, occurrences, *_ = results_of(job)
    with open_region(job, settings, device, reporter) as region:
        found = inspect_region(region)
        _tell(found, reporter)
        _refuse(found)
        settings = with_start(settings, len(region.points))
        settings = share_of_budget(settings, job.ensemble * (1 + (job.folds or 0)))
        validated, pooled = None, Pooled()
        if job.folds:
            validated = _cross_validate(job, region, settings, found, device, place, reporter)
            pooled = pooled_worth(validated, region)
            region = region.with_split(all_of_role(region.split, TRAIN))
            settings = with_iterations(settings, validated.iterations)

        noting = reporter.stage("Noting what is seen")
        seen = region.starts if settings.training.ground == "window" else region.ground
        experience = gather_experience(region, seen["train"], settings.training, job.seed, noting)

        def card(snapshot: Snapshot, others: Sequence[MemberCard] = ()) -> ModelCard:
            return make_card(region, settings, job, found, snapshot, place.provenance, others)

        def write_model(name: str, *members: Snapshot) -> None:
            first, *others = members
            cards = [
                MemberCard(seed=one.seed, iterations=other.iteration, metrics=other.metrics)
                for one, other in zip(ensemble[1:], others, strict=False)
            ]
            weights = [one.weights for one in members]
            content = checkpoint_bytes(weights, card(first, cards), experience)
            (place.folder / name).write_bytes(content)

        def keep(*best: Snapshot) -> None:
            write_model("best", *best)
            place.deliver("best", unfinished)
            reporter.wrote("checkpoint", unfinished, "the best model so far")

        def preview(network: VelocityNetwork) -> None:
            example = Checkpoint((network,), card(Snapshot({}, 0, {})))
            _preview(place.folder / "preview.png", region, example, device, job.seed)
            place.deliver("preview.png", preview_path)

        channels = card(Snapshot({}, 0, {})).channels
        ensemble = ensemble_of(region, settings, channels, job.ensemble, job.seed)
        if ensemble[0].start is not None and ensemble[0].start.sentence():
            reporter.note(ensemble[0].start.sentence())
        network = ensemble[0].network()
        weights = sum(parameter.numel() for parameter in network.parameters())
        reporter.note(
            f"Training preset '{settings.preset}' ({weights / 1e6:.2f} million weights) on "
            f"{describe_device(device)}, {describe_budget(settings)}"
            f"{f' for each of {job.ensemble} networks' if job.ensemble > 1 else ''}."
        )
        earlier = load_state(place.folder, network) if place.continued else None
        if earlier is not None:
            reporter.note(f"Going on from iteration {earlier.position.iteration}.")
        elif place.continued and (place.folder / STATE).exists():
            discard_state(place.folder)
            for parts in (MAP_PARTS, BASELINE_PARTS):  # of another model's report
                place.discard_part(parts)
            reporter.warn("The state of the interrupted run cannot be used; training begins anew.")
        log_file = place.folder / "log.jsonl"
        with _open_log(log_file, place.provenance, afresh=earlier is None) as log:
            try:
                source = ensemble[0].source
                training = settings.training
                loss = partial(flow_loss, density_weight=training.density_weight)
                result = train(
                    *(source, network, loss, settings.training, device, reporter, log),
                    save=lambda state: save_state(place.folder, state),
                    keep=keep,
                    preview=preview,
                    earlier=earlier,
                )
            except Interrupted:
                raise
            except UserError:  # it would break down at the same step again
                place.discard()
                raise
        best = shrunk(result.best, ensemble[0].network(), source, device)
        members = [best]
        for member in ensemble[1:]:
            keep(*members)  # what there is if this one is interrupted
            members.append(
                fit_member(
                    *(member, device, place.folder / f"member-{member.number}", reporter),
                    f"Training member {member.number + 1}",
                )
            )
        write_model("best", *members)
        write_model("last", result.last)
        # until the best is in place an interrupted run still needs its own log
        shutil.copyfile(log_file, place.folder / "log")
        write_occurrences(place, occurrences, region.grid, region.points, region.ids)
        if result.stopped_early:
            reporter.note("Stopped early: validation no longer improved.")
        reporter.note(
            f"{result.last.iteration} iterations in {result.seconds / 60:.1f} minutes; best at "
            f"iteration {best.iteration}{_validation(best)}."
        )
        if not best.iteration:
            reporter.note(
                "No step of the training was better than its beginning: the network adds nothing "
                f"to {'what single cells say' if settings.network.begins else 'an even density'}."
            )
        elif best.metrics.get(SHARE, 1.0) < 1:
            reporter.note(
                f"The validation tiles bear out {100 * best.metrics[SHARE]:.0f} % of what the "
                "network corrects in what single cells say, and so much of it was kept."
            )
        try:
            report = report_on_training(
                job, region, "best", log_file, pooled, device, place, reporter
            )
        except Cancelled:
            keep(*members)
            raise
        if validated is not None:
            _write_folds(job, validated, pooled, place)
        for name, path in (("last", last), ("log", log_path), *report.items(), ("best", job.out)):
            place.deliver(name, path)
    remove_unfinished(job)
    judged = "validation_loss" in best.metrics
    chosen = "the best model on the validation tiles" if judged else "the last model"
    reporter.wrote("checkpoint", job.out, chosen)
    reporter.wrote("checkpoint", last, "the model at the end of training")
    reporter.wrote("log", log_path, "every training value, one JSON object per line")
    reporter.wrote("occurrences", occurrences, f"{found.occurrences['used']} occurrences used")
    if job.folds:
        out_of_fold, figures = fold_results(job.out)
        reporter.wrote("out-of-fold", out_of_fold, "map of tiles by models that never saw them")
        reporter.wrote("evaluation", figures, "how well that map finds all occurrences")
    if report:
        tell_report(list(report.values()), reporter)


def _cross_validate(
    job: TrainJob,
    region: Region,
    settings: Settings,
    found: Preflight,
    device: torch.device,
    place: Workplace,
    reporter: Reporter,
) -> CrossValidation:
    """The folds of a job, and what they say."""

    def card(fold: Region, snapshot: Snapshot) -> ModelCard:
        return make_card(fold, settings, job, found, snapshot, place.provenance)

    validated = cross_validate(
        *(region, settings, job.folds or 0, job.ensemble, job.seed),
        *(card, device, place.folder / "folds", reporter),
    )
    for sentence in validated.sentences():
        reporter.note(sentence)
    reporter.report("cross-validation", validated.to_dict())
    return validated


def _write_folds(
    job: TrainJob, validated: CrossValidation, pooled: Pooled, place: Workplace
) -> None:
    """The out-of-fold map and its figures, beside the model."""
    out_of_fold, figures = fold_results(job.out)
    provenance = place.provenance.model_dump(mode="json")
    write_cog(
        validated.raw.path,
        place.folder / "folds.tif",
        bands=[Band(1, DENSITY, UNIT, 1 / validated.raw.mean)],
        tags={"GEOCFM_MEANING": OUT_OF_FOLD, TAG: place.provenance.model_dump_json()},
    )
    content = {**validated.to_dict(), **asdict(pooled), "provenance": provenance}
    text = json.dumps(content, indent=1)
    (place.folder / "folds.json").write_text(text, encoding="utf-8")
    place.deliver("folds.tif", out_of_fold)
    place.deliver("folds.json", figures)


def _open_log(path: Path, provenance: Provenance, *, afresh: bool) -> TextIO:
    """The log, ready for the next line; its first says what the run is."""
    if afresh or not path.exists():
        first = json.dumps({"provenance": provenance.model_dump(mode="json")})
        path.write_text(f"{first}\n", encoding="utf-8", newline="\n")
    return path.open("a+", encoding="utf-8", newline="\n")


def make_card(
    region: Region,
    settings: Settings,
    job: TrainJob | FoldsJob,
    found: Preflight,
    snapshot: Snapshot,
    provenance: Provenance,
    others: Sequence[MemberCard] = (),
) -> ModelCard:
    """All that applying the model will need."""
    return ModelCard(
        settings=settings,
        layers=region.layer_cards,
        window_size=region.plan.size,
        grid=GridCard.model_validate(region.grid.to_dict()),
        split=region.split.to_card(),
        occurrences=OccurrenceCard(
            source=job.occurrences.name,
            where=tuple(job.where),
            counts=found.occurrences,
            effort=None if region.effort is None else region.effort.card,
        ),
        seed=job.seed,
        iterations=snapshot.iteration,
        metrics=snapshot.metrics,
        others=tuple(others),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions=provenance.versions,
        provenance=provenance.model_dump(mode="json"),
    )


def describe_budget(settings: Settings) -> str:
    """How long a training may last, as a part of a sentence."""
    minutes, iterations = settings.training.minutes, settings.training.iterations
    bounds = []
    if iterations is not None:
        bounds.append(f"{iterations:,} iterations")
    if minutes:
        bounds.append(f"{minutes:g} {'minute' if minutes == 1 else 'minutes'}")
    return " or ".join(bounds)


def _validation(snapshot: Snapshot) -> str:
    loss = snapshot.metrics.get("validation_loss")
    return "" if loss is None else f" with validation loss {loss:.4f}"


def _preview(
    path: Path, region: Region, example: Checkpoint, device: torch.device, seed: int
) -> None:
    """A picture of draws in the validation window with the most occurrences."""
    from geocfm.evaluation.plots import plot_draws  # matplotlib takes half a second

    starts = (
        region.starts["validation"] if len(region.starts["validation"]) else region.starts["train"]
    )
    window = max(map(region.window, starts), key=lambda w: len(region.points_in(w)))
    sampling = example.card.settings.sampling
    predictor = Predictor(example, region, sampling, device)
    encoded = predictor.encode([window])
    draws = [
        predictor.draw(encoded, [sampling.points], seed + number)[0].points
        for number in range(PREVIEW_DRAWS)
    ]
    background = np.nan_to_num(region.read(window)[0])
    provenance = json.dumps(example.card.provenance)
    plot_draws(path, background, region.points_in(window), draws, provenance)
