"""The report of a model on its own region: what evaluating it and training it end with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from geocfm.data.preflight import LEFT_OUT
from geocfm.data.region import Region
from geocfm.data.split import ROLES, TEST, TRAIN, VALIDATION, Split
from geocfm.errors import Cancelled, UserError
from geocfm.evaluation.calibration import calibrate, mass_curve
from geocfm.evaluation.capture import REPORTED_SHARES, CaptureCurve, bin_logs
from geocfm.evaluation.evaluate import Evaluation, evaluate_map
from geocfm.evaluation.importance import layer_importance
from geocfm.evaluation.prediction_area import prediction_area
from geocfm.evaluation.rates import LEVELS, Estimate, densities_by_tile, role_rates
from geocfm.evaluation.report.content import (
    BaselineRow,
    Baselines,
    Extras,
    LayerUsed,
    LeftOut,
    MapFacts,
    ModelFacts,
    OccurrencesUsed,
    Report,
)
from geocfm.evaluation.report.history import read_history
from geocfm.evaluation.report.overview import LayerView, look_over
from geocfm.events import Reporter
from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import Occurrences
from geocfm.inference.predictor import Layers, Predictor
from geocfm.inference.regional_map import RawMap
from geocfm.job import TrainJob
from geocfm.model.checkpoint import ModelCard, load_checkpoint
from geocfm.results import REPORT, report_of
from geocfm.run.apply import Application, raw_map
from geocfm.run.learned_area import LearnedArea, trained_with
from geocfm.run.pooled import Pooled
from geocfm.run.report_baselines import Compared, choose_baselines
from geocfm.run.report_extras import map_extras
from geocfm.run.workplace import Workplace

if TYPE_CHECKING:
    from geocfm.run.baselines import Beside

PAGE, FIGURES = REPORT  # names in the work folder
MAP_PICTURE = "map.png"
MAP_TITLE = "Prospectivity and known occurrences"


@dataclass(frozen=True)
class Measured:
    """A model's map of its own region, and what the map is worth."""

    name: str  # of the model
    card: ModelCard
    layers: Layers
    occurrences: Occurrences
    split: Split  # in cells of the layers' grid
    raw: RawMap
    evaluation: Evaluation
    picture: Path  # of the map
    log: Path  # where that of the training lies, if it is to be had
    warnings: tuple[str, ...]
    pooled: Pooled  # what cross-validation found


def write_report(found: Measured, extras: Extras, place: Workplace, reporter: Reporter) -> None:
    """Make the page and its figures in the work folder."""
    # matplotlib takes half a second
    from geocfm.evaluation.report.page import report_json, report_page
    from geocfm.evaluation.report.pictures import Pictures, layer_picture

    zero = found.card.settings.windows.zero_is_nodata
    views = look_over(found.layers, found.card.layers, zero, reporter.stage("Making the report"))
    report = make_report(found, views, extras, place)
    pictures = Pictures(
        tuple(
            layer_picture(view, card.classes)
            for view, card in zip(views, found.card.layers, strict=True)
        ),
        found.picture.read_bytes(),
    )
    # names of files may hold what is no text
    (place.folder / PAGE).write_bytes(report_page(report, pictures).encode("utf-8", "replace"))
    (place.folder / FIGURES).write_bytes(report_json(report).encode("utf-8"))


def tell_report(paths: Sequence[Path], reporter: Reporter) -> None:
    """Say where the page and its figures are."""
    page, figures = paths
    reporter.wrote("report", page, "the report, to be read in a browser")
    reporter.wrote("report data", figures, "all that the report tells, as JSON")


def make_report(
    found: Measured, views: Sequence[LayerView], extras: Extras, place: Workplace
) -> Report:
    """All that the report tells."""
    card, evaluation, split = found.card, found.evaluation, found.split
    points = found.occurrences.points
    held_out = densities_by_tile(evaluation, points, split, TEST)
    return Report(
        model=_model_facts(found),
        layers=tuple(
            LayerUsed(
                name=layer.name,
                units=layer.units,
                classes=len(layer.classes),
                mean=layer.mean,
                std=layer.std,
                coverage=view.coverage,
            )
            for layer, view in zip(card.layers, views, strict=True)
        ),
        occurrences=_occurrences_used(found.occurrences, evaluation),
        effort=trained_with(card, "effort"),
        training=read_history(found.log, card),
        map=_map_facts(found.raw, evaluation),
        prediction_rate=role_rates(evaluation, points, split, TEST),
        validation_rate=role_rates(evaluation, points, split, VALIDATION),
        success_rate=role_rates(evaluation, points, split, TRAIN),
        prediction_area=prediction_area(evaluation.test) or found.pooled.prediction_area,
        calibration=calibrate(evaluation.test, evaluation.validation, *held_out)
        or found.pooled.calibration,
        warnings=found.warnings,
        provenance=place.provenance.model_dump(mode="json"),
        extras=extras,
    )


def _model_facts(found: Measured) -> ModelFacts:
    card, grid, size = found.card, found.layers.grid, found.card.window_size
    roles: list[str] = [role for row in card.split.roles for role in row]
    return ModelFacts(
        name=found.name,
        preset=card.settings.preset,
        created=card.created,
        seed=card.seed,
        networks=1 + len(card.others),
        iterations=card.iterations,
        other_iterations=tuple(other.iterations for other in card.others),
        window=f"{size} x {size} cells ({_across(size, grid)} across)",
        grid=grid.describe(),
        tiles={role: roles.count(role) for role in ROLES},
        searched=card.searched(),
        learned_from=_learned_from(card, found.evaluation),
    )


def _learned_from(card: ModelCard, evaluation: Evaluation) -> str:
    """The occurrences that a model was made from, and how many of them it learned from itself."""
    learned, trained = card.occurrences, evaluation.train.count
    used = learned.counts.get("used", 0)
    where = f" where {' and '.join(learned.where)}" if learned.where else ""
    said = f"{used:,} occurrences in {learned.source}{where}"
    # of others than those that it was trained with, nobody knows how many
    same = trained + evaluation.validation.count + evaluation.test.count == used
    if not same or trained == used:
        return said
    return (
        f"{said} (it learned from the {trained:,} on training tiles; the others chose its best "
        "moment, or judge it)"
    )


def _across(cells: int, grid: Grid) -> str:
    length = cells * grid.cell_size[0]
    return f"{length / 1000:g} km" if grid.unit == "m" else grid.length(length)


def _occurrences_used(occurrences: Occurrences, evaluation: Evaluation) -> OccurrencesUsed:
    counts = {**asdict(occurrences.counts), "on_no_data": evaluation.on_no_data}
    return OccurrencesUsed(
        source=Path(occurrences.source).name,
        where=occurrences.where,
        read=counts["read"],
        used=counts["used"] - evaluation.on_no_data,
        left_out=tuple(LeftOut(counts[key], why) for key, why in LEFT_OUT.items() if counts[key]),
        sharing_a_cell=occurrences.counts.sharing_a_cell,
        by_role={
            "train": evaluation.train.count,
            "validation": evaluation.validation.count,
            "test": evaluation.test.count,
        },
    )


def _map_facts(raw: RawMap, evaluation: Evaluation) -> MapFacts:
    whole = CaptureCurve(evaluation.train.area + evaluation.validation.area + evaluation.test.area)
    area = np.cumsum(whole.area[::-1]) / whole.area.sum()
    mass = np.cumsum(mass_curve(whole).area[::-1])
    highest = float(np.exp(bin_logs()[np.nonzero(whole.area)[0][-1]]))
    half = float(np.interp(0.5, mass, area))
    return MapFacts(raw.area_km2, half, highest)


def baselines_of(beside: Beside) -> Baselines:
    """Other methods as the report tells of them."""
    rows = []
    for name, result in beside.results.items():
        curve, gap = result.evaluation.test, beside.gaps.get(name)
        if curve.count:
            rows.append(
                BaselineRow(
                    title=result.title,
                    captured=tuple(curve.captured(share) for share in REPORTED_SHARES),
                    under_curve=curve.under_curve(),
                    lead=None if gap is None else Estimate(gap.difference, gap.low, gap.high),
                    area_share=tuple(LEVELS.tolist()),
                    captured_share=tuple(np.interp(LEVELS, *curve.points()).tolist()),
                )
            )
    return Baselines(tuple(rows), tuple(beside.sentences()))


def report_on_training(
    job: TrainJob,
    region: Region,
    model: str,
    log: Path,
    pooled: Pooled,
    device: torch.device,
    place: Workplace,
    reporter: Reporter,
) -> dict[str, Path]:
    """Map the region with the new model and report on it; what is to be delivered where.

    model: its name in the work folder; pooled: what cross-validation found. Whatever goes wrong is
    a warning: the model is worth more than its report.
    """
    paths = report_of(job)
    if not paths:
        return {}
    try:
        path = place.folder / model
        _report_on_training(job, region, path, log, pooled, device, place, reporter)
    except Cancelled:
        raise
    except Exception as error:
        for path in paths:  # of an earlier model, which is about to be replaced
            path.unlink(missing_ok=True)
        said = str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}."
        reporter.warn(
            f"The report could not be made. {said} The model is complete all the same, and "
            "'geocfm evaluate' makes a report of it."
        )
        return {}
    return dict(zip(REPORT, paths, strict=True))


def _report_on_training(
    job: TrainJob,
    region: Region,
    model: Path,
    log: Path,
    pooled: Pooled,
    device: torch.device,
    place: Workplace,
    reporter: Reporter,
) -> None:
    from geocfm.evaluation.map_pictures import plot_map  # matplotlib takes half a second

    checkpoint = load_checkpoint(model, device)
    card, grid, points = checkpoint.card, region.grid, region.occurrences.points
    predictor = Predictor(checkpoint, region, card.settings.sampling, device)
    work = Application(
        *(card, grid, region.stack, predictor, None, device, checkpoint.experience),
        LearnedArea(),  # the region is cut to it already
    )
    compared = Compared(
        *(card, grid, region.split, region.occurrences, log, predictor, device), lambda: region
    )
    others = choose_baselines(job, compared, place, reporter)
    raw = raw_map(work, job.seed, place, reporter)
    evaluation = evaluate_map(raw, grid, points, region.split, grid)
    others = others.measured(evaluation, reporter)
    picture = place.folder / MAP_PICTURE
    provenance = place.provenance.model_dump_json()
    told = map_extras(raw, grid, points, predictor, work.experience, reporter)
    plot_map(
        *(picture, raw.path, 1 / raw.mean, grid, points, region.split),
        *(MAP_TITLE, provenance, told.outlines),
    )
    found = Measured(
        name=job.out.stem,
        card=card,
        layers=region,
        occurrences=region.occurrences,
        split=region.split,
        raw=raw,
        evaluation=evaluation,
        picture=picture,
        log=log,
        warnings=(*region.occurrences.warnings, *predictor.warnings()),
        pooled=pooled,
    )
    stage = reporter.stage("Measuring which layers matter")
    extras = Extras(
        baselines=baselines_of(others.beside) if others.beside else None,
        baselines_left_out=others.left_out,
        cross_validation=pooled.rates,
        importance=layer_importance(region, predictor, job.seed, stage),
        targets=told.targets,
        uncertainty=told.uncertainty,
        outside_share=told.outside_share,
    )
    write_report(found, extras, place, reporter)
