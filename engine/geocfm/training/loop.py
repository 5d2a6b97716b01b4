"""The training loop: flow matching on windows that hold occurrences, chosen on validation tiles."""

from __future__ import annotations

import json
import math
import os
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
from geocfm.training.resume import MOMENTS, Position, RunState, Snapshot
from geocfm.training.schedule import Budget, learning_rate

VALIDATIONS = 40  # in a run, unless the settings say otherwise
VALIDATION_WINDOWS = 48  # at most, spread evenly over those there are
VALIDATION_POINTS = 8192  # noised points of all validation windows together
SAVING_SHARE = 20  # times as long as saving takes is the least time between two savings
VALIDATION_STREAM = 2**31  # keeps the validation noise apart from every training step's


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended."""

    best: Snapshot
    last: Snapshot
    seconds: float
    stopped_early: bool


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
    save: Callable[[RunState], None],
    keep: Callable[[Snapshot], None],
    preview: Callable[[VelocityNetwork], None],
    earlier: RunState | None = None,
) -> TrainingResult:
    """Train until the budget is spent, going on from ``earlier`` if there is such a state.

    ``save`` is given the state now and then, and once more when the run is cancelled. When it is
    cancelled or breaks down, ``keep`` is given the best so far.
    """
    training = settings.training
    run = _Run(region, network.to(device), settings, seed, device, log)
    budget = Budget(
        training.iterations, None if training.minutes is None else training.minutes * 60
    )
    if earlier is not None:
        run.restore(earlier)
    stage = reporter.stage("Training")
    start = time.monotonic() - run.seconds
    saving = _Saving(training.save_every)
    stopped_early = 0 < training.patience <= run.without_gain
    try:
        for batch in run.batches():
            if budget.spent(run.iteration, run.seconds) >= 1 or stopped_early:
                break
            run.seconds = time.monotonic() - start
            rate = learning_rate(budget.spent(run.iteration, run.seconds), training)
            loss = run.step(batch, rate)
            run.seconds = time.monotonic() - start
            spent = budget.spent(run.iteration, run.seconds)
            run.write_log(loss)
            if not math.isfinite(loss):
                raise _broken(run.iteration + 1, loss, run.best)
            every = training.validate_every
            due = run.iteration % every == 0 if every else spent >= run.next_validation
            if due or spent >= 1:
                run.next_validation = spent + 1 / VALIDATIONS
                run.judge()
            if training.preview_every and run.iteration % training.preview_every == 0:
                preview(run.averaged.network)
            stage(spent * 100, 100, **run.figures())
            stopped_early = 0 < training.patience <= run.without_gain
            if saving.due():
                saving.do(save, run.state())
    except Cancelled:
        if run.iteration:
            save(run.state())
            keep(run.best or run.snapshot())
        raise
    except UserError:
        if run.best is not None:
            keep(run.best)
        raise
    if stopped_early:
        stage(100, 100, **run.figures())
    last = run.snapshot()
    if run.best is None:
        raise _broken(last.iteration, _score(last), None)
    return TrainingResult(run.best, last, run.seconds, stopped_early)


class _Saving:
    """When to save: every so many seconds, but never for more than a twentieth of the time."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next = time.monotonic() + every

    def due(self) -> bool:
        return time.monotonic() >= self._next

    def do(self, save: Callable[[RunState], None], state: RunState) -> None:
        start = time.monotonic()
        save(state)
        now = time.monotonic()
        self._next = now + max(self._every, SAVING_SHARE * (now - start))


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
        self.seconds = 0.0
        self.smooth_loss = math.nan
        self.best: Snapshot | None = None
        self.without_gain = 0
        self.next_validation = 0.0
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
            step = self.iteration
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

    def judge(self) -> None:
        """Validate the averaged weights, and remember them if they are the best so far."""
        now = self.snapshot()
        if "validation_loss" in now.metrics:
            self.write_log(validation=now.metrics["validation_loss"])
        score = _score(now)
        if math.isfinite(score) and (self.best is None or score <= _score(self.best)):
            self.best, self.without_gain = now, 0
        else:
            self.without_gain += 1

    def snapshot(self) -> Snapshot:
        """The averaged weights as they are, with their validation loss."""
        metrics = {"training_loss": self.smooth_loss}
        if self._validation:
            metrics["validation_loss"] = self._validate()
        return Snapshot(_copies(self.averaged.network.state_dict()), self.iteration, metrics)

    def figures(self) -> dict[str, float]:
        """What matters meanwhile."""
        shown = {"loss": self.smooth_loss}
        if self.best is not None and "validation_loss" in self.best.metrics:
            shown["validation"] = self.best.metrics["validation_loss"]
        return shown

    def state(self) -> RunState:
        """All that going on from here needs."""
        self._log.flush()
        return RunState(
            Position(
                iteration=self.iteration,
                seconds=self.seconds,
                smooth_loss=self.smooth_loss,
                without_gain=self.without_gain,
                next_validation=self.next_validation,
                log_bytes=self._log.tell(),
            ),
            _copies(self._optimised()),
            _copies(self.averaged.network.state_dict()),
            self.best,
        )

    def restore(self, state: RunState) -> None:
        """Stand where the state was taken."""
        position = state.position
        self.iteration, self.seconds = position.iteration, position.seconds
        self.smooth_loss, self.without_gain = position.smooth_loss, position.without_gain
        self.next_validation, self.best = position.next_validation, state.best
        self.averaged.network.load_state_dict(state.averaged)
        self.averaged.updates = position.iteration
        for parameter in self._network.parameters():
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(position.iteration)),
                **{moment: torch.zeros_like(parameter) for moment in MOMENTS},
            }
        with torch.no_grad():
            for name, tensor in self._optimised().items():
                tensor.copy_(state.optimised[name])
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(min(position.log_bytes, end))  # shorter only after a power cut
        self._log.truncate()

    def _optimised(self) -> dict[str, Tensor]:
        """The weights, and what Adam knows of each."""
        found: dict[str, Tensor] = {}
        for name, parameter in self._network.named_parameters():
            found[name] = parameter
            for moment in MOMENTS:
                found[f"{moment}.{name}"] = self._optimiser.state[parameter][moment]
        return found

    def write_log(self, loss: float | None = None, validation: float | None = None) -> None:
        """One line of the run's JSONL log; what is not finite is written as text."""
        broken = loss is not None and not math.isfinite(loss)
        row: dict[str, float] = {
            "iteration": self.iteration + broken,
            "seconds": round(self.seconds, 3),
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


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def _mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 on CUDA only: on CPUs without bf16 instructions it is ten times slower."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
