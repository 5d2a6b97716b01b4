"""Fit a network in a folder of its own, from which an interrupted fit goes on."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import torch
from torch import Tensor

from geocfm.data.patches import Batch, BatchSource
from geocfm.errors import Interrupted, UserError
from geocfm.events import Reporter
from geocfm.model.settings import TrainingSettings
from geocfm.training.ema import Network
from geocfm.training.loop import TrainingResult, train
from geocfm.training.resume import RunState, discard_state, load_state, save_state

LOG = "log.jsonl"


def fit_network(
    source: BatchSource,
    network: Network,
    loss: Callable[[Network, Batch], Tensor],
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
    reporter: Reporter,
    folder: Path | None = None,
    title: str = "Training",
) -> TrainingResult:
    """Train the network and leave it with its best weights, on the device, ready for use.

    With a folder, the log and the state to go on from are kept there: an interrupted fit goes on,
    and one that was finished is not done again. A state of other settings or another seed is
    discarded; that it is of the same data is for the caller to see to, by the folder's name.
    """
    place = _Place(folder, {"training": settings.model_dump(mode="json"), "seed": seed})
    earlier = load_state(folder, network) if folder is not None and place.continued else None
    with place.open_log(afresh=earlier is None) as log:
        try:
            result = train(
                *(source, network, loss, settings, device, reporter, log),
                save=place.save,
                keep=lambda best: None,  # it is in the state
                preview=lambda averaged: None,
                earlier=earlier,
                title=title,
            )
        except Interrupted:
            raise
        except UserError:  # it would break down at the same step again
            place.discard()
            raise
    network.load_state_dict(result.best.weights)
    network.eval()
    return result


class _Place:
    """The folder of a fit, if it has one; the log's first line says what the fit is."""

    def __init__(self, folder: Path | None, fit: dict[str, object]) -> None:
        self._folder = folder
        self._first = json.dumps({"fit": fit}) + "\n"

    @property
    def continued(self) -> bool:
        """Whether what stands in the folder is of this very fit."""
        if self._folder is None or not (self._folder / LOG).exists():
            return False
        with (self._folder / LOG).open(encoding="utf-8", errors="replace") as log:
            return log.readline() == self._first

    def open_log(self, *, afresh: bool) -> TextIO:
        """The log, ready for the next line."""
        if self._folder is None:
            return io.StringIO()
        if afresh:
            self._folder.mkdir(parents=True, exist_ok=True)
            discard_state(self._folder)
            (self._folder / LOG).write_text(self._first, encoding="utf-8", newline="\n")
        return (self._folder / LOG).open("a+", encoding="utf-8", newline="\n")

    def save(self, state: RunState) -> None:
        """Keep what going on needs."""
        if self._folder is not None:
            save_state(self._folder, state)

    def discard(self) -> None:
        """Leave nothing to go on from."""
        if self._folder is not None:
            discard_state(self._folder)
