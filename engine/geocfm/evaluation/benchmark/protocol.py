"""What a benchmark runs: frozen settings, told apart from those of an earlier run in the folder."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from geocfm.data.synthetic import SyntheticSettings
from geocfm.errors import UserError
from geocfm.geo.writing import atomic_path
from geocfm.model.settings import PRESETS, Settings

SETTINGS_FILE = "benchmark.json"
BATCH = 4  # images of a step (paper, Table "optimization settings")
SCORING = 3  # raised when the same settings would get other values; 3: the last moment counts
BAYES_REDRAWS = 512  # of the latents of each image, for the Bayes row
CHOICES = ("preset", "minutes", "size", "images", "draws", "training_images", "seed", "device")
"""What a user chooses; all else follows."""
REPLACE = "Choose another folder, or replace what is there with --overwrite."


class BenchmarkSettings(BaseModel):
    """All that a number of the benchmark depends on, but for the software and the machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: str
    minutes: float  # of training, for every method that learns by gradient steps
    size: int  # pixels along an image's side
    images: int  # test images
    draws: int  # for each image
    training_images: int  # for methods that look at cells; the others see new ones at every step
    seed: int
    device: str
    bayes_redraws: int
    scored_on: Literal["test", "validation"] = "test"  # images
    scoring: int = 1  # which SCORING; a file that does not tell is of the first
    settings: Settings  # of GeoCFM; the networks it is compared with follow them
    generator: dict[str, Any]

    @property
    def synthetic(self) -> SyntheticSettings:
        """The generator's parameters."""
        return SyntheticSettings(**self.generator)

    def differences(self, earlier: BenchmarkSettings) -> list[str]:
        """What makes another benchmark of it than ``earlier``, in words."""
        mine, others = self.model_dump(mode="json"), earlier.model_dump(mode="json")
        changed = [key for key in mine if mine[key] != others[key]]
        plain = [key for key in changed if key in CHOICES]
        said = [f"{key.replace('_', ' ')} was {others[key]} and is {mine[key]}" for key in plain]
        rest = [key for key in changed if key != "scoring"]
        said = said or [f"other parameters of the {key}" for key in rest]
        return [*said, "it was scored by another version"] if "scoring" in changed else said


def benchmark_settings(
    preset: str,
    minutes: float,
    size: int,
    images: int,
    draws: int,
    training_images: int,
    seed: int,
    device: str,
) -> BenchmarkSettings:
    """The preset as the synthetic benchmark trains it.

    Training lasts so many minutes, or the preset's iterations if they end sooner. Images are not
    turned, as the generator knows no direction and makes new ones without end; hence no patience.
    """
    chosen = PRESETS[preset]
    training = {
        "minutes": minutes,
        "batch": BATCH,
        "augment": False,
        "patience": 0,
        "preview_every": 0,
    }
    windows = {"size": size, "standardise": "window", "validity_channels": False}
    return BenchmarkSettings(
        preset=preset,
        minutes=minutes,
        size=size,
        images=images,
        draws=draws,
        training_images=training_images,
        seed=seed,
        device=device,
        bayes_redraws=BAYES_REDRAWS,
        scoring=SCORING,
        settings=Settings.model_validate(
            chosen.model_copy(
                update={
                    "network": chosen.network.model_copy(update={"process": False}),
                    "training": chosen.training.model_copy(update=training),
                    "windows": chosen.windows.model_copy(update=windows),
                }
            ).model_dump()
        ),
        generator=asdict(SyntheticSettings(size=size)),
    )


def settings_there(folder: Path, remedy: str = REPLACE) -> BenchmarkSettings | None:
    """The settings of the benchmark in a folder; None if there is none."""
    path = folder / SETTINGS_FILE
    if not path.exists():
        return None
    try:
        return BenchmarkSettings.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise UserError(f"{path} cannot be read as the settings of a benchmark.", remedy) from None


def refuse_other(settings: BenchmarkSettings, folder: Path, remedy: str = REPLACE) -> None:
    """Refuse a folder that holds a benchmark with other settings."""
    earlier = settings_there(folder, remedy)
    differences = [] if earlier is None else settings.differences(earlier)
    if differences:
        raise UserError(
            f"{folder} holds a benchmark with other settings: {'; '.join(differences)}.", remedy
        )


def ensure_same(settings: BenchmarkSettings, folder: Path) -> None:
    """Refuse a folder that holds a benchmark with other settings; else write ours into it."""
    refuse_other(settings, folder)
    if not (folder / SETTINGS_FILE).exists():
        write_json(folder / SETTINGS_FILE, settings.model_dump(mode="json"))


def write_json(path: Path, content: object) -> None:
    """A JSON file, in place when it is complete."""
    with atomic_path(path) as temporary:
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
        temporary.write_text(text, encoding="utf-8")
