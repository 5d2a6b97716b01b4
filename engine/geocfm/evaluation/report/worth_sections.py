"""Sections on what a map is worth: how well it predicts, and its calibration."""

from __future__ import annotations

from geocfm.evaluation.calibration import LEAST, MOST, Calibration
from geocfm.evaluation.comparison import FEW_TILES
from geocfm.evaluation.rates import RateCurve
from geocfm.evaluation.report import charts
from geocfm.evaluation.report.content import Report
from geocfm.evaluation.report.markup import (
    Html,
    element,
    figure,
    joined,
    paragraph,
    paragraphs,
    picture,
)
from geocfm.evaluation.report.rates_table import rates_table
from geocfm.evaluation.report.words import calibration_sentence, count, percent

ONLY_SEEN = (
    "No known occurrence lies on the held-out tiles. What follows is of tiles that the model saw, "
    "and says little of other ground."
)
NO_HELD_OUT = "No known occurrence lies on the held-out tiles, so there is nothing to show here."
ALL_LEARNED = (
    "The model learned from all tiles, so none is held out. The rates here are of ground that it "
    "saw; how well such models do on other ground is told by the cross-validation below."
)
NOT_OF_FOLDS = (
    "The model learned from all tiles, so none is held out to tell its calibration from, and its "
    "cross-validation does not tell it. Train again to have it told."
)
OF_FOLDS = (
    "The model learned from all tiles, so this is the calibration of the cross-validation's map, "
    "each tile by a model that never saw it: of models that were made as this one was."
)


def prediction_section(report: Report) -> Html:
    """Rates, prediction-area plot and table."""
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
                f"Prediction-area plot (Yousefi and Carranza 2015) {_where(report)}. The "
                f"curves cross at a relative density of {found.crossing:.2g}: ground above it is "
                f"{percent(found.occupied_area)} of the area and holds "
                f"{percent(found.prediction_rate)} of the occurrences, a normalised density of "
                f"{found.normalised_density:.2f} (chance: 1).",
                class_="chart",
            )
        )
    shown = [element("div", *parts, class_="pair")]
    if prediction is None:
        folds = report.extras.cross_validation is not None
        shown.insert(0, paragraph(ALL_LEARNED if folds else ONLY_SEEN, "note"))
    captured = {
        "held-out tiles": prediction,
        "validation tiles": report.validation_rate,
        "training tiles": success,
    }
    heading = element("h3", "Captured by the best ground")
    return joined([*shown, heading, rates_table(captured)])


def _where(report: Report) -> str:
    """The tiles that a map is judged on."""
    if report.prediction_rate is None:
        return "of the cross-validation, each tile by a model that never saw it"
    return "on the held-out tiles"


def _band_words(*curves: RateCurve | None) -> str:
    there = [curve for curve in curves if curve is not None]
    if all(curve.low is None for curve in there):
        return "All occurrences lie on one tile, so there are no bands."
    if not any(curve.enough_tiles for curve in there):
        return "There are too few tiles with occurrences for bands."
    said = "Bands: 95 %, by drawing whole tiles anew."
    if any(curve.low is None for curve in there):
        said += " Where all occurrences lie on one tile there is none."
    elif not all(curve.enough_tiles for curve in there):
        said += f" Where occurrences lie on fewer than {FEW_TILES} tiles there is none."
    return said


def calibration_section(report: Report) -> Html:
    """Whether the density means what it says."""
    found = report.calibration
    if found is None:
        folds = report.extras.cross_validation is not None
        return paragraph(NOT_OF_FOLDS if folds else NO_HELD_OUT, "note")
    judged = report.prediction_rate or report.extras.cross_validation
    banded = judged is not None and judged.enough_tiles
    band = " The band holds 95 % of what other draws of tiles give." if banded else ""
    shown = figure(
        picture(charts.calibration_chart(found, banded=banded), "svg+xml", "Calibration curve"),
        "Ground is taken from the densest on. Its share of the map's density should be its share "
        f"of the held-out occurrences; below the diagonal the map promises too much.{band}",
        class_="chart",
    )
    sentence = calibration_sentence(found)
    said = [sentence[:1].upper() + sentence[1:]]
    if report.prediction_rate is None:
        said.insert(0, OF_FOLDS)
        said.append("As no tile is left to fit one on, no temperature is told.")
    elif found.after is None:
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
            f"points, and the log likelihood {found.gain:+.2f} nats per occurrence."
        )
        said.append(_how_to_apply(report, found))
    return element("div", shown, element("div", paragraphs(said)), class_="pair")


def _how_to_apply(report: Report, found: Calibration) -> str:
    """What to do with the temperature. The map may have been made with one, which then counts."""
    assert found.after is not None
    given = float(report.provenance.get("job", {}).get("temperature") or 1.0)
    changes = "changes the contrast of a map, not the ranking of the ground within it"
    if found.gain is None or found.gain <= 0:
        return f"As the held-out tiles gain nothing by it, leave it: a temperature {changes}."
    wanted = min(given * found.after.temperature, MOST)
    return (
        f"The map here is without it; a map is made with it by --temperature {wanted:.2f} (in QGIS "
        f"the parameter Temperature of the map). A temperature {changes}."
    )
