"""Baselines that learn from the values of single cells.

Some as the paper has them (appendix "Baseline Details"), with a few negatives from every image; and
trees as a good practitioner fits them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import OneClassSVM
from sklearn.utils.class_weight import compute_sample_weight

from geocfm.data.image import Image, TrainingImages
from geocfm.evaluation.baselines.base import (
    Baseline,
    Effort,
    normalised,
    nothing_to_learn,
    occurrence_counts,
)
from geocfm.evaluation.baselines.cells import (
    NEGATIVES_PER_POSITIVE,
    Reservoir,
    Rows,
    cell_rows,
    one_by_one,
    pseudo_negatives,
)
from geocfm.events import Stage
from geocfm.model.forest import SUREST
from geocfm.training.forest import BACKGROUND_PER_POSITIVE, LEAF, LEAST_BACKGROUND

MOST_NEGATIVES = 400_000  # of all images together; the paper's own are fewer
TREES = 200
GROWN_AT_ONCE, BOOSTED_AT_ONCE = 10, 40  # boosting looks at all its trees again each time
TREE_SEED = 42  # the paper's, whatever the seed of the run
MOST_VECTORS = 5_000  # of the one-class machine, which compares every cell with each
CELLS_AT_ONCE = 65_536  # that are predicted


class CellBaseline(Baseline):
    """A method that scores a cell by its channels alone."""

    comparable: ClassVar[bool] = True
    context: ClassVar[bool] = False

    @abstractmethod
    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        """Scores (N,) of cells with channels (N, C)."""

    def scores(self, image: Image) -> NDArray[np.float64]:
        """Scores (H, W); 0 off the footprint."""
        rows = cell_rows(image, image.footprint)
        cuts = range(0, len(rows), CELLS_AT_ONCE)
        found = [self.score_rows(rows[start : start + CELLS_AT_ONCE]) for start in cuts]
        scores = np.zeros(image.footprint.shape)
        if found:
            scores[image.footprint] = np.concatenate(found)
        return scores


class PseudoNegativeBaseline(CellBaseline):
    """A classifier of cells with an occurrence against a sample of the others."""

    least_negatives: ClassVar[int]  # the paper's cap for images with few occurrences

    @abstractmethod
    def chosen(self) -> dict[str, Any]:
        """What was chosen for the classifier."""

    def settings(self) -> dict[str, object]:
        """The classifier's, and how many cells it learns from."""
        return {
            **self.chosen(),
            "pseudo_negatives": {
                "per_positive": NEGATIVES_PER_POSITIVE,
                "least_of_an_image": self.least_negatives,
                "most_in_all": MOST_NEGATIVES,
            },
        }

    @abstractmethod
    def classify(self, rows: Rows, positive: NDArray[np.bool_], effort: Effort) -> Any:
        """A classifier fitted on rows (N, C) and whether each holds an occurrence (N,)."""

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Gather positive cells and pseudo-negatives image by image, then learn."""
        generator = np.random.default_rng(effort.seed)
        found: list[Rows] = []
        others = Reservoir(MOST_NEGATIVES, generator)
        for image in one_by_one(images, effort.reporter):
            positive, negative = pseudo_negatives(image, self.least_negatives, generator)
            found.append(cell_rows(image, positive))
            others.add(cell_rows(image, negative))
        positives = sum(map(len, found))
        if not positives:
            raise nothing_to_learn(self.title)
        self._classifier = None
        if others.offered:  # else every cell holds an occurrence, and all are as good
            rows = np.concatenate([*found, others.rows()])
            self._classifier = self.classify(rows, np.arange(len(rows)) < positives, effort)

    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        """The probability of the positive class."""
        if self._classifier is None:
            return np.ones(len(rows))
        return np.asarray(self._classifier.predict_proba(rows)[:, 1], np.float64)


class PoissonLR(PseudoNegativeBaseline):
    """Logistic regression on a cell's channels."""

    title: ClassVar[str] = "Poisson-LR"
    least_negatives: ClassVar[int] = 50

    def chosen(self) -> dict[str, Any]:
        """As in the paper."""
        return {"solver": "lbfgs", "class_weight": "balanced", "C": 1.0, "max_iter": 1000}

    def classify(self, rows: Rows, positive: NDArray[np.bool_], effort: Effort) -> Any:
        """Balanced, lbfgs, C = 1."""
        return LogisticRegression(**self.chosen()).fit(rows, positive)


class PaperForest(PseudoNegativeBaseline):
    """A forest of 200 trees of depth 15."""

    title: ClassVar[str] = "Random Forest (paper)"
    least_negatives: ClassVar[int] = 100

    def chosen(self) -> dict[str, Any]:
        """As in the paper."""
        return {
            "trees": TREES,
            "max_depth": 15,
            "class_weight": "balanced",
            "random_state": TREE_SEED,
        }

    def classify(self, rows: Rows, positive: NDArray[np.bool_], effort: Effort) -> Any:
        """Trees are added a few at a time, which gives the same forest as all at once."""
        forest = RandomForestClassifier(
            max_depth=15,
            random_state=TREE_SEED,
            warm_start=True,
            n_jobs=torch.get_num_threads(),  # threads, as many as the networks take
        )
        weight = compute_sample_weight("balanced", positive)
        stage = effort.reporter.stage(f"Fitting {self.title}")
        return _grow(forest, "n_estimators", GROWN_AT_ONCE, rows, positive, weight, stage)


class PaperGBDT(PseudoNegativeBaseline):
    """Gradient-boosted trees on histograms."""

    title: ClassVar[str] = "GBDT (paper)"
    least_negatives: ClassVar[int] = 100

    def chosen(self) -> dict[str, Any]:
        """The paper names none."""
        return {
            "iterations": TREES,
            "learning_rate": 0.1,
            "class_weight": "balanced",
            "early_stopping": False,
        }

    def classify(self, rows: Rows, positive: NDArray[np.bool_], effort: Effort) -> Any:
        """200 iterations without early stopping."""
        boosted = HistGradientBoostingClassifier(
            learning_rate=0.1, early_stopping=False, random_state=effort.seed, warm_start=True
        )
        weight = compute_sample_weight("balanced", positive)
        stage = effort.reporter.stage(f"Fitting {self.title}")
        return _grow(boosted, "max_iter", BOOSTED_AT_ONCE, rows, positive, weight, stage)


class BackgroundBaseline(CellBaseline):
    """A classifier of cells with an occurrence against a background drawn evenly from all cells.

    As a good practitioner fits it: the background is like the ground that is mapped, each piece of
    it by its size, and leaves hold enough cells for a share to mean something.
    """

    chosen: ClassVar[dict[str, Any]]  # of the classifier
    grown: ClassVar[tuple[str, int]]  # what counts its trees, and how many are grown at once

    @abstractmethod
    def classifier(self, effort: Effort) -> Any:
        """The classifier before it learns."""

    def settings(self) -> dict[str, object]:
        """The classifier's, and how many cells it learns from."""
        background = {"per_positive": BACKGROUND_PER_POSITIVE, "least": LEAST_BACKGROUND}
        both = {"trees": TREES, "class_weight": "balanced", "background": background}
        return {**self.chosen, **both}

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Gather cells image by image, then learn; both classes weigh alike."""
        background = Reservoir(MOST_NEGATIVES, np.random.default_rng(effort.seed))
        found: list[Rows] = []
        for image in one_by_one(images, effort.reporter):
            found.append(cell_rows(image, occurrence_counts(image) > 0))
            background.add(cell_rows(image, image.footprint))
        positives = sum(map(len, found))
        if not positives:
            raise nothing_to_learn(self.title)
        asked = max(BACKGROUND_PER_POSITIVE * positives, LEAST_BACKGROUND)
        others = np.random.default_rng(effort.seed).permutation(background.rows())[:asked]
        rows = np.concatenate([*found, others])
        positive = np.arange(len(rows)) < positives
        weight = compute_sample_weight("balanced", positive)
        stage = effort.reporter.stage(f"Fitting {self.title}")
        trees = self.classifier(effort)
        self._classifier = _grow(trees, *self.grown, rows, positive, weight, stage)

    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        """Odds of the positive class: the intensity, but for a factor."""
        chance = np.asarray(self._classifier.predict_proba(rows)[:, 1], np.float64)
        return chance / (1 - chance.clip(max=SUREST))


class RandomForest(BackgroundBaseline):
    """A forest of 200 trees, each grown until its leaves hold twenty cells."""

    title: ClassVar[str] = "Random Forest"
    chosen: ClassVar[dict[str, Any]] = {"min_samples_leaf": LEAF, "random_state": TREE_SEED}
    grown: ClassVar[tuple[str, int]] = ("n_estimators", GROWN_AT_ONCE)

    def classifier(self, effort: Effort) -> Any:
        """Trees are added a few at a time, which gives the same forest as all at once."""
        threads = torch.get_num_threads()
        return RandomForestClassifier(**self.chosen, warm_start=True, n_jobs=threads)


class GBDT(BackgroundBaseline):
    """200 gradient-boosted trees on histograms: small ones, in small steps."""

    title: ClassVar[str] = "GBDT"
    chosen: ClassVar[dict[str, Any]] = {
        "learning_rate": 0.05,
        "max_leaf_nodes": 15,
        "min_samples_leaf": LEAF,
        "early_stopping": False,
    }
    grown: ClassVar[tuple[str, int]] = ("max_iter", BOOSTED_AT_ONCE)

    def classifier(self, effort: Effort) -> Any:
        """Without early stopping."""
        return HistGradientBoostingClassifier(
            **self.chosen, warm_start=True, random_state=effort.seed
        )


def _grow(
    trees: Any,
    count: str,
    at_once: int,
    rows: Rows,
    positive: NDArray[np.bool_],
    weight: NDArray[np.float64],
    stage: Stage,
) -> Any:
    """Fit an ensemble a few trees at a time, so that it shows how far it is and can be stopped."""
    for grown in range(0, TREES, at_once):
        stage(grown, TREES)
        trees.set_params(**{count: grown + at_once})
        trees.fit(rows, positive, sample_weight=weight)
    stage(TREES, TREES)
    return trees


class OneClass(CellBaseline):
    """A one-class support vector machine: how much a cell is like those with occurrences."""

    title: ClassVar[str] = "OCSVM"

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Learn the support of the positive cells."""
        kept = Reservoir(MOST_VECTORS, np.random.default_rng(effort.seed))
        for image in one_by_one(images, effort.reporter):
            kept.add(cell_rows(image, occurrence_counts(image) > 0))
        rows = kept.rows()
        if not len(rows):
            raise nothing_to_learn(self.title)
        self._machine = OneClassSVM(kernel="rbf", nu=0.1, gamma="scale").fit(rows)

    def settings(self) -> dict[str, object]:
        """The paper names the kernel and the shift alone."""
        return {
            "kernel": "rbf",
            "nu": 0.1,
            "gamma": "scale",
            "most_vectors": MOST_VECTORS,
            "shift": "by an image's least score; the same for all windows of a region",
        }

    def density(self, image: Image) -> NDArray[np.float64]:
        """Of the decision function shifted by its least value in the image, as in the paper.

        The shift takes an offset common to all scores out, the decision function's too.
        """
        scores, footprint = self.scores(image), image.footprint
        return normalised(scores - scores[footprint].min(initial=np.inf), footprint)

    def score_rows(self, rows: Rows) -> NDArray[np.float64]:
        """The decision function without its offset: the least shift that makes it >= 0 anywhere.

        Windows of a region are compared by it: shifted by the least score of each, they would
        differ in what 0 means.
        """
        return np.maximum(self._machine.score_samples(rows), 0.0)
