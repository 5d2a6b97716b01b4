"""The report as a page and as JSON: complete, harmless, and of one mind."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from geocfm.evaluation.rates import Estimate
from geocfm.evaluation.report.charts import prediction_area_chart, rates_chart
from geocfm.evaluation.report.content import Extras, LeftOut, Report
from geocfm.evaluation.report.extra_sections import MATTERS, UNTOLD
from geocfm.evaluation.report.markup import element
from geocfm.evaluation.report.page import report_json, report_page
from geocfm.evaluation.report.words import percent, rounded, summarise
from report_page import Page
from report_support import (
    NASTY,
    PNG,
    all_extras,
    full_report,
    numbers_in,
    pictures_of,
    without_held_out,
)

ALWAYS = ["summary", "map", "prediction", "calibration", "used", "training", "provenance"]
OPTIONAL = {
    "targets": "targets",
    "uncertainty": "uncertainty",
    "cross-validation": "cross_validation",
    "baselines": "baselines",
    "importance": "importance",
}


def page_of(report: Report) -> Page:
    return Page(report_page(report, pictures_of(report)))


def json_of(report: Report) -> Any:
    return json.loads(report_json(report))


@pytest.fixture(scope="module")
def report() -> Report:
    return replace(full_report(), extras=all_extras())


@pytest.fixture(scope="module")
def page(report: Report) -> Page:
    return page_of(report)


def test_it_needs_nothing_from_elsewhere(report: Report, page: Page) -> None:
    assert page.foreign() == []
    css = re.search(r"<style>(.*?)</style>", report_page(report, pictures_of(report)), re.DOTALL)
    assert css is not None
    assert "url(" not in css[1]
    assert "@import" not in css[1]
    charset = {"charset": "utf-8"}
    assert ("meta", charset) in page.tags


def test_every_picture_can_be_drawn_and_says_what_it_is(page: Page) -> None:
    pictures = [given for tag, given in page.tags if tag == "img"]
    drawn = 0
    for given in pictures:
        assert given["alt"]
        kind, content = str(given["src"]).split(";base64,")
        data = base64.b64decode(content, validate=True)
        if kind == "data:image/png":
            assert data == PNG
        else:
            assert ElementTree.fromstring(data).tag.endswith("svg")
            assert b"<text" not in data  # shapes, whatever fonts there are
            drawn += 1
    assert drawn == 6  # rates, prediction-area, cross-validation, baselines, calibration, training


def test_links_lead_to_the_sections(page: Page) -> None:
    links = [link.removeprefix("#") for link in page.references() if link.startswith("#")]
    assert links == page.sections
    assert set(page.sections) == {*ALWAYS, *OPTIONAL}


@pytest.mark.parametrize("section", OPTIONAL)
def test_an_optional_section_is_there_only_with_its_content(section: str, report: Report) -> None:
    only = Extras(**{OPTIONAL[section]: getattr(report.extras, OPTIONAL[section])})
    assert set(page_of(replace(report, extras=only)).sections) == {*ALWAYS, section}


def test_without_extras_only_the_sections_of_every_report_are_there() -> None:
    assert page_of(full_report()).sections == ALWAYS


def test_whatever_names_hold_is_shown_and_never_run(report: Report) -> None:
    nasty = replace(
        report,
        model=replace(report.model, name=NASTY, learned_from=f"3 occurrences in {NASTY}"),
        occurrences=replace(report.occurrences, source=NASTY, where=(f"a ~ {NASTY}",)),
        warnings=(f"Layer {NASTY} is odd.",),
        effort=NASTY,
    )
    page = page_of(nasty)
    assert not [tag for tag, _ in page.tags if tag == "script"]
    for section in ("summary", "used", "importance", "targets", "uncertainty", "provenance"):
        assert NASTY in page.texts[section], section
    assert page.texts["top"].count(NASTY) == 2  # the title and the heading
    assert f"Layer {NASTY}" in [given.get("alt") for tag, given in page.tags if tag == "img"]
    assert json_of(nasty)["layers"][1]["name"] == NASTY


def test_the_summary_agrees_with_the_json(report: Report, page: Page) -> None:
    told, said = json_of(report), " ".join(page.texts["summary"].split())
    rates = told["prediction_rate"]
    best = next(one for one in rates["at"] if one["area_share"] == 0.1)["captured"]
    for words in (
        f"best 10 % of the area holds {100 * best['value']:.0f} % of the 40 occurrences",
        f"(95 % interval {100 * best['low']:.0f} to {100 * best['high']:.0f} %)",
        f"Half of them lie on the best {100 * rates['area_of_half']:.0f} %.",
        "The map covers 1,234 km²",
        "24 % of this area (293 km²)",
        f"{told['prediction_area']['normalised_density']:.1f} normalised density",
        f"{rates['under_curve']['value']:.2f} area under",
        f"{100 * told['calibration']['before']['distance']:.0f} points",
        "the best has 12.2 km² and 17.3 times the regional mean density",
    ):
        assert words in said, words
    for sentences in told["summary"].values():
        for sentence in sentences:
            assert " ".join(sentence.split()) in said
    known = {
        text
        for number in numbers_in(told)
        for text in (
            f"{number:,.0f}",
            f"{number:.1f}",
            f"{number:.2f}",
            f"{100 * number:.0f}",
            f"{100 * number:.1f}",
        )
    }
    known |= {"95", "50", "293", "1"}  # confidence, chance, the product above, 1 = mean
    for number in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", said):
        assert number in known, number


def test_the_caveats_are_always_there(report: Report) -> None:
    said = " ".join(summarise(report).caveats)
    for words in ("no probability", "Survey bias", "--effort", "Extrapolation", "never learned"):
        assert words in said
    weighted = " ".join(summarise(replace(report, effort="effort.tif")).caveats)
    assert "effort.tif" in weighted
    assert "No raster of survey effort" not in weighted


def test_the_ground_that_counted_as_searched_is_told_among_the_caveats(report: Report) -> None:
    assert report.model.searched in summarise(report).caveats
    assert report.model.searched in " ".join(page_of(report).all_text().split())


def test_baselines_that_were_left_out_have_a_sentence_in_their_place(report: Report) -> None:
    why = "Other methods were not measured beside the model: it is too large."
    page = page_of(replace(report, extras=Extras(baselines_left_out=why)))
    assert why in page.texts["baselines"]
    assert "area under the curve" not in page.texts["baselines"]


def test_what_lies_outside_experience_is_told_with_the_caveats(report: Report) -> None:
    for share, words in (
        (0.123, "Here 12 % of the mapped area lies outside what the model has seen."),
        (0.0004, "Here less than 0.1 % of the mapped area lies outside"),
        (0.0, "Here all of the mapped area is like what the model has seen."),
    ):
        told = replace(report, extras=replace(report.extras, outside_share=share))
        assert words in " ".join(summarise(told).caveats)
    assert "the model has seen" not in " ".join(summarise(report).caveats)


def test_a_region_without_held_out_occurrences_says_so(report: Report) -> None:
    extras = replace(report.extras, cross_validation=None)
    bare = without_held_out(replace(report, extras=extras))
    page = page_of(bare)
    for section in ("summary", "prediction", "calibration"):
        assert "held-out tiles" in page.texts[section]
        assert "No known occurrence lies on the held-out tiles" in page.texts[section]
    assert "Prediction-area plot (Yousefi" not in page.texts["prediction"]
    assert json_of(bare)["prediction_rate"] is None
    nothing = replace(bare, validation_rate=None, success_rate=None, training=None)
    text = page_of(replace(nothing, extras=Extras())).all_text()
    assert "log of the training does not lie beside the model" in text


def test_a_cross_validated_model_is_judged_by_its_folds(report: Report) -> None:
    assert report.training is not None
    history = replace(report.training, best_validation=None)
    folds = without_held_out(replace(report, training=history))
    page, pooled = page_of(folds), report.extras.cross_validation
    assert pooled is not None
    worth = summarise(folds).worth
    captured = f"{100 * pooled.at[2].captured.value:.0f} % of the 190 occurrences"
    assert worth[0].startswith("Cross-validated, each tile by a model that never saw it")
    assert captured in worth[0]
    assert "learned from all tiles" in worth[1]
    said = " ".join(worth) + page.texts["summary"] + page.texts["prediction"]
    assert "cannot be told: no" not in said
    assert "No known occurrence" not in page.all_text()
    assert "never saw cannot be told" not in page.all_text()
    assert f"{pooled.under_curve.value:.2f} area under the cross-validated curve" in " ".join(
        page.texts["summary"].split()
    )
    assert "none is held out to tell its calibration from" in page.texts["calibration"]
    assert "as many iterations as cross-validation found best" in page.texts["training"]


def test_a_cross_validated_model_has_the_worth_of_its_folds(report: Report) -> None:
    bare, pooled = without_held_out(report), report.extras.cross_validation
    assert pooled is not None
    assert pooled.enough_tiles
    assert report.calibration is not None
    calibration = replace(report.calibration, after=None, gain=None, fitted_on=0)
    folds = replace(bare, prediction_area=report.prediction_area, calibration=calibration)
    page = page_of(folds)
    plot = "Prediction-area plot (Yousefi and Carranza 2015) of the cross-validation, each tile by"
    assert plot in page.texts["prediction"]
    assert "on the held-out tiles. The curves" not in page.texts["prediction"]
    said = page.texts["calibration"]
    assert "this is the calibration of the cross-validation's map" in said
    assert "The band holds 95 %" in said
    assert "As no tile is left to fit one on, no temperature is told." in said
    assert "validation tiles hold too little" not in said
    assert "normalised density at the crossing" in page.texts["summary"]
    few = replace(folds, extras=Extras(cross_validation=replace(pooled, tiles=5)))
    assert "The band holds" not in page_of(few).texts["calibration"]
    assert "cross-validation's map" not in page_of(report).texts["calibration"]


def test_what_became_of_the_occurrences_is_told(report: Report, page: Page) -> None:
    said = " ".join(page.texts["used"].split())
    for words in (
        "read 230 gold.gpkg",
        "left out 31 outside the grid",
        "left out 9 where no layer has data",
        "used 190 120 on training tiles, 30 on validation tiles, 40 on held-out tiles",
        "of these 7 in a cell that already had one, and kept",
        "Filter: commodity ~ gold.",
        "mean 48,123 nT, standard deviation 312 nT; 98 % of the area has data",
        "5 classes; 50 % of the area has data",
    ):
        assert words in said
    used = report.occurrences
    once = replace(used, left_out=(LeftOut(7, "in a cell that already had one"),))
    again = page_of(replace(report, occurrences=once, extras=Extras()))
    assert "and kept" not in again.texts["used"]


def test_one_tile_has_no_interval_and_it_is_said(report: Report) -> None:
    assert report.prediction_rate is not None
    estimates = {
        "at": tuple(
            replace(one, captured=replace(one.captured, low=None, high=None))
            for one in report.prediction_rate.at
        ),
        "under_curve": replace(report.prediction_rate.under_curve, low=None, high=None),
    }
    alone = replace(report.prediction_rate, tiles=1, low=None, high=None, **estimates)
    page = page_of(replace(report, prediction_rate=alone))
    assert "All of these lie on one tile, so no interval can be given" in page.texts["summary"]
    assert "of one tile there is none" in page.texts["prediction"]
    few = replace(report, prediction_rate=replace(report.prediction_rate, tiles=2))
    said = " ".join(summarise(few).worth)
    assert "They lie on 2 tiles only" in said
    assert "tiles only" not in " ".join(summarise(report).worth)


def test_of_few_tiles_no_interval_is_shown_beside_another(report: Report, page: Page) -> None:
    assert report.prediction_rate is not None
    few = replace(report, prediction_rate=replace(report.prediction_rate, tiles=2))
    held_out = summarise(few).worth[1]
    assert held_out.startswith("On held-out tiles")
    assert "interval" not in held_out
    assert "2 tiles only, too few tiles for an interval" in summarise(few).worth[2]
    told, bare = page_of(few), page_of(few).texts["prediction"]
    ends = report.prediction_rate.under_curve
    assert ends.low is not None
    shown = f"({ends.low:.2f} to {ends.high:.2f})"
    assert shown in page.texts["prediction"]
    assert shown not in bare
    assert "fewer than 6 are too few tiles for an interval" in bare
    assert "Where occurrences lie on fewer than 6 tiles there is none" in bare
    assert "The band holds" in page.texts["calibration"]
    assert "The band holds" not in told.texts["calibration"]
    assert "-12 (-40 to +20)" in page.texts["baselines"]
    assert "-12 (too few tiles)" in told.texts["baselines"]
    assert "-40" not in told.texts["baselines"]
    behind, rows = Estimate(-0.12, -0.4, -0.1), report.extras.baselines
    assert rows is not None
    decided = replace(rows, rows=(replace(rows.rows[0], lead=behind),))
    extras = Extras(baselines=decided)
    assert "-12 (-40 to -10)" in page_of(replace(few, extras=extras)).texts["baselines"]
    charts = [rates_chart(one, None) for one in (report.prediction_rate, few.prediction_rate)]
    assert b"FillBetween" in charts[0]
    assert b"FillBetween" not in charts[1]


def test_what_is_no_number_is_null_in_the_json(report: Report) -> None:
    odd = replace(report, layers=(replace(report.layers[0], mean=float("nan")),))
    assert json_of(odd)["layers"][0]["mean"] is None
    told = json_of(report)
    assert told["extras"]["uncertainty"] == [
        {"title": "Disagreement", "caption": f"Of three models, {NASTY}."}
    ]
    assert told["calibration"]["after"]["temperature"] > 0
    assert len(told["prediction_area"]["threshold"]) > 10


def test_targets_are_ranked_and_the_best_ones_shown(report: Report) -> None:
    row = report.extras.targets[1]
    many = tuple(replace(row, rank=number) for number in range(60, 0, -1))
    page = page_of(replace(report, extras=Extras(targets=many)))
    ranks = re.findall(r"(\d+)\s+117.125\s+-27.5\s+12.2\s", page.texts["targets"])
    assert ranks == [str(number) for number in range(1, 26)]
    assert "Of 60 the best 25 are shown" in page.texts["targets"]
    large = replace(report.extras.targets[0], area_km2=1032.25)
    said = page_of(replace(report, extras=Extras(targets=(large,)))).texts["targets"]
    assert re.search(r"2\s+500050\s+6999950\s+1,032\s+2.0 %", said)
    assert "so many times the regional mean" in page.texts["targets"]
    assert "background" not in page.texts["targets"] + page.texts["summary"]


def test_the_tiles_that_tell_which_layers_matter_are_named(report: Report, page: Page) -> None:
    found = report.extras.importance
    assert found is not None
    assert "Without magnetics held-out occurrences are 0.31 nats" in page.texts["importance"]
    assert "worse the model finds held-out occurrences" in page.texts["importance"]
    chosen = replace(found, role="validation", on_test=2)
    said = page_of(replace(report, extras=Extras(importance=chosen))).texts["importance"]
    assert "worse the model finds validation occurrences" in said
    assert "They lie on validation tiles, which chose the model, since only 2" in said
    assert "held-out occurrences" not in said
    none = replace(found, layers=())
    said = page_of(replace(report, extras=Extras(importance=none))).texts["importance"]
    assert "Which layers matter cannot be told: no occurrence lies on" in said
    windowed = replace(none, local=False)
    said = page_of(replace(report, extras=Extras(importance=windowed))).texts["importance"]
    assert "Which layers matter cannot be told: every window of this model has" in said


def test_it_is_said_how_to_apply_the_temperature(report: Report) -> None:
    assert report.calibration is not None
    assert report.calibration.after is not None
    after = replace(report.calibration.after, temperature=0.8)
    better = replace(report, calibration=replace(report.calibration, after=after, gain=0.1))
    said = page_of(better).texts["calibration"]
    assert "by --temperature 0.80 (in QGIS the parameter Temperature of the map)" in said
    assert "changes the contrast of a map, not the ranking" in said
    job = {"command": "evaluate", "temperature": 0.5}  # the map that was judged had one already
    again = replace(better, provenance={**report.provenance, "job": job})
    assert "--temperature 0.40 (in QGIS" in page_of(again).texts["calibration"]
    worse = replace(report, calibration=replace(report.calibration, after=after, gain=-0.1))
    said = page_of(worse).texts["calibration"]
    assert "the held-out tiles gain nothing by it, leave it" in said
    assert "--temperature" not in said


def test_an_ensemble_is_told_as_one(report: Report, page: Page) -> None:
    several = replace(report.model, networks=3, other_iterations=(68, 1070))
    told = page_of(replace(report, model=several))
    assert "an ensemble of 3 networks, and the map is their mean" in told.texts["summary"]
    for words in (
        "Loss of the first network on training tiles",
        "200 iterations in 1.0 min, by the first network",
        "(of the first network; those of the others are of iteration 68, 1,070)",
        "3, each from another start",
    ):
        assert words in told.texts["training"]
    for section in ("importance", "targets"):
        assert "Of the 3 networks the first is asked" in told.texts[section]
    copied = page_of(replace(report, model=several, training=None))
    assert "iteration 120 (of the first network; those of" in copied.texts["training"]
    assert "network" not in page.texts["training"] + page.texts["importance"]


def test_layers_that_cannot_be_told_from_none_have_pale_bars(report: Report, page: Page) -> None:
    found = report.extras.importance
    assert found is not None
    sure, _ = found.layers
    layers = (sure, replace(sure, layer="b", low=-0.01), replace(sure, layer="c", low=None))
    bars = page_of(replace(report, extras=Extras(importance=replace(found, layers=layers))))
    fills = [given["fill"] for tag, given in bars.tags if tag == "rect"]
    assert fills == [MATTERS, UNTOLD, UNTOLD]
    assert "Pale bars cannot be told from 0" in page.texts["importance"]


def test_importance_of_few_tiles_has_no_interval_and_it_is_said(report: Report, page: Page) -> None:
    found = report.extras.importance
    assert found is not None
    intervals, told = ("0.20 to 0.42", "+0.200 to +0.420"), page.texts["importance"]
    assert all(ends in told for ends in intervals)
    assert "interval can be given" not in told
    for tiles, why in (
        (5, "The occurrences lie on 5 tiles only, too few tiles for an interval: others may tell"),
        (1, "All of the occurrences lie on one tile, so no interval can be given"),
    ):
        layers = tuple(replace(layer, tiles=tiles) for layer in found.layers)
        extras = Extras(importance=replace(found, layers=layers))
        few = page_of(replace(report, extras=extras))
        said = few.texts["importance"]
        assert why in said
        assert "All bars are pale" in said
        assert not any(ends in said for ends in intervals)
        assert "+0.310" in said
        bars = [given for tag, given in few.tags if tag == "rect"]
        assert [given["fill"] for given in bars] == [UNTOLD, UNTOLD]
        red = [given for tag, given in few.tags if given.get("stroke-width") == "2"]
        assert red == []
    assert [given for tag, given in page.tags if given.get("stroke-width") == "2"] != []


def test_the_label_of_the_crossing_stands_before_the_curves(report: Report) -> None:
    assert report.prediction_area is not None
    svg = prediction_area_chart(report.prediction_area).decode()
    label = svg[: svg.index("% of occurrences -->")].rpartition('<g id="text_')[2]
    assert 'id="patch_' in label  # its box
    assert "fill: #ffffff" in label


def test_the_same_content_gives_the_same_page(report: Report) -> None:
    assert report_page(report, pictures_of(report)) == report_page(report, pictures_of(report))


def test_text_is_escaped_unless_it_is_html() -> None:
    inner = element("b", "a < b")
    assert element("p", inner, " & c", title='"x"') == (
        '<p title="&quot;x&quot;"><b>a &lt; b</b> &amp; c</p>'
    )


def test_numbers_are_written_for_people() -> None:
    assert [percent(share) for share in (0.68, 0.056, 0.0996, 0.0, 1.0)] == [
        *("68 %", "5.6 %", "10 %", "0 %", "100 %"),
    ]
    assert [rounded(n) for n in (27_548.2, 3.1234, 0.015632, -1234.5, 2.5e9, 999.7)] == [
        *("27,548", "3.12", "0.0156", "-1,234", "2.5e+09", "1,000"),
    ]
