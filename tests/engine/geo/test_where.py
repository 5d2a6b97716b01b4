import numpy as np
import pytest
from geocfm.errors import UserError
from geocfm.geo.where import Condition, no_match_error, parse_where

FIELDS = {
    "Commod1": np.array(["Gold, Silver", "copper", "Goldfields", None, ""], dtype=object),
    "commod2": np.array(["", "zinc; GOLD", "lead/gold ", "Tin", None], dtype=object),
    "grade": np.array([1.5, np.nan, 10.0, 2.0, 0.0]),
    "year": np.array(["1999", "2003", "unknown", "", "20"], dtype=object),
    "size": np.array(["Large", "small", "LARGE", None, "medium"], dtype=object),
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("commod1 ~ gold", [1, 0, 0, 0, 0]),
        ("commod1|commod2 ~ gold", [1, 1, 1, 0, 0]),
        ("commod1 | commod2 ~ gold, TIN", [1, 1, 1, 1, 0]),
        ("commod2 ~ lead; zinc", [0, 1, 1, 0, 0]),
        ("size = large", [1, 0, 1, 0, 0]),
        ("size == 'Large'", [1, 0, 1, 0, 0]),
        ("size != large", [0, 1, 0, 1, 1]),
        ("commod1|commod2 != tin", [1, 1, 1, 0, 1]),
        ("size < medium", [1, 0, 1, 0, 0]),
        ("grade > 1.5", [0, 0, 1, 1, 0]),
        ("grade >= 1.5", [1, 0, 1, 1, 0]),
        ("grade < 2", [1, 0, 0, 0, 1]),
        ("grade <= 2", [1, 0, 0, 1, 1]),
        ("grade = 10", [0, 0, 1, 0, 0]),
        ("grade != 10", [1, 1, 0, 1, 1]),
        ("year > 100", [1, 1, 0, 0, 0]),  # numbers, though written as text
        ("YEAR = unknown", [0, 0, 1, 0, 0]),
    ],
)
def test_operators(text, expected):
    matches = parse_where(text).matches(FIELDS)
    assert matches.dtype == bool
    assert matches.tolist() == [bool(held) for held in expected]


def test_parse():
    assert parse_where("a b|c>=-3") == Condition(("a b", "c"), ">=", "-3")


@pytest.mark.parametrize("text", ["", "gold", "~ gold", "commod1 ~", "a||b = 3", "= 3"])
def test_nonsense_is_refused_with_an_example(text):
    with pytest.raises(UserError, match="is not understood") as caught:
        parse_where(text)
    assert "gold, copper" in caught.value.hint


def test_unknown_field_lists_the_fields_and_the_nearest():
    with pytest.raises(UserError, match="no field 'comod1'") as caught:
        parse_where("comod1 ~ gold").matches(FIELDS)
    assert "Did you mean 'Commod1'?" in caught.value.hint
    assert "grade" in caught.value.hint


def test_no_match_lists_frequent_values():
    error = no_match_error([parse_where("size = huge")], {"SIZE": np.array(["a", "b", "b", None])})
    assert "'SIZE' are: b (2), a (1)." in error.hint
