import re

import pytest
from qgis.core import NULL

from geocfm_qgis.panel.choices import OccurrenceChoices
from geocfm_qgis.panel.commodity_filter import (
    can_be_filtered,
    folded,
    single_values,
    wanted_values,
    where_text,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Au; Cu", ["Au", "Cu"]),
        ("Fe, Mn/Co,", ["Fe", "Mn", "Co"]),
        ("  ", []),
        (None, []),
        (NULL, []),
        (float("nan"), []),
        (3, ["3"]),
        (3.0, ["3"]),
        (0.25, ["0.25"]),
        (True, ["true"]),
    ],
)
def test_a_value_is_split_as_the_engine_splits_it(value, expected):
    assert single_values(value) == expected


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("commodity", ("Au", "Cu"), "commodity ~ Au, Cu"),
        ("class", ("3",), "class ~ 3, 3.0"),
        ("ore", ("lead and zinc = rich",), 'ore ~ "lead and zinc = rich"'),
        ("ore", ('"x"',), "ore ~ '\"x\"'"),
        ('"odd"', ("a",), '""odd"" ~ a'),
        ("commodity", (), ""),
        ("", ("Au",), ""),
    ],
)
def test_the_filter_in_the_engines_words(field, values, expected):
    assert where_text(OccurrenceChoices(field=field, values=values)) == expected


def test_capital_letters_do_not_matter():
    assert wanted_values(["GOLD", "7"]) == {"gold", "7", "7.0"}
    assert folded(["Straße"]) == {"strasse"}


@pytest.mark.parametrize("field", ["a=b", "a|b", "a~b", "a>b", ""])
def test_fields_that_the_filter_cannot_name(field):
    assert not can_be_filtered(field)
    assert can_be_filtered(re.sub(r"\W", "_", field) or "commodity")
