"""The jobs of ``geocfm benchmark``; what they share with other jobs is in job.py."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from geocfm.job import (
    BASELINE_NAMES,
    DEVICE,
    MOST_CELLS,
    MOST_STEPS,
    BaselineNames,
    FileName,
    Job,
    LearningJob,
    WritingJob,
)

BenchmarkPreset = Literal["quick", "full", "paper-synthetic"]


Variants = Annotated[
    Literal["default", "all"],
    Field(
        description="all: GeoCFM trained with either ground counted as searched, each from an even "
        "density, a process of single cells, and a stack of that and a forest."
    ),
]


class MemoryJob(WritingJob):
    """Measure peak memory on a virtual stack: statistics, training, a map."""

    size: int = Field(
        20_000, ge=1000, le=MOST_CELLS, multiple_of=1000, description="Cells along each side."
    )
    layers: int = Field(8, ge=1, le=1000, description="How many layers.")
    iterations: int = Field(200, ge=1, le=MOST_STEPS, description="Training iterations.")
    mapped: int = Field(
        4000, ge=100, le=MOST_CELLS, description="Cells along each side of the part that is mapped."
    )
    whole: bool = Field(
        False, description="Also map, rank and evaluate all of it, which takes long."
    )
    out: FileName = Field(description="The folder for the figures.")


class MosaicJob(WritingJob):
    """Hold a model's map against a region whose intensity is known."""

    size: int = Field(1024, ge=64, le=2048, description="Cells along each side of the region.")
    bodies: int = Field(60, ge=1, le=500, description="How many intrusive bodies it has.")
    minutes: float | None = Field(None, gt=0, le=100_000, description="Train for so long.")
    iterations: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="Train for so many steps."
    )
    window: int | None = Field(None, ge=16, le=4096, description="Window size in cells.")
    variants: Variants = "default"
    seed: int = Field(1, ge=0, lt=2**31, description="Of the region, training and draws.")
    out: FileName = Field(description="The folder for the region, the model and the table.")


class FoldsJob(LearningJob, WritingJob):
    """Cross-validate GeoCFM and other methods on a region, on the same folds of tiles."""

    column: str | None = Field(
        None,
        description="A column of the occurrences: those with each of the values in it are a study "
        "of their own, and all studies are judged together, on the same tiles.",
    )
    values: str | None = Field(
        None, description="Words in that column, such as gold,copper, separated by commas."
    )
    folds: int = Field(5, ge=2, le=20, description="How many groups of tiles.")
    ensemble: int = Field(1, ge=1, le=20, description="Networks of GeoCFM in each fold.")
    minutes: float | None = Field(
        None, gt=0, le=100_000, description="Train each network for so long at most."
    )
    iterations: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="Train each network for so many steps at most."
    )
    baselines: BaselineNames = Field(
        "rf,gbdt,ipp,unet-density",
        description=f"all, none, or some of {', '.join(BASELINE_NAMES)}, separated by commas.",
    )
    variants: Variants = "default"
    seed: int = Field(1, ge=0, lt=2**63, description="Same seed, same result.")
    device: str = Field("auto", pattern=DEVICE, description="auto, cpu, cuda, cuda:1 or mps.")
    out: FileName = Field(description="The folder for the table and its figures.")


class SyntheticBenchmarkJob(WritingJob):
    """Print the paper's Table 1 with our numbers: every method on the synthetic benchmark."""

    preset: BenchmarkPreset = Field("quick", description="quick, full or paper-synthetic.")
    minutes: float = Field(
        20.0,
        gt=0,
        le=100_000,
        description="Train each method that learns step by step for so long.",
    )
    methods: str = Field(
        "all",
        description="all, or some of geocfm, geocfm-head (its density head alone), "
        f"{', '.join(BASELINE_NAMES)}, separated by commas; the oracles are always there.",
    )
    size: int = Field(220, ge=32, le=2048, description="Pixels along an image's side.")
    images: int = Field(50, ge=1, le=50, description="How many test images.")
    draws: int = Field(20, ge=1, le=1000, description="Independent draws for each image.")
    training_images: int = Field(
        200, ge=1, le=100_000, description="Images that methods without gradient steps learn from."
    )
    seed: int = Field(
        1,
        ge=0,
        lt=2**31,
        description="Of training and draws; what is trained by the clock still differs a little.",
    )
    overwrite: bool = Field(
        False,
        description="Begin anew: with the folder's own settings the methods that are named, with "
        "others all that a benchmark wrote there.",
    )
    device: str = Field("auto", pattern=DEVICE, description="auto, cpu, cuda, cuda:1 or mps.")
    out: FileName = Field(description="The folder to write into; each method's result is a file.")


class AblationJob(WritingJob):
    """Print an ablation: steps, budget, positives or gap as the paper has them, or recipe.

    recipe: what each change to the paper's recipe is worth, in the same minutes on the same UNet.
    In the folder of a benchmark its settings are the defaults, and what was trained there is used.
    """

    kind: Literal["steps", "budget", "positives", "gap", "recipe"] = Field(
        description="steps, budget, positives, gap or recipe.",
        json_schema_extra={"argument": True},
    )
    recipes: str = Field(
        "all", description="Of the ablation recipe: all, or names separated by commas."
    )
    preset: BenchmarkPreset | None = Field(
        None, description="quick, full or paper-synthetic; quick by default."
    )
    minutes: float | None = Field(
        None, gt=0, le=100_000, description="Minutes of each training; 20 by default."
    )
    size: int | None = Field(
        None, ge=32, le=2048, description="Pixels along an image's side; 220 by default."
    )
    images: int | None = Field(None, ge=1, le=50, description="Test images; 50 by default.")
    draws: int | None = Field(
        None, ge=1, le=1000, description="Draws of each image; 20 by default; steps takes 5."
    )
    training_images: int | None = Field(
        None, ge=1, le=100_000, description="Training images; 200 by default."
    )
    seed: int | None = Field(None, ge=0, lt=2**31, description="1 by default.")
    device: str | None = Field(None, pattern=DEVICE, description="auto, cpu, cuda, cuda:1 or mps.")
    out: FileName = Field(description="The folder to write into; may be that of a benchmark.")


BENCHMARKS: dict[str, type[Job]] = {
    "synthetic": SyntheticBenchmarkJob,
    "ablation": AblationJob,
    "memory": MemoryJob,
    "mosaic": MosaicJob,
    "folds": FoldsJob,
}
