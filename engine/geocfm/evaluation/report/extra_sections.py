"""Sections that appear only when there is something to tell in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from geocfm.evaluation.capture import REPORTED_SHARES
from geocfm.evaluation.comparison import FEW_TILES
from geocfm.evaluation.importance import Importance, LayerImportance
from geocfm.evaluation.rates import Estimate
from geocfm.evaluation.report import charts
from geocfm.evaluation.report.content import (
    Baselines,
    Report,
    TargetRow,
)
from geocfm.evaluation.report.markup import (
    Html,
    element,
    figure,
    joined,
    paragraph,
    paragraphs,
    picture,
    table,
)
from geocfm.evaluation.report.rates_table import rates_table
from geocfm.evaluation.report.section import Section
from geocfm.evaluation.report.words import count, percent, rounded

MOST_TARGETS = 25  # shown; all of them are in the JSON file
OTHER_METHODS = "Other methods on the same tiles"
BAR = (260, 16)  # px
MATTERS, UNTOLD = "#30638e", "#c3ced8"  # whether a loss can be told from 0


def of_the_map(report: Report) -> Iterator[Section]:
    """What can be seen on maps: targets, uncertainty."""
    extras = report.extras
    if extras.targets:
        yield Section("targets", "Targets", _targets(extras.targets, _asked(report)))
    if extras.uncertainty:
        maps = [
            figure(picture(one.png, "png", one.title), f"{one.title}. {one.caption}", "map")
            for one in extras.uncertainty
        ]
        yield Section("uncertainty", "Uncertainty", joined(maps))


def of_the_worth(report: Report) -> Iterator[Section]:
    """What else is known of how good the map is: cross-validation, other methods."""
    pooled, baselines = report.extras.cross_validation, report.extras.baselines
    if pooled is not None:
        band = " The band is 95 %, by drawing whole tiles anew." if pooled.enough_tiles else ""
        shown = figure(
            picture(charts.cross_validation_chart(pooled), "svg+xml", "Cross-validated rate"),
            f"Every tile judged by a model that never saw it: {pooled.occurrences:,} occurrences "
            f"on {count(pooled.tiles, 'tile')}, area under the curve "
            f"{pooled.under_curve.value:.2f}.{band}",
            class_="chart",
        )
        both = element(
            "div", shown, element("div", rates_table({"all folds": pooled})), class_="pair"
        )
        yield Section("cross-validation", "Cross-validation", both)
    if baselines is not None:
        yield Section("baselines", OTHER_METHODS, _beside(report, baselines))
    elif report.extras.baselines_left_out is not None:
        why = paragraph(report.extras.baselines_left_out, "note")
        yield Section("baselines", OTHER_METHODS, why)


def of_the_layers(report: Report) -> Iterator[Section]:
    """Which layers matter, or why that cannot be told."""
    found = report.extras.importance
    if found is not None:
        yield Section("importance", "Which layers matter", _importance(found, _asked(report)))


def _asked(report: Report) -> str:
    """Which network of an ensemble tells of layers; empty for a model of one."""
    if report.model.networks == 1:
        return ""
    return f" Of the {report.model.networks} networks the first is asked which layers matter."


def _targets(targets: Sequence[TargetRow], asked: str) -> Html:
    best = sorted(targets, key=lambda target: target.rank)
    head = ["rank", "x", "y", "area, km²", "share of the density", "lift", "uncertainty"]
    head += ["nearest known, km", "known inside", "layers that matter"]
    rows = [
        [
            str(one.rank),
            *(f"{one.x:.12g}", f"{one.y:.12g}"),  # as QGIS takes them
            rounded(one.area_km2),
            percent(one.mass_share),
            f"{one.lift:,.1f}",
            "" if one.uncertainty is None else f"{one.uncertainty:.2f}",
            "" if one.nearest_known_km is None else f"{one.nearest_known_km:,.1f}",
            f"{one.known_inside:,}",
            one.layers,
        ]
        for one in best[:MOST_TARGETS]
    ]
    left = f" Of {len(best):,} the best {MOST_TARGETS} are shown." if len(best) > len(rows) else ""
    said = (
        "Connected ground of high density, the best first. Lift: so many times the regional mean "
        "is its mean density; x and y: the cell at its centre, in the coordinates of the map."
        f"{left}{asked}"
    )
    return joined([paragraph(said), table(head, rows, class_="numbers wide")])


def _beside(report: Report, baselines: Baselines) -> Html:
    head = ["method", *(f"in {100 * share:g} %" for share in REPORTED_SHARES)]
    head += ["area under the curve", "lead of GeoCFM"]
    rows = []
    own = report.prediction_rate
    parts = []
    if own is not None:
        captured = [f"{100 * one.captured.value:.0f} %" for one in own.at]
        rows.append(["GeoCFM", *captured, f"{own.under_curve.value:.2f}", ""])
        chart = picture(charts.baselines_chart(own, baselines), "svg+xml", "Rates of all methods")
        caption = "Prediction rates on the held-out tiles."
        parts.append(figure(chart, caption, class_="chart"))
    for row in baselines.rows:
        captured = [f"{100 * share:.0f} %" for share in row.captured]
        lead = _lead(row.lead, few=own is not None and not own.enough_tiles)
        rows.append([row.title, *captured, f"{row.under_curve:.2f}", lead])
    said = (
        "All were fitted on the model's training tiles and measured on its held-out tiles: the "
        "share of the occurrences in the best 1, 5, 10 and 20 % of the area. Lead: what GeoCFM "
        "captures more in the best 10 %, in points, with the interval that holds for all "
        f"comparisons together; where it could be none, fewer than {FEW_TILES} tiles cannot tell."
    )
    words = element("div", paragraphs([*baselines.sentences[-1:], said]))
    shown = element("div", *parts, words, class_="pair")
    return joined([shown, table(head, rows, class_="numbers")])


def _lead(lead: Estimate | None, *, few: bool) -> str:
    """+12 (-3 to +27), in points. few: tiles, whose wide interval says no more than that."""
    if lead is None:
        return ""
    ends = ""
    if lead.low is not None and lead.high is not None:
        ends = f" ({100 * lead.low:+.0f} to {100 * lead.high:+.0f})"
        if few and lead.low <= 0 <= lead.high:
            ends = " (too few tiles)"
    return f"{100 * lead.value:+.0f}{ends}"


def _importance(found: Importance, asked: str) -> Html:
    if not found.layers:
        return paragraph(found.sentence(), "note")
    ordered = sorted(found.layers, key=lambda one: -one.loss_nats)
    ends = [end for one in ordered for end in (one.loss_nats, *(one.interval or ()))]
    low, high = min(0.0, *ends), max(0.0, *ends)
    why = found.why_no_interval()
    intervals = [" to ".join(f"{end:+.3f}" for end in one.interval or ()) for one in ordered]
    rows = [
        [one.layer, f"{one.loss_nats:+.3f}", *([] if why else [said]), _bar(one, low, high)]
        for one, said in zip(ordered, intervals, strict=True)
    ]
    pale = (
        f"{why} All bars are pale, as without one none can be told from 0."
        if why
        else "Pale bars cannot be told from 0: the layer does not matter, or another one says the "
        "same."
    )
    said = (
        f"How much worse the model finds {found.whose} occurrences when a layer is shuffled in "
        f"blocks: nats per occurrence, more is more important. {pale}{asked}"
    )
    head = ["layer", "loss, nats", *([] if why else ["95 % interval"]), ""]
    return joined([paragraphs([found.sentence(), said]), table(head, rows)])


def _bar(one: LayerImportance, low: float, high: float) -> Html:
    """The loss as a bar from zero, its interval as a line."""
    width, height = BAR
    scale = width / max(high - low, 1e-12)

    def place(value: float) -> float:
        return (value - low) * scale

    start, end = sorted((place(0.0), place(one.loss_nats)))
    shapes = [
        f'<rect x="{start:.1f}" y="3" width="{end - start:.1f}" height="{height - 6}" '
        f'fill="{MATTERS if one.told else UNTOLD}"/>',
        f'<line x1="{place(0.0):.1f}" x2="{place(0.0):.1f}" y1="0" y2="{height}" '
        'stroke="#23282b"/>',
    ]
    if one.interval is not None:
        first, last = map(place, one.interval)
        middle = height / 2
        shapes.append(
            f'<line x1="{first:.1f}" x2="{last:.1f}" y1="{middle}" y2="{middle}" '
            'stroke="#d1495b" stroke-width="2"/>'
        )
    inside = Html("".join(shapes))
    size = {"width": str(width), "height": str(height)}
    return element("svg", inside, viewBox=f"0 0 {width} {height}", role="img", **size)
