from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from geocfm.geo.rasters import Stack, find_layers
from geocfm.inference.predictor import Predictor
from geocfm.model.checkpoint import Checkpoint, load_checkpoint
from small_data import TINY, SmallRegion, run_geocfm

# as the presets paper-*: each window has a density of its own, and its flow is all there is
OF_WINDOWS = (
    *("network.norm=group", "network.density=false", "network.start=even"),
    *("network.anchor=0", "network.stem=2", "training.points_per_step=512"),
)


@pytest.fixture(scope="session")
def windowed_checkpoint(
    small_region: SmallRegion, tmp_path_factory: pytest.TempPathFactory, one_thread: None
) -> Checkpoint:
    """A small model of the small region that knows windows alone."""
    out: Path = tmp_path_factory.mktemp("windowed") / "model.safetensors"
    done = run_geocfm(
        *("train", *small_region.raster_options, "--occurrences", small_region.occurrences),
        *(*TINY, *[text for setting in OF_WINDOWS for text in ("--set", setting)]),
        *("--iterations", 100, "--out", out),
    )
    assert done.returncode == 0, done.stderr
    loaded = load_checkpoint(out, torch.device("cpu"))
    assert not loaded.card.settings.is_local
    return loaded


@pytest.fixture(scope="session")
def windowed(small_region: SmallRegion, windowed_checkpoint: Checkpoint) -> Iterator[Predictor]:
    """That model at work on the region it learned from."""
    with Stack(find_layers(small_region.rasters), small_region.grid) as stack:
        sampling = windowed_checkpoint.card.settings.sampling
        yield Predictor(windowed_checkpoint, stack, sampling, torch.device("cpu"))
