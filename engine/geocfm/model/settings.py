"""Every decision as a named setting, and the presets that choose them together.

``paper-synthetic`` and ``paper-earthmri`` hold every number of the paper's tables "architecture
settings" and "optimization settings"; ``quick`` and ``full`` are ours.
"""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from geocfm.errors import UserError
from geocfm.mistakes import explain, nearest_name

SMALLEST_WINDOW = 16  # cells
CENTRED_SCALE = math.sqrt(12.0)  # a uniform window then has unit variance, as the base has


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class NetworkSettings(_Settings):
    """The UNet and the velocity head (paper, Table "architecture settings").

    The defaults of what the paper has not are "as in the paper": checkpoints from before a setting
    was there mean that.
    """

    stem: int = Field(
        1, ge=1, le=4, description="pixels along the side of a cell of the finest UNet level"
    )
    width: int = Field(16, ge=8, multiple_of=8, description="channels of the finest UNet level")
    depth: int = Field(3, ge=1, le=4, description="how often the UNet halves the resolution")
    features: int = Field(32, ge=1, description="channels of the feature map the points read")
    norm: Literal["position", "group"] = Field(
        "group",
        description="position: channels are normalised at each place, so that features depend on "
        "what lies around it alone; group: GroupNorm over the window, as in the paper",
    )
    time_dim: int = Field(64, ge=2, multiple_of=2, description="size of the time embedding")
    head: Literal["residual", "mlp"] = "residual"
    head_width: int = Field(128, ge=1)
    head_depth: int = Field(2, ge=1, description="residual blocks, or hidden layers of the MLP")
    coordinates: Literal["centred", "unit"] = Field(
        "centred", description="centred: (p - 0.5) * scale, so that the base covers the window"
    )
    scale: float = Field(
        CENTRED_SCALE, gt=0, le=100, description="flow units in a window's side, if centred"
    )
    context: Literal["pooled", "film", "attention", "none"] = Field(
        "pooled",
        description="pooled: the head also reads the window's mean features; film: they scale and "
        "shift what it makes of its inputs; attention: it reads means over the places it has "
        "learned to look at",
    )
    levels: Literal["finest", "all"] = Field(
        "finest", description="of the UNet, whose features the head reads at a point"
    )
    density: bool = Field(
        False,
        description="a density head: log intensity of every pixel, one function of the ground",
    )
    anchor: int = Field(
        0,
        ge=0,
        le=4096,
        description="the head corrects the closed-form velocity of that density on cells of so "
        "many pixels; 0: it is all of the velocity",
    )
    anchor_variance: float = Field(
        1 / 6, gt=0, le=1, description="of such a cell, in its own area: how far cells blend"
    )
    start: Literal["even", "process", "stack"] | None = Field(
        "even",
        description="what the density head corrects: an even density, a Poisson process of single "
        "cells, or a stack of that and a forest; none: a process where few occurrences are known",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> NetworkSettings:
        if self.anchor and not self.density:
            raise ValueError(
                "A flow is anchored on a density: set network.density=true, or network.anchor=0."
            )
        if self.anchor and self.coordinates != "centred":
            raise ValueError(
                "An anchor needs centred coordinates: set network.coordinates=centred, or "
                "network.anchor=0."
            )
        if self.density and self.norm != "position":
            raise ValueError(
                "A density head tells one intensity over the whole region: set "
                "network.norm=position, or network.density=false."
            )
        if self.begins and not self.density:
            raise ValueError(
                "A density head corrects the start: set network.density=true, or "
                "network.start=even."
            )
        if self.stem * 2**self.depth > SMALLEST_WINDOW:
            raise ValueError(
                "network.stem and network.depth leave no cell of a small window: stem * 2^depth "
                f"may be {SMALLEST_WINDOW} at most."
            )
        return self

    @property
    def begins(self) -> bool:
        """Whether the network begins with what single cells say."""
        return self.start in ("process", "stack")

    @property
    def period(self) -> int:
        """Pixels after which the cells of the coarsest level, and so all cells, repeat."""
        return self.stem * 2**self.depth

    @property
    def reach(self) -> int:
        """Pixels around a pixel beyond which nothing counts for its features and its logit.

        Two 3 x 3 convolutions on every level down and up, an interpolation from each level to the
        one above and in the density head, and that a pixel may lie anywhere in its cell.
        """
        cells = [self.stem * 2**level for level in range(self.depth + 1)]
        down, up = 2 * sum(cells), 2 * sum(cells[:-1]) + sum(cells[1:])
        return down + up + cells[0] + cells[-1]


class WindowSettings(_Settings):
    """How the region is cut into windows and tiles (paper, appendix "Patch extraction")."""

    size: int | None = Field(
        None, ge=SMALLEST_WINDOW, description="pixels; none: chosen from the data"
    )
    stride: int | None = Field(None, ge=1, description="pixels; none: an eighth of the size")
    tile: int | None = Field(
        None, ge=SMALLEST_WINDOW, description="pixels; none: chosen from the data"
    )
    footprint: float = Field(0.5, gt=0, le=1, description="least share of cells with data")
    test_share: float = Field(0.2, ge=0, lt=1, description="share of tiles held out to the end")
    validation_share: float = Field(0.15, ge=0, lt=1, description="share that chooses the model")
    split_seed: int = 42
    balanced: bool = Field(True, description="splits hold their share of occurrences as well")
    validity_channels: bool = Field(True, description="one channel per layer: is there data?")
    zero_is_nodata: bool = False
    standardise: Literal["region", "window"] = Field(
        "region", description="statistics of the training tiles, or of each window by itself"
    )
    margin: int = Field(
        0,
        ge=0,
        le=1024,
        description="cells around a window that the network sees too, but learns nothing on; a "
        "multiple of the network's coarsest cell",
    )
    positions: Literal["exact", "counts"] = Field(
        "exact", description="counts: one count per cell, spread over the cell anew at every use"
    )


class TrainingSettings(_Settings):
    """The optimiser and its schedule (paper, Table "optimization settings").

    A run ends with its iterations or its minutes, whichever comes first.
    """

    iterations: int | None = Field(
        None, ge=0, description="steps; 0: the network stays what it begins as, which is nothing"
    )
    minutes: float | None = Field(None, gt=0)
    batch: int = Field(8, ge=1, description="windows in a step")
    ground: Literal["window", "region"] = Field(
        "window",
        description="what a density is normalised over, as if all of it had been searched alike: "
        "each window with occurrences by itself, or all training tiles",
    )
    empty: int = Field(
        8,
        ge=1,
        description="further windows in a step, anywhere on the training tiles, if the ground is "
        "the region",
    )
    optimiser: Literal["adamw", "muon"] = Field(
        "adamw", description="muon: weight matrices by Muon, the rest by Adam"
    )
    learning_rate: float = Field(1e-3, gt=0)
    weight_decay: float = Field(1e-2, ge=0)
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    warm_up: float = Field(0.03, ge=0, lt=1, description="share of the budget")
    final_rate: float = Field(0.01, ge=0, le=1, description="last learning rate over the first")
    ema: float = Field(0.998, ge=0, lt=1, description="decay of the averaged weights; 0: off")
    density_weight: float = Field(
        1.0, gt=0, description="of the density head's loss, if there is one, beside the flow's"
    )
    points_per_step: int = Field(
        0, ge=0, description="repeat occurrences with new noise up to this many; 0: each once"
    )
    noise: Literal["random", "even"] = Field(
        "random", description="even: noise and times of a step from a Sobol net"
    )
    late_times: float = Field(
        1.0, gt=0, le=10, description="times 1 - (1 - u)^this of u even in [0, 1]"
    )
    coupling: Literal["independent", "transport"] = Field(
        "independent",
        description="transport: noise goes to a window's occurrences by optimal transport",
    )
    augment: bool = Field(True, description="turn, mirror and move the windows")
    jitter: float = Field(
        0.0, ge=0, le=100, description="standard deviation of the occurrences' places, in cells"
    )
    layer_dropout: float = Field(
        0.0, ge=0, lt=1, description="share of layers hidden from a window; one stays at least"
    )
    validate_every: int | None = Field(
        None, ge=1, description="iterations; none: every fortieth of a run, more often at first"
    )
    patience: int = Field(0, ge=0, description="stop after so many validations without gain; 0: no")
    save_every: float = Field(
        10.0, ge=0, description="seconds between savings of the state to go on from"
    )
    preview_every: int = Field(0, ge=0, description="iterations between pictures of draws; 0: none")


class SamplingSettings(_Settings):
    """How windows become densities, and noise becomes points."""

    solver: Literal["euler", "midpoint", "heun"] = "midpoint"
    steps: int = Field(6, ge=1, le=1000)
    lateness: float = Field(
        0.0, ge=0, le=20, description="steps shorten towards t = 1 by exp(-lateness); 0: all equal"
    )
    points: int = Field(500, ge=1, description="points of a draw")
    noise: Literal["independent", "even"] = Field(
        "independent",
        description="how the points of a draw begin: each by itself, or together on a Sobol net "
        "that is moved at random, so that each follows the density and all cover it evenly",
    )
    outside: Literal["reject", "clip"] = Field(
        "reject", description="what happens to points that leave the window or lie on no-data"
    )


class Settings(_Settings):
    """All settings of a model, as they stand in its checkpoint."""

    preset: str = "quick"
    network: NetworkSettings = NetworkSettings()
    windows: WindowSettings = WindowSettings()
    training: TrainingSettings = TrainingSettings()
    sampling: SamplingSettings = SamplingSettings()

    @model_validator(mode="after")
    def _fit_together(self) -> Settings:
        if self.windows.margin % self.network.period:
            raise ValueError(
                f"windows.margin must be a multiple of {self.network.period}, the cells of the "
                "network's coarsest level (network.stem * 2^network.depth)."
            )
        if self.training.ground == "region" and not self.network.density:
            raise ValueError(
                "Only a density head compares windows: set network.density=true, or "
                "training.ground=window."
            )
        return self

    @property
    def is_local(self) -> bool:
        """Whether the density is one function of the ground, and no window's own."""
        return self.network.density and self.windows.standardise == "region"


_PAPER_WINDOWS = WindowSettings(
    size=128,
    stride=16,
    tile=384,
    footprint=0.5,
    test_share=0.2,
    validation_share=0.1,
    split_seed=42,
    balanced=False,
    validity_channels=False,
    positions="counts",
)

# Thirty late steps of Euler: docs/benchmarks.md, "Ten minutes against sixty".
_OUR_SAMPLING = SamplingSettings(solver="euler", steps=30, lateness=2.0, noise="even")

PRESETS: dict[str, Settings] = {
    "quick": Settings(
        preset="quick",
        network=NetworkSettings(
            norm="position",
            stem=4,
            width=32,
            depth=2,
            density=True,
            anchor=1,
            anchor_variance=1 / 4,
            head_width=64,
            head_depth=1,
            start=None,
        ),
        training=TrainingSettings(minutes=5, optimiser="muon", points_per_step=2048, patience=20),
        sampling=_OUR_SAMPLING,
    ),
    "full": Settings(
        preset="full",
        network=NetworkSettings(
            norm="position",
            stem=2,
            width=64,
            features=128,
            density=True,
            anchor=1,
            anchor_variance=1 / 4,
            head_width=256,
            head_depth=3,
            start=None,
        ),
        training=TrainingSettings(
            minutes=60, optimiser="muon", points_per_step=8192, ema=0.999, patience=20
        ),
        sampling=_OUR_SAMPLING,
    ),
    "paper-synthetic": Settings(
        preset="paper-synthetic",
        network=NetworkSettings(
            width=32,
            depth=3,
            features=64,
            time_dim=64,
            head="residual",
            head_width=256,
            head_depth=3,
            coordinates="unit",
            context="none",
        ),
        windows=_PAPER_WINDOWS.model_copy(
            update={"size": 220, "stride": 20, "tile": 660, "standardise": "window"}
        ),
        training=TrainingSettings(
            iterations=500_000,
            batch=4,
            learning_rate=3e-4,
            weight_decay=1e-4,
            clip=1.0,
            warm_up=0.0,
            ema=0.0,
            augment=False,
            validate_every=250,
            preview_every=250,
        ),
        sampling=SamplingSettings(solver="euler", steps=50, points=500, outside="clip"),
    ),
    "paper-earthmri": Settings(
        preset="paper-earthmri",
        network=NetworkSettings(
            width=48,
            depth=3,
            features=128,
            time_dim=64,
            head="mlp",
            head_width=256,
            head_depth=3,
            coordinates="unit",
            context="none",
        ),
        windows=_PAPER_WINDOWS.model_copy(update={"zero_is_nodata": True}),
        training=TrainingSettings(
            iterations=400_000,
            batch=8,
            learning_rate=3e-4,
            weight_decay=1e-4,
            clip=1.0,
            warm_up=0.0,
            ema=0.0,
            augment=False,
            validate_every=2_000,
            preview_every=10_000,
        ),
        sampling=SamplingSettings(solver="euler", steps=50, points=300, outside="clip"),
    ),
}


def choose_preset(name: str, *, accelerated: bool) -> Settings:
    """The preset of that name; ``auto`` is quick on a CPU and full on a GPU."""
    if name == "auto":
        name = "full" if accelerated else "quick"
    if name not in PRESETS:
        raise UserError(
            f"There is no preset called '{name}'.",
            f"Choose one of: auto, {', '.join(PRESETS)}.",
        )
    return PRESETS[name]


def change_settings(settings: Settings, changes: dict[str, str]) -> Settings:
    """Settings with single values changed by their path, such as ``network.width``."""
    values: dict[str, Any] = settings.model_dump()
    for path, text in changes.items():
        room, _, key = path.partition(".")
        if room not in values or not isinstance(values[room], dict) or key not in values[room]:
            known = [f"{r}.{k}" for r, v in values.items() if isinstance(v, dict) for k in v]
            ending = next((name for name in known if name.endswith(f".{path}")), path)
            near = nearest_name(ending, known).strip() or f"The settings are: {', '.join(known)}."
            raise UserError(f"There is no setting '{path}'.", near)
        field = type(getattr(settings, room)).model_fields[key]
        nothing = text.lower() == "none" and "none" not in get_args(field.annotation)
        values[room][key] = None if nothing else text
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "value_error":  # settings that do not go together
            raise UserError(first["msg"].removeprefix("Value error, "), "") from None
        room, key = (str(part) for part in first["loc"][:2])
        said = explain(first, type(getattr(settings, room)), key, depth=2)
        raise UserError(f"--set {room}.{key}: {said}", "") from None
