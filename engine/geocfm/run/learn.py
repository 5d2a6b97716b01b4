"""Check and train: from rasters and occurrences to a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import torch

from geocfm.data.preflight import Preflight, inspect_region
from geocfm.data.region import Region, prepare_region
from geocfm.errors import Cancelled, UserError
from geocfm.evaluation.plots import plot_draws
from geocfm.events import Reporter
from geocfm.geo.rasters import Stack, find_layers, reference_grid
from geocfm.geo.writing import atomic_path, ensure_writable
from geocfm.inference.predictor import Predictor
from geocfm.job import CheckJob, LearningJob, TrainJob
from geocfm.model.checkpoint import (
    Checkpoint,
    GridCard,
    ModelCard,
    OccurrenceCard,
    checkpoint_bytes,
)
from geocfm.model.device import choose_device, describe_device
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import Settings, change_settings, choose_preset
from geocfm.run.inputs import open_occurrences
from geocfm.training.loop import Snapshot, new_network, train
from geocfm.versions import software_versions

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
    if isinstance(job, TrainJob) and (job.minutes or job.iterations):
        changes["training.minutes"] = str(job.minutes)
        changes["training.iterations"] = str(job.iterations)
    settings = change_settings(choose_preset(job.preset, accelerated=accelerated), changes)
    if settings.training.minutes is None and settings.training.iterations is None:
        raise UserError("Training would never end.", "Give --minutes or --iterations.")
    return settings


@contextmanager
def open_region(job: LearningJob, settings: Settings, reporter: Reporter) -> Iterator[Region]:
    """Find the layers, align them, read the occurrences, look at every cell once."""
    layers = find_layers(job.raster, job.classes)
    like = str(job.like) if job.like else None
    grid = reference_grid(layers, like, job.crs, job.resolution, job.extent)
    occurrences = open_occurrences(job, grid, job.where)
    with Stack(layers, grid) as stack:
        stage = reporter.stage("Reading layers")
        yield prepare_region(stack, occurrences, settings.windows, stage)


def run_check(job: CheckJob, reporter: Reporter) -> None:
    """Say what there is and what will be done; what makes training impossible fails the job."""
    with open_region(job, choose_settings(job, accelerated=False), reporter) as region:
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


def run_train(job: TrainJob, reporter: Reporter) -> None:
    """Prepare the region, train, and keep the best and the last model."""
    ensure_writable(job.out)
    device = choose_device(job.device)
    settings = choose_settings(job, accelerated=device.type == "cuda")
    with open_region(job, settings, reporter) as region:
        found = inspect_region(region)
        _tell(found, reporter)
        _refuse(found)
        last = job.out.with_name(f"{job.out.stem}.last{job.out.suffix}")
        log_path = job.out.with_name(f"{job.out.stem}.log.jsonl")

        def card(snapshot: Snapshot) -> ModelCard:
            return make_card(region, settings, job, found, snapshot)

        kept: list[Snapshot] = []

        def keep_best(snapshot: Snapshot) -> None:
            _save(job.out, snapshot, card(snapshot))
            kept[:] = [snapshot]

        def preview(network: VelocityNetwork) -> None:
            example = Checkpoint(network, card(Snapshot({}, 0, {})))
            _preview(
                job.out.with_name(f"{job.out.stem}.preview.png"), region, example, device, job.seed
            )

        start = card(Snapshot({}, 0, {}))
        network = new_network(start.channels, settings, job.seed)
        weights = sum(parameter.numel() for parameter in network.parameters())
        reporter.note(
            f"Training preset '{settings.preset}' ({weights / 1e6:.2f} million weights) on "
            f"{describe_device(device)}, {_budget(settings)}."
        )
        try:
            with log_path.open("w", encoding="utf-8") as log:
                result = train(
                    region, network, settings, job.seed, device, reporter, log, keep_best, preview
                )
        except Cancelled:
            if kept:
                reporter.wrote("checkpoint", job.out, "the best model so far")
            raise
        _save(last, result.last, card(result.last))
    if result.stopped_early:
        reporter.note("Stopped early: validation no longer improved.")
    best = result.best
    reporter.note(
        f"{result.last.iteration} iterations in {result.seconds / 60:.1f} minutes; best at "
        f"iteration {best.iteration}{_validation(best)}."
    )
    judged = "on the validation tiles" if "validation_loss" in best.metrics else "at the end"
    reporter.wrote("checkpoint", job.out, f"the best model {judged}")
    reporter.wrote("checkpoint", last, "the model at the end of training")
    reporter.wrote("log", log_path, "every training value, one JSON object per line")


def make_card(
    region: Region, settings: Settings, job: TrainJob, found: Preflight, snapshot: Snapshot
) -> ModelCard:
    """All that applying the model will need."""
    return ModelCard(
        settings=settings,
        layers=region.layer_cards,
        window_size=region.plan.size,
        grid=GridCard.model_validate(region.grid.to_dict()),
        split=region.split.to_card(),
        occurrences=OccurrenceCard(
            source=job.occurrences.name, where=tuple(job.where), counts=found.occurrences
        ),
        seed=job.seed,
        iterations=snapshot.iteration,
        metrics=snapshot.metrics,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        versions=software_versions(),
    )


def _save(path: Path, snapshot: Snapshot, card: ModelCard) -> None:
    with atomic_path(path) as temporary:
        temporary.write_bytes(checkpoint_bytes(snapshot.weights, card))


def _budget(settings: Settings) -> str:
    minutes, iterations = settings.training.minutes, settings.training.iterations
    bounds = []
    if iterations:
        bounds.append(f"{iterations:,} iterations")
    if minutes:
        bounds.append(f"{minutes:g} minutes")
    return " or ".join(bounds)


def _validation(snapshot: Snapshot) -> str:
    loss = snapshot.metrics.get("validation_loss")
    return "" if loss is None else f" with validation loss {loss:.4f}"


def _preview(
    path: Path, region: Region, example: Checkpoint, device: torch.device, seed: int
) -> None:
    """A picture of draws in the validation window with the most occurrences."""
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
    plot_draws(path, background, region.points_in(window), draws)
