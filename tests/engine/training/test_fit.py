"""Batches made ahead, and fits of any network that go on where they were."""

from __future__ import annotations

import io
import json
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from geocfm.data.patches import Batch, Example, make_batch
from geocfm.errors import Cancelled, UserError
from geocfm.events import JsonSink, Reporter
from geocfm.model.score import ScoreNetwork, new_score_network
from geocfm.model.settings import NetworkSettings, TrainingSettings
from geocfm.training.ahead import BatchesAhead
from geocfm.training.fit import LOG, fit_network
from geocfm.training.losses import density_loss
from geocfm.training.resume import STATE
from small_data import json_lines

CPU = torch.device("cpu")
SMALL = NetworkSettings(width=8, depth=1, features=4)
TRAINING = TrainingSettings(iterations=12, batch=2, validate_every=3, learning_rate=1e-2)


class Squares:
    """Images of noise whose points lie where the noise is high; makes batches unevenly fast."""

    def __init__(self, workers: int, seed: int = 1, delay: float = 0.0) -> None:
        self.workers, self.seed, self._delay = workers, seed, delay
        self.asked: list[int] = []
        self.makers: set[str] = set()

    def batch(self, step: int) -> Batch:
        self.asked.append(step)
        self.makers.add(threading.current_thread().name)
        time.sleep(self._delay * (1 + step % 3))
        return self._make(np.random.default_rng([self.seed, step]))

    def validation(self) -> list[Batch]:
        return [self._make(np.random.default_rng([self.seed, 10**6]))]

    def _make(self, generator: np.random.Generator) -> Batch:
        examples = []
        for _ in range(2):
            channels = generator.standard_normal((1, 12, 12)).astype(np.float32)
            rows, cols = np.unravel_index(channels[0].ravel().argsort()[-10:], (12, 12))
            points = (np.stack([cols, rows], axis=1) + 0.5) / 12
            footprint, weights = np.ones((12, 12), bool), np.ones(len(points))
            examples.append(Example(channels, footprint, points, weights))
        return make_batch(examples, TrainingSettings(), generator)


def reporter(cancelled: threading.Event | None = None) -> Reporter:
    return Reporter(JsonSink(io.StringIO()), cancelled)


def network_of(seed: int = 1) -> ScoreNetwork:
    return new_score_network(1, SMALL, seed)


def weights(network: ScoreNetwork) -> torch.Tensor:
    return torch.cat([tensor.flatten() for tensor in network.state_dict().values()])


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_batches_come_in_order_whoever_makes_them(workers: int) -> None:
    source = Squares(workers, delay=0.002)
    with closing(BatchesAhead(source, 5)) as ahead:
        batches = [next(ahead) for _ in range(12)]
    for step, batch in enumerate(batches, start=5):
        alone = Squares(1).batch(step)
        assert torch.equal(batch.images, alone.images)
        assert torch.equal(batch.noise, alone.noise)
    assert 1 <= len(source.makers) <= workers
    assert max(source.asked) <= 5 + 12 + workers  # no further ahead than that
    assert threading.current_thread().name not in source.makers


def test_what_goes_wrong_in_a_maker_is_raised_where_the_batch_is_used() -> None:
    class Broken(Squares):
        def batch(self, step: int) -> Batch:
            if step == 2:
                raise UserError("The raster breaks off.")
            return super().batch(step)

    with closing(BatchesAhead(Broken(2), 0)) as ahead:
        next(ahead)
        next(ahead)
        with pytest.raises(UserError, match="breaks off"):
            next(ahead)


def test_the_makers_work_at_the_same_time() -> None:
    meeting = threading.Barrier(3)

    class Meeting(Squares):
        def batch(self, step: int) -> Batch:
            if step < 3:
                meeting.wait(timeout=30)  # breaks if the three never meet
            return super().batch(step)

    with closing(BatchesAhead(Meeting(3), 0)) as ahead:
        next(ahead)


def test_the_result_does_not_depend_on_the_workers(one_thread: None) -> None:
    networks = [network_of() for _ in range(3)]
    for network, workers in zip(networks, (1, 2, 4), strict=True):
        fit_network(Squares(workers), network, density_loss, TRAINING, 1, CPU, reporter())
    assert torch.equal(weights(networks[0]), weights(networks[1]))
    assert torch.equal(weights(networks[0]), weights(networks[2]))


def test_the_result_tells_how_long_training_waited(one_thread: None) -> None:
    short = TRAINING.model_copy(update={"iterations": 5})
    fast, slow = (
        fit_network(Squares(1, delay=delay), network_of(), density_loss, short, 1, CPU, reporter())
        for delay in (0.0, 0.1)
    )
    assert 0 <= fast.waited < slow.waited < slow.seconds
    assert slow.waited > 0.2  # the batches take 0.9 s, the steps some milliseconds


def test_a_fit_leaves_the_best_weights_ready_for_use(tmp_path: Path, one_thread: None) -> None:
    network = network_of()
    first = weights(network).clone()
    result = fit_network(Squares(1), network, density_loss, TRAINING, 1, CPU, reporter(), tmp_path)
    assert not network.training
    assert not torch.equal(weights(network), first)
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, result.best.weights[name])
    with torch.no_grad():
        loss = density_loss(network, Squares(1).validation()[0]).item()
    assert loss == pytest.approx(result.best.metrics["validation_loss"], rel=1e-5)
    said, *rows = json_lines((tmp_path / LOG).read_text())
    assert said["fit"]["seed"] == 1
    assert said["fit"]["training"]["iterations"] == 12
    assert [row["iteration"] for row in rows if "loss" in row] == list(range(1, 13))


class Cancelling(Squares):
    """Asks for the end when a step's batch is made."""

    def __init__(self, at: int) -> None:
        super().__init__(1)
        self.cancelled = threading.Event()
        self._at = at

    def batch(self, step: int) -> Batch:
        if step == self._at:
            self.cancelled.set()
        return super().batch(step)


def test_an_interrupted_fit_goes_on_as_if_nothing_had_happened(
    tmp_path: Path, one_thread: None
) -> None:
    whole, parts = network_of(), network_of()
    fit_network(Squares(1), whole, density_loss, TRAINING, 1, CPU, reporter(), tmp_path / "whole")
    source = Cancelling(at=7)
    with pytest.raises(Cancelled):
        fit_network(
            *(source, parts, density_loss, TRAINING, 1, CPU, reporter(source.cancelled)),
            folder=tmp_path / "parts",
        )
    later = Squares(2)
    result = fit_network(
        later, network_of(), density_loss, TRAINING, 1, CPU, reporter(), tmp_path / "parts"
    )
    assert 0 < min(later.asked) <= 7  # it did not begin anew
    assert result.last.iteration == 12
    logs = [json_lines((tmp_path / name / LOG).read_text()) for name in ("whole", "parts")]
    losses = [
        [(r["iteration"], r.get("loss"), r.get("validation_loss")) for r in log[1:]] for log in logs
    ]
    assert losses[0] == losses[1]


def test_a_finished_fit_is_not_done_again(tmp_path: Path, one_thread: None) -> None:
    first, again = network_of(), network_of()
    one = fit_network(Squares(1), first, density_loss, TRAINING, 1, CPU, reporter(), tmp_path)
    log = (tmp_path / LOG).read_bytes()
    two = fit_network(Squares(1), again, density_loss, TRAINING, 1, CPU, reporter(), tmp_path)
    assert torch.equal(weights(first), weights(again))
    assert (tmp_path / LOG).read_bytes() == log
    assert (two.best.iteration, two.seconds, two.waited) == (
        one.best.iteration,
        one.seconds,
        one.waited,
    )


@pytest.mark.parametrize("other", ["seed", "settings"])
def test_a_state_of_another_fit_is_not_gone_on_from(
    tmp_path: Path, one_thread: None, other: str
) -> None:
    fit_network(Squares(1), network_of(), density_loss, TRAINING, 1, CPU, reporter(), tmp_path)
    seed = 2 if other == "seed" else 1
    changes = {} if other == "seed" else {"learning_rate": 2e-2}
    source = Squares(1)
    training = TRAINING.model_copy(update=changes)
    fit_network(source, network_of(), density_loss, training, seed, CPU, reporter(), tmp_path)
    assert min(source.asked) == 0
    said = json.loads((tmp_path / LOG).read_text().splitlines()[0])["fit"]
    assert said == {"training": training.model_dump(mode="json"), "seed": seed}


def test_a_fit_that_breaks_down_leaves_nothing_to_go_on_from(
    tmp_path: Path, one_thread: None
) -> None:
    wild = TRAINING.model_copy(update={"learning_rate": 1e30, "save_every": 0.0})
    with pytest.raises(UserError, match="broke down"):
        fit_network(Squares(1), network_of(), density_loss, wild, 1, CPU, reporter(), tmp_path)
    assert not (tmp_path / STATE).exists()
