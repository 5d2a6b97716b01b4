"""Gathering a model's experience: which cells training saw, in a few hundred of them.

The references are a sample's farthest points: each is the one that is farthest from those chosen
before it. They reach the rare corners of what was seen, where k-means would leave none, and so
cover it with the smallest radius.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.patches import Example
from geocfm.data.region import Region
from geocfm.data.region_batches import read_example
from geocfm.data.scan import Progress
from geocfm.data.windows import Starts
from geocfm.model.checkpoint import channel_layout
from geocfm.model.experience import NEVER_SEEN, Experience
from geocfm.model.settings import TrainingSettings

EXPERIENCE_STREAM = 2**31 + 1  # keeps this chance apart from that of every training step
WINDOWS = 256  # training windows that are looked at
CELLS = 20_000  # of them all; from one half come the references, by the other they are judged
REFERENCES = 512
INSIDE = 0.995  # share of the cells held apart that the radius takes in
LEAST_RADIUS = 0.25  # standard deviations: so near, cells are alike however dense the references


def gather_experience(
    region: Region, starts: Starts, training: TrainingSettings, seed: int, progress: Progress
) -> Experience:
    """What training sees in those windows of the region that it draws from; depends on the seed.

    Their cells are encoded as for a batch: layers that training hides are missing here too.
    """
    generator = np.random.default_rng([seed, EXPERIENCE_STREAM])
    chosen = starts[generator.permutation(len(starts))[:WINDOWS]]
    each = -(-CELLS // len(chosen))
    found = []
    for done, start in enumerate(chosen):
        progress(done, len(chosen))
        example = read_example(region, region.window(start), generator, training)
        found.append(_some_cells(example, each, generator))
    progress(len(chosen), len(chosen))
    seen = torch.from_numpy(generator.permutation(np.concatenate(found)))
    first, apart = seen.tensor_split([-(-len(seen) // 2)])
    layout = channel_layout(region.layer_cards, region.settings)
    references = first[farthest_points(layout.comparable(first).numpy(), REFERENCES)]
    experience = Experience(references, LEAST_RADIUS, layout)
    return Experience(references, _radius(experience, apart), layout)


def farthest_points(points: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Numbers (K,) of at most ``count`` points (N, D), each farthest from those before it.

    Begins with the first; ends early where every point is one of those chosen.
    """
    chosen = [0]
    gaps = np.square(points - points[0]).sum(axis=1)
    while len(chosen) < count and gaps.max() > 0:
        chosen.append(int(gaps.argmax()))
        np.minimum(gaps, np.square(points - points[chosen[-1]]).sum(axis=1), out=gaps)
    return np.array(chosen)


def _some_cells(
    example: Example, count: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """At most so many cells (N, C) of a window, of those with data."""
    cells = example.inside[:, example.footprint].T
    return cells[generator.permutation(len(cells))[:count]]


def _radius(experience: Experience, apart: torch.Tensor) -> float:
    """What takes in nearly all cells held apart, but those whose missing layers no reference has.

    These few are outside however large the radius is.
    """
    gaps = experience.distances(apart).numpy() if len(apart) else np.zeros(0)
    gaps = gaps[gaps < NEVER_SEEN]
    widest = float(np.quantile(gaps, INSIDE)) if len(gaps) else 0.0
    return min(max(widest, LEAST_RADIUS), NEVER_SEEN / 2)
