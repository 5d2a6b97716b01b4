"""The training loop: any network by any loss of batches, chosen on validation batches."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from typing import Generic, TextIO

import torch
from torch import Tensor

from geocfm.data.patches import Batch, BatchSource
from geocfm.errors import Cancelled, UserError
from geocfm.events import Reporter
from geocfm.model.settings import TrainingSettings
from geocfm.training.ahead import BatchesAhead
from geocfm.training.ema import AveragedNetwork, Network
from geocfm.training.muon import Muon
from geocfm.training.resume import MOMENTS, Position, RunState, Snapshot
from geocfm.training.schedule import Budget, learning_rate

LONGEST_WAIT, SHORTEST_WAIT = 1 / 40, 1 / 400  # of the budget, from one validation to the next
WAIT_GROWTH = 0.2  # of what is spent: few occurrences are learned by heart within seconds
SAVING_SHARE = 20  # times as long as saving takes is the least time between two savings


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended."""

    best: Snapshot
    last: Snapshot
    seconds: float
    waited: float  # of these seconds, those in which the next batch was not ready
    stopped_early: bool


def train(
    source: BatchSource,
    network: Network,
    loss: Callable[[Network, Batch], Tensor],
    settings: TrainingSettings,
    device: torch.device,
    reporter: Reporter,
    log: TextIO,
    save: Callable[[RunState], None],
    keep: Callable[[Snapshot], None],
    preview: Callable[[Network], None],
    earlier: RunState | None = None,
    title: str = "Training",
) -> TrainingResult:
    """Train until the budget is spent, going on from ``earlier`` if there is such a state.

    ``loss`` is given the network and a batch on its device. ``save`` is given the state now and
    then, and once more when the run ends or is cancelled. When it is cancelled or breaks down,
    ``keep`` is given the best so far.
    """
    run = _Run(source, network.to(device), loss, settings, device, log)
    budget = Budget(
        settings.iterations, None if settings.minutes is None else settings.minutes * 60
    )
    if earlier is None:
        run.judge()  # what it begins with may remain the best
    else:
        run.restore(earlier)
    stage = reporter.stage(title)
    start = time.monotonic() - run.seconds
    saving = _Saving(settings.save_every)
    stopped_early = 0 < settings.patience <= run.without_gain
    try:
        with closing(BatchesAhead(source, run.iteration)) as ahead:
            while budget.spent(run.iteration, run.seconds) < 1 and not stopped_early:
                batch = run.next_batch(ahead)
                run.seconds = time.monotonic() - start
                rate = learning_rate(budget.spent(run.iteration + 1, run.seconds), settings)
                value = run.step(batch, rate)
                run.seconds = time.monotonic() - start
                spent = budget.spent(run.iteration, run.seconds)
                run.write_log(value)
                if not math.isfinite(value):
                    raise _broken(run.iteration + 1, value, run.learned)
                every = settings.validate_every
                due = run.iteration % every == 0 if every else spent >= run.next_validation
                if due or spent >= 1:
                    wait = max(WAIT_GROWTH * spent, SHORTEST_WAIT)
                    run.next_validation = spent + min(wait, LONGEST_WAIT)
                    run.judge()
                if settings.preview_every and run.iteration % settings.preview_every == 0:
                    preview(run.averaged.network)
                stage(spent * 100, 100, **run.figures())
                stopped_early = 0 < settings.patience <= run.without_gain
                if saving.due():
                    saving.do(save, run.state())
    except Cancelled:
        if run.iteration:
            save(run.state())
            run.judge()  # after the state: going on from it knows nothing of this
            keep(run.best or run.snapshot())
        raise
    except UserError:
        if run.learned is not None:
            keep(run.learned)
        raise
    if stopped_early:
        stage(100, 100, **run.figures())
    last = run.snapshot()
    if run.best is None or not math.isfinite(_score(last)):
        if run.learned is not None:
            keep(run.learned)
        raise _broken(last.iteration, _score(last), run.learned)
    save(run.state())
    return TrainingResult(run.best, last, run.seconds, run.waited, stopped_early)


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


class _Run(Generic[Network]):
    """The moving parts of one run."""

    def __init__(
        self,
        source: BatchSource,
        network: Network,
        loss: Callable[[Network, Batch], Tensor],
        settings: TrainingSettings,
        device: torch.device,
        log: TextIO,
    ) -> None:
        self._network, self._loss, self._settings = network, loss, settings
        self._device, self._log = device, log
        self.averaged = AveragedNetwork(network, settings.ema)
        make = Muon if settings.optimiser == "muon" else torch.optim.AdamW
        self._optimiser = make(
            network.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        self._validation = source.validation()
        self.iteration = 0
        self.seconds = 0.0
        self.waited = 0.0
        self.smooth_loss = math.nan
        self.best: Snapshot | None = None
        self.without_gain = 0
        self.next_validation = 0.0
        self._gradient_norm = math.nan

    def next_batch(self, ahead: BatchesAhead) -> Batch:
        """The batch of the next step on the network's device; remembers how long it took."""
        start = time.monotonic()
        batch = next(ahead)
        self.waited += time.monotonic() - start
        return batch.to(self._device)

    def step(self, batch: Batch, rate: float) -> float:
        """One optimiser step; returns the loss, and steps nowhere if it is not finite."""
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        with _mixed_precision(self._device):
            loss = self._loss(self._network, batch)
        value = loss.item()
        if not math.isfinite(value):
            return value
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(self._network.parameters(), self._settings.clip)
        self._gradient_norm = norm.item()
        self._optimiser.step()
        self.averaged.update(self._network)
        self.iteration += 1
        self.smooth_loss = value if self.iteration == 1 else 0.95 * self.smooth_loss + 0.05 * value
        return value

    @property
    def learned(self) -> Snapshot | None:
        """The best so far, if it is more than the run began with."""
        return self.best if self.best is not None and self.best.iteration else None

    def judge(self) -> None:
        """Validate the averaged weights, and remember them if they are the best so far."""
        now = self.snapshot()
        if "validation_loss" in now.metrics:
            self.write_log(validation=now.metrics["validation_loss"])
        score = _score(now)
        if math.isfinite(score) and (self.best is None or score < _score(self.best)):
            self.best, self.without_gain = now, 0
        else:
            self.without_gain += 1

    def snapshot(self) -> Snapshot:
        """The averaged weights as they are, with their validation loss."""
        metrics = {"training_loss": self.smooth_loss} if self.iteration else {}
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
                waited=self.waited,
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
        self.waited = position.waited
        self.averaged.network.load_state_dict(state.averaged)
        self.averaged.updates = position.iteration
        for name, parameter in self._network.named_parameters():
            self._optimiser.state[parameter] = {
                "step": torch.tensor(float(position.iteration)),
                **{
                    moment: torch.zeros_like(parameter)
                    for moment in MOMENTS
                    if f"{moment}.{name}" in state.optimised
                },
            }
        with torch.no_grad():
            for name, tensor in self._optimised().items():
                tensor.copy_(state.optimised[name])
            for name, tensor in self._network.named_buffers():
                if name in state.averaged:  # what is not learned is the same in both
                    tensor.copy_(state.averaged[name])
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(min(position.log_bytes, end))  # shorter only after a power cut
        self._log.truncate()

    def _optimised(self) -> dict[str, Tensor]:
        """The weights, and what the optimiser knows of each."""
        found: dict[str, Tensor] = {}
        for name, parameter in self._network.named_parameters():
            found[name] = parameter
            known = self._optimiser.state[parameter]
            found |= {f"{m}.{name}": known[m] for m in MOMENTS if m in known}
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

    @torch.no_grad()
    def _validate(self) -> float:
        total, weight = 0.0, 0.0
        for batch in self._validation:
            with _mixed_precision(self._device):
                loss = self._loss(self.averaged.network, batch.to(self._device))
            points = batch.weights.sum().item()
            total += loss.item() * points
            weight += points
        return total / weight


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}


def _mixed_precision(device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 on CUDA only: on CPUs without bf16 instructions it is ten times slower."""
    if device.type == "cuda":
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return nullcontext()
