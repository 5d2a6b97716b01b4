"""What tests of several rooms share.

The engine is imported by the fixtures that need it, not here: the plugin's tests run in a Python
that has no engine.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from click.testing import Result
    from geocfm.inference.predictor import Predictor
    from geocfm.model.checkpoint import Checkpoint
    from small_data import SmallRegion

ITERATIONS = 120


@dataclass(frozen=True)
class Trained:
    """A model made by ``geocfm train``, and all that the command said and wrote."""

    checkpoint: Path
    iterations: int
    stdout: str
    stderr: str
    exit_code: int

    @property
    def log(self) -> list[dict[str, Any]]:
        from small_data import training_log

        return training_log(self.checkpoint.with_name(f"{self.checkpoint.stem}.log.jsonl"))


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """The networks here are tiny: on a busy machine more threads wait for each other."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def small_region(tmp_path_factory: pytest.TempPathFactory) -> SmallRegion:
    """The small region in metres."""
    from small_data import UTM, write_region

    return write_region(tmp_path_factory.mktemp("region"), UTM)


@pytest.fixture(scope="session")
def trained(small_region: SmallRegion, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A small model of the small region, by the real command in a process of its own."""
    from small_data import TINY_NETWORK, run_geocfm

    out = tmp_path_factory.mktemp("model") / "model.safetensors"
    done = run_geocfm(
        "train",
        *small_region.raster_options,
        "--occurrences",
        small_region.occurrences,
        *TINY_NETWORK,
        *("--iterations", ITERATIONS),
        *("--set", f"training.preview_every={ITERATIONS}"),
        "--json",
        *("--out", out),
    )
    return Trained(out, ITERATIONS, done.stdout, done.stderr, done.returncode)


@pytest.fixture(scope="session")
def checkpoint(trained: Trained, one_thread: None) -> Checkpoint:
    """The small model, loaded."""
    import torch
    from geocfm.model.checkpoint import load_checkpoint

    return load_checkpoint(trained.checkpoint, torch.device("cpu"))


@pytest.fixture(scope="session")
def predictor(small_region: SmallRegion, checkpoint: Checkpoint) -> Iterator[Predictor]:
    """The small model at work on the region it learned from."""
    import torch
    from geocfm.geo.rasters import Stack, find_layers
    from geocfm.inference.predictor import Predictor

    with Stack(find_layers(small_region.rasters), small_region.grid) as stack:
        sampling = checkpoint.card.settings.sampling
        yield Predictor(checkpoint, stack, sampling, torch.device("cpu"))


@pytest.fixture
def geocfm(one_thread: None) -> Iterator[Callable[..., Result]]:
    """``geocfm ...`` in this process, for tests to which the process is not the point."""
    from geocfm.cli import app
    from typer.testing import CliRunner

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield lambda *arguments: CliRunner().invoke(app, [str(text) for text in arguments])
    for number, handler in handlers.items():
        signal.signal(number, handler)
