"""Weights of one over the effort undo a bias that is known: occurrences thinned by that effort."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from geocfm.data.patches import Batch, Example, make_batch
from geocfm.data.survey_effort import effort_weights
from geocfm.events import JsonSink, Reporter
from geocfm.model.score import log_density, new_score_network
from geocfm.model.settings import NetworkSettings, TrainingSettings
from geocfm.training.fit import fit_network
from geocfm.training.losses import density_loss
from numpy.typing import NDArray

SIZE = 32  # cells; all that matters happens along the columns
COLUMNS = np.arange(SIZE)
TRUTH = 1 + 0.8 * np.cos(2 * np.pi * COLUMNS / SIZE)  # two rich ends, a poor middle
TRUTH = TRUTH / TRUTH.sum()
EFFORT = np.where(COLUMNS < SIZE // 2, 1.0, 0.2)  # the eastern end was hardly looked at
STEPS, RATE = 120, 2e-2


def known_occurrences(count: int) -> NDArray[np.float64]:
    """Points (N, 2) in cells, drawn from the truth, of which surveys found a share."""
    generator = np.random.default_rng(6)
    col = generator.choice(SIZE, count, p=TRUTH) + generator.random(count)
    points = np.stack([col, SIZE * generator.random(count)], axis=1)
    return points[generator.random(count) < EFFORT[col.astype(int)]]


def batch_of(points: NDArray[np.float64], weights: NDArray[np.float64]) -> Batch:
    """One window whose layer tells the column."""
    ramp = np.broadcast_to(np.linspace(-1, 1, SIZE), (1, SIZE, SIZE)).astype(np.float32)
    example = Example(ramp.copy(), np.ones((SIZE, SIZE), bool), points / SIZE, weights)
    return make_batch([example], TrainingSettings(), np.random.default_rng(1))


def learned(batch: Batch) -> NDArray[np.float64]:
    """The density (SIZE,) along the columns that a small network learns from the batch."""
    settings = NetworkSettings(width=8, depth=1, features=8)
    network = new_score_network(1, settings, seed=2)
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        density_loss(network, batch).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    with torch.no_grad():
        logs = log_density(network(batch.images), batch.footprints)[0]
    return logs.double().exp().sum(dim=0).numpy()


def divergence(found: NDArray[np.float64]) -> float:
    """Kullback-Leibler, from the truth."""
    return float((TRUTH * np.log(TRUTH / found)).sum())


def test_weights_recover_the_density_that_effort_has_hidden(one_thread: None) -> None:
    points = known_occurrences(4000)
    weights, floor = effort_weights(
        EFFORT[points[:, 0].astype(int)], np.ones(len(points), dtype=bool)
    )
    assert floor == pytest.approx(0.2)
    biased, mended = (learned(batch_of(points, used)) for used in (np.ones(len(points)), weights))
    thinned = TRUTH * EFFORT / (TRUTH * EFFORT).sum()
    assert divergence(biased) == pytest.approx(divergence(thinned), rel=0.1)  # 0.29
    assert divergence(mended) < 0.1 * divergence(biased)
    east = COLUMNS >= SIZE // 2
    assert mended[east].sum() == pytest.approx(TRUTH[east].sum(), abs=0.05)
    assert biased[east].sum() < 0.6 * TRUTH[east].sum()


class Uneven:
    """Two validation batches that weigh differently."""

    workers = 1

    def batch(self, step: int) -> Batch:
        return batch_of(known_occurrences(40), np.ones(len(known_occurrences(40))))

    def validation(self) -> list[Batch]:
        points = known_occurrences(60)
        halves = np.array_split(np.arange(len(points)), [10])
        return [
            batch_of(points[half], np.full(len(half), weight))
            for half, weight in zip(halves, (5.0, 0.5), strict=True)
        ]


def test_the_validation_loss_is_the_weighted_mean_over_all_batches(one_thread: None) -> None:
    network = new_score_network(1, NetworkSettings(width=8, depth=1, features=4), seed=1)
    training = TrainingSettings(iterations=1, batch=1)
    reporter = Reporter(JsonSink(io.StringIO()))
    result = fit_network(
        Uneven(), network, density_loss, training, 1, torch.device("cpu"), reporter
    )
    total, weight = 0.0, 0.0
    with torch.no_grad():
        for batch in Uneven().validation():
            logs = log_density(network(batch.images), batch.footprints)[0].numpy()
            for (x, y), w in zip(batch.points.numpy() * SIZE, batch.weights.tolist(), strict=True):
                total, weight = total - w * float(logs[int(y), int(x)]), weight + w
    assert result.best.metrics["validation_loss"] == pytest.approx(total / weight, rel=1e-5)
