"""Targets: the areas of a map that are worth a look first, ranked, as polygons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.geo.grid import Floats, Grid, Window
from geocfm.geo.layers import open_raster
from geocfm.geo.occurrences import Occurrences
from geocfm.geo.rasters import Layer, Stack, layer_grid
from geocfm.geo.writing import write_polygons
from geocfm.inference.experience_map import OUTSIDE
from geocfm.inference.predictor import Predictor
from geocfm.inference.regional_map import UNIT, VARIATION
from geocfm.inference.superlevel import TRUNCATE
from geocfm.inference.targets import (
    CELLS_AT_ONCE,
    FEWEST_CELLS,
    Target,
    TargetRules,
    Targets,
    find_targets,
    in_km2,
)
from geocfm.job import TargetsJob
from geocfm.layer_spec import gdal_name
from geocfm.model.checkpoint import load_checkpoint
from geocfm.model.device import choose_device
from geocfm.run.apply import match_layers, warn_of_layers
from geocfm.run.inputs import given_layers, open_occurrences
from geocfm.run.needs import ensure_readable
from geocfm.run.provenance import TAG, Provenance, read_provenance
from geocfm.run.report_extras import AREA_SHARE, effects_of_layers
from geocfm.run.room import available_bytes, ensure_fits
from geocfm.run.workplace import Workplace

LAYER = "targets"
STRIP_CELL = 60  # bytes
SMALLER_MAP = "Cut the map to the part that matters, or give one of larger cells."
# bands of an uncertainty raster by their descriptions, and the fields that hold their means
FIELDS = {VARIATION: "uncertainty", OUTSIDE: "outside_experience"}
NOT_ASKED = (
    "Which layers matter in a target cannot be told: every window of this model has a density of "
    "its own, and the model does not say how windows compare. The field 'layers' stays empty."
)
MEANING = (
    "Connected areas of high relative density, learned from known occurrences: where to look "
    "first, no probability of a deposit. rank: by mass_share. area_km2. mass_share: share of the "
    "map's predicted mass, so of the occurrences expected in the mapped area. lift: mean density "
    "inside over that of the map. peak: highest density inside, 1 = mean of the map. uncertainty: "
    "mean coefficient of variation among the models of an ensemble. outside_experience: share of "
    "the area whose layers lie outside what training saw. nearest_known_km: from the outline to "
    "the nearest known occurrence, 0 if one lies inside. known_inside: known occurrences inside. "
    "layers: those that matter there. What was not asked for is null."
)


@dataclass(frozen=True)
class Opened:
    """What targets are made from. known: points (N, 2) as (column, row), also around the map."""

    density: Stack
    beside: Stack | None
    known: Floats | None
    warnings: list[str]

    @property
    def grid(self) -> Grid:
        """The map's grid."""
        return self.density.grid

    def known_sentence(self) -> str | None:
        """How many known occurrences there are, and where."""
        if self.known is None:
            return None
        inside = (self.known >= 0) & (self.known < [self.grid.width, self.grid.height])
        on_map = int(inside.all(axis=1).sum())
        around = len(self.known) - on_map
        beyond = f", and {around:,} around it, which count for distances" if around else ""
        return f"Known occurrences on the map: {on_map:,}{beyond}."


@contextmanager
def opened(job: TargetsJob) -> Iterator[Opened]:
    """Open all that the job names; what does not fit is refused."""
    if job.area_share is not None and job.threshold is not None:
        raise UserError("--area-share and --threshold are both given.", "Give one of them.")
    if job.checkpoint is not None and not job.raster:
        raise UserError(
            "The layers that matter are told from the map's model and its layers together.",
            "Give the layers as well (--raster), or leave out --checkpoint.",
        )
    if job.exclude is not None and job.occurrences is None:
        raise UserError(
            "--exclude needs to know where occurrences are known.", "Give --occurrences as well."
        )
    warnings = []
    layer = Layer("map", gdal_name(job.map), 1)
    grid = layer_grid(layer)
    ensure_readable(grid, SMALLER_MAP)
    ensure_fits(_strip_bytes(grid, job.smooth), available_bytes(), "Ranking the map", SMALLER_MAP)
    if not _is_our_map(job.map):
        warnings.append(
            f"'{job.map}' does not say that 'geocfm map' made it; its values are taken for a "
            "density, and divided by their mean."
        )
    known = None
    if job.occurrences is not None:
        known, said = _known(job, grid)
        warnings += said
    elif _filters(job):
        warnings.append(f"Without --occurrences this is not used: {_filters(job)}.")
    with ExitStack() as files:
        density = files.enter_context(Stack([layer], grid))
        beside = None
        if job.uncertainty is not None:
            beside = files.enter_context(Stack(_uncertainty_layers(job.uncertainty), grid))
        yield Opened(density, beside, known, warnings)


def _strip_bytes(grid: Grid, smooth: float) -> int:
    """Memory of a strip of the map with what lies around it."""
    rows = max(1, CELLS_AT_ONCE // grid.width) + 2 * int(TRUNCATE * smooth + 0.5)
    return min(rows, grid.height) * grid.width * STRIP_CELL


def _is_our_map(path: Path) -> bool:
    """Whether it says that it is a map of ours; what is not, may have but one band."""
    with open_raster(gdal_name(path)) as raster:
        if raster.units and raster.units[0] == UNIT and read_provenance(path) is not None:
            return True
        if raster.count != 1:
            raise UserError(
                f"'{path}' has {raster.count} bands, and does not say that 'geocfm map' made it.",
                "Give a map made by 'geocfm map', or a raster of density with one band.",
            )
    return False


def _uncertainty_layers(path: Path) -> list[Layer]:
    """The bands that are averaged in targets, under the names of the fields."""
    with open_raster(gdal_name(path)) as raster:
        described = {
            (text or "").strip().lower(): i for i, text in enumerate(raster.descriptions, 1)
        }
    if not FIELDS.keys() & described.keys():
        raise UserError(
            f"'{path}' has no band that is called '{VARIATION}' or '{OUTSIDE}'.",
            "Give a raster made by 'geocfm map --uncertainty'.",
        )
    return [
        Layer(FIELDS[name], gdal_name(path), described[name])
        for name in FIELDS
        if name in described
    ]


def _known(job: TargetsJob, grid: Grid) -> tuple[Floats, tuple[str, ...]]:
    """Occurrences on the map and around it, and doubts about them.

    Around: as far as the map is long and wide, so that none that is left out is the nearest to a
    cell of the map if one lies on it.
    """
    margin = grid.height + grid.width
    around = Window(-margin, -margin, grid.height + 2 * margin, grid.width + 2 * margin)
    try:
        found: Occurrences = open_occurrences(job, grid.subgrid(around), job.where)
    except UserError:
        found, margin = open_occurrences(job, grid, job.where), 0  # says where the map itself lies
    return found.points - margin, found.warnings


def _filters(job: TargetsJob) -> str:
    """Options that say something of occurrences."""
    given = {
        "--where": job.where,
        "--layer": job.layer,
        "--x-column": job.x_column,
        "--y-column": job.y_column,
        "--occurrences-crs": job.occurrences_crs,
        "--deduplicate": job.deduplicate,
    }
    return ", ".join(option for option, value in given.items() if value)


def run_targets(job: TargetsJob, place: Workplace, reporter: Reporter) -> None:
    """Ranked polygons in a GeoPackage."""
    rules = TargetRules(
        number=job.number,
        area_share=AREA_SHARE if job.area_share is None else job.area_share,
        threshold=job.threshold,
        minimum_km2=job.minimum_area,
        exclude_km=job.exclude,
        smooth=job.smooth,
    )
    with opened(job) as work:
        for sentence in work.warnings:
            reporter.warn(sentence)
        reporter.note(f"The map has {work.grid.describe()}.")
        known = work.known_sentence()
        if known is not None:
            reporter.note(known)
        found = find_targets(work.density, rules, work.known, work.beside, reporter)
        layers = _layers_that_matter(job, found.targets, work.grid, reporter)
        write_targets(
            place.folder / "targets.gpkg", work.grid, found.targets, place.provenance, layers
        )
    place.deliver("targets.gpkg", job.out)
    for sentence in _sentences(found, rules):
        reporter.note(sentence)
    reporter.report(
        "targets",
        {
            "mapped_km2": found.mapped_km2,
            "threshold": found.level,
            "left_out": found.left_out,
            "too_small": found.too_small,
            "targets": [target_fields(target, layers.get(target.rank)) for target in found.targets],
        },
    )
    reporter.wrote("targets", job.out, f"{_count(len(found.targets))}, best first")


def _layers_that_matter(
    job: TargetsJob, targets: list[Target], grid: Grid, reporter: Reporter
) -> dict[int, str]:
    """By rank, the layers that raise the density there; nothing without a model that can tell."""
    if job.checkpoint is None:
        return {}
    device = choose_device("auto")
    checkpoint = load_checkpoint(job.checkpoint, device)
    layers, _ = match_layers(checkpoint.card, given_layers(job))
    if not checkpoint.card.settings.is_local:
        reporter.warn(NOT_ASKED)
        return {}
    with Stack(layers, grid) as stack:
        predictor = Predictor(checkpoint, stack, checkpoint.card.settings.sampling, device)
        warn_of_layers(predictor, None, reporter)
        return effects_of_layers(predictor, targets, grid, reporter)


def target_fields(target: Target, layers: str | None = None) -> dict[str, Any]:
    """What is told of a target, but for its outline. layers: those that matter there, in words."""
    return {
        "rank": target.rank,
        "area_km2": target.area_km2,
        "mass_share": target.mass_share,
        "lift": target.lift,
        "peak": target.peak,
        **{field: target.means.get(field) for field in FIELDS.values()},
        "nearest_known_km": target.nearest_known_km,
        "known_inside": target.known_inside,
        "layers": layers,
    }


def write_targets(
    path: Path,
    grid: Grid,
    targets: list[Target],
    provenance: Provenance,
    layers: Mapping[int, str] | None = None,
) -> None:
    """Write a GeoPackage of targets. layers: by rank, the layers that matter there, in words."""
    rows = [target_fields(target, (layers or {}).get(target.rank)) for target in targets]
    kinds: dict[str, Any] = {"rank": np.int32, "known_inside": np.int32, "layers": object}
    columns = {
        name: _column([row[name] for row in rows], kinds.get(name, np.float64)) for name in rows[0]
    }
    write_polygons(
        path,
        grid,
        [target.outline for target in targets],
        columns,
        layer=LAYER,
        description=MEANING,
        metadata={"GEOCFM_MEANING": MEANING, TAG: provenance.model_dump_json()},
    )


def _column(values: list[Any], kind: Any) -> NDArray[Any]:
    """An array that hides what is None."""
    missing = [value is None for value in values]
    filled = [("" if kind is object else 0) if value is None else value for value in values]
    return np.ma.masked_array(np.array(filled, dtype=kind), missing)


def _sentences(found: Targets, rules: TargetRules) -> list[str]:
    """What the targets are, and what the best are worth."""
    best, *_ = found.targets
    count = len(found.targets)
    level = f"Targets are where the relative density is at least {found.level:.3g}"
    if rules.threshold is None:
        level += f", the best {100 * rules.area_share:.3g} % of the area"
    said = [f"{level}{', smoothed' if rules.smooth else ''}."]
    lesser = [f"{found.left_out:,} of lower rank"] if found.left_out else []
    if found.too_small:
        least = f"{FEWEST_CELLS} cells" if rules.minimum_km2 is None else in_km2(rules.minimum_km2)
        lesser.append(f"{found.too_small:,} smaller than {least}")
    if lesser:
        said.append(f"Other such areas are left out: {', '.join(lesser)}.")
    share = best.area_km2 / found.mapped_km2
    text = (
        f"The best target has {in_km2(best.area_km2)} and {best.lift:.3g} times the mean density: "
        f"{_percent(best.mass_share)} of the predicted mass in {_percent(share)} of the area"
    )
    if count > 1:
        mass = sum(target.mass_share for target in found.targets)
        area = sum(target.area_km2 for target in found.targets) / found.mapped_km2
        text += f"; all {count} together {_percent(mass)} in {_percent(area)}"
    return [*said, f"{text}."]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _count(number: int) -> str:
    return f"{number} {'target' if number == 1 else 'targets'}"
