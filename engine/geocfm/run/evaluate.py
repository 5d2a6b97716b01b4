"""Evaluate: what a model's map is worth on tiles it never saw, and beside other methods."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from geocfm.data.region import Region, region_as_learned
from geocfm.data.split import Split
from geocfm.evaluation.comparison import held_out_captured
from geocfm.evaluation.evaluate import Evaluation, evaluate_map
from geocfm.evaluation.rates import RateCurve
from geocfm.evaluation.report.content import Extras
from geocfm.events import Reporter
from geocfm.geo.occurrences import Occurrences
from geocfm.job import EvaluateJob
from geocfm.results import fold_results, report_of, results_of
from geocfm.run.apply import Application, applying, raw_map
from geocfm.run.importance import ensure_importance_fits, measure_importance
from geocfm.run.inputs import open_occurrences, write_occurrences
from geocfm.run.pooled import read_pooled
from geocfm.run.report_baselines import Compared, choose_baselines
from geocfm.run.report_extras import map_extras
from geocfm.run.reporting import MAP_TITLE, Measured, baselines_of, tell_report, write_report
from geocfm.run.workplace import Workplace

REPORTED_SHARE = 0.1
UNWEIGHTED = (
    "The model weighted occurrences by 1 / survey effort. Baselines do not, and here every "
    "occurrence counts alike."
)


def run_evaluate(job: EvaluateJob, place: Workplace, reporter: Reporter) -> None:
    """Capture curves on held-out and training tiles, as JSON and pictures."""
    # matplotlib takes half a second
    from geocfm.evaluation.map_pictures import plot_map
    from geocfm.evaluation.plots import plot_capture

    figures, capture, picture, used, *more = results_of(job)
    report = report_of(job)
    chart = [path for path in more if path not in report]
    provenance = place.provenance.model_dump_json()
    with applying(job, reporter) as work:
        grid = work.grid
        where = job.where or list(work.card.occurrences.where)
        if where and not job.where:
            reporter.note(f"Occurrences are filtered as in training: {' and '.join(where)}.")
        occurrences = work.learned.keep(open_occurrences(job, grid, where))
        for sentence in occurrences.warnings:
            reporter.warn(sentence)
        effort = work.card.occurrences.effort
        if effort is not None:
            reporter.note(UNWEIGHTED)
        split = Split.from_card(work.card.split)
        log = job.checkpoint.with_name(f"{job.checkpoint.stem}.log.jsonl")
        compared = _compared(work, occurrences, log, reporter)
        others = choose_baselines(job, compared, place, reporter)
        if not job.skip_importance:
            ensure_importance_fits(work, occurrences)
        raw = raw_map(work, job.seed, place, reporter, job.temperature)
        evaluation = evaluate_map(raw, grid, occurrences.points, split, work.training_grid)
        others = others.measured(evaluation, reporter)
        beside = others.beside
        content = evaluation.to_dict() | (beside.to_dict() if beside else {})
        content["survey_effort"] = None if effort is None else effort.model_dump(mode="json")
        captured = held_out_captured(evaluation, occurrences.points, split, REPORTED_SHARE)
        if captured is not None:
            content[f"held_out_captured_at_{REPORTED_SHARE:g}"] = captured.to_dict()
        _, folds = fold_results(job.checkpoint)
        pooled = read_pooled(folds, work.card)
        if pooled.rates is not None:
            content["cross_validation"] = asdict(pooled.rates)
        importance = None
        if not job.skip_importance:
            region = others.work.region if others.work else None
            importance = measure_importance(work, occurrences, region, job, place, reporter)
            content["importance"] = importance.to_dict()
        text = json.dumps(
            {**content, "provenance": place.provenance.model_dump(mode="json")}, indent=1
        )
        (place.folder / figures.name).write_text(text, encoding="utf-8")
        plot_capture(
            place.folder / capture.name,
            evaluation.test,
            evaluation.train,
            provenance,
            beside.held_out_curves() if beside else {},
        )
        told = map_extras(
            *(raw, grid, occurrences.points, work.predictor, work.experience, reporter)
        )
        plot_map(
            place.folder / picture.name,
            raw.path,
            1 / raw.mean,
            grid,
            occurrences.points,
            split.on_grid(grid, work.training_grid),
            MAP_TITLE,
            provenance,
            told.outlines,
        )
        found = Measured(
            name=job.checkpoint.stem,
            card=work.card,
            layers=work.stack,
            occurrences=occurrences,
            split=split.on_grid(grid, work.training_grid),
            raw=raw,
            evaluation=evaluation,
            picture=place.folder / picture.name,
            log=log,
            warnings=(
                *occurrences.warnings,
                *filter(None, [work.learned.doubt]),
                *work.predictor.warnings(),
            ),
            pooled=pooled,
        )
        extras = Extras(
            baselines=baselines_of(beside) if beside else None,
            baselines_left_out=others.left_out,
            cross_validation=pooled.rates,
            importance=importance,
            targets=told.targets,
            uncertainty=told.uncertainty,
            outside_share=told.outside_share,
        )
        write_report(found, extras, place, reporter)
        write_occurrences(place, used, grid, occurrences.points, occurrences.ids)
    for path in (capture, picture, *chart, *report, figures):
        place.deliver(path.name, path)
    _tell(evaluation, pooled.rates, reporter)
    for sentence in beside.sentences() if beside else []:
        reporter.note(sentence)
    if importance:
        reporter.note(importance.sentence())
    reporter.report("evaluation", content)
    reporter.wrote("evaluation", figures, "all figures")
    reporter.wrote("picture", capture, "capture curve, held-out and training tiles")
    reporter.wrote("picture", picture, "the map with the known occurrences")
    for path in chart:
        reporter.wrote("picture", path, "which layers matter")
    reporter.wrote("occurrences", used, f"{len(occurrences.ids)} occurrences used")
    tell_report(report, reporter)


def _compared(
    work: Application, occurrences: Occurrences, log: Path, reporter: Reporter
) -> Compared:
    """The model as others are held against it; its region is read when one of them needs it."""

    def read_region() -> Region:
        stage = reporter.stage("Reading layers")
        return region_as_learned(work.stack, occurrences, work.card, stage)

    return Compared(
        card=work.card,
        grid=work.grid,
        split=Split.from_card(work.card.split).on_grid(work.grid, work.training_grid),
        occurrences=occurrences,
        log=log,
        predictor=work.predictor,
        device=work.device,
        region=read_region,
    )


def _tell(evaluation: Evaluation, pooled: RateCurve | None, reporter: Reporter) -> None:
    test, train = evaluation.test, evaluation.train
    if test.count:
        reporter.note(
            f"Held-out tiles: the most prospective {100 * REPORTED_SHARE:.0f} % of the area holds "
            f"{100 * test.captured(REPORTED_SHARE):.0f} % of the {test.count} occurrences "
            f"(chance: {100 * REPORTED_SHARE:.0f} %); area under the curve "
            f"{test.under_curve():.2f} (chance: 0.50)."
        )
    elif pooled is not None:
        at = next(one for one in pooled.at if one.area_share == REPORTED_SHARE)
        reporter.note(
            "The model learned from all tiles. When it was made, cross-validation found "
            f"{100 * at.captured.value:.0f} % of the {pooled.occurrences} occurrences in the most "
            f"prospective {100 * REPORTED_SHARE:.0f} % of the area (chance: "
            f"{100 * REPORTED_SHARE:.0f} %); area under the curve {pooled.under_curve.value:.2f}."
        )
    else:
        reporter.warn("No occurrence lies on the held-out tiles, so the model cannot be judged.")
    if train.count:
        reporter.note(
            f"Training tiles, for comparison: {100 * train.captured(REPORTED_SHARE):.0f} % of "
            f"{train.count} occurrences, area {train.under_curve():.2f}."
        )
