"""The attribute filter of occurrences: `commod1|commod2 ~ gold, copper`."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geocfm.errors import UserError
from geocfm.mistakes import nearest_name, shown

Fields = Mapping[str, NDArray[Any]]

OPERATOR = re.compile(r"~|!=|<=|>=|==|=|<|>")
TOKEN_SEPARATORS = re.compile(r"[,;/]")
SECOND_CONDITION = re.compile(
    r"\s(and|or)\s+[^\s~=!<>][^~=!<>]{0,200}?([~=!<>]|\slike\s|\sin\s*\(|\sis\s+(not\s+)?null\b)",
    re.IGNORECASE,
)
FREQUENT = 10  # how many of a field's values an error message lists

ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """One test on features; it holds if it holds for any of the named fields."""

    fields: tuple[str, ...]
    operator: str
    operand: str

    def matches(self, fields: Fields) -> NDArray[np.bool_]:
        """Tell for each feature whether the condition holds; an empty value only satisfies `!=`."""
        columns = self.columns(fields)
        test = self._test()
        held = [[test(value) for value in column] for column in columns.values()]
        found = np.logical_or.reduce(np.array(held, dtype=bool), axis=0)
        # `a|b != gold` means that neither is gold, so it is the whole that is negated
        return np.asarray(~found if self.operator == "!=" else found, dtype=bool)

    def columns(self, fields: Fields) -> dict[str, NDArray[Any]]:
        """Pick the named fields, whatever the case of their letters."""
        known = {name.lower(): name for name in reversed(list(fields))}
        picked = {}
        for field in self.fields:
            name = field if field in fields else known.get(field.lower())
            if name is None and not fields:
                raise UserError(
                    "The occurrences have no fields to filter by.",
                    "Leave out --where; the fields of a shapefile are in its .dbf file.",
                )
            if name is None:
                raise UserError(
                    f"The occurrences have no field {shown(field)}.",
                    f"{nearest_name(field, list(fields))}The fields are: {', '.join(fields)}.",
                )
            picked[name] = fields[name]
        return picked

    def _test(self) -> Callable[[Any], bool]:
        operand = self.operand
        number, text = _number(operand), operand.casefold()
        if self.operator == "~":
            wanted = _tokens(operand)
            return lambda value: not _is_null(value) and not wanted.isdisjoint(_tokens(str(value)))
        compare: Callable[[Any, Any], bool] = ORDERINGS.get(self.operator, operator.eq)

        def test(value: Any) -> bool:
            if _is_null(value):
                return False
            own = _number(value)
            if own is not None and number is not None:
                return compare(own, number)
            if compare is not operator.eq and (own is None) != (number is None):
                return False  # "unknown" is neither above nor below 5
            return compare(str(value).strip().casefold(), text)

        return test


def parse_where(text: str) -> Condition:
    """Read `field|field operator value`; operators are ~ = != < > <= >=."""
    found = OPERATOR.search(text)
    named, value = (text[: found.start()], text[found.end() :].strip()) if found else ("", "")
    fields = tuple(_unquoted(name) for name in named.split("|"))
    operand = _unquoted(value)
    if found is None or not all(fields) or "!" in named or not operand:
        raise UserError(
            f"The filter {shown(text)} is not understood.",
            'Write it like "commodity ~ gold, copper" or "grade > 2"; give several to narrow.',
        )
    if SECOND_CONDITION.search(value) and not _is_quoted(value):
        raise UserError(
            f"The filter {shown(text)} joins two conditions.",
            "Give a second --where instead of AND; for OR write a|b ~ x, y. A value that holds "
            "these words must stand in quotation marks.",
        )
    return Condition(fields, "=" if found[0] == "==" else found[0], operand)


def no_match_error(conditions: Sequence[Condition], fields: Fields) -> UserError:
    """Say what the filtered fields do contain, when nothing matched."""
    listed = []
    for condition in conditions:
        for name, values in condition.columns(fields).items():
            counts: Counter[str] = Counter()
            for value in values:
                if not _is_null(value):
                    counts.update([str(value).strip()])
            common = ", ".join(f"{value} ({n})" for value, n in counts.most_common(FREQUENT))
            listed.append(f"The most frequent values of '{name}' are: {common or 'none'}.")
    return UserError("No occurrence matches the filter.", " ".join(dict.fromkeys(listed)))


def _tokens(text: str) -> set[str]:
    return {token.strip().casefold() for token in TOKEN_SEPARATORS.split(text)} - {""}


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _is_quoted(text: str) -> bool:
    """Whether quotation marks stand around the whole, so that no word in it is an operator."""
    return len(text) > 1 and text[0] == text[-1] in "\"'" and text[0] not in text[1:-1]


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _is_null(value: Any) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    return bool(value != value)  # NaN and NaT differ from themselves
