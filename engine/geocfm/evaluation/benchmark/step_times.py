"""How long a draw takes, as a multiple of a pass of the segmentation network beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.evaluation.benchmark.bench import Bench
from geocfm.inference.flow_sampler import FlowSampler
from geocfm.model.network import VelocityNetwork
from geocfm.model.score import new_score_network
from geocfm.model.settings import NetworkSettings, SamplingSettings

REPETITIONS = 7  # interleaved, so that what else the machine does meets all alike
UNET = "unet-seg"
FULL_UNET = "unet-seg-full"  # whose features are as fine as the image, as in the paper
PAPER_DEPTH = 3


def draw_times(
    bench: Bench, network: VelocityNetwork, settings: Sequence[SamplingSettings]
) -> dict[str, float]:
    """Median milliseconds by solver and steps: features and one draw; and of two UNet-Seg passes.

    One has the flow's own encoder, one the paper's of the same width, without a stem. The weights
    do not matter to the time of a pass.
    """
    image = bench.test_images[0].image()
    channels, footprint = image.channels[None], image.footprint[None]
    ours = bench.settings.settings.network

    def unet_pass(network: NetworkSettings) -> Callable[[], None]:
        score = new_score_network(len(image.channels), network, 0).eval().to(bench.device)

        @torch.no_grad()
        def once() -> None:
            score(torch.from_numpy(channels).to(bench.device)).cpu()

        return once

    def drawing(sampling: SamplingSettings) -> Callable[[], None]:
        sampler = FlowSampler(network, sampling, bench.device)

        def noise(_: int, count: int, attempt: int) -> NDArray[np.float32]:
            return sampler.noise(count, np.random.default_rng(attempt), attempt)

        def draw() -> None:
            encoded = sampler.encode(channels, footprint)
            sampler.draw(encoded, [sampling.points], noise)

        return draw

    full = ours.model_copy(update={"stem": 1, "depth": PAPER_DEPTH})
    work = {UNET: unet_pass(ours), FULL_UNET: unet_pass(full)}
    work |= {f"{s.solver}-{s.steps}": drawing(s) for s in settings}
    spent: dict[str, list[float]] = {name: [] for name in work}
    stage = bench.reporter.stage("Timing draws")
    for name in (UNET, FULL_UNET):
        work[name]()  # the first is slower
    rounds = [name for _ in range(REPETITIONS) for name in work]
    for done, name in enumerate(rounds):
        start = time.perf_counter()
        work[name]()
        spent[name].append(1000 * (time.perf_counter() - start))
        stage(done + 1, len(rounds))
    return {name: float(np.median(times)) for name, times in spent.items()}
