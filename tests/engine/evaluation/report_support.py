"""A report with nothing missing, from a synthetic map; tests take parts of it away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from geocfm.evaluation.calibration import calibrate
from geocfm.evaluation.capture import CaptureCurve
from geocfm.evaluation.importance import Importance, LayerImportance
from geocfm.evaluation.prediction_area import prediction_area
from geocfm.evaluation.rates import Estimate, rate_curve
from geocfm.evaluation.report.content import (
    BaselineRow,
    Baselines,
    Extras,
    LayerUsed,
    LeftOut,
    MapFacts,
    MapPicture,
    ModelFacts,
    OccurrencesUsed,
    Report,
    Series,
    TargetRow,
    TrainingHistory,
)
from geocfm.evaluation.report.pictures import Pictures
from numpy.typing import NDArray

NASTY = "größe <script>alert('x')</script> & \"$\\frac$\" 矿产"
PNG = b"\x89PNG no picture, but bytes"


def measured(
    count: int, tiles: int, seed: int
) -> tuple[CaptureCurve, NDArray[np.float64], NDArray[np.int64]]:
    """A curve of a synthetic map with so many occurrences, their densities and tiles."""
    generator = np.random.default_rng(seed)
    density = np.exp(generator.normal(size=2000))
    curve = CaptureCurve()
    curve.add_cells(density, generator.uniform(0.5, 1.5, 2000))
    at = generator.choice(density, count, p=density / density.sum())
    curve.add_occurrences(at)
    return curve, at, generator.integers(0, tiles, count)


def full_report(name: str = "model") -> Report:
    """All sections but the optional ones."""
    test, validation, train = (measured(*n) for n in ((40, 7, 1), (30, 3, 2), (120, 11, 3)))
    iterations = tuple(range(0, 200, 10))
    losses = tuple(float(9 - n / 100) for n in iterations)
    return Report(
        model=ModelFacts(
            name=name,
            preset="quick",
            created="2026-01-02T03:04:05+00:00",
            seed=3,
            networks=1,
            iterations=120,
            other_iterations=(),
            window="48 x 48 cells (24 km across)",
            grid="120 rows x 100 columns of 100 m cells in EPSG:32750",
            tiles={"train": 11, "validation": 3, "test": 7},
            searched="Searched ground: all training tiles count as evenly searched.",
            learned_from="190 occurrences in gold.gpkg",
        ),
        layers=(
            LayerUsed("magnetics", "nT", 0, 48_123.4, 312.0, 0.98),
            LayerUsed(NASTY, "", 5, 0.0, 0.0, 0.5),
        ),
        occurrences=OccurrencesUsed(
            source="gold.gpkg",
            where=("commodity ~ gold",),
            read=230,
            used=190,
            left_out=(LeftOut(31, "outside the grid"), LeftOut(9, "where no layer has data")),
            sharing_a_cell=7,
            by_role={"train": 120, "validation": 30, "test": 40},
        ),
        effort=None,
        training=TrainingHistory(
            200, 61.0, Series(iterations, losses), Series(iterations[::4], losses[::4]), 120, 8.1234
        ),
        map=MapFacts(1234.5, 0.237, 33.1),
        prediction_rate=rate_curve(*test),
        validation_rate=rate_curve(*validation),
        success_rate=rate_curve(*train),
        prediction_area=prediction_area(test[0]),
        calibration=calibrate(test[0], validation[0], *test[1:]),
        warnings=("Layer geology: 3 % of its cells hold classes the model never learned.",),
        provenance={
            "job": {"command": "evaluate", "out": f"/data/{NASTY}"},
            "seed": 3,
            "inputs": [{"use": f"layer {NASTY}", "path": f"/data/{NASTY}.tif", "size": 123_456}],
            "versions": {"geocfm": "0.1.0", "torch": "2"},
        },
    )


def all_extras() -> Extras:
    """Something for every optional section."""
    pooled = rate_curve(*measured(190, 21, 4))
    shares = (0.0, 0.1, 0.5, 1.0)
    return Extras(
        baselines=Baselines(
            (
                BaselineRow(
                    "Random Forest",
                    (0.1, 0.2, 0.3, 0.4),
                    0.81,
                    Estimate(-0.12, -0.4, 0.2),
                    shares,
                    (0.0, 0.3, 0.8, 1.0),
                ),
                BaselineRow("Uniform", (0.01, 0.05, 0.1, 0.2), 0.5, None, shares, shares),
            ),
            ("First sentence.", "Whether GeoCFM earned its keep cannot be told."),
        ),
        cross_validation=pooled,
        importance=Importance(
            layers=(
                LayerImportance("magnetics", 0.31, 0.2, 0.42, 40, 7),
                LayerImportance(NASTY, -0.02, -0.05, 0.01, 40, 7),
            ),
            role="test",
            on_test=40,
            repetitions=20,
            local=True,
        ),
        targets=(
            TargetRow(2, 500_050.0, 6_999_950.0, 3.5, 0.02, 6.1, None, None, 0, NASTY),
            TargetRow(1, 117.125, -27.5, 12.25, 0.081, 17.3, 0.21, 4.56, 3, "magnetics"),
        ),
        uncertainty=(MapPicture("Disagreement", f"Of three models, {NASTY}.", PNG),),
    )


def without_held_out(report: Report) -> Report:
    """As of a region so small that no occurrence lies on held-out tiles."""
    by_role = {**report.occurrences.by_role, "test": 0}
    return replace(
        report,
        prediction_rate=None,
        prediction_area=None,
        calibration=None,
        occurrences=replace(report.occurrences, by_role=by_role),
    )


def pictures_of(report: Report) -> Pictures:
    return Pictures(tuple(PNG for _ in report.layers), PNG)


def numbers_in(content: Any) -> list[float]:
    """Every number of a JSON value."""
    if isinstance(content, dict):
        return [n for value in content.values() for n in numbers_in(value)]
    if isinstance(content, list):
        return [n for value in content for n in numbers_in(value)]
    return [float(content)] if isinstance(content, int | float) else []
