"""The inhomogeneous Poisson process: a log-linear intensity, what Maxent users run.

Fitted by infinitely weighted logistic regression: presences weigh 1, background cells a large W
each; as W grows the estimate becomes the Poisson process's, which is Maxent's up to the intercept
(Fithian & Hastie 2013). Maxent's feature classes are used, by its own rule on how many presences
each class needs (Phillips & Dudik 2008).
"""

from __future__ import annotations

import warnings
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from geocfm.data.image import TrainingImages
from geocfm.evaluation.baselines.base import Effort, nothing_to_learn, occurrence_counts
from geocfm.evaluation.baselines.cells import Reservoir, Rows, cell_rows, one_by_one
from geocfm.evaluation.baselines.pixels import CellBaseline

FEATURE_CLASSES = {"linear": 0, "quadratic": 10, "hinge": 15, "product": 80}  # presences needed
BACKGROUND_WEIGHT = 1e4  # W; the bias is of the order of the intensity per cell over W
MOST_BACKGROUND, LEAST_BACKGROUND = 50_000, 10_000  # cells, if there are so many
MOST_NUMBERS = 8_000_000  # of the background's features; with many features fewer cells are taken
MOST_FEATURES = 400  # products are left out rather than make more
KNOTS = 8  # of a channel's hinges, at its quantiles
RIDGE = 1.0  # C of scikit-learn: half the squared coefficients of standardised features are added
TOLERANCE = 1e-6  # of the gradient, per presence
MOST_ITERATIONS = 1000


class CellFeatures:
    """Maxent's features of channels (N, C), standardised; values are clamped to those learned."""

    def __init__(self, rows: Rows, classes: tuple[str, ...]) -> None:
        self._low, self._high = rows.min(axis=0), rows.max(axis=0)
        varied = np.flatnonzero(self._high > self._low)  # a constant says nothing
        self._used = varied if len(varied) else np.array([0])
        values = self._clamped(rows)
        some = values[:: max(1, len(values) // LEAST_BACKGROUND)]
        # a yes or no has neither squares nor hinges
        self._smooth = np.array([len(np.unique(column)) > 2 for column in some.T], dtype=bool)
        kept = values.shape[1] * (1 + KNOTS)
        products = values.shape[1] * (values.shape[1] - 1) // 2
        self.classes = tuple(
            name for name in classes if name != "product" or kept + products <= MOST_FEATURES
        )
        # quantiles may coincide, as where many cells hold the same value
        inner = np.linspace(0, 1, KNOTS + 2)[1:-1]
        self._knots = [np.unique(np.quantile(v, inner)) for v in values[:, self._smooth].T]
        self._scaler = StandardScaler().fit(self._expand(values))
        self.count = int(self._scaler.n_features_in_)

    def __call__(self, rows: Rows) -> NDArray[np.float64]:
        """Features (N, F)."""
        return np.asarray(self._scaler.transform(self._expand(self._clamped(rows))))

    def _clamped(self, rows: Rows) -> NDArray[np.float64]:
        return np.clip(rows, self._low, self._high)[:, self._used].astype(np.float64)

    def _expand(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        smooth = values[:, self._smooth]
        found = [values]
        if "quadratic" in self.classes:
            found.append(smooth**2)
        if "product" in self.classes and values.shape[1] > 1:
            pairs = PolynomialFeatures(2, interaction_only=True, include_bias=False)
            found.append(pairs.fit_transform(values)[:, values.shape[1] :])
        if "hinge" in self.classes:  # one way: the other is this one less the linear feature
            found += [
                np.maximum(column[:, None] - knots, 0.0)
                for column, knots in zip(smooth.T, self._knots, strict=True)
            ]
        return np.hstack(found)


class PoissonProcess(CellBaseline):
    """Intensity exp(eta) of a cell's features; its scores are occurrences per cell."""

    title: ClassVar[str] = "Poisson process"

    def __init__(self, classes: tuple[str, ...] = tuple(FEATURE_CLASSES)) -> None:
        self._allowed = classes
        self._features: CellFeatures | None = None
        self._highest = np.inf

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Presences against a weighted sample of all cells with data."""
        generator = np.random.default_rng(effort.seed)
        background = Reservoir(MOST_BACKGROUND, generator)
        presences: list[Rows] = []
        for image in one_by_one(images, effort.reporter):
            background.add(cell_rows(image, image.footprint))
            counts = occurrence_counts(image)
            each = cell_rows(image, counts > 0)
            presences.append(each.repeat(counts[counts > 0], axis=0))
        present = np.concatenate(presences) if presences else np.zeros((0, 0), np.float32)
        if not len(present):
            raise nothing_to_learn(self.title)
        cells = generator.permutation(background.rows())
        self._learn(present, cells, background.offered)

    def _learn(self, present: Rows, cells: Rows, region_cells: int) -> None:
        classes = [name for name in self._allowed if len(present) >= FEATURE_CLASSES[name]]
        self._features = CellFeatures(np.concatenate([present, cells]), tuple(classes))
        rows, often = np.unique(present, axis=0, return_counts=True)
        cells = cells[: max(LEAST_BACKGROUND, MOST_NUMBERS // max(self._features.count, 1))]
        each = BACKGROUND_WEIGHT * region_cells / len(cells)
        weight = np.concatenate([often, np.full(len(cells), each)])
        features = self._features(np.concatenate([rows, cells]))
        process = LogisticRegression(
            solver="newton-cholesky",
            C=RIDGE,
            # scikit-learn divides the gradient by all weight, which is nearly all background's
            tol=TOLERANCE * len(present) / weight.sum(),
            max_iter=MOST_ITERATIONS,
        )
        with warnings.catch_warnings():
            # a step that rounding spoils is told in scikit-learn's words, which help no geologist:
            # the fit goes on another way, and is good enough where it ends
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", LinAlgWarning)
            positive = np.arange(len(weight)) < len(rows)
            self._process = process.fit(features, positive, sample_weight=weight)
        # products of values that never met in what was learned may be anything
        self._highest = float(self._process.decision_function(features).max())

    def settings(self) -> dict[str, object]:
        """Features, weights and regularisation."""
        return {
            "features": list(self._features.classes) if self._features else list(self._allowed),
            "presences_for_features": dict(FEATURE_CLASSES),
            "most_features": MOST_FEATURES,
            "hinge_knots": KNOTS,
            "background_cells": MOST_BACKGROUND,
            "least_background_cells": LEAST_BACKGROUND,
            "most_background_numbers": MOST_NUMBERS,
            "background_weight": BACKGROUND_WEIGHT,
            "ridge_C": RIDGE,
            "tolerance": TOLERANCE,
            "max_iter": MOST_ITERATIONS,
        }

    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        """Occurrences expected in each cell (N,): W exp(eta) of the logistic regression.

        No cell is richer than the richest that was learned from.
        """
        if self._features is None:
            raise RuntimeError("the process is not fitted")
        log_odds = self._process.decision_function(self._features(rows))
        return BACKGROUND_WEIGHT * np.exp(np.minimum(log_odds, self._highest))
