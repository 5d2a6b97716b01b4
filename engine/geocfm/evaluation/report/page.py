"""The report as one HTML file: no scripts, nothing from elsewhere, every text escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator

from geocfm.data.preflight import LEFT_OUT
from geocfm.evaluation.calibration import LEAST, MOST
from geocfm.evaluation.rates import RateCurve
from geocfm.evaluation.report import charts, extra_sections
from geocfm.evaluation.report.content import LayerUsed, Report, as_json
from geocfm.evaluation.report.markup import (
    Html,
    bullets,
    element,
    figure,
    joined,
    paragraph,
    paragraphs,
    picture,
    table,
)
from geocfm.evaluation.report.pictures import Pictures
from geocfm.evaluation.report.rates_table import rates_table
from geocfm.evaluation.report.section import Section
from geocfm.evaluation.report.style import CSS
from geocfm.evaluation.report.words import (
    HEADLINE_SHARE,
    Summary,
    calibration_sentence,
    captured_at,
    count,
    percent,
    rounded,
    summarise,
)

DOCTYPE = Html("<!DOCTYPE html>\n")
NO_HELD_OUT = "No known occurrence lies on the held-out tiles, so there is nothing to show here."


def report_json(report: Report) -> str:
    """All that the report tells, as JSON."""
    content = {"summary": as_json(summarise(report)), **as_json(report)}
    return json.dumps(content, indent=1, allow_nan=False)


def report_page(report: Report, pictures: Pictures) -> str:
    """The whole page."""
    sections = list(_sections(report, pictures))
    title = f"GeoCFM report: {report.model.name}"
    links = [element("a", section.title, href=f"#{section.key}") for section in sections]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Html(CSS)),
    )
    top = element(
        "header",
        element(
            "div",
            element("h1", title),
            element("p", report.model.grid),
            element("nav", joined(links, " ")),
        ),
    )
    versions = report.provenance.get("versions", {})
    made = f"Made by geocfm {versions.get('geocfm', '?')}; the same content is in the JSON file."
    body = element(
        "body",
        top,
        element("main", *(section.html() for section in sections)),
        element("footer", made),
    )
    return DOCTYPE + element("html", head, body, lang="en") + "\n"


def _sections(report: Report, pictures: Pictures) -> Iterator[Section]:
    yield Section("summary", "Summary", _summary(report, summarise(report)))
    yield Section("map", "The map", _map(report, pictures))
    yield from extra_sections.of_the_map(report.extras)
    yield Section("prediction", "How well it predicts", _prediction(report))
    yield from extra_sections.of_the_worth(report)
    yield Section("calibration", "Calibration", _calibration(report))
    yield from extra_sections.of_the_layers(report.extras)
    yield Section("used", "What was used", _used(report, pictures))
    yield Section("training", "Training", _training(report))
    yield Section("provenance", "How this was made", _provenance(report))


# Each section.


def _summary(report: Report, said: Summary) -> Html:
    parts = [_cards(report)] if report.prediction_rate is not None else []
    worth = paragraphs(said.worth)
    if report.prediction_rate is None:
        worth = joined([paragraph(said.worth[0], "note"), paragraphs(said.worth[1:])])
    told = element(
        "div",
        element("h3", "What was found"),
        paragraphs(said.found),
        element("h3", "How good it is on ground the model never saw"),
        worth,
    )
    untold = element("div", element("h3", "What it does not say"), bullets(said.caveats))
    return joined([*parts, element("div", told, untold, class_="told")])


def _cards(report: Report) -> Html:
    rates, crossing = report.prediction_rate, report.prediction_area
    if rates is None or crossing is None:
        return Html("")
    best = captured_at(rates, HEADLINE_SHARE).captured
    share = percent(HEADLINE_SHARE)
    shown = [
        (percent(best.value), f"of held-out occurrences in the best {share} of the area", share),
        (f"{rates.under_curve.value:.2f}", "area under the prediction-rate curve", "0.50"),
        (
            percent(rates.area_of_half),
            "of the area holds half of the held-out occurrences",
            percent(0.5),
        ),
        (
            f"{crossing.normalised_density:.1f}",
            "normalised density at the crossing of the prediction-area plot",
            "1",
        ),
    ]
    cards = [
        element(
            "div",
            element("b", value),
            element("span", meaning),
            element("small", f"chance: {chance}"),
            class_="card",
        )
        for value, meaning, chance in shown
    ]
    return element("div", *cards, class_="cards")


def _map(report: Report, pictures: Pictures) -> Html:
    counts = report.occurrences.by_role
    caption = (
        "Relative density, 1 = regional mean; the colours end at the highest hundredth. The model "
        f"learned from the {count(counts['train'], 'occurrence')} on training tiles, its best "
        f"moment was chosen by the {counts['validation']:,} on validation tiles, and the "
        f"{counts['test']:,} on held-out tiles (dashed) it never saw. The highest density is "
        f"{report.map.highest:,.1f} times the mean."
    )
    shown = picture(pictures.map, "png", "Map of relative density with the known occurrences")
    return figure(shown, caption, class_="map")


def _prediction(report: Report) -> Html:
    prediction, success = report.prediction_rate, report.success_rate
    if prediction is None and success is None:
        return paragraph(NO_HELD_OUT, "note")
    capture = figure(
        picture(charts.rates_chart(prediction, success), "svg+xml", "Prediction and success rates"),
        "Prediction rate (held-out tiles) and success rate (training tiles): the share of the "
        f"occurrences in the best share of the area. {_band_words(prediction, success)}",
        class_="chart",
    )
    parts = [capture]
    found = report.prediction_area
    if found is not None:
        parts.append(
            figure(
                picture(charts.prediction_area_chart(found), "svg+xml", "Prediction-area plot"),
                "Prediction-area plot (Yousefi and Carranza 2015) on the held-out tiles. The "
                f"curves cross at a relative density of {found.crossing:.2g}: ground above it is "
                f"{percent(found.occupied_area)} of the area and holds "
                f"{percent(found.prediction_rate)} of the occurrences, a normalised density of "
                f"{found.normalised_density:.2f} (chance: 1).",
                class_="chart",
            )
        )
    shown = [element("div", *parts, class_="pair")]
    if prediction is None:
        shown.insert(0, paragraph(NO_HELD_OUT, "note"))
    captured = {
        "held-out tiles": prediction,
        "validation tiles": report.validation_rate,
        "training tiles": success,
    }
    heading = element("h3", "Captured by the best ground")
    return joined([*shown, heading, rates_table(captured)])


def _band_words(*curves: RateCurve | None) -> str:
    there = [curve for curve in curves if curve is not None]
    if all(curve.low is None for curve in there):
        return "All occurrences lie on one tile, so there are no bands."
    said = "Bands: 95 %, by drawing whole tiles anew."
    if any(curve.low is None for curve in there):
        said += " Where all occurrences lie on one tile there is none."
    return said


def _calibration(report: Report) -> Html:
    found = report.calibration
    if found is None:
        return paragraph(NO_HELD_OUT, "note")
    band = " The band holds 95 % of what other draws of tiles give." if found.low else ""
    shown = figure(
        picture(charts.calibration_chart(found), "svg+xml", "Calibration curve"),
        "Ground is taken from the densest on. Its share of the map's density should be its share "
        f"of the held-out occurrences; below the diagonal the map promises too much.{band}",
        class_="chart",
    )
    sentence = calibration_sentence(found)
    said = [sentence[:1].upper() + sentence[1:]]
    if found.after is None:
        said.append("The validation tiles hold too little to fit a temperature on.")
    else:
        sharper = "flatter" if found.after.temperature < 1 else "sharper"
        ends = (LEAST, MOST)
        limit = ", the limit of what is tried," if found.after.temperature in ends else ","
        said.append(
            f"A temperature of {found.after.temperature:.2f}{limit} fitted on the "
            f"{count(found.fitted_on, 'occurrence')} of the validation tiles, makes the map "
            f"{sharper} (density to that power). On the held-out tiles the distance is then "
            f"{100 * found.after.distance:.0f} instead of {100 * found.before.distance:.0f} "
            f"points, and the log likelihood {found.gain:+.2f} nats per occurrence. It is told "
            "here only: no map is changed by it, and the ranking of ground stays as it is."
        )
    return element("div", shown, element("div", paragraphs(said)), class_="pair")


def _used(report: Report, pictures: Pictures) -> Html:
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


def _training(report: Report) -> Html:
    model, history = report.model, report.training
    facts = [
        ["preset", model.preset],
        ["learned from", model.learned_from],
        ["made", f"{model.created.replace('T', ' ')}, seed {model.seed}"],
    ]
    if history is None:
        facts.append(["kept", f"the weights of iteration {model.iterations:,}"])
        said = "The log of the training does not lie beside the model, so its curves are missing."
        return joined([paragraph(said), table([], facts, class_="facts")])
    facts.append(["done", f"{history.iterations:,} iterations in {history.seconds / 60:.1f} min"])
    chosen = (
        "the last, as no validation window holds an occurrence"
        if history.best_validation is None
        else f"iteration {history.best_iteration:,} with validation loss "
        f"{history.best_validation:.4f}, the least"
    )
    facts.append(["kept", chosen])
    shown = figure(
        picture(charts.training_chart(history), "svg+xml", "Loss over the iterations"),
        "Loss on training tiles (means over stretches) and on validation tiles. Where the "
        "validation curve rises again, occurrences are being learned by heart.",
        class_="chart",
    )
    return element("div", shown, table([], facts, class_="facts"), class_="pair")


def _provenance(report: Report) -> Html:
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
