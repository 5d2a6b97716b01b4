"""Baselines that are networks: the encoder of the flow with a score for every pixel."""

from __future__ import annotations

import json
from abc import abstractmethod
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from geocfm.data.image import Image, TrainingImages
from geocfm.data.patches import Batch
from geocfm.evaluation.baselines.base import Baseline, Effort
from geocfm.geo.writing import atomic_path
from geocfm.model.score import ScoreNetwork, new_score_network
from geocfm.model.settings import NetworkSettings
from geocfm.training.fit import fit_network
from geocfm.training.loop import TrainingResult
from geocfm.training.losses import POSITIVE_WEIGHT, density_loss, segmentation_loss

_KEY = "network"
LARGEST_LOGIT = 80.0  # so that sums over an image stay numbers


class UNetBaseline(Baseline):
    """A UNet with one logit per pixel, trained as the flow is: same budget, same choice."""

    network: ScoreNetwork
    result: TrainingResult | None = None

    @abstractmethod
    def loss(self, network: ScoreNetwork, batch: Batch) -> Tensor:
        """What it is trained by."""

    def fit(self, images: TrainingImages, effort: Effort) -> None:
        """Train by the effort's settings; with a folder an interrupted fit goes on."""
        settings = effort.settings
        self.network = new_score_network(images.channels, settings.network, effort.seed)
        self.result = fit_network(
            images.source,
            self.network,
            self.loss,
            settings.training,
            effort.seed,
            effort.device,
            effort.reporter,
            effort.folder,
            title=f"Training {self.title}",
        )

    def save(self, path: Path) -> None:
        """Write the weights and what the network is."""
        network = self.network
        said = {"channels": network.channels, "settings": network.settings.model_dump()}
        with atomic_path(path) as temporary:
            safetensors.torch.save_file(
                {name: tensor.contiguous() for name, tensor in network.state_dict().items()},
                temporary,
                metadata={_KEY: json.dumps(said)},
            )

    def load(self, path: Path, device: torch.device) -> None:
        """Read what ``save`` wrote."""
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            said = json.loads(file.metadata()[_KEY])
        network = ScoreNetwork(said["channels"], NetworkSettings.model_validate(said["settings"]))
        network.load_state_dict(safetensors.torch.load_file(path))
        self.network = network.to(device).eval()

    @torch.no_grad()
    def logits(self, image: Image) -> Tensor:
        """(H, W) on the CPU, float64."""
        device = next(self.network.parameters()).device
        images = torch.from_numpy(image.channels).unsqueeze(0).to(device)
        return self.network(images)[0].cpu().double()


class UNetSegmentation(UNetBaseline):
    """Whether a pixel holds an occurrence, every other pixel being a negative (paper, D)."""

    title = "UNet-Seg"
    comparable = True

    def loss(self, network: ScoreNetwork, batch: Batch) -> Tensor:
        """Weighted binary cross-entropy over the valid pixels."""
        return segmentation_loss(network, batch)

    def scores(self, image: Image) -> NDArray[np.float64]:
        """The sigmoid of the logits."""
        return self.logits(image).sigmoid().numpy()

    def settings(self) -> dict[str, object]:
        """The weight of the positives."""
        return {"positive_weight": POSITIVE_WEIGHT}


class UNetDensity(UNetBaseline):
    """Positives alone: a density over the valid pixels by its exact likelihood at the points."""

    title = "UNet density"
    comparable = True  # as far as logits depend on what is near: training is blind to a constant

    def loss(self, network: ScoreNetwork, batch: Batch) -> Tensor:
        """The negative log likelihood of the points."""
        return density_loss(network, batch)

    def scores(self, image: Image) -> NDArray[np.float64]:
        """What the softmax of the logits divides by its sum."""
        return self.logits(image).clamp(-LARGEST_LOGIT, LARGEST_LOGIT).exp().numpy()
