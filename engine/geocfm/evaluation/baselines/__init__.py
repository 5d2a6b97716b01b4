"""Methods that GeoCFM is compared with, all in the same point-sampling frame."""

from __future__ import annotations

from geocfm.evaluation.baselines.base import Baseline, Effort, draw_from
from geocfm.evaluation.baselines.networks import UNetDensity, UNetSegmentation
from geocfm.evaluation.baselines.pixels import (
    GBDT,
    OneClass,
    PaperForest,
    PaperGBDT,
    PoissonLR,
    RandomForest,
)
from geocfm.evaluation.baselines.poisson_process import PoissonProcess
from geocfm.evaluation.baselines.spatial import GlobalKDE, RetrievalKDE, Uniform

BASELINES: dict[str, type[Baseline]] = {
    "uniform": Uniform,
    "global-kde": GlobalKDE,
    "poisson-lr": PoissonLR,
    "rf": RandomForest,
    "rf-paper": PaperForest,
    "gbdt": GBDT,
    "gbdt-paper": PaperGBDT,
    "unet-seg": UNetSegmentation,
    "ocsvm": OneClass,
    "retrieval-kde": RetrievalKDE,
    "unet-density": UNetDensity,
    "ipp": PoissonProcess,
}

__all__ = ["BASELINES", "Baseline", "Effort", "draw_from"]
