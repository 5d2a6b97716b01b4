"""The filter by the values of a field, in the engine's words: `commodity ~ Au, Cu`.

The engine splits a value such as "Au; Cu" at , ; and / into single ones and ignores the case of
letters; so does this module, that the counts of the panel are those of the run.
"""

import math
import re

from qgis.core import NULL, QgsFields

SEPARATORS = re.compile(r"[,;/]")
NOT_IN_FIELDS = re.compile(r"[~=!<>|\r\n]")
JOINING_WORDS = re.compile(r"\s(and|or)\s", re.IGNORECASE)
QUOTES = "\"'"
WHOLE_NUMBER = re.compile(r"[-+]?\d+")
EXACT_WHOLE = 1e15  # whole numbers up to here are written without an exponent

# a field of whole numbers or yes and no that has gaps reaches the engine as decimals
LOGICAL = {"true": ("1", "1.0"), "false": ("0", "0.0")}


def can_be_filtered(field):
    """Tell whether the engine's filter can name a field."""
    return bool(field) and NOT_IN_FIELDS.search(field) is None


def fields_to_filter(layer):
    """Give the fields (QgsFields) of a layer that can hold kinds; none if there is no layer."""
    fields = QgsFields()
    if layer is None or not layer.isValid():
        return fields
    # GDAL's number of a feature, which QGIS shows as a field, is none to the engine
    numbers = layer.primaryKeyAttributes() if layer.providerType() == "ogr" else []
    for index, field in enumerate(layer.fields()):
        if index not in numbers and not field.isDateOrTime():
            fields.append(field)
    return fields


def single_values(value):
    """Give the values in one cell of the table: "Au; Cu" is two, an empty one none."""
    text = _text(value)
    parts = (part.strip() for part in SEPARATORS.split(text))
    return [part for part in parts if part]


def folded(values):
    """Give values without regard to the case of letters, for comparison."""
    return frozenset(value.casefold() for value in values)


def wanted_values(values):
    """Give the folded values that a filter for these values lets pass."""
    return folded(spelling for value in values for spelling in _spellings(value))


def where_text(choices):
    """Give the engine's filter for OccurrenceChoices; an empty text if there is none."""
    if not choices.field or not choices.values:
        return ""
    spellings = [spelling for value in choices.values for spelling in _spellings(value)]
    operand = ", ".join(dict.fromkeys(spellings))
    if _looks_quoted(operand) or JOINING_WORDS.search(operand):
        quote = next((mark for mark in QUOTES if mark not in operand), QUOTES[0])
        operand = f"{quote}{operand}{quote}"
    field = choices.field
    if _looks_quoted(field) or field != field.strip():
        field = f'"{field}"'
    return f"{field} ~ {operand}"


def _spellings(value):
    folded_value = value.strip().casefold()
    if WHOLE_NUMBER.fullmatch(folded_value):
        return (value, f"{value}.0")
    return (value, *LOGICAL.get(folded_value, ()))


def _text(value):
    if value is None or value == NULL:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if math.isnan(value):
            return ""
        return str(int(value)) if value.is_integer() and abs(value) < EXACT_WHOLE else repr(value)
    return str(value)


def _looks_quoted(text):
    return len(text) > 1 and text[0] == text[-1] and text[0] in QUOTES
