"""Several networks of one region: seeds and bootstraps that differ, so that they can disagree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from geocfm.data.region import Region
from geocfm.data.region_batches import RegionBatches
from geocfm.data.split import TRAIN
from geocfm.events import Reporter
from geocfm.model.network import VelocityNetwork, new_network
from geocfm.model.settings import Settings
from geocfm.training.fit import fit_network
from geocfm.training.losses import flow_loss
from geocfm.training.resume import Snapshot
from geocfm.training.shrink import shrunk
from geocfm.training.start import FittedStart, fit_process, fit_stack

BOOTSTRAP_STREAM = 2**29  # keeps the choice of blocks apart from the noise of the steps
FEW_OCCURRENCES = 5000  # docs/benchmarks.md, "California: what a network begins with"
SEED_STEP = 1_000_003  # between members, so that the seeds of two ensembles do not meet


@dataclass(frozen=True)
class Member:
    """One network of an ensemble: its number, its seed, and the region as it sees it.

    start: what single cells say, which all members share. It is learned from every occurrence: a
    choice of blocks cost it more than a network (docs/benchmarks.md).
    """

    number: int
    seed: int
    region: Region
    settings: Settings
    channels: int
    start: FittedStart | None

    def network(self) -> VelocityNetwork:
        """The network before it learns."""
        network = new_network(self.channels, self.settings, self.seed)
        if self.start is not None:
            network.start.load_state_dict(self.start.start.state_dict())
        return network

    @property
    def source(self) -> RegionBatches:
        """What it learns from."""
        crossed = None if self.start is None else self.start.crossed
        return RegionBatches(self.region, self.settings.training, self.seed, crossed)


def ensemble_of(
    region: Region, settings: Settings, channels: int, count: int, seed: int
) -> list[Member]:
    """So many members; one alone sees the region as it is."""
    start = None
    if settings.network.begins:
        fit = fit_stack if settings.network.start == "stack" else fit_process
        start = fit(region, channels, seed)
    seeds = [seed + SEED_STEP * number for number in range(count)]
    seen = [region] if count == 1 else [bootstrapped(region, own) for own in seeds]
    return [
        Member(number, own, sees, settings, channels, start)
        for number, (own, sees) in enumerate(zip(seeds, seen, strict=True))
    ]


def bootstrapped(region: Region, seed: int) -> Region:
    """The region with blocks of its training occurrences drawn with replacement.

    Blocks have a window's size, since occurrences near each other are no independent witnesses. An
    occurrence counts as often as its block was drawn, perhaps never.
    """
    training = region.split.role_of_points(region.points) == TRAIN
    places = np.floor(region.points[training] / region.plan.size).astype(np.int64)
    _, block = np.unique(places, axis=0, return_inverse=True)
    blocks = int(block.max(initial=-1)) + 1
    if blocks < 2:
        return region
    generator = np.random.default_rng([seed, BOOTSTRAP_STREAM])
    drawn = generator.multinomial(blocks, np.full(blocks, 1 / blocks))
    weights = region.weights.copy()
    weights[training] *= drawn[block.ravel()]
    return region.with_weights(weights)


def share_of_budget(settings: Settings, trainings: int) -> Settings:
    """The settings of one of several trainings, which share the minutes."""
    if settings.training.minutes is None:
        return settings
    training = settings.training.model_copy(
        update={"minutes": settings.training.minutes / trainings}
    )
    return settings.model_copy(update={"training": training})


def with_start(settings: Settings, occurrences: int) -> Settings:
    """The settings with what the network begins with, for so many known occurrences.

    Unless it was said: where few are known, what single cells say.
    """
    if settings.network.start is not None:
        return settings
    few = settings.network.density and occurrences < FEW_OCCURRENCES
    network = settings.network.model_copy(update={"start": "process" if few else "even"})
    return settings.model_copy(update={"network": network})


def with_iterations(settings: Settings, iterations: int) -> Settings:
    """The settings of a training that others have found the length of."""
    found = {"iterations": iterations, "minutes": None, "patience": 0}
    training = settings.training.model_copy(update=found)
    return settings.model_copy(update={"training": training})


def fit_member(
    member: Member, device: torch.device, folder: Path, reporter: Reporter, title: str
) -> Snapshot:
    """Train a member in a folder of its own; an interrupted training goes on there."""
    training = member.settings.training
    result = fit_network(
        member.source,
        member.network(),
        partial(flow_loss, density_weight=training.density_weight),
        training,
        member.seed,
        device,
        reporter,
        folder,
        title,
    )
    return shrunk(result.best, member.network(), member.source, device)
