"""The engine's filter of occurrences, `commod1|commod2 ~ gold, copper`, for features of QGIS.

The same rules as in geocfm/geo/where.py, to show the points that the engine used.
"""

from __future__ import annotations

import operator
import re

from qgis.core import NULL

CONDITION = re.compile(r"\s*([^~=!<>]+?)\s*(~|!=|<=|>=|==|=|<|>)\s*(.*?)\s*", re.DOTALL)
TOKEN_SEPARATORS = re.compile(r"[,;/]")
COMPARISONS = {
    "=": operator.eq,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def matches(feature, where):
    """Whether a feature meets all conditions of the engine's filter."""
    return all(_meets(feature, condition) for condition in where)


def _meets(feature, condition):
    parts = CONDITION.fullmatch(condition)
    if parts is None:
        return True
    names = {name.casefold(): name for name in reversed(feature.fields().names())}
    wanted, sign = _unquoted(parts[3]), parts[2]
    fields = [names.get(_unquoted(field).casefold()) for field in parts[1].split("|")]
    values = [str(feature[field]) for field in fields if field and not _is_empty(feature[field])]
    if sign == "!=":  # `a|b != gold` means that neither is gold
        return not any(_compares(value, "=", wanted) for value in values)
    return any(_compares(value, sign, wanted) for value in values)


def _compares(value, sign, wanted):
    if sign == "~":
        return not _tokens(value).isdisjoint(_tokens(wanted))
    own, number = _number(value), _number(wanted)
    compare = COMPARISONS[sign]
    if own is not None and number is not None:
        return compare(own, number)
    if compare is not operator.eq and (own is None) != (number is None):
        return False  # "unknown" is neither above nor below 5
    return compare(value.strip().casefold(), wanted.casefold())


def _is_empty(value):
    return value in (None, NULL) or not str(value).strip() or value != value  # NaN is not itself


def _tokens(text):
    return {token.strip().casefold() for token in TOKEN_SEPARATORS.split(text)} - {""}


def _unquoted(text):
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _number(text):
    try:
        return float(text)
    except ValueError:
        return None
