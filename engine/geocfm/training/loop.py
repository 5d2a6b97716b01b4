"""The training loop: flow matching on windows that hold occurrences, chosen on validation tiles."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TextIO

import numpy as np
import torch
from torch import Tensor

from geocfm.data.patches import Batch, make_batch
from geocfm.data.region import Region
from geocfm.errors import Cancelled, UserError
from geocfm.events import Reporter
from geocfm.model.flow import flow_matching_loss
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import Settings
from geocfm.training.ema import AveragedNetwork
from geocfm.training.schedule import Budget, learning_rate

VALIDATIONS = 40  # in a run, unless the settings say otherwise
VALIDATION_WINDOWS = 48  # at most, spread evenly over those there are
VALIDATION_POINTS = 8192  # noised points of all validation windows together
VALIDATION_STREAM = 2**31  # keeps the validation noise apart from every training step's


@dataclass(frozen=True)
class Snapshot:
    """Weights at a moment of the run, and how good they were."""

    weights: dict[str, Tensor]
    iteration: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended."""

    best: Snapshot
    last: Snapshot
    seconds: float
    stopped_early: bool


Keep = Callable[[Snapshot], None]


def new_network(channels: int, settings: Settings, seed: int) -> VelocityNetwork:
    """A network whose first weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return VelocityNetwork(channels, settings.network)


def batch_loss(network: VelocityNetwork, batch: Batch) -> Tensor:
    """Flow-matching loss of a batch that is on the network's device."""
    maps = network.encode(batch.images)

    def velocity(position: Tensor, t: Tensor) -> Tensor:
        return network.velocity(maps, position, t, batch.image)

    return flow_matching_loss(velocity, network.to_flow(batch.points), batch.noise, batch.t)


def train(
    region: Region,
    network: VelocityNetwork,
    settings: Settings,
    seed: int,
    device: torch.device,
    reporter: Reporter,
    log: TextIO,
    keep_best: Keep,
    preview: Callable[[VelocityNetwork], None],
) -> TrainingResult:
    """Train until the budget is spent; ``keep_best`` is called whenever validation improves.

    On cancellation the best so far is kept and Cancelled raised.
    """
    run = _Run(region, network.to(device), settings, seed, device, log)
    budget = Budget(
        settings.training.iterations,
        None if settings.training.minutes is None else settings.training.minutes * 60,
    )
    stage = reporter.stage("Training")
    best: Snapshot | None = None
    without_gain, next_validation, stopped_early = 0, 0.0, False
    start = time.monotonic()
    try:
        for iteration, batch in enumerate(run.batches(), start=1):
            elapsed = time.monotonic() - start
            loss = run.step(
                batch, learning_rate(budget.spent(iteration - 1, elapsed), settings.training)
            )
            elapsed = time.monotonic() - start
            spent = budget.spent(iteration, elapsed)
            run.write_log(iteration, elapsed, loss)
            if not math.isfinite(loss):
                raise _broken(iteration, loss, best)
            every = settings.training.validate_every
            due = iteration % every == 0 if every else spent >= next_validation
            if due or spent >= 1:
                next_validation = spent + 1 / VALIDATIONS
                now = run.snapshot(iteration)
                if "validation_loss" in now.metrics:
                    run.write_log(iteration, elapsed, validation=now.metrics["validation_loss"])
                score = _score(now)
                if math.isfinite(score) and (best is None or score <= _score(best)):
                    best, without_gain = now, 0
                    keep_best(best)
                else:
                    without_gain += 1
            if settings.training.preview_every and iteration % settings.training.preview_every == 0:
                preview(run.averaged.network)
            shown = {"loss": run.smooth_loss}
            if best is not None and "validation_loss" in best.metrics:
                shown["validation"] = best.metrics["validation_loss"]
            stage(spent * 100, 100, **shown)
            stopped_early = 0 < settings.training.patience <= without_gain
            if spent >= 1 or stopped_early:
                break
    except Cancelled:
        if best is None and run.iteration:
            keep_best(run.snapshot(run.iteration))
        raise
    last = run.snapshot(run.iteration)
    if best is None:
        raise _broken(last.iteration, _score(last), best)
    return TrainingResult(best, last, time.monotonic() - start, stopped_early)


def _score(snapshot: Snapshot) -> float:
    """The validation loss; without validation windows every later snapshot counts as better."""
    return snapshot.metrics.get("validation_loss", -float(snapshot.iteration))


def _broken(iteration: int, loss: float, best: Snapshot | None) -> UserError:
    kept = "The best model so far was kept. " if best else ""
    return UserError(
        f"Training broke down at iteration {iteration}: the loss is {loss}.",
        f"{kept}Try a lower learning rate (--set training.learning_rate=1e-4), and look for "
        "extreme values in the layers.",
    )


class _Run:
    """The moving parts of one run."""

    def __init__(
        self,
        region: Region,
        network: VelocityNetwork,
        settings: Settings,
        seed: int,
        device: torch.device,
        log: TextIO,
    ) -> None:
        self._region, self._network, self._settings = region, network, settings
        self._seed, self._device, self._log = seed, device, log
        self.averaged = AveragedNetwork(network, settings.training.ema)
        self._optimiser = torch.optim.AdamW(
            network.parameters(),
            lr=settings.training.learning_rate,
            weight_decay=settings.training.weight_decay,
        )
        self._starts = region.starts["train"]
        if not len(self._starts):
            raise UserError(
                "No training window holds an occurrence.",
                "Use a smaller window (--window), or check where the occurrences lie.",
            )
        self._validation = self._validation_batches()
        self.iteration = 0
        self.smooth_loss = math.nan
        self._gradient_norm = math.nan

    def batches(self) -> Iterator[Batch]:
        """Training batches without end, read one ahead; step i depends on (seed, i) alone."""
        training = self._settings.training

        def make(step: int) -> Batch:
            generator = np.random.default_rng([self._seed, step])
            chosen = generator.choice(len(self._starts), training.batch)
            windows = [self._region.window(start) for start in self._starts[chosen]]
            return make_batch(self._region, windows, training, generator, augment=training.augment)

        with ThreadPoolExecutor(1) as reader:
            step = 0
            following = reader.submit(make, step)
            while True:
                batch = following.result()
                step += 1
                following = reader.submit(make, step)
                yield batch.to(self._device)

    def step(self, batch: Batch, rate: float) -> float:
        """One optimiser step; returns the loss, and steps nowhere if it is not finite."""
        training = self._settings.training
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        with _mixed_precision(self._device):
            loss = batch_loss(self._network, batch)
        value = loss.item()
        if not math.isfinite(value):
            return value
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), training.clip)
        self._gradient_norm = norm.item()
        self._optimiser.step()
        self.averaged.update(self._network)
        self.iteration += 1
        self.smooth_loss = value if self.iteration == 1 else 0.95 * self.smooth_loss + 0.05 * value
        return value

    def snapshot(self, iteration: int) -> Snapshot:
        """The averaged weights as they are, with their validation loss."""
        weights = {
            k: v.detach().cpu().clone() for k, v in self.averaged.network.state_dict().items()
        }
        metrics = {"training_loss": self.smooth_loss}
        if self._validation:
            metrics["validation_loss"] = self._validate()
        return Snapshot(weights, iteration, metrics)

    def write_log(
        self,
        iteration: int,
        elapsed: float,
        loss: float | None = None,
        validation: float | None = None,
    ) -> None:
        """One line of the run's JSONL log; what is not finite is written as text."""
        row: dict[str, float] = {
            "iteration": iteration,
            "seconds": round(elapsed, 3),
            "learning_rate": self._optimiser.param_groups[0]["lr"],
        }
        if loss is not None:
            row["loss"] = loss
            row["gradient_norm"] = self._gradient_norm
        if validation is not None:
            row["validation_loss"] = validation
        safe = {key: value if math.isfinite(value) else str(value) for key, value in row.items()}
        print(json.dumps(safe, allow_nan=False), file=self._log, flush=True)

    def _validation_batches(self) -> list[Batch]:
        """Validation windows with fixed noise, so that losses compare along the run."""
        starts = self._region.starts["validation"]
        if not len(starts):
            return []
        spread = np.linspace(0, len(starts) - 1, min(len(starts), VALIDATION_WINDOWS)).astype(int)
        chosen = [self._region.window(start) for start in starts[spread]]
        size = self._settings.training.batch
        groups = [chosen[i : i + size] for i in range(0, len(chosen), size)]
        settings = self._settings.training.model_copy(
            update={"points_per_step": VALIDATION_POINTS // len(groups)}
        )
        return [
            make_batch(
                self._region,
                group,
                settings,
                np.random.default_rng([self._seed, VALIDATION_STREAM, number]),
                augment=False,
            )
            for number, group in enumerate(groups)
        ]

    @torch.no_grad()
    def _validate(self) -> float:
        total, points = 0.0, 0
        for batch in self._validation:
            with _mixed_precision(self._device):
                loss = batch_loss(self.averaged.network, batch.to(self._device))
            total += loss.item() * len(batch.points)
            points += len(batch.points)
        return total / points


def _mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 on CUDA only: on CPUs without bf16 instructions it is ten times slower."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
