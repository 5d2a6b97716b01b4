"""What is wrong with a key or a value, in plain words: what is allowed, and the nearest name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from geocfm.errors import UserError

LONGEST_SHOWN = 60  # characters of a wrong value
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
    "multipleOf": "a multiple of",
}


def explain(error: ErrorDetails, kind: type[BaseModel], field: str, depth: int = 1) -> str:
    """A sentence for what pydantic found; the field stands at this depth of the error's place."""
    whole = len(error["loc"]) == depth
    if error["type"] == "extra_forbidden" and whole:
        every = f"The keys are: {', '.join(kind.model_fields)}."
        return (
            f"there is no such key. {nearest_name(field, list(kind.model_fields)) or every}".strip()
        )
    if error["type"] == "missing" and whole:
        return f"it must be given. {kind.model_fields[field].description or ''}".strip()
    given = shown(error["input"])
    if error["type"] == "value_error":
        return f"{given} cannot be used: {error['ctx']['error']}."
    allowed = _schema(kind, field)
    near = nearest_name(str(error["input"]), allowed.get("enum", []))
    return f"{given} cannot be used; it must be {_in_words(allowed)}. {near}".strip()


def nearest_name(name: str, names: Sequence[str]) -> str:
    """Suggest the known name most like a misspelt one, as a sentence; empty if none is near."""
    folded = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1)
    return f"Did you mean '{folded[near[0]]}'? " if near else ""


def choose_names(text: str, known: Sequence[str], what: str) -> list[str]:
    """``all``, or names of ``what`` divided by commas, in the order of the known ones."""
    names = [name for part in text.split(",") if (name := part.strip().lower())]
    if "all" in names:
        return list(known)
    every = f"The {what}s are: {', '.join(known)}."
    for name in names:
        if name not in known:
            raise UserError(
                f"There is no {what} called '{name}'.", nearest_name(name, known) + every
            )
    if not names:
        raise UserError(f"No {what} is named.", f"--{what}s all, or some of {', '.join(known)}.")
    return [key for key in known if key in names]


def shown(value: Any) -> str:
    """A value as its writer would recognise it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, PurePath):  # its end says more than its beginning
        text = str(value)
        return text if len(text) <= LONGEST_SHOWN else f"…{text[-LONGEST_SHOWN:]}"
    text = f"'{value}'" if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _schema(kind: type[BaseModel], field: str) -> dict[str, Any]:
    """The JSON Schema of a field's value where it has one."""
    schema: dict[str, Any] = kind.model_json_schema()["properties"][field]
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice.get("type") != "null"]
    return {"description": schema.get("description", ""), **choices[0]}


def _in_words(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return f"one of: {', '.join(schema['enum'])}"
    if "pattern" in schema:  # which the description says in words
        return str(schema["description"]).rstrip(".")
    kind = schema.get("type")
    if kind in ("integer", "number"):
        bounds = [f"{word} {schema[key]:,}" for key, word in BOUNDS.items() if key in schema]
        return f"a {'whole ' if kind == 'integer' else ''}number, {' and '.join(bounds)}".rstrip(
            ", "
        )
    if "prefixItems" in schema:
        return f"a list of {len(schema['prefixItems'])} numbers"
    if kind == "array":
        return f"a list of texts{' with at least one entry' if schema.get('minItems') else ''}"
    return {"boolean": "true or false", "object": "a table"}.get(str(kind), "text")
