"""A benchmark's folder at work: methods are fitted there once, and networks kept as weights."""

from __future__ import annotations

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, overload

import safetensors
import safetensors.torch
import torch

from geocfm.data.image import Image
from geocfm.data.synthetic import TEST_SEEDS, VALIDATION_SEEDS, SyntheticImage, make_image
from geocfm.data.synthetic_training import SyntheticImages
from geocfm.errors import Interrupted
from geocfm.evaluation.baselines import BASELINES, Effort
from geocfm.evaluation.baselines.networks import UNetBaseline
from geocfm.evaluation.benchmark.flow_method import FlowMethod, HeadMethod
from geocfm.evaluation.benchmark.methods import (
    HEAD,
    BaselineMethod,
    BayesDensity,
    LatentDensity,
    Method,
)
from geocfm.evaluation.benchmark.protocol import SETTINGS_FILE, BenchmarkSettings, write_json
from geocfm.evaluation.benchmark.result_files import MethodResult, load_result
from geocfm.events import Reporter
from geocfm.geo.writing import atomic_path
from geocfm.model.device import describe_device
from geocfm.model.network import VelocityNetwork, new_network
from geocfm.training.fit import fit_network
from geocfm.training.loop import TrainingResult
from geocfm.training.losses import flow_loss
from geocfm.training.resume import discard_state
from geocfm.versions import software_versions

METHODS_FOLDER, WEIGHTS, TRAINING = "methods", "weights", "training"
FIGURES, ABLATIONS = "figures", "ablation"
FLOW = "geocfm"
SHA256 = "weights_sha256"  # tells a network from one trained again with the same settings
KEPT_IMAGES = 2  # test images in memory; making one again takes milliseconds
FIT_FILE = "settings.json"  # beside a training's state: what it is the state of
DAMAGED = (
    safetensors.SafetensorError,
    OSError,
    RuntimeError,  # tensors that do not fit the network
    KeyError,
    TypeError,
    ValueError,
)


def is_network(key: str) -> bool:
    """Whether a method learns by gradient steps, and leaves weights."""
    return key == FLOW or (key in BASELINES and issubclass(BASELINES[key], UNetBaseline))


def network_of(key: str) -> str:
    """The name of the weights that a method is scored with."""
    return FLOW if key == HEAD else key


class ImagesOnDemand(Sequence[SyntheticImage]):
    """The images of seeds, each made when it is asked for: all together they may be too large."""

    def __init__(self, make: Callable[[int], SyntheticImage], seeds: Sequence[int]) -> None:
        self._seeds = seeds
        self._image = lru_cache(KEPT_IMAGES)(make)

    def __len__(self) -> int:
        return len(self._seeds)

    @overload
    def __getitem__(self, place: int) -> SyntheticImage: ...
    @overload
    def __getitem__(self, place: slice) -> ImagesOnDemand: ...
    def __getitem__(self, place: int | slice) -> SyntheticImage | ImagesOnDemand:
        if isinstance(place, slice):
            return ImagesOnDemand(self._image, self._seeds[place])
        return self._image(self._seeds[place])


@dataclass(frozen=True)
class Fitted:
    """A method that is ready, the seconds that took, and what is worth recording of it."""

    method: Method
    seconds: float
    facts: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """Values of an ablation, and how they were come by: training, time, versions, machine."""

    values: dict[str, Any]
    made: dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """Where a benchmark works, and with what."""

    folder: Path
    settings: BenchmarkSettings
    device: torch.device
    reporter: Reporter

    @property
    def test_seeds(self) -> list[int]:
        """Of the images that are scored."""
        seeds = TEST_SEEDS if self.settings.scored_on == "test" else VALIDATION_SEEDS
        return list(seeds)[: self.settings.images]

    @cached_property
    def test_images(self) -> ImagesOnDemand:
        """The images that nothing is trained or chosen on."""
        generator = self.settings.synthetic
        return ImagesOnDemand(lambda seed: make_image(generator, seed), self.test_seeds)

    def training_images(self, seed: int | None = None, keep: float = 1.0) -> SyntheticImages:
        """What methods learn from; ``keep`` is the share of the positives."""
        settings = self.settings
        chosen = settings.seed if seed is None else seed
        return SyntheticImages(
            settings.synthetic,
            settings.settings.training,
            chosen,
            keep,
            settings.training_images,
        )

    def learned_images(self) -> Iterator[Image]:
        """As many training images as there are test images, if there are so many."""
        return islice(self.training_images().disjoint(), self.learned_count)

    @property
    def learned_count(self) -> int:
        """How many those are."""
        return min(self.settings.images, self.settings.training_images)

    def machine(self) -> dict[str, str]:
        """What did the work, for the records."""
        return {"device": describe_device(self.device), "platform": platform.platform()}

    def fitted(self, key: str) -> Fitted:
        """The method, fitted now or taken from its weights."""
        self._ensure_there()
        if key == "latent":
            return Fitted(LatentDensity(), 0.0, {})
        if key == "bayes":
            method = BayesDensity(self.settings.bayes_redraws)
            return Fitted(method, 0.0, method.choices())
        if key == FLOW:
            network, facts = self.flow()
            flow = FlowMethod(network, self.settings.settings.sampling, self.device)
            return Fitted(flow, facts["seconds"], {**facts, **flow.choices()})
        if key == HEAD:
            network, facts = self.flow()
            head = HeadMethod(network, self.settings.settings.sampling, self.device)
            return Fitted(head, 0.0, facts)  # the seconds are the flow's
        baseline = BASELINES[key]()
        if isinstance(baseline, UNetBaseline):
            facts = self._fit_network(key, baseline)
        else:
            start = time.monotonic()
            baseline.fit(self.training_images(), self._effort(None))
            facts = {"seconds": time.monotonic() - start}
        method_of = BaselineMethod(baseline)
        return Fitted(method_of, facts["seconds"], {**facts, **method_of.choices()})

    def flow(
        self, seed: int | None = None, keep: float = 1.0
    ) -> tuple[VelocityNetwork, dict[str, Any]]:
        """GeoCFM's network, trained with a seed of its own and a share of the positives."""
        seed = self.settings.seed if seed is None else seed
        name = self.flow_name(seed, keep)
        what = "GeoCFM"
        if name != FLOW:
            what += f", {100 * keep:.0f} % of positives, seed {seed}"
        images = self.training_images(seed, keep)
        network = new_network(images.channels, self.settings.settings, seed)

        def load(path: Path) -> None:
            network.load_state_dict(safetensors.torch.load_file(path))

        def fit(training: Path) -> TrainingResult:
            first = new_network(images.channels, self.settings.settings, seed)
            network.load_state_dict(first.state_dict())  # damaged weights may have left their mark
            return fit_network(
                images.source,
                network,
                partial(flow_loss, density_weight=self.settings.settings.training.density_weight),
                self.settings.settings.training,
                seed,
                self.device,
                self.reporter,
                training,
                title=f"Training {what}",
            )

        def save(path: Path) -> None:
            with atomic_path(path) as temporary:
                temporary.write_bytes(safetensors.torch.save(network.state_dict()))

        facts = self._load_or_fit(name, load, fit, save)
        return network.to(self.device).eval().requires_grad_(False), facts

    def flow_name(self, seed: int, keep: float) -> str:
        """Of the weights of such a network."""
        standard = seed == self.settings.seed and keep == 1.0
        return FLOW if standard else f"{FLOW}-{100 * keep:.0f}-seed-{seed}"

    def has_weights(self, name: str) -> bool:
        """Whether a network was trained here with these very settings."""
        return self._facts(self._weights(name)) is not None

    def result(self, key: str) -> MethodResult | None:
        """The result of a method in the folder, if it is of these settings and these weights."""
        found = load_result(self.folder / METHODS_FOLDER, key, self.settings)
        return None if found is None or self.outdated(found) else found

    def outdated(self, result: MethodResult) -> bool:
        """Whether the network that was scored is not the one that is there."""
        return not self._is_current(network_of(result.key), result.method)

    def part(
        self, path: Path, measure: Callable[[], dict[str, Any]], network: str | None = None
    ) -> Part:
        """What a file holds of this very benchmark, or what is measured now and written to it.

        network: the name of the weights that it is measured with, if it is with any.
        """
        self._ensure_there()
        content = self._own(path)
        if content is not None and self._is_part(content, network):
            return Part(content["values"], content["made"])
        start = time.monotonic()
        found = measure()
        seconds = time.monotonic() - start  # with those of a training, if there was one
        made: dict[str, Any] = {"seconds": seconds}
        if network is not None:
            made["training"] = self._facts(self._weights(network))
        made |= {"versions": software_versions(), "machine": self.machine()}
        write_json(path, {"settings": self._dump, "made": made, "values": found})
        return Part(found, made)

    def _is_part(self, content: dict[str, Any], network: str | None) -> bool:
        """Whether it is whole, and measured with the weights that are there."""
        values, made = content.get("values"), content.get("made")
        if not isinstance(values, dict) or not isinstance(made, dict):
            return False
        if network is None:
            return True
        training = made.get("training")
        return isinstance(training, dict) and self._is_current(network, training)

    def _is_current(self, name: str, facts: dict[str, Any]) -> bool:
        """Whether these facts are of the network in the folder; without one, there is no other."""
        there = self._facts(self._weights(name))
        return there is None or facts.get(SHA256) == there[SHA256]

    def _fit_network(self, key: str, baseline: UNetBaseline) -> dict[str, Any]:
        def fit(training: Path) -> TrainingResult:
            baseline.fit(self.training_images(), self._effort(training))
            assert baseline.result is not None
            return baseline.result

        return self._load_or_fit(
            key, lambda path: baseline.load(path, self.device), fit, baseline.save
        )

    def _load_or_fit(
        self,
        name: str,
        load: Callable[[Path], None],
        fit: Callable[[Path], TrainingResult],
        save: Callable[[Path], None],
    ) -> dict[str, Any]:
        """Take a network's weights, or train it in a folder of its own; gives how that went."""
        path, training = self._weights(name), self.folder / TRAINING / name
        facts = self._facts(path)
        if facts is not None:
            try:
                load(path)
                return facts
            except DAMAGED:
                self.reporter.note(f"{path} is damaged; the network is trained again.")
        if self._own(training / FIT_FILE) is None:  # a state of another benchmark
            discard_state(training)
            write_json(training / FIT_FILE, {"settings": self._dump})
        result = fit(training)
        save(path)
        facts = {
            "seconds": result.seconds,
            "seconds_waiting_for_data": result.waited,
            "iterations": result.last.iteration,
            "best_iteration": result.best.iteration,
            "metrics": result.best.metrics,
        }
        # it means that the weights are done
        write_json(path.with_suffix(".json"), {"settings": self._dump, **facts})
        discard_state(training)  # the log stays
        return {**facts, SHA256: _sha256(path)}

    def _weights(self, name: str) -> Path:
        return self.folder / WEIGHTS / f"{name}.safetensors"

    def _facts(self, weights: Path) -> dict[str, Any] | None:
        """How weights came about; None if they are not there in full, or of other settings."""
        content = self._own(weights.with_suffix(".json"))
        if content is None or "seconds" not in content or not weights.exists():
            return None
        facts = {key: value for key, value in content.items() if key != "settings"}
        return {**facts, SHA256: _sha256(weights)}

    def _own(self, path: Path) -> dict[str, Any] | None:
        """What a JSON file holds, if it says that it comes of these very settings.

        A setting that it does not tell, since there was none, had its default.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            settings = BenchmarkSettings.model_validate(content["settings"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return content if settings.model_dump(mode="json") == self._dump else None

    @cached_property
    def _dump(self) -> dict[str, Any]:
        return self.settings.model_dump(mode="json")

    def _effort(self, folder: Path | None) -> Effort:
        settings = self.settings
        return Effort(settings.settings, settings.seed, self.device, self.reporter, folder)

    def _ensure_there(self) -> None:
        """Stop if the folder was taken away: what follows would be nobody's results."""
        if not (self.folder / SETTINGS_FILE).exists():
            raise Interrupted(
                f"{self.folder / SETTINGS_FILE} vanished while the benchmark was at work.",
                "Is the disk or the network drive still connected? Then run the command again.",
            )


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
