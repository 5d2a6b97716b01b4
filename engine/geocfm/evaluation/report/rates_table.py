"""The table of what the best ground captures."""

from __future__ import annotations

from collections.abc import Mapping

from geocfm.evaluation.capture import REPORTED_SHARES
from geocfm.evaluation.rates import Estimate, RateCurve
from geocfm.evaluation.report.markup import Html, element, joined, paragraph, safe, table
from geocfm.evaluation.report.words import interval


def rates_table(columns: Mapping[str, RateCurve | None]) -> Html:
    """A column for each curve by its name, and one for chance; a curve that is None is empty."""
    curves = list(columns.values())
    head = [f"{name} ({rates.occurrences if rates else 0:,})" for name, rates in columns.items()]
    rows = []
    for number, share in enumerate(REPORTED_SHARES):
        chance = f"{100 * share:g} %"
        cells = [_captured(rates.at[number].captured) if rates else "" for rates in curves]
        rows.append([chance, *cells, chance])
    under = [_under(rates.under_curve) if rates else "" for rates in curves]
    rows.append(["area under the curve", *under, "0.50"])
    tiles = [f"{rates.tiles:,}" if rates else "0" for rates in curves]
    rows.append(["tiles with occurrences", *tiles, ""])
    note = "In brackets 95 % intervals by drawing whole tiles anew"
    single = any(rates is not None and rates.tiles == 1 for rates in curves)
    note += "; of one tile there is none." if single else "."
    shown = table(["best share of the area", *head, "chance"], rows, class_="numbers")
    return joined([shown, paragraph(note)])


def _captured(estimate: Estimate) -> Html:
    return _with_interval(f"{100 * estimate.value:.0f} %", interval(estimate))


def _under(estimate: Estimate) -> Html:
    if estimate.low is None or estimate.high is None:
        return safe(f"{estimate.value:.2f}")
    return _with_interval(f"{estimate.value:.2f}", f"{estimate.low:.2f} to {estimate.high:.2f}")


def _with_interval(value: str, ends: str) -> Html:
    return joined([value, element("small", f"({ends})")], " ") if ends else safe(value)
