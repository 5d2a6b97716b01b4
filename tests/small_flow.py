"""A flow that has learned where points lie on one small image, in a few seconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from geocfm.model.flow import Velocity, flow_matching_loss
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import NetworkSettings
from numpy.typing import NDArray

SIZE = 32
ITERATIONS, POINTS_PER_STEP, RATE = 250, 512, 8e-3


@dataclass(frozen=True)
class SmallFlow:
    """A network and the image it knows, channels (2, 32, 32)."""

    network: VelocityNetwork
    channels: NDArray[np.float32]
    lateness: float  # of the solver's steps that suit it

    def velocity(self) -> Velocity:
        """Of points of the image, in flow coordinates."""
        with torch.no_grad():
            maps = self.network.encode(torch.from_numpy(self.channels)[None])

        def velocity(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            image = torch.zeros(len(position), dtype=torch.long)
            return self.network.velocity(maps, position, t, image)

        return velocity


def an_arc_and_a_cluster(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Channels that show the arc, and points in [0, 1]^2: four in five on it."""
    row, col = np.mgrid[:SIZE, :SIZE] / SIZE
    radius = np.hypot(col - 0.6, row - 0.45)
    channels = np.stack([np.exp(-(((radius - 0.24) / 0.1) ** 2)), row > col]).astype(np.float32)
    generator = np.random.default_rng(1)
    angle = generator.uniform(0, 1.5 * np.pi, count)
    away = 0.24 + 0.03 * generator.standard_normal(count)
    on_arc = np.stack([0.6 + away * np.cos(angle), 0.45 + away * np.sin(angle)], axis=1)
    cluster = generator.normal((0.2, 0.8), 0.05, (count // 4, 2))
    return channels, np.concatenate([on_arc, cluster]).astype(np.float32)


@cache
def trained_flow(*, anchored: bool = False) -> SmallFlow:
    """The same at every call of a session; with a density head that anchors it, or without."""
    settings = NetworkSettings(
        width=8,
        depth=1,
        features=8,
        time_dim=8,
        head_width=32,
        head_depth=1,
        norm="position" if anchored else "group",
        density=anchored,
        anchor=int(anchored),
    )
    channels, places = an_arc_and_a_cluster(2000)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        network = VelocityNetwork(2, settings)
    flow = SmallFlow(network, channels, 3.0 if anchored else 0.0)
    image, points = torch.from_numpy(channels)[None], network.to_flow(torch.from_numpy(places))
    optimiser = torch.optim.AdamW(network.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=ITERATIONS)
    generator = torch.Generator().manual_seed(4)
    number = torch.zeros(POINTS_PER_STEP, dtype=torch.long)
    for _ in range(ITERATIONS):
        maps = network.encode(image)
        picked = torch.randint(len(points), (POINTS_PER_STEP,), generator=generator)
        noise = torch.randn(POINTS_PER_STEP, 2, generator=generator)
        t = torch.rand(POINTS_PER_STEP, generator=generator)
        loss = flow_matching_loss(
            lambda position, t, maps=maps: network.velocity(maps, position, t, number),
            points[picked],
            noise,
            t,
        )
        if maps.log_density is not None:
            col, row = torch.from_numpy(places[picked.numpy()] * SIZE).long().clamp(0, SIZE - 1).T
            loss = loss - maps.log_density[0, row, col].mean()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    network.eval().requires_grad_(False)
    return flow
