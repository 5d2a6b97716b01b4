"""Characters that would command a terminal, shown instead of obeyed: names come from strangers."""

from __future__ import annotations

from typing import Any

LINE_ENDS = "\n\t"  # these our own sentences have
CONTROLS = (
    *(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in LINE_ENDS),
    *"\u061c\u200e\u200f\u2028\u2029",  # of the direction of writing, and of lines
    *map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))),
)
SHOWN = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in CONTROLS})


def visible(text: str) -> str:
    r"""The text with such characters written as \u001b, as JSON and TOML write them too."""
    return text.translate(SHOWN)


def all_visible(value: Any) -> Any:
    """The same for every text in lists and tables."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {all_visible(key): all_visible(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [all_visible(each) for each in value]
    return value
