"""What is told of an ended run: how well occurrences were found where the model had not been."""

import pytest
from qgis.PyQt.QtWidgets import QGridLayout, QWidget

from geocfm_qgis.engine_client import DONE, Outcome
from geocfm_qgis.engine_events import Report
from geocfm_qgis.panel.run_end import RunEnd
from geocfm_qgis.runs import Run

MEASURED = {"test": {"occurrences": 41, "captured": {"0.05": 0.5, "0.1": 0.81}}}
NOTHING_HELD_OUT = {"test": {"occurrences": 0, "area_km2": 0.0}}
FOLDS = {  # as CrossValidation.to_dict writes it
    "best_iterations": [200, 220],
    "iterations": 210,
    "rates": {
        "occurrences": 255,
        "at": [
            {"area_share": 0.05, "captured": {"value": 0.4, "low": 0.3, "high": 0.5}},
            {"area_share": 0.1, "captured": {"value": 0.676, "low": None, "high": None}},
        ],
    },
}


@pytest.fixture
def sentence(qgis_app):
    parent = QWidget()
    end = RunEnd(QGridLayout(parent), None, parent)

    def say(*reports):
        events = tuple(Report(kind, content) for kind, content in reports)
        return end.sentence(Run("a run", (), "/none"), Outcome(DONE, events=events), [], 5.0)

    return say


def test_the_evaluation_on_tiles_kept_apart_is_told(sentence):
    said = sentence(("evaluation", MEASURED), ("cross-validation", FOLDS))
    assert "On tiles it never saw" in said
    assert said.endswith("the most prospective 10 % of the ground hold 81 % of 41 occurrences.")


@pytest.mark.parametrize("reports", [(), (("evaluation", NOTHING_HELD_OUT),)])
def test_where_folds_have_left_no_tile_apart_they_are_told(sentence, reports):
    """The model of a run with folds learns from all tiles, so its evaluation has no figure."""
    said = sentence(("cross-validation", FOLDS), *reports)
    assert said.endswith(
        "In the cross-validation, the most prospective 10 % of the ground hold 68 % of 255 "
        "occurrences."
    )


@pytest.mark.parametrize(
    "reports",
    [(), (("evaluation", NOTHING_HELD_OUT),), (("cross-validation", {**FOLDS, "rates": None}),)],
)
def test_what_was_not_measured_is_not_told(sentence, reports):
    assert "prospective" not in sentence(*reports)
