"""A method's result as a file, so that an interrupted benchmark takes what is there already."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from geocfm.evaluation.benchmark.protocol import BenchmarkSettings, write_json
from geocfm.geo.writing import atomic_path

PICTURED = 3  # test images whose densities and draws are kept for the figures
PICTURED_DRAWS = 4

Value = float | str | None
"""As JSON holds it: None where there is none, "inf" where it is infinite."""


class MethodResult(BaseModel):
    """Every metric of a method on every test image, and how it was come by."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    title: str
    settings: BenchmarkSettings
    versions: dict[str, str]
    machine: dict[str, str]
    method: dict[str, Any]  # what was chosen for it beyond the settings, and how its training went
    fit_seconds: float
    score_seconds: float
    image_seeds: list[int]
    points: list[int]  # of each draw, as many as were observed
    values: dict[str, list[Value]]  # metric -> one value an image, the mean over its draws
    train_cd: list[Value]  # on images that it learned from


class Pictures(BaseModel):
    """What figures show of a method: densities (F, H, W), and draws (F, 4, N, 2) in pixels."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    density: NDArray[np.float32]
    draws: NDArray[np.float32]


def save_result(folder: Path, result: MethodResult, pictures: Pictures) -> Path:
    """Write both files; the JSON last, as it means that the method is done."""
    with (
        atomic_path(folder / f"{result.key}.npz") as temporary,
        temporary.open("wb") as file,
    ):
        np.savez_compressed(file, density=pictures.density, draws=pictures.draws)
    path = folder / f"{result.key}.json"
    write_json(path, result.model_dump(mode="json"))
    return path


def load_result(folder: Path, key: str, settings: BenchmarkSettings) -> MethodResult | None:
    """The result of a method with these very settings, or None if there is none to be read."""
    try:
        text = (folder / f"{key}.json").read_text(encoding="utf-8")
        found = MethodResult.model_validate_json(text)
    except (OSError, ValueError):
        return None
    return None if settings.differences(found.settings) or found.key != key else found


def load_pictures(folder: Path, key: str) -> Pictures | None:
    """What figures show of a method, or None."""
    try:
        with np.load(folder / f"{key}.npz") as file:
            return Pictures(density=file["density"], draws=file["draws"])
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def plain(values: NDArray[np.float64] | list[float]) -> list[Value]:
    """Numbers for JSON, which has neither NaN nor infinity: None, and "inf" or "-inf"."""
    return [_plain(float(value)) for value in values]


def _plain(value: float) -> Value:
    if math.isnan(value):
        return None
    return str(value) if math.isinf(value) else value
