"""What a report tells, as data: figures, tables and curves, but for pictures of rasters."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from geocfm.evaluation.calibration import Calibration
from geocfm.evaluation.importance import Importance
from geocfm.evaluation.prediction_area import PredictionArea
from geocfm.evaluation.rates import Estimate, RateCurve


@dataclass(frozen=True)
class LayerUsed:
    """A layer of the geo-image."""

    name: str
    units: str
    classes: int  # of a layer of classes; 0 for one of values
    mean: float  # on the training tiles, as the model knows it
    std: float
    coverage: float  # share of the grid's area where it has data


@dataclass(frozen=True)
class LeftOut:
    """Occurrences that were not used, and why: "outside the grid"."""

    count: int
    reason: str


@dataclass(frozen=True)
class OccurrencesUsed:
    """What became of the occurrences."""

    source: str
    where: tuple[str, ...]
    read: int
    used: int
    left_out: tuple[LeftOut, ...]
    sharing_a_cell: int  # of those inside the grid, those in a cell that already had one
    by_role: dict[str, int]  # on data, on the tiles for train, validation and test


@dataclass(frozen=True)
class ModelFacts:
    """What the model is."""

    name: str
    preset: str
    created: str
    seed: int
    networks: int  # more than one are an ensemble, whose map is their mean
    iterations: int  # of the weights that were kept; of an ensemble, those of the first network
    other_iterations: tuple[int, ...]  # those of its further networks
    window: str  # "48 x 48 cells (24 km across)"
    grid: str
    tiles: dict[str, int]  # by role
    searched: str  # the ground that counted as evenly searched, in a sentence
    learned_from: str  # "255 occurrences in gold.gpkg", and how many of them on training tiles


@dataclass(frozen=True)
class Series:
    """Values over the iterations of a training."""

    iteration: tuple[int, ...]
    value: tuple[float, ...]


@dataclass(frozen=True)
class TrainingHistory:
    """How a training went."""

    iterations: int
    seconds: float
    loss: Series  # means over stretches of iterations
    validation: Series
    best_iteration: int
    best_validation: float | None  # None without validation windows: then the last was kept


@dataclass(frozen=True)
class MapFacts:
    """The map as a whole."""

    area_km2: float
    area_of_half: float  # the best share of the area that holds half of the mass
    highest: float  # relative density


@dataclass(frozen=True)
class BaselineRow:
    """Another method on the same tiles."""

    title: str
    captured: tuple[float, ...]  # at the reported shares of the area, on held-out tiles
    under_curve: float
    lead: Estimate | None  # GeoCFM's capture less this one's, at the share that is compared
    area_share: tuple[float, ...]  # its prediction-rate curve
    captured_share: tuple[float, ...]


@dataclass(frozen=True)
class Baselines:
    """Other methods beside the model, and what comparing them says."""

    rows: tuple[BaselineRow, ...]
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class TargetRow:
    """One target area."""

    rank: int
    x: float  # of the cell at its centre, in the CRS of the map
    y: float
    area_km2: float
    mass_share: float  # of the predicted density
    lift: float  # mean density over that of the map
    uncertainty: float | None
    nearest_known_km: float | None
    known_inside: int
    layers: str  # those that matter there


@dataclass(frozen=True)
class MapPicture:
    """A further map, as of the uncertainty."""

    title: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Extras:
    """What a report tells only when it is there: each has its own section."""

    baselines: Baselines | None = None
    baselines_left_out: str | None = None  # why there are none, though nobody left them out
    cross_validation: RateCurve | None = None  # pooled over the folds
    importance: Importance | None = None  # None where it was not asked for
    targets: tuple[TargetRow, ...] = ()
    uncertainty: tuple[MapPicture, ...] = ()
    outside_share: float | None = None  # of the mapped area, unlike all that the model has seen


@dataclass(frozen=True)
class Report:
    """All that a report tells."""

    model: ModelFacts
    layers: tuple[LayerUsed, ...]
    occurrences: OccurrencesUsed
    effort: str | None  # the raster of survey effort, None if none was given
    training: TrainingHistory | None  # None where its log is not to be had
    map: MapFacts
    prediction_rate: RateCurve | None  # held-out tiles; None without occurrences there
    validation_rate: RateCurve | None
    success_rate: RateCurve | None  # training tiles
    prediction_area: PredictionArea | None  # held-out tiles, or all of them by the folds' maps
    calibration: Calibration | None  # of the same tiles
    warnings: tuple[str, ...]
    provenance: dict[str, Any]
    extras: Extras = field(default_factory=Extras)


def as_json(content: Any) -> Any:
    """Dataclasses as plain values for JSON: pictures are left out, what is no number is null."""
    return _plain(asdict(content))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items() if not isinstance(v, bytes)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
