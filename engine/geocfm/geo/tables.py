"""Points from delimited text: which columns hold the coordinates, and in which CRS."""

from __future__ import annotations

import codecs
import io
import math
import os
import re
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from rasterio.crs import CRS

from geocfm.errors import UserError, hindrance
from geocfm.file_names import refuse_endless
from geocfm.geo.delimited import rows_of
from geocfm.geo.vectors import Features
from geocfm.mistakes import nearest_name

SUFFIXES = (".csv", ".tsv", ".txt")
DELIMITERS = ",;\t|"
SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*', re.IGNORECASE)  # what Excel writes and obeys
NOT_KNOWN = ("", "na", "n/a", "#n/a", "null", "none", "-", "--")
THOUSANDS = re.compile(r"[-+]?\d{1,3}([,.' \u00a0\u2019]\d{3})+([.,]\d+)?")
UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # what Excel calls Unicode text

LONGITUDES = ("longitude", "long", "lon", "lng", "longitudedd", "londd", "longdd", "declong")
LATITUDES = ("latitude", "lat", "latitudedd", "latdd", "declat")
PROJECTED_PAIRS = (
    ("x", "y"),
    ("easting", "northing"),
    ("eastings", "northings"),
    ("east", "north"),
    ("utme", "utmn"),
    ("utmeast", "utmnorth"),
    ("utmeasting", "utmnorthing"),
    ("utmx", "utmy"),
    ("xcoord", "ycoord"),
    ("coordx", "coordy"),
    ("pointx", "pointy"),
)


def is_table(path: str) -> bool:
    """Tell by its suffix whether a file is delimited text."""
    return path.lower().endswith(SUFFIXES)


def read_table(path: str, x_column: str | None, y_column: str | None) -> Features:
    """Read points from a CSV or TSV file. Its CRS is known only for longitude and latitude."""
    if not os.path.exists(path):
        raise UserError(f"The file '{path}' does not exist.", "Check its folder and its spelling.")
    refuse_endless(path)
    # not splitlines, which also breaks at marks such as an ellipsis in Windows' encoding
    lines = list(io.StringIO(_text(path), newline=""))
    delimiter = _delimiter(path, lines)
    records = rows_of(path, lines, delimiter)
    header = [name.strip() for name in next(records, (0, [""]))[1]]
    x_index, y_index = _coordinate_columns(path, header, x_column, y_column)
    rows, geometries = [], []
    for line, row in records:
        row = row + [""] * (len(header) - len(row))
        x = _coordinate(path, row[x_index], header[x_index], line, delimiter)
        y = _coordinate(path, row[y_index], header[y_index], line, delimiter)
        geometries.append(None if x is None or y is None else shapely.Point(x, y))
        rows.append(row)
    fields: dict[str, NDArray[Any]] = {
        name: np.array([row[index] for row in rows], dtype=object)
        for index, name in enumerate(header)
    }
    degrees = _plain(header[x_index]) in LONGITUDES and _plain(header[y_index]) in LATITUDES
    points = np.array(geometries, dtype=object)
    ids = np.arange(1, len(rows) + 1, dtype=np.int64)
    return Features(points, ids, fields, CRS.from_epsg(4326) if degrees else None)


def _delimiter(path: str, lines: list[str]) -> str:
    """What separates the columns; a line that only says so is blanked."""
    filled = (number for number, line in enumerate(lines) if line.strip())
    first = next(filled, None)
    if first is None:
        raise UserError(f"The file '{path}' is empty.", "Copy it or export it again.")
    said = SEPARATOR_LINE.fullmatch(lines[first])
    if said is None:
        return max(DELIMITERS, key=lines[first].count)
    lines[first] = "\n"
    if next(filled, None) is None:
        raise UserError(f"The file '{path}' is empty.", "Copy it or export it again.")
    return said[1]


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise hindrance(path, error) or UserError(
            f"The file '{path}' cannot be read.", "Check that you may open it."
        ) from error
    if content.startswith(UTF_16_MARKS):
        return content.decode("utf-16", errors="replace")
    if b"\0" in content:
        raise UserError(
            f"The file '{path}' is not text.",
            "Save it as CSV (in a spreadsheet: Save As), or give it its right suffix.",
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _coordinate_columns(
    path: str, header: list[str], x_column: str | None, y_column: str | None
) -> tuple[int, int]:
    if x_column is not None and y_column is not None:
        return _column(path, header, x_column), _column(path, header, y_column)
    if x_column is not None or y_column is not None:
        raise UserError(
            "Only one coordinate column is given.", "Give both --x-column and --y-column."
        )
    plain = [_plain(name) for name in header]
    pairs = [(x, y) for x in LONGITUDES for y in LATITUDES]
    for x, y in [*pairs, *PROJECTED_PAIRS]:
        if x in plain and y in plain:
            return plain.index(x), plain.index(y)
    raise UserError(
        f"No coordinate columns are found in '{path}'.",
        "The first line must name the columns, separated by comma, semicolon, tab or |. Give "
        f"--x-column and --y-column; the columns are: {', '.join(header)}.",
    )


def _column(path: str, header: list[str], name: str) -> int:
    folded = [known.lower() for known in header]
    if name.lower() in folded:
        return folded.index(name.lower())
    raise UserError(
        f"'{path}' has no column '{name}'.",
        f"{nearest_name(name, header)}The columns are: {', '.join(header)}.",
    )


def _coordinate(path: str, text: str, column: str, line: int, delimiter: str) -> float | None:
    text = text.strip()
    if text.lower() in NOT_KNOWN:
        return None
    try:
        number = float(text if delimiter == "," else text.replace(",", "."))
    except ValueError as error:
        raise UserError(
            f"Line {line} of '{path}' has '{text}' in the coordinate column '{column}'.",
            "Write it without separators of thousands, such as 502345.2."
            if THOUSANDS.fullmatch(text)
            else "Coordinates must be decimal numbers such as -27.125, not degrees and minutes; "
            "rows where they are empty are left out.",
        ) from error
    return number if math.isfinite(number) else None
