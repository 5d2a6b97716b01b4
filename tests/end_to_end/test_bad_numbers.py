"""Numbers below, above and beside what can be meant, each told by its option's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_data import SmallRegion

Refused = Callable[..., str]

LEARNING = [
    ("--window", "-32"),
    ("--window", "1000000000"),
    ("--tile", "0"),
    ("--minutes", "-1"),
    ("--minutes", "nan"),
    ("--iterations", "0"),
    ("--iterations", "99999999999999999999"),
    ("--iterations", "many"),
    ("--seed", "-1"),
    ("--resolution", "0"),
    ("--resolution", "-100"),
    ("--resolution", "inf"),
    ("--extent", "1,2,3"),
    ("--extent", "9,9,1,1"),
]
SAMPLING = [
    ("--points", "0"),
    ("--points", "1e3"),
    ("--draws", "-4"),
    ("--draws", "100000000"),
    ("--steps", "0"),
    ("--steps", "1000000"),
]


@pytest.mark.parametrize(("option", "value"), LEARNING)
def test_numbers_of_training(
    option: str, value: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    given = (*small_region.raster_options, "--occurrences", small_region.occurrences)
    refused(["train", *given, option, value, "--out", tmp_path / "m.safetensors"], option)


@pytest.mark.parametrize(("option", "value"), SAMPLING)
def test_numbers_of_sampling(
    option: str, value: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    given: tuple[Any, ...] = ("--checkpoint", "m.safetensors", *small_region.raster_options)
    refused(["sample", *given, option, value, "--out", tmp_path / "s.gpkg"], option)


@pytest.mark.parametrize(
    "setting", ["network.width=-8", "network.width=9", "training.batch=0", "training.minutes=-1"]
)
def test_numbers_of_settings(
    setting: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    given = (*small_region.raster_options, "--occurrences", small_region.occurrences)
    arguments = ["train", *given, "--set", setting, "--out", tmp_path / "m.safetensors"]
    refused(arguments, setting.partition("=")[0], setting.partition("=")[2])
