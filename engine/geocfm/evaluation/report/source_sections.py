"""Sections on what a report comes from: what was used, the training, the whole job."""

from __future__ import annotations

import json

from geocfm.data.preflight import LEFT_OUT
from geocfm.evaluation.report import charts
from geocfm.evaluation.report.content import LayerUsed, Report
from geocfm.evaluation.report.markup import Html, element, figure, joined, paragraph, picture, table
from geocfm.evaluation.report.pictures import Pictures
from geocfm.evaluation.report.words import count, percent, rounded


def used_section(report: Report, pictures: Pictures) -> Html:
    """Layers, occurrences and region."""
    cards = [
        element(
            "figure",
            element("div", picture(png, "png", f"Layer {layer.name}"), class_="frame"),
            element("figcaption", element("b", layer.name), _layer_words(layer)),
        )
        for layer, png in zip(report.layers, pictures.layers, strict=True)
    ]
    used = report.occurrences
    rows = [["read", f"{used.read:,}", used.source]]
    rows += [["left out", f"{one.count:,}", one.reason] for one in used.left_out]
    roles = used.by_role
    by_role = (
        f"{roles['train']:,} on training tiles, {roles['validation']:,} on validation tiles, "
        f"{roles['test']:,} on held-out tiles"
    )
    rows.append(["used", f"{used.used:,}", by_role])
    shared = used.sharing_a_cell
    if shared and not any(one.reason == LEFT_OUT["duplicates"] for one in used.left_out):
        rows.append(["of these", f"{shared:,}", "in a cell that already had one, and kept"])
    where = f"Filter: {' and '.join(used.where)}." if used.where else "No filter."
    tiles = report.model.tiles
    split = (
        f"{count(sum(tiles.values()), 'tile')}: {tiles['train']:,} to learn from, "
        f"{tiles['validation']:,} to choose the best moment, {tiles['test']:,} held out to judge."
    )
    effort = report.effort or "none given (--effort)"
    facts = [
        ["grid", report.model.grid],
        ["windows", report.model.window],
        ["tiles", split],
        ["survey effort", effort],
    ]
    return joined(
        [
            element("h3", count(len(report.layers), "layer")),
            element("div", *cards, class_="layers"),
            element("h3", "Occurrences"),
            table([], rows),
            paragraph(where),
            element("h3", "Region"),
            table([], facts, class_="facts"),
        ]
    )


def _layer_words(layer: LayerUsed) -> str:
    covered = f"{percent(layer.coverage)} of the area has data"
    if layer.classes:
        return f"{layer.classes} classes; {covered}"
    unit = f" {layer.units}" if layer.units not in ("", "1") else ""
    mean, spread = rounded(layer.mean), rounded(layer.std)
    return f"mean {mean}{unit}, standard deviation {spread}{unit}; {covered}"


def training_section(report: Report) -> Html:
    """How the model came about."""
    model, history = report.model, report.training
    facts = [
        ["preset", model.preset],
        ["learned from", model.learned_from],
        ["made", f"{model.created.replace('T', ' ')}, seed {model.seed}"],
    ]
    several = model.networks > 1
    if several:
        how = "each from another start and another choice of occurrences; the map is their mean"
        facts.append(["networks", f"{model.networks}, {how}"])
    if history is None:
        facts.append(["kept", f"the weights of iteration {model.iterations:,}{_others(report)}"])
        said = "The log of the training does not lie beside the model, so its curves are missing."
        return joined([paragraph(said), table([], facts, class_="facts")])
    spent = f"{history.iterations:,} iterations in {history.seconds / 60:.1f} min"
    facts.append(["done", f"{spent}, by the first network" if several else spent])
    if history.best_validation is not None:
        chosen = (
            f"iteration {history.best_iteration:,} with validation loss "
            f"{history.best_validation:.4f}, the least"
        )
    elif report.extras.cross_validation is not None:
        chosen = "the last, after as many iterations as cross-validation found best"
    else:
        chosen = "the last, as no validation window holds an occurrence"
    facts.append(["kept", f"{chosen}{_others(report)}"])
    whose = "Loss of the first network" if several else "Loss"
    shown = figure(
        picture(charts.training_chart(history), "svg+xml", "Loss over the iterations"),
        f"{whose} on training tiles (means over stretches) and on validation tiles. Where the "
        "validation curve rises again, occurrences are being learned by heart.",
        class_="chart",
    )
    return element("div", shown, table([], facts, class_="facts"), class_="pair")


def _others(report: Report) -> str:
    """What was kept of the further networks of an ensemble."""
    others = report.model.other_iterations
    if not others:
        return ""
    which = "that of the other is" if len(others) == 1 else "those of the others are"
    said = ", ".join(f"{number:,}" for number in others)
    return f" (of the first network; {which} of iteration {said})"


def provenance_section(report: Report) -> Html:
    """Inputs, versions and the whole job."""
    said = report.provenance
    inputs = [
        [str(entry["use"]), str(entry["path"]), _size(entry.get("size"))]
        for entry in said.get("inputs", ())
    ]
    versions = ", ".join(f"{name} {number}" for name, number in said.get("versions", {}).items())
    job = json.dumps(said.get("job", {}), indent=1, ensure_ascii=False)
    return joined(
        [
            table(["input", "file", "bytes"], inputs, class_="files"),
            element("p", f"Seed {said.get('seed')}. Software: {versions}."),
            element("details", element("summary", "The job in full"), element("pre", job)),
        ]
    )


def _size(size: int | None) -> str:
    return "" if size is None else f"{size:,}"
