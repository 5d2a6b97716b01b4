"""A report in plain words: what was found, how good it is, and what it does not say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from geocfm.evaluation.calibration import Calibration
from geocfm.evaluation.rates import CapturedAt, Estimate, RateCurve
from geocfm.evaluation.report.content import Report

HEADLINE_SHARE = 0.1  # of the area
BY_HEART = 0.05  # captured more on training tiles than on held-out ones that is worth a word
WITHIN_LUCK = 1.5  # times the distance of a perfect map's calibration that luck may explain
LEAST_SHARE = 0.001  # of the area outside experience that is told as a number
SHARP = 0.02  # mean distance to one side of the diagonal that is worth a word


@dataclass(frozen=True)
class Summary:
    """Sentences, the most important first."""

    found: tuple[str, ...]
    worth: tuple[str, ...]
    caveats: tuple[str, ...]


def summarise(report: Report) -> Summary:
    """The report for somebody who reads nothing else of it."""
    return Summary(tuple(_found(report)), tuple(_worth(report)), tuple(_caveats(report)))


def percent(share: float) -> str:
    """68 %, or 5.6 % of what is below a tenth."""
    hundredths = 100 * share
    small = 0 < abs(hundredths) < 9.95
    return f"{hundredths:.1f} %" if small else f"{hundredths:.0f} %"


def interval(estimate: Estimate) -> str:
    """60 to 75 %; empty without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{100 * estimate.low:.0f} to {100 * estimate.high:.0f} %"


def rounded(value: float) -> str:
    """Three digits or the whole part: 27,500, 3.12, 0.0156."""
    return f"{value:,.0f}" if 999.5 <= abs(value) < 1e7 else f"{value:.3g}"


def count(number: int, one: str) -> str:
    """1 tile, 2 tiles, 1,200 tiles."""
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def captured_at(rates: RateCurve, share: float) -> CapturedAt:
    """What the best share of the area holds; the share is one of those reported."""
    return next(one for one in rates.at if one.area_share == share)


def _found(report: Report) -> Iterator[str]:
    layers = count(len(report.layers), "layer")
    yield f"The model was made from {report.model.learned_from}, and {layers}."
    if report.model.networks > 1:
        yield f"It is an ensemble of {report.model.networks} networks, and the map is their mean."
    found = report.map
    yield (
        f"The map covers {found.area_km2:,.0f} km². Half of the density that it predicts lies on "
        f"{percent(found.area_of_half)} of this area ({found.area_of_half * found.area_km2:,.0f} "
        "km²)."
    )
    if report.extras.targets:
        best = min(report.extras.targets, key=lambda target: target.rank)
        number = len(report.extras.targets)
        yield (
            f"{count(number, 'target')} {'is' if number == 1 else 'are'} outlined; the best has "
            f"{rounded(best.area_km2)} km² and {best.lift:,.1f} times the regional mean density."
        )


def _worth(report: Report) -> Iterator[str]:
    rates, pooled = report.prediction_rate, report.extras.cross_validation
    if pooled is not None:
        yield f"Cross-validated, each tile by a model that never saw it, {_captures(pooled)}"
        yield from _few_tiles(pooled)
    if rates is not None:
        yield f"On held-out tiles, which the model never saw, {_captures(rates)}"
        yield from _few_tiles(rates)
    elif pooled is None:
        yield (
            "No known occurrence lies on the held-out tiles, so how good the map is on ground that "
            "the model never saw cannot be told."
        )
    else:
        yield (
            "The map here is by a model that learned from all tiles; the figure is of models that "
            "were made as it was, each without some of them."
        )
    success, judged = report.success_rate, rates or pooled
    if success is not None and judged is not None:
        seen = captured_at(success, HEADLINE_SHARE).captured.value
        unseen = captured_at(judged, HEADLINE_SHARE).captured.value
        meaning = (
            "what lies between the two was learned by heart, or is a matter of which tiles were "
            "held out"
            if seen > unseen + BY_HEART
            else "it is no worse on ground that it never saw"
        )
        yield (
            f"On the training tiles the same share is {percent(seen)} of "
            f"{count(success.occurrences, 'occurrence')}: {meaning}."
        )
    if report.calibration is not None:
        of_folds = report.prediction_rate is None  # all tiles taught the model itself
        whose = " of the cross-validation's map" if of_folds else ""
        yield f"Calibration{whose}: {calibration_sentence(report.calibration)}"
    if report.extras.baselines is not None and report.extras.baselines.sentences:
        yield report.extras.baselines.sentences[-1]


def _captures(rates: RateCurve) -> str:
    """The rest of a sentence: what the best ground holds."""
    best = captured_at(rates, HEADLINE_SHARE).captured
    sure = f" (95 % interval {interval(best)})" if rates.enough_tiles else ""
    return (
        f"the best {percent(HEADLINE_SHARE)} of the area holds {percent(best.value)} of the "
        f"{count(rates.occurrences, 'occurrence')}{sure}; chance would hold "
        f"{percent(HEADLINE_SHARE)}. Half of them lie on the best {percent(rates.area_of_half)}."
    )


def _few_tiles(rates: RateCurve) -> Iterator[str]:
    if rates.tiles == 1:
        yield (
            "All of these lie on one tile, so no interval can be given, and another tile may tell "
            "another story."
        )
    elif not rates.enough_tiles:
        yield (
            f"They lie on {rates.tiles} tiles only, too few tiles for an interval: others may tell "
            "another story."
        )


def calibration_sentence(found: Calibration) -> str:
    """Whether the densest regions hold what they should."""
    curve = found.before
    half = curve.observed[curve.nominal.index(0.5)]
    if curve.distance <= WITHIN_LUCK * curve.by_luck:
        verdict = "as close as can be told from so many"
    elif curve.excess < -SHARP:
        verdict = "on the whole the map is too sharp, surer of its best ground than it should be"
    elif curve.excess > SHARP:
        verdict = "on the whole the map is too flat, less sure of its best ground than it could be"
    else:
        verdict = "the map is too sharp in some places and too flat in others"
    return (
        "the ground that by the map should hold 50 % of the held-out occurrences "
        f"holds {percent(half)}; the mean distance from what should be is "
        f"{100 * curve.distance:.0f} points, of which luck alone gives about "
        f"{100 * curve.by_luck:.0f} ({verdict})."
    )


def _caveats(report: Report) -> Iterator[str]:
    yield (
        "Relative density, no probability: known occurrences alone cannot tell how probable a "
        "deposit is, only where there are more of them than elsewhere (1 = regional mean)."
    )
    if report.effort is None:
        yield (
            "Survey bias: occurrences are known where people have looked. No raster of survey "
            "effort was given (--effort), so the map shows where they looked as well as where "
            "deposits are."
        )
    else:
        yield (
            "Survey bias: occurrences are known where people have looked. They were weighted by "
            f"1 / effort ({report.effort}), which corrects as much of it as that raster knows."
        )
    yield report.model.searched
    yield (
        "Extrapolation: where the layers look unlike anything on the training tiles, the map is a "
        f"guess, however sure it looks.{_outside(report.extras.outside_share)}"
    )
    yield from report.warnings


def _outside(share: float | None) -> str:
    """How much of the map that is; empty for a model that does not know what it has seen."""
    if share is None:
        return ""
    if not share:
        return " Here all of the mapped area is like what the model has seen."
    much = percent(share) if share >= LEAST_SHARE else f"less than {percent(LEAST_SHARE)}"
    return f" Here {much} of the mapped area lies outside what the model has seen."
