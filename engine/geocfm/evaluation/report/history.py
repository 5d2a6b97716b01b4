"""How a training went, from the log that it leaves."""

from __future__ import annotations

import json
import math
from array import array
from pathlib import Path

import numpy as np

from geocfm.evaluation.report.content import Series, TrainingHistory
from geocfm.model.checkpoint import ModelCard

MOST_POINTS = 300  # of a curve


def read_history(log: Path, card: ModelCard) -> TrainingHistory | None:
    """The curves of the run that made the model; None where there is no log of it."""
    steps, losses = array("q"), array("d")
    judged, validations = array("q"), array("d")
    seconds = 0.0
    try:
        with log.open(encoding="utf-8") as lines:
            if json.loads(next(lines))["provenance"] != card.provenance:  # the log of another run
                return None
            for line in lines:
                row = json.loads(line)
                seconds = float(row["seconds"])
                for key, at, values in (
                    ("loss", steps, losses),
                    ("validation_loss", judged, validations),
                ):
                    value = float(row.get(key, "nan"))  # what is not finite is written as text
                    if math.isfinite(value):
                        at.append(int(row["iteration"]))
                        values.append(value)
    except (OSError, ValueError, KeyError, TypeError, StopIteration):
        return None
    if not steps:
        return None
    best = card.metrics.get("validation_loss", math.nan)
    return TrainingHistory(
        iterations=steps[-1],
        seconds=seconds,
        loss=_thinned(steps, losses),
        validation=_thinned(judged, validations),
        best_iteration=card.iterations,
        best_validation=best if math.isfinite(best) else None,
    )


def _thinned(iteration: array[int], value: array[float]) -> Series:
    """Means over stretches of equal length, so that no more than MOST_POINTS are left."""
    count = len(iteration)
    if not count:
        return Series((), ())
    first = np.unique(np.linspace(0, count, MOST_POINTS, endpoint=False).astype(np.int64))
    length = np.diff([*first, count])
    means = np.add.reduceat(np.frombuffer(value), first) / length
    middles = np.frombuffer(iteration, dtype=np.int64)[first + (length - 1) // 2]
    return Series(tuple(middles.tolist()), tuple(means.tolist()))
