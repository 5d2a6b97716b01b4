"""Survey bias: an occurrence counts for one over the effort that was spent looking around it.

Where twice as much was looked, about twice as many of the occurrences there are known. Dividing by
the effort undoes that, as far as the raster of effort is right; where nobody looked, nothing is
known and no weight brings it back.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from geocfm.data.windows import BLOCK
from geocfm.geo.grid import Window
from geocfm.geo.rasters import Stack
from geocfm.model.checkpoint import EffortCard

FLOOR_QUANTILE = 0.1  # of the effort at training occurrences: lower effort counts as this
LEAST_FLOOR = 0.02  # of its mean, where more than a tenth lie where hardly anybody looked
EXTREME = 0.5  # of the training occurrences: an effective number below tells of a few that decide


@dataclass(frozen=True)
class SurveyEffort:
    """What a raster of effort makes of N occurrences, and how it was read."""

    source: str
    alignment: str
    efforts: NDArray[np.float64]  # (N,), NaN where it is unknown
    weights: NDArray[np.float64]  # (N,), of mean 1 over the training occurrences
    floor: float | None  # none: no training occurrence has an effort
    training: int  # occurrences that the model learns from
    floored: int  # of these, those whose effort was below the floor
    unknown: int  # of all: without an effort above 0, so that they count as one on average does
    effective: float  # of the training occurrences: so many of equal weight would tell as much

    @property
    def extreme(self) -> bool:
        """Whether a few occurrences outweigh all others."""
        return self.effective < EXTREME * self.training

    def learned_from(self, training: NDArray[np.bool_]) -> SurveyEffort:
        """The same effort where others of the occurrences (N,) are learned."""
        return _weighed(self.source, self.alignment, self.efforts, training)

    @property
    def card(self) -> EffortCard:
        """For the checkpoint."""
        return EffortCard(
            source=self.source,
            floor=self.floor or 0.0,
            training=self.training,
            floored=self.floored,
            unknown=self.unknown,
            effective=self.effective,
        )

    def sentences(self) -> list[str]:
        """How occurrences are weighted."""
        if self.floor is None:
            return []
        said = [
            f"{self.alignment}; occurrences are weighted by 1 / effort: {self.training} on "
            f"training tiles tell as much as {self.effective:.1f} of equal weight. Effort below "
            f"{self.floor:.4g} counts as that ({self.floored} of them)."
        ]
        if self.unknown:
            lie = "1 occurrence lies" if self.unknown == 1 else f"{self.unknown} occurrences lie"
            said.append(f"{lie} where the survey effort is unknown or 0, and gets the mean weight.")
        return said


def survey_effort(
    stack: Stack, points: NDArray[np.float64], training: NDArray[np.bool_]
) -> SurveyEffort:
    """Weigh occurrences (N, 2) by the one layer of the stack; training (N,): which are learned."""
    source, alignment = PurePath(stack.layers[0].path).name, stack.alignments[0].sentence
    return _weighed(source, alignment, effort_at(stack, points), training)


def _weighed(
    source: str, alignment: str, effort: NDArray[np.float64], training: NDArray[np.bool_]
) -> SurveyEffort:
    weights, floor = effort_weights(effort, training)
    return SurveyEffort(
        source=source,
        alignment=alignment,
        efforts=effort,
        weights=weights,
        floor=floor,
        training=int(training.sum()),
        floored=0
        if floor is None
        else int((_is_known(effort) & training & (effort < floor)).sum()),
        unknown=int((~_is_known(effort)).sum()),
        effective=effective_number(weights[training]),
    )


def effort_at(stack: Stack, points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The first layer (N,) at the cells that points (N, 2) lie in; only those parts are read."""
    cells = np.floor(points).astype(np.int64)
    found = np.full(len(cells), np.nan)
    blocks, block = np.unique(cells // BLOCK, axis=0, return_inverse=True)
    for number in range(len(blocks)):
        mine = np.flatnonzero(block.ravel() == number)
        (left, top), (right, bottom) = cells[mine].min(axis=0), cells[mine].max(axis=0)
        reach = Window(int(top), int(left), int(bottom - top) + 1, int(right - left) + 1)
        values = stack.read(reach)[0]
        found[mine] = values[cells[mine, 1] - top, cells[mine, 0] - left]
    return found


def effort_weights(
    effort: NDArray[np.float64], training: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], float | None]:
    """Weights (N,) of 1 / effort (N,), of mean 1 where ``training`` (N,), and the floor.

    Without a floor a single occurrence in a corner where hardly anybody looked would outweigh all
    others. What has no effort above 0 gets the mean weight, 1.
    """
    known = _is_known(effort)
    learned = effort[known & training]
    if not len(learned):
        return np.ones(len(effort)), None
    floor = float(max(np.quantile(learned, FLOOR_QUANTILE), LEAST_FLOOR * learned.mean()))
    weights = np.ones(len(effort))
    weights[known] = 1 / np.maximum(effort[known], floor)
    weights[known] /= weights[known & training].mean()
    return weights, floor


def effective_number(weights: NDArray[np.float64]) -> float:
    """So many equal weights have the same variance of their mean: (sum w)^2 / sum w^2 (Kish)."""
    return float(weights.sum() ** 2 / (weights**2).sum()) if len(weights) else 0.0


def _is_known(effort: NDArray[np.float64]) -> NDArray[np.bool_]:
    known: NDArray[np.bool_] = np.isfinite(effort) & (effort > 0)
    return known
