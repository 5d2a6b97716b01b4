"""What each change to the paper's recipe is worth: the same network, the same minutes.

Every recipe is a benchmark of its own in a folder of its own, scored on the validation images, so
that the recipe is not chosen on the images it is reported on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from geocfm.data.synthetic import VALIDATION_SEEDS
from geocfm.evaluation.benchmark.bench import FLOW, Bench
from geocfm.evaluation.benchmark.methods import ORACLES
from geocfm.evaluation.benchmark.paper import METRICS
from geocfm.evaluation.benchmark.protocol import ensure_same
from geocfm.evaluation.benchmark.result_files import MethodResult
from geocfm.evaluation.benchmark.synthetic import missing_notes, run_methods
from geocfm.evaluation.benchmark.tables import (
    NOTHING,
    Cell,
    Group,
    Row,
    Table,
    counted,
    over_images,
)
from geocfm.model.settings import Settings, change_settings

Changes = dict[str, str]

FULL_RESOLUTION: Changes = {"network.stem": "1", "network.width": "16", "network.depth": "3"}
PAPER: Changes = {
    **FULL_RESOLUTION,
    "network.head_width": "128",
    "network.head_depth": "2",
    "network.anchor": "0",
    "network.density": "false",
    "network.norm": "group",
    "network.coordinates": "unit",
    "network.context": "none",
    "training.optimiser": "adamw",
    "training.learning_rate": "3e-4",
    "training.weight_decay": "1e-4",
    "training.warm_up": "0",
    "training.ema": "0",
    "training.points_per_step": "0",
    "sampling.solver": "euler",
    "sampling.steps": "50",
    "sampling.lateness": "0",
    "sampling.noise": "independent",
    "sampling.outside": "clip",
}
"""From ours to the paper's recipe, on a UNet with the same field of view and half the width: at the
image's resolution ours would do few steps in these minutes."""

CENTRED: Changes = {"network.coordinates": "centred", "sampling.outside": "reject"}
POOLED: Changes = {"network.context": "pooled"}
STEM: Changes = {"network.stem": "4", "network.width": "32", "network.depth": "2"}
OPTIMISER: Changes = {
    "training.learning_rate": "1e-3",
    "training.weight_decay": "1e-2",
    "training.warm_up": "0.03",
    "training.ema": "0.998",
}
MUON: Changes = {"training.optimiser": "muon", "training.learning_rate": "1e-3"}
DENSITY: Changes = {"network.density": "true", "network.norm": "position"}
ANCHOR: Changes = {**DENSITY, **CENTRED, "network.anchor": "1", "sampling.lateness": "2"}


@dataclass(frozen=True)
class Recipe:
    """A row: what is changed of the paper's recipe, or of ours."""

    title: str
    changes: Changes
    ours: bool = False  # what the changes start from

    def settings(self, chosen: Settings) -> Settings:
        """The benchmark's settings, changed."""
        before = {} if self.ours else PAPER
        return change_settings(chosen, {**before, **self.changes})


RECIPES: dict[str, Recipe] = {
    "paper": Recipe("the paper's", {}),
    "centred": Recipe("+ centred coordinates", CENTRED),
    "pooled": Recipe("+ mean features for the head", POOLED),
    "stem": Recipe("+ features of 4 x 4 pixels, twice as wide", STEM),
    "optimiser": Recipe("+ faster rate, warm-up, averaged weights", OPTIMISER),
    "muon": Recipe("+ Muon", MUON),
    "repeats": Recipe("+ noise drawn four times per point", {"training.points_per_step": "8000"}),
    "even": Recipe("+ even noise and times", {"training.noise": "even"}),
    "late": Recipe("+ more times near 1", {"training.late_times": "2"}),
    "transport": Recipe("+ optimal transport within images", {"training.coupling": "transport"}),
    "film": Recipe("+ mean features scale and shift the head", {"network.context": "film"}),
    "attention": Recipe("+ attention for the head", {"network.context": "attention"}),
    "levels": Recipe("+ features of all levels for the head", {"network.levels": "all"}),
    "density": Recipe("+ density head", DENSITY),
    "anchor": Recipe("+ density head that anchors the flow (and centred)", ANCHOR),
    "ours": Recipe("all together: ours", {}, ours=True),
    "no-stem": Recipe("features at the image's resolution", FULL_RESOLUTION, ours=True),
    "half": Recipe("features of 2 x 2 pixels", {**FULL_RESOLUTION, "network.stem": "2"}, ours=True),
    "no-muon": Recipe("AdamW instead of Muon", {"training.optimiser": "adamw"}, ours=True),
    "no-average": Recipe("without averaged weights", {"training.ema": "0"}, ours=True),
    "no-pooled": Recipe("without mean features", {"network.context": "none"}, ours=True),
    "no-anchor": Recipe("density head, flow not anchored", {"network.anchor": "0"}, ours=True),
    "coarse-anchor": Recipe("anchor on cells of 4 px", {"network.anchor": "4"}, ours=True),
    "wide-base": Recipe(
        "base as narrow as the deposits: 4 flow units", {"network.scale": "4"}, ours=True
    ),
    "weight": Recipe("density loss weighs 0.1", {"training.density_weight": "0.1"}, ours=True),
    "with-levels": Recipe(
        "features of all levels for the flow's head", {"network.levels": "all"}, ours=True
    ),
    "with-attention": Recipe(
        "attention for the flow's head", {"network.context": "attention"}, ours=True
    ),
    "with-even": Recipe("even noise and times in training", {"training.noise": "even"}, ours=True),
}


def recipe_bench(bench: Bench, folder: Path, key: str) -> Bench:
    """The benchmark of one recipe, in its own folder."""
    settings = bench.settings.model_copy(
        update={
            "settings": RECIPES[key].settings(bench.settings.settings),
            "scored_on": "validation",
            "images": min(bench.settings.images, len(VALIDATION_SEEDS)),
        }
    )
    return replace(bench, folder=folder / key, settings=settings)


def run_recipes(
    bench: Bench, folder: Path, keys: Sequence[str]
) -> tuple[Table, dict[str, MethodResult]]:
    """Train and score what is not there yet; the table of all recipes that are there."""
    minutes = counted(bench.settings.minutes, "minute")
    bench.reporter.note(
        f"{len(keys)} recipes are trained for {minutes} each, but for those that are there already."
    )
    results: dict[str, MethodResult] = {}
    benches = {key: recipe_bench(bench, folder, key) for key in RECIPES}
    for key, own in benches.items():
        if key in keys:
            bench.reporter.note(f"Recipe {key}: {RECIPES[key].title}.")
            ensure_same(own.settings, own.folder)
            results[key] = run_methods(own, [FLOW])[FLOW]
        elif (there := own.result(FLOW)) is not None:
            results[key] = there
    first = benches[next(iter(results))]
    oracles = run_methods(first, ORACLES)
    groups = [
        Group(title, tuple(_row(RECIPES[key].title, results[key]) for key in shown))
        for title, shown in (
            ("the paper's recipe, and single changes to it", _of(results, ours=False)),
            ("ours, and single changes to it", _of(results, ours=True)),
        )
        if shown
    ]
    groups.append(Group("oracles", tuple(_row(r.title, r) for r in oracles.values())))
    settings = first.settings
    notes = [
        f"Mean ± standard error over {settings.images} validation images of {settings.size} px, "
        f"{settings.draws} draws each; every recipe trained for {minutes} with seed "
        f"{settings.seed} from preset {settings.preset}.",
    ]
    for key, result in results.items():
        notes += missing_notes(RECIPES[key].title, result.values, METRICS)
    headings = ("recipe", "iterations", *(metric.heading for metric in METRICS))
    return Table("Recipes", headings, tuple(groups), tuple(notes)), results


def _of(results: dict[str, MethodResult], *, ours: bool) -> list[str]:
    return [key for key in results if RECIPES[key].ours == ours]


def _row(title: str, result: MethodResult) -> Row:
    iterations = str(result.method["iterations"]) if result.key == FLOW else NOTHING
    values = (over_images(result.values[metric.key]).text(metric.digits) for metric in METRICS)
    return Row(title, (Cell(iterations), *map(Cell, values)))
