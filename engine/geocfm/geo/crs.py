"""Coordinate reference systems: reading what a user or a file calls one, and naming it."""

from __future__ import annotations

from contextlib import suppress

import rasterio
from rasterio.crs import CRS
from rasterio.errors import CRSError

from geocfm.errors import UserError

LONGEST_SHOWN = 60  # characters of a wrong CRS in a message
NAMELESS = ("", "unknown", "unnamed", "undefined", "undefined geographic crs")


def parse_crs(text: str) -> CRS:
    """Read a CRS a user wrote, which must be one that a map can be drawn in."""
    crs = read_crs(text)
    if not (crs.is_projected or crs.is_geographic):
        raise UserError(
            f"{crs_name(crs)} is not a map projection or longitude and latitude.",
            "Choose one such as EPSG:20350.",
        )
    return crs


def read_crs(text: str) -> CRS:
    """Read a CRS of any kind: EPSG:20350, 20350, WKT or PROJ text."""
    try:
        with rasterio.Env():  # without it PROJ writes its own words to the terminal
            return CRS.from_epsg(int(text)) if text.strip().isdigit() else CRS.from_user_input(text)
    except (CRSError, ValueError) as error:  # ValueError: EPSG: and no number
        raise UserError(
            f"'{text[:LONGEST_SHOWN]}' is not a coordinate reference system.",
            "Write it as an EPSG code, for example EPSG:4326 or EPSG:20350.",
        ) from error


def crs_option(crs: CRS) -> str | None:
    """What a user may write that is read back as this CRS: its code or PROJ text; None if none."""
    authority = crs.to_authority()
    if authority:
        return ":".join(authority)
    text = " ".join(str(crs.to_proj4()).replace("=True", "").split())
    with suppress(UserError):
        return f"'{text}'" if text and read_crs(text) == crs else None
    return None


def crs_name(crs: CRS) -> str:
    """Name a CRS for a reader: EPSG:20350, or its own name when it has no code."""
    authority = crs.to_authority()
    if authority:
        return ":".join(authority)
    wkt = str(crs.to_wkt())
    name = wkt.split('"')[1] if '"' in wkt else wkt
    return "a CRS without a name" if name.strip().lower() in NAMELESS else name
