"""The rows of the tables: whatever a method is, it looks at an image, draws and has a density."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from geocfm.data.image import Image
from geocfm.data.synthetic import SyntheticImage, posterior_density
from geocfm.evaluation.baselines import BASELINES, Baseline, draw_from
from geocfm.evaluation.baselines.base import FLOOR
from geocfm.evaluation.metrics import pixel_log_density
from geocfm.mistakes import choose_names

Points = NDArray[np.float64]  # (N, 2) in pixels
Density = NDArray[np.float64]  # (H, W), sums to 1 over the footprint

ORACLES = ("latent", "bayes")
"""Rows of every table: what happened, and what can be known."""

HEAD = "geocfm-head"
"""The density head of GeoCFM's network, drawn from directly: another estimator than its flow."""

GROUPS: dict[str, tuple[str, ...]] = {
    "pseudo-negative score maps": ("unet-seg", "gbdt-paper", "rf-paper", "poisson-lr"),
    "one class, and retrieval": ("ocsvm", "retrieval-kde"),
    "blind to the image": ("global-kde", "uniform"),
    "against a background of all cells, not in the paper": ("gbdt", "rf", "ipp"),
    "positive-only, not in the paper": ("unet-density",),
    "flow matching, and the density head that it is anchored on": ("geocfm", HEAD),
    "what happened; what can be known": ORACLES,
}
"""The paper's order, and our rows after its baselines; keys by group."""

METHODS = tuple(key for keys in GROUPS.values() for key in keys)
REDRAWS_STREAM = 2**40  # keeps the redraws of the latents apart from the images' own numbers


class View(ABC):
    """A method's answer to one image."""

    @abstractmethod
    def draws(self, count: int, number: int, seed: tuple[int, ...]) -> Points:
        """``number`` independent draws of ``count`` points: (number, count, 2) in pixels."""

    @abstractmethod
    def density(self) -> Density:
        """The density on the image's pixels."""

    def log_density(self, points: Points) -> NDArray[np.float64]:
        """Log density per px^2 at points (N, 2): of the pixel that each lies in."""
        return pixel_log_density(self.density(), points)

    def more(self, points: Points, draws: Points) -> dict[str, float]:
        """Values that only such a method has, given what was observed and what it drew."""
        return {}


class Method(ABC):
    """A row: a method that is ready to be asked."""

    title: ClassVar[str]

    @abstractmethod
    def look(self, image: Image, truth: SyntheticImage | None, seed: int = 0) -> View:
        """Its answer to an image; only oracles may look at how the image was made.

        seed: the image's own, for what a method computes by chance.
        """

    def choices(self) -> dict[str, object]:
        """What was chosen for it, for the records."""
        return {}


@dataclass(frozen=True)
class DensityView(View):
    """Draws from the pixels' density (paper, appendix "From score maps to point sets")."""

    map: Density
    values: tuple[tuple[str, float], ...] = ()

    def draws(self, count: int, number: int, seed: tuple[int, ...]) -> Points:
        """Cells with replacement, and U(0, 1) inside each."""
        generator = np.random.default_rng(seed)
        return draw_from(self.map, count * number, generator).reshape(number, -1, 2)

    def density(self) -> Density:
        """As it was given."""
        return self.map

    def more(self, points: Points, draws: Points) -> dict[str, float]:
        """As they were given."""
        return dict(self.values)


class BaselineMethod(Method):
    """A fitted baseline."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline

    def look(self, image: Image, truth: SyntheticImage | None, seed: int = 0) -> View:
        """Its scores as a density."""
        return DensityView(self._baseline.density(image))

    def choices(self) -> dict[str, object]:
        """The baseline's own settings, and the least score of a cell."""
        return {**self._baseline.settings(), "least_score_of_mean": FLOOR}


class LatentDensity(Method):
    """The density that the deposits were drawn from: what happened."""

    title = "Latent density"

    def look(self, image: Image, truth: SyntheticImage | None, seed: int = 0) -> View:
        """Eq. (9) with the latent field and the activation as they were."""
        return DensityView(_known(truth).density)


class BayesDensity(Method):
    """The mean density over latents redrawn given the observed: what can be known."""

    title = "Bayes density"

    def __init__(self, redraws: int) -> None:
        self._redraws = redraws

    def look(self, image: Image, truth: SyntheticImage | None, seed: int = 0) -> View:
        """The mean, and the Monte-Carlo error that it gives the NLL: another in each image."""
        found = posterior_density(_known(truth), self._redraws, REDRAWS_STREAM + seed)
        return DensityView(found.density, (("nll_monte_carlo_error", found.nll_standard_error),))

    def choices(self) -> dict[str, object]:
        """How many redraws."""
        return {"redraws": self._redraws}


def _known(truth: SyntheticImage | None) -> SyntheticImage:
    if truth is None:
        raise ValueError("an oracle needs to know how the image was made")
    return truth


def title_of(key: str) -> str:
    """The method's name in tables."""
    if key in BASELINES:
        return BASELINES[key].title
    ours = {
        "latent": LatentDensity.title,
        "bayes": BayesDensity.title,
        HEAD: "GeoCFM's density head",
    }
    return ours.get(key, "GeoCFM")


def choose_methods(text: str, *, with_head: bool = True) -> list[str]:
    """``all`` or names divided by commas, in the order of the table; the oracles always.

    with_head: whether GeoCFM's network has a density head; without one it is not among them.
    """
    known = [key for key in METHODS if with_head or key != HEAD]
    names = choose_names(text, known, "method")
    return [key for key in known if key in names or key in ORACLES]
