"""Grow the forest of single cells: occurrences against a background drawn evenly from all cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from geocfm.model.forest import EDGES, LEAVES, TREES, CellForest
from geocfm.training.cells import Floats, Rows

LEAF = 20  # cells, at least
BACKGROUND_PER_POSITIVE, LEAST_BACKGROUND = 10, 10_000  # cells, if there are so many


def forest_edges(rows: Rows, valued: NDArray[np.int64], channels: int) -> Rows:
    """Edges (C, E) at the quantiles of cells' (N, C) valued channels; others have none."""
    edges = np.zeros((channels, EDGES), np.float32)
    shares = np.linspace(0, 1, EDGES + 2)[1:-1]
    for channel in valued:
        edges[channel] = np.quantile(rows[:, channel], shares, method="nearest")
    return edges


def fit_forest(
    forest: CellForest, edges: Rows, present: Rows, weights: Floats, cells: Rows, seed: int
) -> None:
    """Give the forest its trees; without an occurrence all cells stay alike.

    present (N, C) holds the cells of occurrences, which count by weights (N,); cells (M, C) all
    cells, of which some are the background. Both classes weigh alike.
    """
    valued = np.flatnonzero(edges[:, 0] < edges[:, -1])
    if not len(present) or not len(cells) or not len(valued):
        return
    generator = np.random.default_rng(seed)
    asked = max(BACKGROUND_PER_POSITIVE * len(present), LEAST_BACKGROUND)
    background = cells[generator.permutation(len(cells))[:asked]]
    rows = np.concatenate([present, background])
    places = np.stack(
        [np.searchsorted(edges[channel], rows[:, channel]) for channel in valued], axis=1
    )
    positive = np.arange(len(rows)) < len(present)
    share = weights / weights.sum()
    weight = np.concatenate([share, np.full(len(background), 1 / len(background))])
    grown = RandomForestClassifier(
        n_estimators=TREES,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=LEAF,
        n_jobs=torch.get_num_threads(),
        random_state=seed % 2**32,
    ).fit(places, positive, sample_weight=weight * len(rows) / 2)
    forest.edges.copy_(torch.from_numpy(edges))
    for number, tree in enumerate(grown.estimators_):
        _copy_tree(forest, number, tree.tree_, valued)
    forest.changed()


def _copy_tree(forest: CellForest, number: int, tree: Any, valued: NDArray[np.int64]) -> None:
    """A tree of scikit-learn as splits, each with the leaves on its left as bits."""
    leaves, splits = 0, 0

    def visit(node: int) -> int:
        """The leaves under a node, as bits, numbered from left to right."""
        nonlocal leaves, splits
        if tree.children_left[node] < 0:
            one, other = tree.value[node, 0]
            forest.chances[number, leaves] = float(other / (one + other))
            leaves += 1
            return 1 << (leaves - 1)
        own = splits
        splits += 1
        left = visit(tree.children_left[node])
        right = visit(tree.children_right[node])
        forest.channel[number, own] = int(valued[tree.feature[node]])
        # places are whole numbers, and scikit-learn splits between two of them
        forest.edge[number, own] = int(np.floor(tree.threshold[node]))
        bits = list(left.to_bytes(LEAVES // 8, "little"))
        forest.left[number, own] = torch.tensor(bits, dtype=torch.uint8)
        return left | right

    visit(0)
