"""How near draws come to what was observed: point sets against point sets, densities at points.

Draws are (D, N, 2), observed points (M, 2), both (x, y) in pixels; results are (D,), one per draw,
on the device of the draws. A metric of an empty set is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial import cKDTree
from torch import Tensor

from geocfm.evaluation.capture import CaptureCurve

TOLERANCE_PX = 5.0
LEAST_KERNEL_VARIANCE = 1.0  # px^2: a kernel narrower than a cell says more than the data do
TOP_SHARE = 0.05
DISTANCES_AT_ONCE = 2_000_000


def chamfer(draws: Tensor, observed: Tensor) -> Tensor:
    """Mean distance to the nearest observed point plus the mean the other way round, in pixels."""

    def of(some: Tensor) -> Tensor:
        distance = _distances(some, observed.double()[None])
        return distance.amin(dim=2).mean(dim=1) + distance.amin(dim=1).mean(dim=1)

    return _in_parts(of, draws, observed)


def f_score(draws: Tensor, observed: Tensor, tolerance: float = TOLERANCE_PX) -> Tensor:
    """2 TP / (A + B), with TP the most pairs within the tolerance that share no point."""
    there = cKDTree(observed.double().cpu().numpy().reshape(-1, 2))

    def of(some: Tensor) -> Tensor:
        hits = [_most_pairs(one, there, tolerance) for one in some.cpu().numpy()]
        return 2 * some.new_tensor(hits) / (some.shape[1] + len(observed))

    return _in_parts(of, draws, observed)


def kde_nll(draws: Tensor, observed: Tensor) -> Tensor:
    """Mean -log of a Gaussian KDE of the draw at the observed points, in nats for px^-2.

    Scott's rule: the kernel's covariance is that of the points times N^(-1/3), and no less than
    a pixel in any direction, so that few, collinear and single points have a density too.
    """

    def of(some: Tensor) -> Tensor:
        count = some.shape[1]
        offset = some - some.mean(dim=1, keepdim=True)
        covariance = offset.transpose(1, 2) @ offset / max(count - 1, 1)
        variances, axes = torch.linalg.eigh(covariance * count ** (-1 / 3))
        variances = variances.clamp(min=LEAST_KERNEL_VARIANCE)
        to_unit = axes / variances.sqrt().unsqueeze(1)
        distance = _distances(some @ to_unit, observed.to(some) @ to_unit)
        log_kernels = torch.logsumexp(distance.square_().mul_(-0.5), dim=1)
        log_scale = math.log(2 * math.pi * count) + 0.5 * variances.log().sum(dim=1)
        return log_scale - log_kernels.mean(dim=1)

    return _in_parts(of, draws, observed)


def top_share(
    density: NDArray[np.floating],
    footprint: NDArray[np.bool_],
    points: NDArray[np.float64],
    share: float = TOP_SHARE,
) -> float:
    """Share of the points (N, 2) in the densest ``share`` of the footprint's pixels.

    Pixels of equal density share what is left for them, so that a flat density gives ``share``.
    """
    if not len(points):
        return math.nan
    ranked = np.sort(density[footprint])
    row, col = _cells(points, density.shape)
    value = density[row, col]
    up_to = np.searchsorted(ranked, value, side="right")
    equal = up_to - np.searchsorted(ranked, value, side="left")
    room = share * len(ranked) - (len(ranked) - up_to)
    credit = np.clip(room / np.maximum(equal, 1), 0, 1)
    return float(np.where(footprint[row, col], credit, 0).mean())


def pixel_log_density(
    density: NDArray[np.floating], points: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Log (N,) of a density (H, W) per px^2, at points (N, 2): of the pixel each lies in."""
    with np.errstate(divide="ignore"):
        logs: NDArray[np.float64] = np.log(density[_cells(points, density.shape)])
    return logs


def capture_of(
    density: NDArray[np.floating], footprint: NDArray[np.bool_], points: NDArray[np.float64]
) -> CaptureCurve:
    """The capture curve of points (N, 2) by a density (H, W) of any scale, areas in pixels."""
    curve = CaptureCurve()
    masked = np.where(footprint, density, 0.0)
    relative = masked * (footprint.sum() / max(float(masked.sum()), 1e-300))
    curve.add_cells(relative[footprint], np.ones(int(footprint.sum())))
    curve.add_occurrences(relative[_cells(points, density.shape)])
    return curve


def _in_parts(of: Callable[[Tensor], Tensor], draws: Tensor, observed: Tensor) -> Tensor:
    """So many draws at a time that their distances fit into memory."""
    draws = draws.double()
    pairs = draws.shape[1] * len(observed)
    if not pairs or not len(draws):
        return draws.new_full(draws.shape[:1], math.nan)
    at_once = max(DISTANCES_AT_ONCE // pairs, 1)
    return torch.cat([of(some) for some in torch.split(draws, at_once)])


def _distances(first: Tensor, second: Tensor) -> Tensor:
    """(D, N, M), from differences: by products near points would lose their digits."""
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")


def _most_pairs(points: NDArray[np.float64], there: cKDTree, tolerance: float) -> int:
    near = cKDTree(points).sparse_distance_matrix(there, tolerance, output_type="ndarray")
    links = csr_array(
        (np.ones(len(near), dtype=np.int8), (near["i"], near["j"])), shape=(len(points), there.n)
    )
    return int((maximum_bipartite_matching(links, perm_type="column") >= 0).sum())


def _cells(
    points: NDArray[np.float64], shape: tuple[int, ...]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(rows, columns) of the pixels that points lie in; on the far edge, the last ones."""
    col, row = np.floor(points).astype(np.int64).T
    return np.clip(row, 0, shape[0] - 1), np.clip(col, 0, shape[1] - 1)
