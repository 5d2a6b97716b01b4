"""An extent as Processing writes it: xmin,xmax,ymin,ymax [EPSG:28350]."""

import math
import re

from qgis.core import QgsCoordinateReferenceSystem, QgsRectangle

from ..jobs.crs_text import crs_text

PATTERN = re.compile(r"\s*([^,\[]+),([^,\[]+),([^,\[]+),([^,\[]+?)\s*(?:\[(.*)\])?\s*", re.DOTALL)


def extent_text(rectangle, crs):
    """Write an extent with its coordinate system; one without a number is written as WKT."""
    numbers = (
        rectangle.xMinimum(),
        rectangle.xMaximum(),
        rectangle.yMinimum(),
        rectangle.yMaximum(),
    )
    text = ",".join(f"{number:.12g}" for number in numbers)
    if not crs.isValid():
        return text
    return f"{text} [{crs.authid() or 'WKT:' + crs_text(crs)}]"


def parse_extent(text):
    """Read an extent back as rectangle and coordinate system; None if it is none."""
    parts = PATTERN.fullmatch(text)
    if parts is None:
        return None
    try:
        xmin, xmax, ymin, ymax = (float(part) for part in parts.groups()[:4])
    except ValueError:
        return None
    if not (xmin < xmax and ymin < ymax and all(map(math.isfinite, (xmin, xmax, ymin, ymax)))):
        return None
    return QgsRectangle(xmin, ymin, xmax, ymax), QgsCoordinateReferenceSystem(parts[5] or "")
