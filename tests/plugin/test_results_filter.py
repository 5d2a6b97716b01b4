"""The engine's filter of occurrences, as the plugin applies it to show the points used."""

import pytest
from qgis.core import NULL, QgsFeature, QgsField, QgsFields
from qgis.PyQt.QtCore import QVariant

from geocfm_qgis.results.engine_filter import matches


def feature(**values):
    fields = QgsFields()
    for name in values:
        fields.append(QgsField(name, QVariant.String))
    made = QgsFeature(fields)
    made.setAttributes(list(values.values()))
    return made


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("commodity ~ gold", True),
        ("COMMODITY ~ 'zinc, Gold'", True),
        ("commodity ~ gol", False),
        ("other|commodity ~ copper", True),
        ("commodity = Au", False),
        ("commodity = gold / copper", True),
        ("other != gold", True),
        ("other = gold", False),
        ("grade > 2", True),
        ("grade >= 10", True),
        ("grade < 9", False),
        ("grade == 10.0", True),
        ("commodity < 5", False),
        ("other ~ gold", False),
    ],
)
def test_a_condition(condition, expected):
    point = feature(commodity="Gold / copper", other=NULL, grade="10")
    assert matches(point, [condition]) is expected


def test_all_conditions_must_hold():
    point = feature(commodity="Gold", grade="10")
    assert matches(point, ["commodity ~ gold", "grade > 2"])
    assert not matches(point, ["commodity ~ gold", "grade > 20"])
    assert matches(point, [])
