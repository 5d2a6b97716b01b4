"""The report as one HTML file: no scripts, nothing from elsewhere, every text escaped."""

from __future__ import annotations

import json
from collections.abc import Iterator

from geocfm.evaluation.report import extra_sections
from geocfm.evaluation.report.content import Report, as_json
from geocfm.evaluation.report.markup import (
    Html,
    bullets,
    element,
    figure,
    joined,
    paragraph,
    paragraphs,
    picture,
)
from geocfm.evaluation.report.pictures import Pictures
from geocfm.evaluation.report.section import Section
from geocfm.evaluation.report.source_sections import (
    provenance_section,
    training_section,
    used_section,
)
from geocfm.evaluation.report.style import CSS
from geocfm.evaluation.report.words import (
    HEADLINE_SHARE,
    Summary,
    captured_at,
    percent,
    summarise,
)
from geocfm.evaluation.report.worth_sections import calibration_section, prediction_section

DOCTYPE = Html("<!DOCTYPE html>\n")


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
    yield from extra_sections.of_the_map(report)
    yield Section("prediction", "How well it predicts", prediction_section(report))
    yield from extra_sections.of_the_worth(report)
    yield Section("calibration", "Calibration", calibration_section(report))
    yield from extra_sections.of_the_layers(report)
    yield Section("used", "What was used", used_section(report, pictures))
    yield Section("training", "Training", training_section(report))
    yield Section("provenance", "How this was made", provenance_section(report))


def _summary(report: Report, said: Summary) -> Html:
    parts = [_cards(report)]
    worth = paragraphs(said.worth)
    if report.prediction_rate is None and report.extras.cross_validation is None:
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
    whose, curve = "held-out", "prediction-rate"
    if rates is None:
        rates = report.extras.cross_validation
        whose, curve = "all", "cross-validated"
    if rates is None:
        return Html("")
    best = captured_at(rates, HEADLINE_SHARE).captured
    share = percent(HEADLINE_SHARE)
    shown = [
        (percent(best.value), f"of {whose} occurrences in the best {share} of the area", share),
        (f"{rates.under_curve.value:.2f}", f"area under the {curve} curve", "0.50"),
        (
            percent(rates.area_of_half),
            f"of the area holds half of {whose} occurrences",
            percent(0.5),
        ),
    ]
    if crossing is not None:
        meaning = "normalised density at the crossing of the prediction-area plot"
        shown.append((f"{crossing.normalised_density:.1f}", meaning, "1"))
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
        "Relative density, 1 = regional mean; the colours go from a tenth of the mean to the "
        "highest hundredth, on a logarithmic scale, and the highest density is "
        f"{report.map.highest:,.1f} times the mean. Known occurrences: "
        f"{counts['train']:,} on training tiles, which the model learned from; "
        f"{counts['validation']:,} on validation tiles, which chose its best moment; "
        f"{counts['test']:,} on held-out tiles (dashed), which it never saw."
    )
    shown = picture(pictures.map, "png", "Map of relative density with the known occurrences")
    return figure(shown, caption, class_="map")
