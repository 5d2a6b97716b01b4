"""The bands of rasters as named layers of a model: the text of CHANNELS, and names by default."""

from __future__ import annotations

import re
from dataclasses import dataclass

from qgis.core import QgsProcessingException

from ..translation import tr
from .raster_facts import bands as bands_of
from .raster_facts import clean_name

ENTRY = re.compile(r"\s*([^=]+?)\s*=\s*(\d+)\s*(?::\s*(\d+)\s*)?")


@dataclass(frozen=True)
class NamedBand:
    """One band of one of the rasters given, under the name the model knows it by."""

    name: str
    number: int  # of the raster in the list, from 1
    band: int


def parse_channels(text):
    """Read `mag=1:1, k=3:2`, name = number of the raster[:band], into NamedBands."""
    found = []
    for part in text.split(","):
        entry = ENTRY.fullmatch(part)
        if entry is None or clean_name(entry[1]) != entry[1]:
            raise QgsProcessingException(
                tr(
                    "'{part}' does not say which band is meant. Write it like mag=1:1, k=3:2: a "
                    "name, the number of the raster in the list, and its band."
                ).format(part=part.strip())
            )
        found.append(NamedBand(entry[1], int(entry[2]), int(entry[3] or 1)))
    return found


def format_channels(bands):
    """Write NamedBands as the text of CHANNELS."""
    return ", ".join(f"{each.name}={each.number}:{each.band}" for each in bands)


def default_channels(layers):
    """Give all bands of all rasters, named by their layers."""
    return [
        NamedBand(band.name, number, band.number)
        for number, layer in enumerate(layers, 1)
        for band in bands_of(layer)
    ]


def check_channels(bands, layers):
    """Refuse bands that are not there, and two of one name."""
    for each in bands:
        if not 1 <= each.number <= len(layers):
            raise QgsProcessingException(
                tr("'{name}' shall be raster number {number}, but the list has {count}.").format(
                    name=each.name, number=each.number, count=len(layers)
                )
            )
        layer = layers[each.number - 1]
        if not 1 <= each.band <= layer.bandCount():
            raise QgsProcessingException(
                tr("The raster '{layer}' has no band {band}; it has {count}.").format(
                    layer=layer.name(), band=each.band, count=layer.bandCount()
                )
            )
    names = [each.name for each in bands]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise QgsProcessingException(
            tr(
                "Two layers have the name '{name}'. Rename one of them in the Layers panel, or "
                "give the bands names of their own."
            ).format(name=twice)
        )
