"""What cross-validation tells of a model that learned from all tiles: its folds, pooled.

No tile is held out from such a model, so its report has the worth of the out-of-fold map instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from geocfm.data.region import Region
from geocfm.evaluation.calibration import Calibration, calibrate
from geocfm.evaluation.prediction_area import PredictionArea, prediction_area
from geocfm.evaluation.rates import RateCurve
from geocfm.model.checkpoint import ModelCard
from geocfm.run.folds import CrossValidation, evaluate_out_of_fold, read_pooled_rates


@dataclass(frozen=True)
class Pooled:
    """The worth of the out-of-fold map; nothing where there is none, or no occurrence on it."""

    rates: RateCurve | None = None
    prediction_area: PredictionArea | None = None
    calibration: Calibration | None = None  # without a temperature: no tile is left to fit it on


def pooled_worth(validated: CrossValidation, region: Region) -> Pooled:
    """What the folds of a region are worth together."""
    found = evaluate_out_of_fold(validated.raw, region)
    known = np.isfinite(found.densities)
    tiles = region.split.tile_of_points(region.points[known])
    return Pooled(
        validated.rates,
        prediction_area(found.test),
        calibrate(found.test, found.validation, found.densities[known], tiles),
    )


def read_pooled(figures: Path, card: ModelCard) -> Pooled:
    """What was found when the model was made, from the file that it left beside the model.

    Nothing where the file is not the model's; one of before has the rates alone.
    """
    rates = read_pooled_rates(figures, card)
    if rates is None:
        return Pooled()
    try:
        return TypeAdapter(Pooled).validate_json(figures.read_bytes())
    except (OSError, ValueError):
        return Pooled(rates)
