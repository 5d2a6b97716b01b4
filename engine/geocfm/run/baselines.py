"""Baselines beside a model's evaluation: fitted, mapped and measured on its own tiles."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from geocfm.data.image import Image
from geocfm.data.region import Region
from geocfm.errors import UserError
from geocfm.evaluation.baselines import BASELINES, Effort
from geocfm.evaluation.baselines.networks import UNetBaseline
from geocfm.evaluation.benchmark.flow_method import FlowView, head_view
from geocfm.evaluation.benchmark.methods import HEAD, title_of
from geocfm.evaluation.capture import CaptureCurve
from geocfm.evaluation.comparison import (
    FEW_TILES,
    Captured,
    Difference,
    held_out_captured,
    held_out_difference,
    shared_confidence,
)
from geocfm.evaluation.evaluate import Evaluation, evaluate_map
from geocfm.evaluation.metrics import pixel_log_density
from geocfm.evaluation.region_baselines import BaselineDensities, RegionImages
from geocfm.evaluation.window_likelihood import MASS_POINTS, LogDensity, likelihoods
from geocfm.events import Reporter
from geocfm.inference.flow_sampler import FlowSampler
from geocfm.inference.parts import Arrays, Parts
from geocfm.inference.regional_map import write_raw_map
from geocfm.inference.windowed_map import BlendedWindows
from geocfm.model.checkpoint import ModelCard
from geocfm.model.settings import Settings
from geocfm.run.learn import describe_budget
from geocfm.run.needs import ensure_baselines_fit
from geocfm.run.report_baselines import BASELINE_PARTS, Compared
from geocfm.run.workplace import Workplace

ROLES = ("test", "validation", "train")
SHARE = 0.1  # of the area, at which methods are compared


@dataclass(frozen=True)
class BaselineResult:
    """What a baseline's map is worth, on the same tiles as the model's."""

    title: str
    evaluation: Evaluation
    seconds: float
    settings: dict[str, object]
    within_windows: dict[str, dict[str, Any]]  # likelihoods by role; empty if not asked for

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        curves = {role: getattr(self.evaluation, role).to_dict() for role in ROLES}
        within = {"within_windows": self.within_windows} if self.within_windows else {}
        about = {"seconds": round(self.seconds, 1), "settings": self.settings}
        return {"title": self.title, **curves, **within, **about}

    def to_arrays(self) -> Arrays:
        """To be kept on disk."""
        found: Arrays = {"densities": self.evaluation.densities}
        for role in ROLES:
            curve = getattr(self.evaluation, role)
            found[f"{role}_area"], found[f"{role}_occurrences"] = curve.area, curve.occurrences
        about = {
            "title": self.title,
            "seconds": self.seconds,
            "settings": self.settings,
            "within_windows": self.within_windows,
        }
        return {**found, "about": np.array(json.dumps(about))}

    @classmethod
    def from_arrays(cls, found: Arrays) -> BaselineResult:
        """As it was kept."""
        test, validation, train = (
            CaptureCurve(found[f"{role}_area"], found[f"{role}_occurrences"]) for role in ROLES
        )
        missed = int(np.isnan(found["densities"]).sum())
        evaluation = Evaluation(test, validation, train, missed, found["densities"])
        return cls(evaluation=evaluation, **json.loads(str(found["about"])))

    @classmethod
    def kept(cls, found: Arrays | None) -> BaselineResult | None:
        """As it was kept, unless there is none or another version kept it."""
        try:
            return None if found is None else cls.from_arrays(found)
        except (TypeError, KeyError):
            return None


@dataclass(frozen=True)
class Beside:
    """Baselines beside the model: what each is worth, and the model's capture less theirs."""

    model: Evaluation
    within_windows: dict[str, dict[str, Any]]  # the model's likelihoods by role
    head_within_windows: dict[str, dict[str, Any]]  # those of its density head, if it has one
    results: dict[str, BaselineResult]
    gaps: dict[str, Difference]  # empty without held-out occurrences
    captured: dict[str, Captured]  # by each baseline; likewise

    def to_dict(self) -> dict[str, object]:
        """For the JSON file."""
        found = {name: result.to_dict() for name, result in self.results.items()}
        for name, gap in self.gaps.items():
            found[name][f"geocfm_less_this_at_{SHARE:g}"] = gap.to_dict()
        for name, captured in self.captured.items():
            found[name][f"held_out_captured_at_{SHARE:g}"] = captured.to_dict()
        likelihoods = {
            "within_windows": self.within_windows,
            "head_within_windows": self.head_within_windows,
        }
        told = {name: by_role for name, by_role in likelihoods.items() if by_role}
        return {**told, "baselines": found}

    def held_out_curves(self) -> dict[str, CaptureCurve]:
        """The curves of the test tiles by title."""
        return {result.title: result.evaluation.test for result in self.results.values()}

    def sentences(self) -> list[str]:
        """What each captured, and whether the deep model earned its keep."""
        if not self.gaps:
            return []
        own = self.model.test
        said = [
            f"{title}: {100 * curve.captured(SHARE):.0f} % of the {curve.count} held-out "
            f"occurrences in {100 * SHARE:.0f} % of the area (GeoCFM: "
            f"{100 * own.captured(SHARE):.0f} %); area under the curve {curve.under_curve():.2f} "
            f"(GeoCFM: {own.under_curve():.2f})."
            for title, curve in self.held_out_curves().items()
        ]
        best = min(self.gaps, key=lambda name: self.gaps[name].difference)
        verdict = _verdict(self.results[best].title, self.gaps[best], len(self.gaps))
        return [*said, *self._likelihood_sentence(), verdict]

    def _likelihood_sentence(self) -> list[str]:
        """Where in a held-out window occurrences lie, whatever the windows are worth."""
        own = self.within_windows.get("test")
        if own is None:
            return []
        others = ", ".join(
            f"{result.title} {result.within_windows['test']['nll']:.2f}"
            for result in self.results.values()
            if "test" in result.within_windows
        )
        left_out = ""
        if own["windows_left_out"]:
            left_out = (
                f" {own['windows_left_out']} windows, where GeoCFM has no mass, do not count."
            )
        head = self.head_within_windows.get("test")
        by_head = f" (its density head {head['nll']:.2f})" if head else ""
        return [
            f"Within held-out windows, nats per occurrence (less is better): GeoCFM "
            f"{own['nll']:.2f}{by_head}, {others}; chance {own['even']:.2f}.{left_out}"
        ]


@dataclass(frozen=True)
class BaselineWork:
    """Everything that fitting and mapping baselines on a model's region needs."""

    names: Sequence[str]
    card: ModelCard
    region: Region
    iterations: int | None  # that the model really did, if that is known
    seed: int
    device: torch.device
    place: Workplace
    samplers: Sequence[FlowSampler]  # the model's networks at work
    within_windows: bool  # whether likelihoods are told too, which takes a flow minutes

    def beside(self, model: Evaluation, reporter: Reporter) -> Beside:
        """All baselines, compared with the model."""
        points, split = self.region.occurrences.points, self.region.split
        results = self._results(reporter)
        gaps = {
            name: held_out_difference(
                model, result.evaluation, points, split, SHARE, shared_confidence(len(results))
            )
            for name, result in results.items()
        }
        captured = {
            name: held_out_captured(result.evaluation, points, split, SHARE)
            for name, result in results.items()
        }
        return Beside(
            model,
            self._within_windows("GeoCFM", self._of_the_flow, reporter),
            self._within_windows(title_of(HEAD), self._of_the_head, reporter)
            if self.card.settings.network.density
            else {},
            results,
            {name: gap for name, gap in gaps.items() if gap},
            {name: share for name, share in captured.items() if share},
        )

    def _results(self, reporter: Reporter) -> dict[str, BaselineResult]:
        """One after the other; those that an interrupted run has finished are not redone."""
        kept = Parts(self.place.folder / BASELINE_PARTS)
        found = {}
        for name in self.names:
            result = BaselineResult.kept(kept.load(name))
            if result is None:
                result = self._measure(name, reporter)
                kept.save(name, **result.to_arrays())
                self.place.discard_part(name)
            found[name] = result
        return found

    def _measure(self, name: str, reporter: Reporter) -> BaselineResult:
        begun = time.monotonic()
        baseline = BASELINES[name]()
        settings: dict[str, object] = {"seed": self.seed}
        learning = settings_to_learn_by(self.card, self.iterations)
        if isinstance(baseline, UNetBaseline):
            spent = describe_budget(learning)
            reporter.note(f"{baseline.title} learns with the model's own settings, for {spent}.")
        effort = Effort(learning, self.seed, self.device, reporter, self._folder(name))
        images = RegionImages(self.region, self.card, self.seed, reporter, baseline.title)
        baseline.fit(images, effort)
        if isinstance(baseline, UNetBaseline) and baseline.result is not None:
            done = baseline.result.last.iteration
            settings["iterations"] = done
            reporter.note(
                f"{baseline.title} did {done:,} iterations; the model's weights are those of its "
                f"iteration {self.card.iterations:,}."
            )
        settings |= baseline.settings()
        raw = write_raw_map(
            self._folder(name) / "raw.tif",
            BlendedWindows(BaselineDensities(baseline, self.region)),
            None,
            Parts(self._folder(name) / "strips"),
            reporter.stage(f"Mapping {baseline.title}"),
        )
        grid, points = self.region.grid, self.region.occurrences.points
        evaluation = evaluate_map(raw, grid, points, self.region.split, grid)
        within = self._within_windows(
            baseline.title,
            lambda image: pixel_log_density(baseline.density(image), image.points),
            reporter,
        )
        seconds = time.monotonic() - begun
        return BaselineResult(baseline.title, evaluation, seconds, settings, within)

    def _within_windows(
        self, title: str, log_density: LogDensity, reporter: Reporter
    ) -> dict[str, dict[str, Any]]:
        """Likelihoods by role, in windows of the model's size."""
        if not self.within_windows:
            return {}
        stage = reporter.stage(f"Likelihood of {title}")
        found = likelihoods(self.region, log_density, stage)
        return {role: one.to_dict() for role, one in found.items()}

    def _of_the_flow(self, image: Image) -> NDArray[np.float64]:
        """The model's exact log density at the occurrences of an image: its networks' mean."""
        logs = [
            FlowView(sampler, image, MASS_POINTS).log_density(image.points)
            for sampler in self.samplers
        ]
        return np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))

    def _of_the_head(self, image: Image) -> NDArray[np.float64]:
        """The same of the networks' density heads."""
        densities = [head_view(sampler, image).density() for sampler in self.samplers]
        return pixel_log_density(np.mean(densities, axis=0), image.points)

    def _folder(self, name: str) -> Path:
        return self.place.folder / name


def prepare_baselines(
    names: Sequence[str], compared: Compared, seed: int, within_windows: bool, place: Workplace
) -> BaselineWork:
    """Look at the region as the model did; what stands in the way is said before any work."""
    card, device, points = compared.card, compared.device, compared.occurrences.points
    networks = any(issubclass(BASELINES[name], UNetBaseline) for name in names)
    ensure_baselines_fit(card, compared.grid, points, networks, device)
    region = compared.region()
    if not region.points_by_role()["train"]:
        raise UserError(
            "No occurrence lies on the model's training tiles, so baselines have nothing to learn.",
            "Give the occurrences that the model was trained with, or leave out --baselines.",
        )
    iterations = iterations_done(card, compared.log)
    samplers = [member.sampler for member in compared.predictor.members]
    return BaselineWork(
        *(names, card, region, iterations, seed, device, place, samplers, within_windows)
    )


def iterations_done(card: ModelCard, log: Path) -> int | None:
    """How many iterations the model's training had, not only up to its best; None if unknown.

    The card tells the best one. The last is in the log that training leaves beside the model.
    """
    try:
        first, *lines = log.read_text(encoding="utf-8").splitlines()
        if json.loads(first)["provenance"] != card.provenance:  # the log of another run
            return None
        return int(json.loads(lines[-1])["iteration"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def settings_to_learn_by(card: ModelCard, iterations: int | None) -> Settings:
    """The model's, with as many iterations as it did: a clock would tell of the computer."""
    if iterations is None:
        return card.settings
    budget = {"iterations": iterations, "minutes": None}
    training = card.settings.training.model_copy(update=budget)
    return card.settings.model_copy(update={"training": training})


def _verdict(title: str, gap: Difference, comparisons: int) -> str:
    points = f"{100 * abs(gap.difference):.0f} points"
    tiles = f"{gap.tiles} {'tile' if gap.tiles == 1 else 'tiles'}"
    seen = f"the {gap.occurrences} held-out occurrences on {tiles}"
    together = f" for all {comparisons} comparisons together" if comparisons > 1 else ""
    interval = (
        f"GeoCFM's lead, 95 % interval{together}: {100 * gap.low:+.0f} to "
        f"{100 * gap.high:+.0f} points"
    )
    if gap.low > 0:
        return (
            f"GeoCFM earned its keep: of {seen} it captures {points} more than {title}, the best "
            f"of the others ({interval})."
        )
    if gap.high < 0:
        return (
            f"GeoCFM did not earn its keep: of {seen} {title} captures {points} more "
            f"({interval}). Here {title} is the better choice."
        )
    if gap.difference > 0:
        ahead = f"GeoCFM is {points} ahead of {title}, the best of the others"
    elif gap.difference < 0:
        ahead = f"{title} is {points} ahead of GeoCFM"
    else:
        ahead = f"GeoCFM and {title}, the best of the others, are level"
    told = f" ({interval})" if gap.tiles >= FEW_TILES else ""
    return (
        f"Whether GeoCFM earned its keep cannot be told: {ahead}, but {seen} are too few to tell "
        f"that from chance{told}."
    )
