"""Which layers matter, as a part of an evaluation: on the region as the model saw it."""

from __future__ import annotations

from geocfm.data.region import Region, region_as_learned
from geocfm.evaluation.importance import Importance, layer_importance
from geocfm.events import Reporter
from geocfm.geo.occurrences import Occurrences
from geocfm.job import EvaluateJob
from geocfm.results import IMPORTANCE
from geocfm.run.apply import Application
from geocfm.run.needs import ensure_region_fits
from geocfm.run.workplace import Workplace


def ensure_importance_fits(work: Application, occurrences: Occurrences) -> None:
    """Refuse, before the map is made, a region that cannot be looked at."""
    ensure_region_fits(
        work.card,
        work.grid,
        occurrences.points,
        "Use --skip-importance, or give layers that cover a smaller region.",
    )


def measure_importance(
    work: Application,
    occurrences: Occurrences,
    region: Region | None,
    job: EvaluateJob,
    place: Workplace,
    reporter: Reporter,
) -> Importance:
    """The importance of each layer, and its chart in the work folder.

    region: if it has been looked at already.
    """
    from geocfm.evaluation.importance_chart import importance_figure  # matplotlib takes a while
    from geocfm.evaluation.plots import save_figure

    if region is None:
        stage = reporter.stage("Reading layers")
        region = region_as_learned(work.stack, occurrences, work.card, stage)
    stage = reporter.stage("Which layers matter")
    found = layer_importance(region, work.predictor, job.seed, stage)
    provenance = place.provenance.model_dump_json()
    save_figure(importance_figure(found), place.folder / IMPORTANCE, provenance)
    return found
