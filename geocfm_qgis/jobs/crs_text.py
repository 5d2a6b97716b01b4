"""A coordinate reference system as text for the engine."""

from ..compat import PREFERRED_WKT

PUBLIC = ("EPSG:", "ESRI:", "OGC:", "IGNF:")  # others are numbers of this user's own


def crs_text(crs):
    """Give the code of a CRS, or its definition as WKT if it has none that others know."""
    if crs.authid().startswith(PUBLIC):
        return crs.authid()
    return crs.toWkt(PREFERRED_WKT)
