"""Check and train: from rasters and occurrences to a checkpoint."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import torch

from geocfm.data.preflight import Preflight, inspect_region
from geocfm.data.region import Region, prepare_region
from geocfm.data.region_batches import RegionBatches
from geocfm.errors import Cancelled, Interrupted, UserError
from geocfm.events import Reporter
from geocfm.geo.area import Area, read_area
from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import Occurrences
from geocfm.geo.rasters import Layer, Stack, reference_grid
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
from geocfm.model.network import VelocityNetwork, new_network
from geocfm.model.settings import Settings, change_settings, choose_preset
from geocfm.results import results_of, unfinished_model
from geocfm.run.apply import MAP_PARTS
from geocfm.run.inputs import given_layers, open_occurrences, write_occurrences
from geocfm.run.needs import ensure_learning_fits
from geocfm.run.provenance import Provenance
from geocfm.run.reporting import report_on_training, tell_report
from geocfm.run.workplace import Workplace, remove_unfinished
from geocfm.training.loop import train
from geocfm.training.losses import flow_loss
from geocfm.training.resume import Snapshot, discard_state, load_state, save_state

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


@dataclass(frozen=True)
class FoundData:
    """The layers, the grid they will be aligned on, and the occurrences there."""

    layers: list[Layer]
    grid: Grid
    area: Area | None
    occurrences: Occurrences


def find_data(job: LearningJob) -> FoundData:
    """Find what the job names; with an area of interest the grid ends where the area does."""
    layers = given_layers(job)
    like = str(job.like) if job.like else None
    grid = reference_grid(layers, like, job.crs, job.resolution, job.extent)
    area = None
    if job.aoi:
        grid = grid.subgrid(read_area(job.aoi, grid, job.aoi_layer).bounds)
        area = read_area(job.aoi, grid, job.aoi_layer)
    occurrences = open_occurrences(job, grid, job.where)
    return FoundData(layers, grid, area, occurrences.inside(area) if area else occurrences)


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
    with Stack(found.layers, found.grid, found.area) as stack:
        stage = reporter.stage("Reading layers")
        yield prepare_region(stack, found.occurrences, settings.windows, stage)


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

        def card(snapshot: Snapshot) -> ModelCard:
            return make_card(region, settings, job, found, snapshot, place.provenance)

        def write_model(name: str, snapshot: Snapshot) -> None:
            content = checkpoint_bytes(snapshot.weights, card(snapshot))
            (place.folder / name).write_bytes(content)

        def keep(best: Snapshot) -> None:
            write_model("best", best)
            place.deliver("best", unfinished)
            reporter.wrote("checkpoint", unfinished, "the best model so far")

        def preview(network: VelocityNetwork) -> None:
            example = Checkpoint(network, card(Snapshot({}, 0, {})))
            _preview(place.folder / "preview.png", region, example, device, job.seed)
            place.deliver("preview.png", preview_path)

        network = new_network(card(Snapshot({}, 0, {})).channels, settings, job.seed)
        weights = sum(parameter.numel() for parameter in network.parameters())
        reporter.note(
            f"Training preset '{settings.preset}' ({weights / 1e6:.2f} million weights) on "
            f"{describe_device(device)}, {describe_budget(settings)}."
        )
        earlier = load_state(place.folder, network) if place.continued else None
        if earlier is not None:
            reporter.note(f"Going on from iteration {earlier.position.iteration}.")
        elif place.continued:
            discard_state(place.folder)
            shutil.rmtree(place.folder / MAP_PARTS, ignore_errors=True)  # of another model's map
            reporter.warn("The state of the interrupted run cannot be used; training begins anew.")
        log_file = place.folder / "log.jsonl"
        with _open_log(log_file, place.provenance, afresh=earlier is None) as log:
            try:
                source = RegionBatches(region, settings.training, job.seed)
                loss = partial(flow_loss, density_weight=settings.training.density_weight)
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
        write_model("best", result.best)
        write_model("last", result.last)
        # until the best is in place an interrupted run still needs its own log
        shutil.copyfile(log_file, place.folder / "log")
        write_occurrences(place, occurrences, region.grid, region.points, region.ids)
        if result.stopped_early:
            reporter.note("Stopped early: validation no longer improved.")
        best = result.best
        reporter.note(
            f"{result.last.iteration} iterations in {result.seconds / 60:.1f} minutes; best at "
            f"iteration {best.iteration}{_validation(best)}."
        )
        try:
            report = report_on_training(job, region, "best", log_file, device, place, reporter)
        except Cancelled:
            keep(best)
            raise
        for name, path in (("last", last), ("log", log_path), *report.items(), ("best", job.out)):
            place.deliver(name, path)
    remove_unfinished(job)
    judged = "validation_loss" in best.metrics
    chosen = "the best model on the validation tiles" if judged else "the last model"
    reporter.wrote("checkpoint", job.out, chosen)
    reporter.wrote("checkpoint", last, "the model at the end of training")
    reporter.wrote("log", log_path, "every training value, one JSON object per line")
    reporter.wrote("occurrences", occurrences, f"{found.occurrences['used']} occurrences used")
    if report:
        tell_report(list(report.values()), reporter)


def _open_log(path: Path, provenance: Provenance, *, afresh: bool) -> TextIO:
    """The log, ready for the next line; its first says what the run is."""
    if afresh or not path.exists():
        first = json.dumps({"provenance": provenance.model_dump(mode="json")})
        path.write_text(f"{first}\n", encoding="utf-8", newline="\n")
    return path.open("a+", encoding="utf-8", newline="\n")


def make_card(
    region: Region,
    settings: Settings,
    job: TrainJob,
    found: Preflight,
    snapshot: Snapshot,
    provenance: Provenance,
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
        versions=provenance.versions,
        provenance=provenance.model_dump(mode="json"),
    )


def describe_budget(settings: Settings) -> str:
    """How long a training may last, as a part of a sentence."""
    minutes, iterations = settings.training.minutes, settings.training.iterations
    bounds = []
    if iterations:
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
