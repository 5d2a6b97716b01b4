"""The count head: how many occurrences a window holds, from its mean features.

A Poisson regression on the windows of the training tiles, those without any occurrence included,
when all else is learned. Each occurrence counts by its weight: by the effort that it took to find
it, if that is known, and by how often a member of an ensemble sees it. Without the effort the head
says where people have found much, which is also where they have looked: it inherits the bias of
exploration, which the density within a window does not.
"""

from __future__ import annotations

import warnings

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.region import Region
from geocfm.data.region_batches import read_example
from geocfm.data.split import TRAIN
from geocfm.data.windows import Starts, lattice_starts
from geocfm.model.network import VelocityNetwork, mean_features

MOST_WINDOWS = 1024  # of all there are, spread evenly over them
BATCH = 16
RIDGE = 1e-2  # on features of unit variance; windows overlap, so there are fewer than they seem
ITERATIONS = 1000

Numbers = NDArray[np.float64]


def fit_counts(network: VelocityNetwork, region: Region, device: torch.device) -> None:
    """Give the network's count head its weights."""
    starts = _windows(region)
    if not len(starts):
        return
    features, counts, shares = [], [], []
    nobody = np.random.default_rng(0)  # of examples as they are nothing is left to chance
    for first in range(0, len(starts), BATCH):
        windows = [region.window(start) for start in starts[first : first + BATCH]]
        examples = [read_example(region, window, nobody) for window in windows]
        images = torch.from_numpy(np.stack([example.channels for example in examples]))
        with torch.no_grad():
            found = network.unet(images.to(device).contiguous(memory_format=torch.channels_last))
        features.append(mean_features(found).cpu().double().numpy())
        counts += [region.weights[region.inside(window)].sum() for window in windows]
        shares += [example.footprint.mean() for example in examples]
    seen, share = np.concatenate(features), np.array(shares)
    centre, spread = seen.mean(axis=0), seen.std(axis=0) + 1e-6
    slopes, level = regress((seen - centre) / spread, np.array(counts) / share, share)
    weight = slopes / spread
    with torch.no_grad():
        network.count.weight.copy_(torch.from_numpy(weight[None]))
        network.count.bias.fill_(float(level - weight @ centre))


def regress(features: Numbers, counts: Numbers, weights: Numbers) -> tuple[Numbers, float]:
    """Slopes (F,) and intercept of log counts (N,) by features (N, F)."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import PoissonRegressor  # takes a second to load

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it is answered below
        model = PoissonRegressor(alpha=RIDGE, max_iter=ITERATIONS)
        model.fit(features, counts, sample_weight=weights)
        if model.n_iter_ >= ITERATIONS:  # many occurrences to a window, and features much alike
            model = PoissonRegressor(alpha=RIDGE, solver="newton-cholesky", max_iter=ITERATIONS)
            model.fit(features, counts, sample_weight=weights)
    return np.asarray(model.coef_), float(model.intercept_)


def _windows(region: Region) -> Starts:
    """Windows of the training tiles with enough data, with or without an occurrence."""
    size = region.plan.size
    starts = lattice_starts(region.grid, size, region.plan.stride)
    starts = starts[region.scan.footprint_share(starts, size) >= region.settings.footprint]
    starts = starts[region.split.role_of_windows(starts, size) == TRAIN]
    some = np.linspace(0, len(starts) - 1, min(len(starts), MOST_WINDOWS)).astype(int)
    return starts[some]
