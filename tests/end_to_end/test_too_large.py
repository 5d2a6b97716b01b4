"""What cannot fit is refused before the work begins, with a value that would fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_data import TINY, SmallRegion

Geocfm = Callable[..., Any]
Refused = Callable[..., str]


@pytest.fixture
def training(small_region: SmallRegion, tmp_path: Path) -> list[object]:
    given = (*small_region.raster_options, "--occurrences", small_region.occurrences)
    return ["train", *given, *TINY, "--iterations", 1, "--out", tmp_path / "new" / "m.safetensors"]


@pytest.fixture
def applying(small_region: SmallRegion, trained: Any) -> list[object]:
    return ["--checkpoint", trained.checkpoint, *small_region.raster_options]


def test_a_batch_that_no_memory_holds(
    refused: Refused, training: list[object], tmp_path: Path
) -> None:
    refused(
        [*training, "--set", "training.batch=1000000"],
        "Training would need about",
        "of memory",
        "are free",
        "--set training.batch=",
    )
    assert list(tmp_path.iterdir()) == []


def test_a_network_that_no_memory_holds(
    refused: Refused, training: list[object], tmp_path: Path
) -> None:
    refused(
        [*training, "--set", "network.width=80000"],
        "Training would need about",
        "of memory",
        "smaller network",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["check", "train"])
def test_a_grid_of_too_many_cells(
    command: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    given = (*small_region.raster_options, "--occurrences", small_region.occurrences)
    out = () if command == "check" else ("--out", tmp_path / "m.safetensors")
    refused(
        [command, *given, "--resolution", 0.02, *out],
        "The grid would have 300,000,000,000 cells",
        "--resolution",
    )
    assert list(tmp_path.iterdir()) == []


def test_more_points_than_memory_holds(
    refused: Refused, applying: list[object], tmp_path: Path
) -> None:
    many = ("--points", 1_000_000, "--draws", 10_000)
    refused(
        ["sample", *applying, *many, "--out", tmp_path / "p.gpkg"],
        "Drawing 10,000,000,000 points would need about",
        "--draws",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["map", "evaluate"])
def test_a_map_that_the_disk_does_not_hold(
    command: str,
    refused: Refused,
    small_region: SmallRegion,
    applying: list[object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = SimpleNamespace(total=10**9, used=10**9 - 10**5, free=10**5)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    occurrences = ("--occurrences", small_region.occurrences) if command == "evaluate" else ()
    refused(
        [command, *applying, *occurrences, "--out", tmp_path / "out.tif"],
        "The map needs about",
        "on the disk of",
        "Free some space",
    )
    assert list(tmp_path.iterdir()) == []
