"""Batches of a region: windows of its training tiles, chosen on its validation tiles.

Windows that hold an occurrence are what the flow learns from. If the whole region is the ground
that was searched, further windows anywhere on the same tiles tell what the ground is like.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from geocfm.data.patches import (
    Batch,
    Example,
    count_image,
    make_batch,
    repeated_points,
    repeated_weights,
)
from geocfm.data.region import Region
from geocfm.data.split import TRAIN
from geocfm.errors import UserError
from geocfm.geo.grid import Window
from geocfm.model.settings import TrainingSettings

VALIDATION_POINTS = 8192  # noised points of all validation windows together
VALIDATION_STREAM = 2**31  # keeps the validation noise apart from every training step's
VALIDATION_WINDOWS = 48  # at most, spread evenly over those there are, and
VALIDATION_CELLS = 48 * 128**2  # of them at most, if they are judged together


class Start(Protocol):
    """What single cells say of training tiles, if not what the network's own start says."""

    def read(self, window: Window) -> NDArray[np.float32]:
        """Log intensities (h, w)."""


class RegionBatches:
    """A source of batches from windows that hold an occurrence, and from all ground if asked."""

    workers = 1  # a region's layers serve one reader at a time

    def __init__(
        self,
        region: Region,
        settings: TrainingSettings,
        seed: int,
        start: Start | None = None,
    ) -> None:
        self._region, self._settings, self._seed = region, settings, seed
        self._start = start
        self._starts = region.starts["train"]
        if not len(self._starts):
            raise UserError(
                "No training window holds an occurrence.",
                "Use a smaller window (--window), or check where the occurrences lie.",
            )

    def batch(self, step: int) -> Batch:
        """Windows with noise for their points; depends on (seed, step) alone."""
        generator = np.random.default_rng([self._seed, step])
        chosen = self._starts[generator.choice(len(self._starts), self._settings.batch)]
        windows = [self._region.window(self._moved(start, generator)) for start in chosen]
        examples = [self._read(window, generator, self._settings) for window in windows]
        if self._settings.ground == "region":
            examples = self._on_all_ground(examples, "train", generator, self._settings)
        if self._settings.augment:
            examples = [example.turned(generator) for example in examples]
        return make_batch(examples, self._settings, generator)

    def _read(
        self,
        window: Window,
        generator: np.random.Generator,
        training: TrainingSettings | None,
    ) -> Example:
        """A window; to learn from it, with what single cells say that have not learned from it."""
        example = read_example(self._region, window, generator, training)
        if training is None or self._start is None:
            return example
        return replace(example, start=self._start.read(window))

    def _on_all_ground(
        self,
        examples: list[Example],
        role: str,
        generator: np.random.Generator,
        training: TrainingSettings | None,
    ) -> list[Example]:
        """Those windows, drawn for their occurrences, and others from anywhere, with the share of
        all ground that each stands for by how it was drawn."""
        region, ground = self._region, self._region.ground[role]
        if not len(ground):
            return examples
        drawn = len(examples) / len(region.starts[role])  # how often a window with occurrences is
        anywhere = self._settings.empty / len(ground)  # and how often any window
        share = 1 / len(ground)
        examples = [replace(example, share=share / (drawn + anywhere)) for example in examples]
        for start in ground[generator.choice(len(ground), self._settings.empty)]:
            window = region.window(start)
            example = self._read(window, generator, training)
            holds = (region.weights[region.inside(window)] > 0).any()
            own = share / (drawn * holds + anywhere)
            # its occurrences have been drawn above
            nowhere, nothing = np.zeros((0, 2)), np.zeros(0)
            examples.append(replace(example, points=nowhere, weights=nothing, share=own))
        return examples

    def _moved(self, start: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.int64]:
        """The start of a window, moved by less than a stride if that is still a training window.

        Windows of the lattice alone would show an occurrence at the same few places of the
        network's cells again and again, and its pixels would be learned by heart.
        """
        if not self._settings.augment:
            return start
        region, size = self._region, self._region.plan.size
        moved = start + generator.integers(0, region.plan.stride, 2)
        on_grid = (moved + size <= (region.grid.height, region.grid.width)).all()
        if on_grid and region.split.role_of_windows(moved[None], size)[0] == TRAIN:
            inside = region.inside(region.window(moved))
            if (region.weights[inside] > 0).any():
                return moved
        return start

    def validation(self) -> list[Batch]:
        """Windows of the validation tiles with fixed noise.

        If the network is one function of the ground they are judged together: what is right within
        every window, but not from one to the next, makes no map.
        """
        region, settings = self._region, self._settings
        together = region.settings.standardise == "region"
        starts, most = region.starts["validation"], VALIDATION_WINDOWS
        if together:
            fitting = VALIDATION_CELLS // (region.plan.size + 2 * region.settings.margin) ** 2
            most = min(most, max(fitting, settings.batch))
        spread = np.linspace(0, len(starts) - 1, min(len(starts), most)).astype(int)
        size = max(len(spread), 1) if together else settings.batch
        groups = [starts[spread[first : first + size]] for first in range(0, len(spread), size)]
        noising = TrainingSettings(points_per_step=VALIDATION_POINTS // max(len(groups), 1))
        batches = []
        for number, group in enumerate(groups):
            generator = np.random.default_rng([self._seed, VALIDATION_STREAM, number])
            examples = [read_example(region, region.window(start), generator) for start in group]
            if settings.ground == "region":
                examples = self._on_all_ground(examples, "validation", generator, None)
            elif together:
                examples = [replace(example, share=1 / len(group)) for example in examples]
            batches.append(make_batch(examples, noising, generator))
        return batches


def read_example(
    region: Region,
    window: Window,
    generator: np.random.Generator,
    training: TrainingSettings | None = None,
) -> Example:
    """A window of the region with its margin; counts become points spread over their cells anew.

    training: what is done to the window to learn from it; none: it is as it is.
    """
    margin = region.settings.margin
    values = region.read(window.grown(margin))
    inside, weights = region.points_in(window), region.weights[region.inside(window)]
    if region.settings.positions == "counts":
        counts = count_image(inside, window.width)
        weights = repeated_weights(counts, inside, weights)
        inside = repeated_points(counts, generator)
    if training is not None and training.layer_dropout:
        values = _hide_layers(values, training.layer_dropout, generator)
    channels, footprint = region.encoder.encode(values)
    if training is not None and training.jitter:
        moved = inside + generator.normal(0, training.jitter / window.width, inside.shape)
        here = ((moved >= 0) & (moved < 1)).all(axis=1, keepdims=True)
        inside = np.where(here, moved, inside)
    own = slice(margin, margin + window.height), slice(margin, margin + window.width)
    return Example(channels, footprint[own], inside, weights)


def _hide_layers(
    values: NDArray[np.float32], share: float, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Values (L, h, w) without some layers, as if they had no data; never without all."""
    hidden = generator.random(len(values)) < share
    hidden[generator.integers(len(values))] = False
    return np.where(hidden[:, None, None], np.float32(np.nan), values)
