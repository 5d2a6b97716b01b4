"""Coordinate reference systems: reading what a user or a file calls one, and naming it."""

from __future__ import annotations

import os
import re
from contextlib import suppress

import rasterio
from rasterio.crs import CRS
from rasterio.errors import CRSError

from geocfm.errors import UserError

LONGEST_SHOWN = 60  # characters of a wrong CRS in a message
NAMELESS = ("", "unknown", "unnamed", "undefined", "undefined geographic crs")

# What a CRS may be written as. GDAL would also take the name of a file or an address, and ask for
# it; a text may come from a stranger's model or job file.
CODE = r"[a-z]\w+(::?[\w.,+-]+)+"  # EPSG:20350, urn:ogc:def:crs:EPSG::20350
NAME = r"[a-z]+\d+"  # WGS84, NAD27
WKT = r"(esri::)?\w+\s*[\[(].*"
PROJ_TEXT = r"\+(?!.*init=\S*[/\\]).*"  # whose init may name a file
PROJ_JSON = r"\{.*"
WRITTEN_CRS = re.compile(
    "|".join((CODE, NAME, WKT, PROJ_TEXT, PROJ_JSON)), re.IGNORECASE | re.DOTALL
)


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
    written = text.strip()
    is_written = WRITTEN_CRS.fullmatch(written) is not None and not _is_file(written)
    try:
        with rasterio.Env():  # without it PROJ writes its own words to the terminal
            if written.isdecimal():
                return CRS.from_epsg(int(written))
            if is_written:
                return CRS.from_user_input(written)
    except (CRSError, ValueError, RecursionError, OverflowError):  # ValueError: EPSG: and no number
        pass
    raise UserError(
        f"'{text[:LONGEST_SHOWN]}' is not a coordinate reference system.",
        "Write it as an EPSG code, for example EPSG:4326 or EPSG:20350"
        f"{'' if is_written else ', as WKT or as PROJ text; files and addresses are not read'}.",
    )


def _is_file(text: str) -> bool:
    try:
        return os.path.lexists(text)
    except ValueError:  # a zero in it
        return False


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
