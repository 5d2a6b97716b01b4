"""The two baselines that are networks, on images of 32 x 32 pixels."""

from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from geocfm.data.image import Image
from geocfm.data.patches import make_batch
from geocfm.data.synthetic import VALIDATION_SEEDS, SyntheticSettings, make_image
from geocfm.data.synthetic_training import SyntheticImages, as_example
from geocfm.evaluation.baselines.base import Effort
from geocfm.evaluation.baselines.networks import UNetBaseline, UNetDensity, UNetSegmentation
from geocfm.events import JsonSink, Reporter
from geocfm.model.settings import NetworkSettings, Settings, TrainingSettings
from geocfm.training.fit import LOG
from geocfm.training.losses import density_loss

CPU = torch.device("cpu")
SYNTHETIC = SyntheticSettings(size=32, deposits=60)
SETTINGS = Settings(
    network=NetworkSettings(width=8, depth=2, features=8),
    training=TrainingSettings(iterations=40, batch=4, learning_rate=1e-2, ema=0.9),
)


def effort(folder: Path | None = None) -> Effort:
    return Effort(SETTINGS, 1, CPU, Reporter(JsonSink(io.StringIO())), folder)


@pytest.fixture(scope="module", params=[UNetSegmentation, UNetDensity])
def fitted(
    request: pytest.FixtureRequest, one_thread: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[UNetBaseline, Path]:
    folder = tmp_path_factory.mktemp("fit")
    baseline: UNetBaseline = request.param()
    baseline.fit(SyntheticImages(SYNTHETIC, SETTINGS.training, 1), effort(folder))
    return baseline, folder


@pytest.fixture(scope="module")
def held_out() -> list[Image]:
    return [make_image(SYNTHETIC, seed).image() for seed in VALIDATION_SEEDS]


def mean_nll(baseline: UNetBaseline, images: list[Image]) -> float:
    logs = []
    for image in images:
        density = baseline.density(image)
        col, row = image.points.astype(int).T
        logs.append(np.log(density[row, col]))
    return -float(np.concatenate(logs).mean())


def test_it_learns_more_than_nothing(
    fitted: tuple[UNetBaseline, Path], held_out: list[Image]
) -> None:
    assert mean_nll(fitted[0], held_out) < math.log(32 * 32) - 0.3


@pytest.mark.parametrize("fitted", [UNetDensity], indirect=True)
def test_the_exact_likelihood_is_what_the_density_learns_by(
    fitted: tuple[UNetBaseline, Path], held_out: list[Image]
) -> None:
    baseline, _ = fitted
    examples = [as_example(image) for image in held_out]
    batch = make_batch(examples, TrainingSettings(), np.random.default_rng(1))
    with torch.no_grad():
        loss = density_loss(baseline.network, batch).item()
    assert mean_nll(baseline, held_out) == pytest.approx(loss, rel=1e-3)


def test_of_images_without_end_the_last_moment_counts(fitted: tuple[UNetBaseline, Path]) -> None:
    result = fitted[0].result
    assert result is not None
    assert result.best.iteration == result.last.iteration == 40


def test_scores_and_densities_mean_what_they_say(
    fitted: tuple[UNetBaseline, Path], held_out: list[Image]
) -> None:
    baseline, _ = fitted
    whole = held_out[0]
    footprint = np.ones((32, 32), bool)
    footprint[:, 20:] = False
    part = Image(whole.channels, footprint, whole.points)
    scores, density = baseline.scores(part), baseline.density(part)
    assert scores.dtype == density.dtype == np.float64
    assert density.sum() == pytest.approx(1)
    assert not density[:, 20:].any()
    logits = baseline.network(torch.from_numpy(whole.channels)[None])[0].detach().double().numpy()
    if isinstance(baseline, UNetSegmentation):
        assert baseline.comparable
        np.testing.assert_allclose(scores, 1 / (1 + np.exp(-logits)))
    else:
        assert baseline.comparable
        np.testing.assert_allclose(scores, np.exp(logits))
        inside = np.exp(logits[footprint])
        np.testing.assert_allclose(density[footprint], inside / inside.sum(), rtol=1e-5)


def test_images_need_be_neither_square_nor_of_the_training_size(
    fitted: tuple[UNetBaseline, Path],
) -> None:
    channels = np.random.default_rng(0).standard_normal((2, 21, 34)).astype(np.float32)
    density = fitted[0].density(Image(channels, np.ones((21, 34), bool), np.zeros((0, 2))))
    assert density.shape == (21, 34)
    assert density.sum() == pytest.approx(1)


def test_weights_come_back_from_their_file(
    fitted: tuple[UNetBaseline, Path], held_out: list[Image], tmp_path: Path
) -> None:
    baseline, _ = fitted
    baseline.save(tmp_path / "weights.safetensors")
    other = type(baseline)()
    other.load(tmp_path / "weights.safetensors", CPU)
    assert not other.network.training
    np.testing.assert_array_equal(other.scores(held_out[1]), baseline.scores(held_out[1]))


def test_a_finished_fit_in_its_folder_is_taken_up(
    fitted: tuple[UNetBaseline, Path], held_out: list[Image]
) -> None:
    baseline, folder = fitted
    before = (folder / LOG).read_bytes()
    again = type(baseline)()
    again.fit(SyntheticImages(SYNTHETIC, SETTINGS.training, 1), effort(folder))
    assert (folder / LOG).read_bytes() == before
    np.testing.assert_array_equal(again.scores(held_out[0]), baseline.scores(held_out[0]))
