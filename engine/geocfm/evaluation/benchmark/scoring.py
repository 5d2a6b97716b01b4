"""One value of every metric for each image: the mean over its draws, or of its density."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.image import Image
from geocfm.data.synthetic import SyntheticImage
from geocfm.evaluation.benchmark.methods import Method, View
from geocfm.evaluation.benchmark.result_files import PICTURED, PICTURED_DRAWS, Pictures
from geocfm.evaluation.capture import BINS, REPORTED_SHARES
from geocfm.evaluation.metrics import (
    LEAST_KERNEL_VARIANCE,
    TOLERANCE_PX,
    TOP_SHARE,
    capture_of,
    chamfer,
    f_score,
    kde_nll,
    top_share,
)
from geocfm.evaluation.sinkhorn import (
    EPSILON,
    MARGINAL_ERROR,
    MOST_ROUNDS,
    SELF_ERROR,
    sinkhorn_divergence,
)
from geocfm.events import Stage

Values = dict[str, float]

DRAW_STREAM = 2**29  # keeps the noise of draws apart from that of training steps
CURVE_AREAS = np.linspace(0, 1, 101) ** 2  # of a mean capture curve: close where it is steep


@dataclass(frozen=True)
class Scores:
    """Values of every image, metric by metric, and what figures show of the first few.

    curve: the mean captured share at CURVE_AREAS, over the images that have one.
    """

    values: dict[str, list[float]]
    points: list[int]
    curve: NDArray[np.float64]
    pictures: Pictures


def metric_choices() -> dict[str, object]:
    """What was chosen for the metrics, the same for all methods, for the records."""
    return {
        "f5_tolerance_px": TOLERANCE_PX,
        "sinkhorn": {
            "epsilon": EPSILON,
            "cost": "squared distance, the image's side being 1",
            "marginal_error": MARGINAL_ERROR,
            "self_error": SELF_ERROR,
            "most_rounds": MOST_ROUNDS,
        },
        "kde": {"bandwidth": "Scott's rule", "least_variance_px2": LEAST_KERNEL_VARIANCE},
        "top_share": TOP_SHARE,
        "capture_bins": BINS,
    }


def draw_seed(seed: int, number: int) -> tuple[int, int, int]:
    """Of the draws on image ``number``: a test image's seed, or a training image's index."""
    return seed, DRAW_STREAM, number


def draw_values(
    draws: NDArray[np.float64],
    observed: NDArray[np.float64],
    size: int,
    device: torch.device,
    metrics: Sequence[str] = ("cd", "sinkhorn", "f5", "kde_nll"),
) -> Values:
    """Means over draws (D, N, 2) against the observed points (M, 2), all in pixels."""
    if device.type == "mps":
        device = torch.device("cpu")  # Apple's GPUs know no double precision
    drawn = torch.from_numpy(draws).to(device)
    seen = torch.from_numpy(observed).to(device)
    compute = {
        "cd": lambda: chamfer(drawn, seen),
        "sinkhorn": lambda: sinkhorn_divergence(drawn, seen, float(size)),
        "f5": lambda: f_score(drawn, seen),
        "kde_nll": lambda: kde_nll(drawn, seen),
    }
    return {key: float(compute[key]().mean()) for key in metrics}


def density_values(view: View, image: Image) -> tuple[Values, NDArray[np.float64]]:
    """Exact NLL, Top-5 %, and the capture curve: its area, some shares, and at CURVE_AREAS.

    All are NaN without a point to be found, or where the density is 0 everywhere.
    """
    density = view.density()
    if not len(image.points) or not density[image.footprint].any():
        keys = ("top5", "nll", "capture", *map(captured_key, REPORTED_SHARES))
        return dict.fromkeys(keys, math.nan), np.full(len(CURVE_AREAS), math.nan)
    curve = capture_of(density, image.footprint, image.points)
    values = {
        "top5": top_share(density, image.footprint, image.points),
        "nll": -float(view.log_density(image.points).mean()),
        "capture": curve.under_curve(),
        **{captured_key(share): curve.captured(share) for share in REPORTED_SHARES},
    }
    return values, np.interp(CURVE_AREAS, *curve.points())


def captured_key(share: float) -> str:
    """The name of the share of points that the best ``share`` of the area captures."""
    return f"captured_in_{100 * share:g}_percent"


def score_method(
    method: Method,
    images: Sequence[SyntheticImage],
    seeds: Sequence[int],
    draws: int,
    seed: int,
    device: torch.device,
    stage: Stage,
) -> Scores:
    """Every metric on every test image; each draw has as many points as were observed."""
    rows: list[Values] = []
    points: list[int] = []
    curves: list[NDArray[np.float64]] = []
    shown: list[tuple[NDArray[np.float64], NDArray[np.float64]]] = []
    stage(0, len(images))
    for number, (truth, image_seed) in enumerate(zip(images, seeds, strict=True)):
        image = truth.image()
        view = method.look(image, truth, image_seed)
        drawn = view.draws(len(image.points), draws, draw_seed(seed, image_seed))
        size = max(image.footprint.shape)
        of_density, curve = density_values(view, image)
        points.append(len(image.points))
        if np.isfinite(curve).all():
            curves.append(curve)
        rows.append(
            {
                **draw_values(drawn, image.points, size, device),
                **of_density,
                **view.more(image.points, drawn),
            }
        )
        if number < PICTURED:
            shown.append((view.density(), drawn[:PICTURED_DRAWS]))
        stage(number + 1, len(images), CD=float(np.mean([row["cd"] for row in rows])))
    return Scores(
        {key: [row[key] for row in rows] for key in rows[0]},
        points,
        np.mean(curves, axis=0) if curves else np.full(len(CURVE_AREAS), math.nan),
        Pictures(
            density=np.stack([density for density, _ in shown]).astype(np.float32),
            draws=np.stack([drawn for _, drawn in shown]).astype(np.float32),
        ),
    )


def chamfer_of(
    method: Method,
    images: Iterable[Image],
    count: int,
    draws: int,
    seed: int,
    device: torch.device,
    stage: Stage,
) -> list[float]:
    """Mean Chamfer distance of each image: for images that the method learned from."""
    found = []
    for number, image in enumerate(images):
        view = method.look(image, None, number)
        drawn = view.draws(len(image.points), draws, draw_seed(seed, number))
        size = max(image.footprint.shape)
        found.append(draw_values(drawn, image.points, size, device, ("cd",))["cd"])
        stage(number + 1, count)
    return found
