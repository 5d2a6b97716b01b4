"""Ctrl-C and SIGTERM end a job within seconds, and what was good stays."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from geocfm.events import Event
from geocfm.model.checkpoint import load_checkpoint
from pydantic import TypeAdapter
from small_data import TINY, SmallRegion, child_environment, command_line, json_lines

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")

WITHIN = 10.0  # seconds
EVENT: TypeAdapter[Any] = TypeAdapter(Event)


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """``geocfm ... --json`` at work, ended for sure in the end."""
    with subprocess.Popen(
        command_line(*arguments, "--json"),
        env=child_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def read_until(child: subprocess.Popen[str], stage: str, done: float) -> list[str]:
    """The lines up to the progress of a stage."""
    assert child.stdout is not None
    lines = []
    for line in child.stdout:
        lines.append(line)
        event = EVENT.validate_json(line)
        if event.event == "progress" and event.stage == stage and event.done > done:
            return lines
    raise AssertionError(f"no {stage}: {''.join(lines)} {child.communicate()[1]}")


def stop(child: subprocess.Popen[str], number: int) -> tuple[list[dict[str, Any]], str]:
    """Send the signal; give the events that followed, and what stands on standard error."""
    sent = time.monotonic()
    child.send_signal(number)
    out, error = child.communicate(timeout=3 * WITHIN)
    assert time.monotonic() - sent < WITHIN
    return json_lines(out), error


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_stopping_training_leaves_the_best_so_far(
    number: int, small_region: SmallRegion, tmp_path: Path
) -> None:
    out = tmp_path / "model.safetensors"
    with started(
        *("train", *small_region.raster_options, "--occurrences", small_region.occurrences),
        *(*TINY, "--minutes", 10, "--out", out),
    ) as child:
        read_until(child, "Training", done=0.05)
        events, error = stop(child, number)
        assert child.returncode == 130
    assert error == ""
    assert events[-1]["event"] == "cancelled"
    assert [e["path"] for e in events if e["event"] == "artifact"] == [str(out)]
    checkpoint = load_checkpoint(out, torch.device("cpu"))
    assert checkpoint.card.iterations >= 1
    assert "validation_loss" in checkpoint.card.metrics
    log = json_lines((tmp_path / "model.log.jsonl").read_text(encoding="utf-8"))
    assert log[-1]["iteration"] >= checkpoint.card.iterations
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "model.log.jsonl"}


def test_stopping_a_map_leaves_the_old_one_and_nothing_else(
    small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    out = tmp_path / "map.tif"
    out.write_bytes(b"an older map")
    with started(
        *("map", "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--solver", "heun", "--steps", 60, "--out", out),
    ) as child:
        read_until(child, "Mapping", done=0)
        assert len(list(tmp_path.iterdir())) > 1  # it is at work in this folder
        events, error = stop(child, signal.SIGTERM)
        assert child.returncode == 130
    assert error == ""
    assert events[-1]["event"] == "cancelled"
    assert not any(event["event"] == "artifact" for event in events)
    assert [path.name for path in tmp_path.iterdir()] == ["map.tif"]
    assert out.read_bytes() == b"an older map"
