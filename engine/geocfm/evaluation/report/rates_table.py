"""The table of what the best ground captures."""

from __future__ import annotations

from collections.abc import Mapping

from geocfm.evaluation.capture import REPORTED_SHARES
from geocfm.evaluation.comparison import FEW_TILES
from geocfm.evaluation.rates import RateCurve
from geocfm.evaluation.report.markup import Html, element, joined, paragraph, safe, table
from geocfm.evaluation.report.words import interval


def rates_table(columns: Mapping[str, RateCurve | None]) -> Html:
    """A column for each curve by its name, and one for chance; a curve that is None is empty."""
    curves = list(columns.values())
    head = [f"{name} ({rates.occurrences if rates else 0:,})" for name, rates in columns.items()]
    rows = []
    for number, share in enumerate(REPORTED_SHARES):
        chance = f"{100 * share:g} %"
        cells = [_captured(rates, number) if rates else "" for rates in curves]
        rows.append([chance, *cells, chance])
    under = [_under(rates) if rates else "" for rates in curves]
    rows.append(["area under the curve", *under, "0.50"])
    tiles = [f"{rates.tiles:,}" if rates else "0" for rates in curves]
    rows.append(["tiles with occurrences", *tiles, ""])
    note = "In brackets 95 % intervals by drawing whole tiles anew"
    single = any(rates is not None and rates.tiles == 1 for rates in curves)
    few = any(rates is not None and 1 < rates.tiles < FEW_TILES for rates in curves)
    note += "; of one tile there is none" if single else ""
    note += f"; fewer than {FEW_TILES} are too few tiles for an interval." if few else "."
    shown = table(["best share of the area", *head, "chance"], rows, class_="numbers")
    return joined([shown, paragraph(note)])


def _captured(rates: RateCurve, number: int) -> Html:
    estimate = rates.at[number].captured
    ends = interval(estimate) if rates.enough_tiles else ""
    return _with_interval(f"{100 * estimate.value:.0f} %", ends)


def _under(rates: RateCurve) -> Html:
    estimate = rates.under_curve
    if estimate.low is None or estimate.high is None or not rates.enough_tiles:
        return safe(f"{estimate.value:.2f}")
    return _with_interval(f"{estimate.value:.2f}", f"{estimate.low:.2f} to {estimate.high:.2f}")


def _with_interval(value: str, ends: str) -> Html:
    return joined([value, element("small", f"({ends})")], " ") if ends else safe(value)
