"""Other methods in a report: those that somebody named, or the usual ones where they are no burden.

Nobody asked for the usual ones, so whatever stands in their way leaves them out, with a sentence in
the report; a job that names some in an evaluation is refused instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from geocfm.data.region import Region
from geocfm.data.split import TEST, Split
from geocfm.errors import Cancelled, Interrupted, UserError
from geocfm.evaluation.evaluate import Evaluation
from geocfm.events import Reporter
from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import Occurrences
from geocfm.inference.predictor import Predictor
from geocfm.job import USUAL_BASELINES, EvaluateJob, TrainJob, baseline_names, baselines_asked
from geocfm.model.checkpoint import ModelCard
from geocfm.run.needs import map_disk_bytes
from geocfm.run.room import ensure_room
from geocfm.run.workplace import Workplace

if TYPE_CHECKING:
    from geocfm.run.baselines import BaselineWork, Beside

BASELINE_PARTS = "baselines"  # folder of those that are finished, in the work folder
# cells; the usual ones take 12 to 30 seconds a million: minutes only where somebody asks for them
MOST_CELLS_UNASKED = 4_000_000
ALL_LEARNED = (
    "The model learned from all tiles, so none is left on which other methods could be held "
    "against it."
)
NONE_HELD_OUT = (
    "No known occurrence lies on the held-out tiles, so other methods could not be held against "
    "the model."
)
BY_NAME = f"They can be asked for by name: --baselines {','.join(USUAL_BASELINES)}."


@dataclass(frozen=True)
class Compared:
    """A model on its own region, which others are held against."""

    card: ModelCard
    grid: Grid
    split: Split  # in cells of the grid
    occurrences: Occurrences
    log: Path  # where that of the training lies, if it is to be had
    predictor: Predictor
    device: torch.device
    region: Callable[[], Region]  # looks at the region, if that has not been done


@dataclass(frozen=True)
class Others:
    """Baselines of a report: the work on them, what came of it, or why they are left out.

    demanded: what stands in their way is an error.
    """

    demanded: bool
    work: BaselineWork | None = None
    beside: Beside | None = None
    left_out: str | None = None

    def measured(self, model: Evaluation, reporter: Reporter) -> Others:
        """With what the work found."""
        if self.work is None:
            return self
        if self.demanded:
            return replace(self, beside=self.work.beside(model, reporter))
        if not model.test.count:  # those there were lie on cells without data
            return replace(self, left_out=NONE_HELD_OUT)
        try:
            return replace(self, beside=self.work.beside(model, reporter))
        except (Cancelled, Interrupted):
            raise
        except Exception as error:
            return replace(self, left_out=_left_out(_said(error), reporter))


def choose_baselines(
    job: TrainJob | EvaluateJob, compared: Compared, place: Workplace, reporter: Reporter
) -> Others:
    """Prepare the baselines that the job names; of a training, none is worth its report."""
    names, asked = baseline_names(job.baselines), baselines_asked(job.baselines)
    others = Others(demanded=asked and isinstance(job, EvaluateJob))
    if not names:
        return others
    if not others.demanded and (sentence := _nothing_to_compare(compared)):
        return replace(others, left_out=sentence)
    cells = compared.grid.height * compared.grid.width
    if not asked and cells > MOST_CELLS_UNASKED:
        why = f"the region has {cells:,} cells, and with more than {MOST_CELLS_UNASKED:,}"
        return replace(others, left_out=_left_out(f"{why} they take minutes.", reporter))
    from geocfm.run.baselines import prepare_baselines  # scikit-learn takes a second

    try:
        if not place.continued:  # one baseline's map at a time lies beside the model's
            ensure_room(place.folder.parent, 2 * map_disk_bytes(cells), "The maps")
        # a flow's likelihoods take longer than all the rest, and the report does not show them
        work = prepare_baselines(names, compared, job.seed, others.demanded, place)
    except UserError as error:
        if others.demanded:
            raise
        return replace(others, left_out=_left_out(_said(error), reporter))
    return replace(others, work=work)


def _nothing_to_compare(compared: Compared) -> str | None:
    split = compared.split
    if not (split.roles == TEST).any():
        return ALL_LEARNED
    held_out = split.role_of_points(compared.occurrences.points) == TEST
    return None if held_out.any() else NONE_HELD_OUT


def _said(error: Exception) -> str:
    """What went wrong, in a clause; its remedies are those of somebody who asked."""
    if isinstance(error, UserError):
        return f"{error.message[:1].lower()}{error.message[1:]}"
    return f"{type(error).__name__}: {error}."


def _left_out(why: str, reporter: Reporter) -> str:
    sentence = f"Other methods were not measured beside the model: {why} {BY_NAME}"
    reporter.note(sentence)
    return sentence
