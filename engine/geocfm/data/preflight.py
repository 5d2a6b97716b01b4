"""The pre-flight report: what there is, what will be done, and what makes training impossible."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from geocfm.data.region import Region
from geocfm.data.scan import MOST_CLASSES
from geocfm.data.split import ROLES
from geocfm.model.checkpoint import EffortCard
from geocfm.model.settings import SMALLEST_WINDOW

FEWEST_OCCURRENCES = 3  # one for each of training, validation and test
LITTLE_COVERAGE = 0.5  # of the area where some layer has data
FEW_TO_LEARN_FROM = 20
NO_EFFORT = (
    "No survey effort is given (--effort): the model learns where occurrences were found, which is "
    "also where people have looked."
)
LEFT_OUT = {  # of the occurrences, by the name of their count
    "without_geometry": "without a location",
    "filtered_out": "left out by the filter",
    "outside": "outside the grid",
    "duplicates": "in a cell that already had one",
    "on_no_data": "where no layer has data",
}


@dataclass(frozen=True)
class LayerReport:
    """One layer on the grid."""

    name: str
    alignment: str
    coverage: float
    infinite_cells: int
    constant: bool
    filler: float | None  # a value that seems to stand for no data
    codes: int  # different values of a continuous layer that look like codes of classes
    coloured: bool
    classes: int
    fractional: bool


@dataclass(frozen=True)
class Preflight:
    """Facts as data, and the same in sentences."""

    grid: str
    layers: list[LayerReport]
    occurrences: dict[str, int]
    by_role: dict[str, int]
    window: dict[str, int]
    windows: dict[str, int]
    effort: EffortCard | None
    sentences: list[str]
    warnings: list[str]
    problems: list[str]

    def to_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        effort = None if self.effort is None else self.effort.model_dump(mode="json")
        return {**asdict(self), "effort": effort, "can_train": not self.problems}


def inspect_region(region: Region) -> Preflight:
    """Look at a prepared region and say what a geologist should know before training."""
    layers = _layers(region)
    counts = _occurrence_counts(region)
    by_role = region.points_by_role()
    with_points = {role: len(region.starts[role]) for role in ROLES}
    footprint = region.scan.footprint_cells.sum() / (region.grid.height * region.grid.width)
    sentences = [f"The grid has {region.grid.describe()}."]
    sentences += [
        f"{layer.alignment}; {100 * layer.coverage:.0f} % of the cells have data."
        for layer in layers
    ]
    sentences.append(_occurrence_sentence(counts))
    sentences += [NO_EFFORT] if region.effort is None else region.effort.sentences()
    sentences.append(region.plan.sentence)
    sentences.append(
        "Windows with occurrences (occurrences on those tiles): "
        + ", ".join(f"{role} {with_points[role]} ({by_role[role]})" for role in ROLES)
        + "."
    )
    return Preflight(
        grid=region.grid.describe(),
        layers=layers,
        occurrences=counts,
        by_role=by_role,
        window={"size": region.plan.size, "stride": region.plan.stride, "tile": region.plan.tile},
        windows=with_points,
        effort=None if region.effort is None else region.effort.card,
        sentences=sentences,
        warnings=[
            *region.occurrences.warnings,
            *_warnings(layers, footprint, counts, with_points),
            *_effort_warnings(region),
        ],
        problems=_problems(region, layers, counts, with_points),
    )


def _layers(region: Region) -> list[LayerReport]:
    coverage = region.scan.coverage(region.grid)
    return [
        LayerReport(
            name=card.name,
            alignment=alignment.sentence,
            coverage=float(coverage[number]),
            infinite_cells=int(region.scan.infinite[number]),
            constant=bool(not card.categorical and card.std == 0 and coverage[number] > 0),
            filler=None if card.categorical else region.scan.filler(number),
            codes=region.scan.oddities[number].count_codes(),
            coloured=layer.coloured and not layer.categorical,
            classes=len(region.scan.classes[number]),
            fractional=bool(region.scan.fractional[number]),
        )
        for number, (layer, card, alignment) in enumerate(
            zip(region.stack.layers, region.layer_cards, region.stack.alignments, strict=True)
        )
    ]


def _occurrence_counts(region: Region) -> dict[str, int]:
    counts = asdict(region.occurrences.counts)
    on_nodata = len(region.occurrences.points) - len(region.points)
    return {**counts, "on_no_data": on_nodata, "used": len(region.points)}


def _occurrence_sentence(counts: dict[str, int]) -> str:
    said = [f"{counts[key]} {words}" for key, words in LEFT_OUT.items() if counts[key]]
    away = f" ({', '.join(said)})" if said else ""
    verb = "is" if counts["used"] == 1 else "are"
    return f"Of {_occurrences(counts['read'])} {counts['used']} {verb} used{away}."


def _occurrences(count: int) -> str:
    return "1 occurrence" if count == 1 else f"{count} occurrences"


def _warnings(
    layers: list[LayerReport], footprint: float, counts: dict[str, int], windows: dict[str, int]
) -> list[str]:
    found = []
    for layer in layers:
        if layer.constant:
            found.append(
                f"Layer {layer.name} has the same value everywhere: it teaches nothing and can be "
                "left out."
            )
        if layer.filler is not None:
            found.append(
                f"Layer {layer.name} has values of {layer.filler:g}, far from all others: probably "
                "a no-data value that the file does not declare. Set it in the file (QGIS: Export, "
                "No data values)."
            )
        if layer.coloured:
            found.append(
                f"Layer {layer.name} has a table of colours, as maps of classes do: if its values "
                f"are codes, give --classes {layer.name}."
            )
        elif layer.codes:
            found.append(
                f"Layer {layer.name} holds {layer.codes} different whole numbers: if they are "
                f"codes, give --classes {layer.name}."
            )
        if layer.classes > MOST_CLASSES:
            found.append(
                f"Layer {layer.name} has {layer.classes} classes; the {MOST_CLASSES} most frequent "
                "get a channel, the others none. Group them first to keep all."
            )
        if layer.infinite_cells:
            found.append(
                f"Layer {layer.name} has 1 infinite value; it counts as no-data."
                if layer.infinite_cells == 1
                else f"Layer {layer.name} has {layer.infinite_cells} infinite values; "
                "they count as no-data."
            )
        if 0 < layer.coverage < LITTLE_COVERAGE * footprint:
            found.append(
                f"Layer {layer.name} covers only {100 * layer.coverage:.0f} % of the grid."
            )
    if counts["sharing_a_cell"] and not counts["duplicates"]:
        sharing = counts["sharing_a_cell"]
        verbs = ("shares", "is") if sharing == 1 else ("share", "are")
        found.append(
            f"{_occurrences(sharing)} {verbs[0]} a cell with another one and {verbs[1]} kept; "
            "--deduplicate keeps one per cell."
        )
    if FEWEST_OCCURRENCES <= counts["used"] < FEW_TO_LEARN_FROM:
        found.append(f"{counts['used']} occurrences are few; expect a map with little detail.")
    for role, use in (
        ("validation", "the last model is kept"),
        ("test", "evaluation will be empty"),
    ):
        if counts["used"] >= FEWEST_OCCURRENCES and not windows[role]:
            found.append(f"No {role} window holds an occurrence, so {use}.")
    return found


def _effort_warnings(region: Region) -> list[str]:
    effort = region.effort
    if effort is None or effort.floor is None or not effort.extreme:
        return []
    return [
        f"The survey effort differs so much that {effort.training} training occurrences tell no "
        f"more than {effort.effective:.1f} of equal weight: a few decide all. Smooth the raster, "
        "or raise its lowest values."
    ]


def _problems(
    region: Region, layers: list[LayerReport], counts: dict[str, int], windows: dict[str, int]
) -> list[str]:
    found = [
        f"Layer {layer.name} has no data on the grid: leave it out, or choose another grid "
        "(--like)."
        for layer in layers
        if not layer.coverage
    ]
    found += [
        f"Layer {layer.name} is given as classes but holds fractions: leave it out of --classes."
        for layer in layers
        if layer.fractional
    ]
    if region.effort is not None and region.effort.floor is None and region.effort.training:
        found.append(
            "The survey effort is unknown or 0 at every training occurrence: check the raster of "
            "--effort and its no-data value, or leave it out."
        )
    if _nothing_varies(region, layers):
        found.append(
            "No layer varies on the grid, so there is nothing to learn from: add a layer that "
            "does, or check the rasters and the extent."
        )
    if counts["used"] < FEWEST_OCCURRENCES:
        found.append(
            f"{_occurrence_sentence(counts)} At least {FEWEST_OCCURRENCES} are needed, to train, "
            "to choose the model and to test it: "
            + (
                "add occurrences."
                if counts["used"] == counts["read"]
                else "check the filter, the CRS of the occurrences and the extent of the rasters."
            )
        )
    elif not windows["train"] and min(region.grid.height, region.grid.width) < SMALLEST_WINDOW:
        found.append(
            f"The grid has only {region.grid.describe()}, less than the smallest window of "
            f"{SMALLEST_WINDOW} cells: choose smaller cells (--resolution) or a larger extent."
        )
    elif not windows["train"]:
        found.append(
            "No training window holds an occurrence and enough data: use smaller windows "
            f"(--window {SMALLEST_WINDOW} or more) or other tiles (--tile)."
        )
    return found


def _nothing_varies(region: Region, layers: list[LayerReport]) -> bool:
    """Whether each layer has one value, and has it wherever any has data."""
    footprint = int(region.scan.footprint_cells.sum())
    return all(
        (layer.constant or layer.classes == 1) and cells == footprint
        for layer, cells in zip(layers, region.scan.counts.sum(axis=0).tolist(), strict=True)
    )
