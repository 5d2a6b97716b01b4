"""Rows of delimited text, with an eye on quotation marks that swallow the rows after them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import suppress

from geocfm.errors import UserError

# letters of one value; Python's own limit is exceeded by outlines written as text
csv.field_size_limit(2**31 - 1)

NUMBERS_IN_A_ROW = 2  # at least: its coordinates


def rows_of(path: str, lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, the header first, each with the number of its last line.

    A value in quotation marks may run over several lines, as comments do; where it has rows in it
    its closing mark is missing, and that is refused.
    """
    ended = [*lines, "\n"]  # so that a mark which is not closed always has a line to swallow
    reader = csv.reader(ended, delimiter=delimiter)
    columns = 0
    before = 0
    try:
        for row in reader:
            piece = ended[before : reader.line_num]
            if len(piece) > 1 and _swallows(piece, row, columns, delimiter):
                over = reader.line_num > len(lines)
                end = "the end of the file" if over else f"line {reader.line_num}"
                raise UserError(
                    f"Line {before + 1} of '{path}': a quoted value runs on to {end}.",
                    "Perhaps a quotation mark lacks its partner.",
                )
            before = reader.line_num
            if any(value.strip() for value in row):
                columns = columns or len(row)
                yield reader.line_num, row
    except csv.Error as error:
        raise UserError(
            f"Line {reader.line_num} of '{path}' cannot be read ({error}).",
            "Perhaps a quotation mark lacks its partner there or before.",
        ) from error


def _swallows(lines: Sequence[str], row: list[str], columns: int, delimiter: str) -> bool:
    """Whether one row of several lines has others in it."""
    try:
        list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:  # never closed, or closed where another value begins
        return True
    alone = [next(csv.reader([line], delimiter=delimiter)) for line in lines]
    # the last line may have the rest of the row in it, and so as many columns
    others = alone[1:] if len(row) < columns else alone[1:-1]
    return any(
        len(other) >= columns > 1 and _numbers(other) >= NUMBERS_IN_A_ROW for other in others
    )


def _numbers(row: list[str]) -> int:
    count = 0
    for value in row:
        with suppress(ValueError):
            float(value.strip(' "\r\n').replace(",", "."))
            count += 1
    return count
