"""What a raster of the project is: its bands, its grid, and whether it can be learned from."""

import re
from dataclasses import dataclass

from qgis.core import Qgis, QgsUnitTypes

from ..compat import ALPHA_BAND, COLOUR_BANDS, PALETTE_BAND
from ..redaction import without_credentials
from ..translation import tr
from .layer_file import file_is_gone, layer_path

PICTURE_PROVIDERS = ("wms", "arcgismapserver")
PICTURE_SOURCE = re.compile(r"<GDAL_WMS|WMT?S:", re.IGNORECASE)
NOT_IN_NAMES = re.compile(r"[=/\\,\r\n\t]+")
PROVENANCE = "geocfm/provenance"  # the property that our own results carry
COMPLEX = (
    Qgis.DataType.CInt16,
    Qgis.DataType.CInt32,
    Qgis.DataType.CFloat32,
    Qgis.DataType.CFloat64,
)


@dataclass(frozen=True)
class Band:
    """A band that can be a channel: its number, the name proposed, whether it seems to be codes."""

    number: int
    name: str
    has_codes: bool = False


def clean_name(text):
    """Give a text as a name the engine can take: it must not hold = / \\ or a comma."""
    return NOT_IN_NAMES.sub("_", text).strip() or "layer"


def bands(layer):
    """Give the bands of a valid raster, named as the engine names them: alpha is none."""
    provider = layer.dataProvider()
    numbers = [
        number
        for number in range(1, layer.bandCount() + 1)
        if provider.colorInterpretation(number) != ALPHA_BAND
    ]
    name = clean_name(layer.name())
    return [
        Band(
            number,
            name if len(numbers) == 1 else clean_name(f"{name}_{_description(layer, number)}"),
            _has_codes(layer, number),
        )
        for number in numbers
    ]


def why_unusable(layer):
    """Say why nothing can be learned from a raster; an empty text if something can."""
    if layer.providerType() in PICTURE_PROVIDERS or PICTURE_SOURCE.match(layer.source()):
        return tr("A web map gives pictures, not measured values. Download the grid as a GeoTIFF.")
    if is_out_of_reach(layer):
        if layer_path(layer):
            return tr("Its file cannot be opened; it may have been moved, renamed or deleted.")
        return tr("Its source cannot be reached. Check the connection, or repair the layer.")
    kinds = {layer.dataProvider().dataType(band.number) for band in bands(layer)}
    if kinds.intersection(COMPLEX):
        return tr("It holds complex numbers. Export its amplitude as a raster of its own.")
    return ""


def is_out_of_reach(layer):
    """Tell whether a raster cannot be opened, or could not be any more by the engine."""
    return not layer.isValid() or file_is_gone(layer)


def is_our_result(layer):
    """Tell whether the raster came out of a run of ours."""
    return bool(layer.customProperty(PROVENANCE))


def at_a_glance(layer):
    """Give cell size, coordinate system and what is unusual about it, in a few words."""
    if why_unusable(layer):
        is_lost = is_out_of_reach(layer) and layer_path(layer)
        return tr("not found") if is_lost else tr("cannot be used")
    words = [cell_size(layer), crs_name(layer.crs())]
    if is_our_result(layer):
        words.append(tr("result"))
    elif layer.dataProvider().colorInterpretation(1) in COLOUR_BANDS and layer.bandCount() > 2:
        words.append(tr("picture"))
    elif layer.providerType() != "gdal":
        words.append(layer.providerType())
    return ", ".join(words)


def details(layer):
    """Give what is known of a raster, for its tooltip."""
    lines = [layer.name(), without_credentials(layer.publicSource())]
    if layer.isValid():
        size = tr("{columns} columns x {rows} rows").format(
            columns=layer.width(), rows=layer.height()
        )
        crs = layer.crs().description() if layer.crs().isValid() else crs_name(layer.crs())
        lines += [f"{size}, {cell_size(layer)}", crs]
    return "\n".join(line for line in lines if line)


def crs_name(crs):
    """Give the short name of a coordinate system."""
    if not crs.isValid():
        return tr("no CRS")
    return crs.authid() or crs.description() or tr("own CRS")


def cell_size(layer):
    """Give the size of a cell with its unit: 500 m, or 30 x 20 m."""
    width, height = layer.rasterUnitsPerPixelX(), layer.rasterUnitsPerPixelY()
    numbers = f"{width:.4g}"
    if abs(width - height) > 1e-4 * width:
        numbers += f" x {height:.4g}"
    if not layer.crs().isValid():
        return numbers
    return f"{numbers} {QgsUnitTypes.toAbbreviatedString(layer.crs().mapUnits())}"


def _description(layer, number):
    # QGIS 3.22 gives the description only behind "Band 1: "
    return layer.dataProvider().generateBandName(number).partition(": ")[2] or str(number)


def _has_codes(layer, number):
    if layer.dataProvider().colorInterpretation(number) == PALETTE_BAND:
        return True
    renderer = layer.renderer()
    return renderer is not None and renderer.type() == "paletted" and number in renderer.usesBands()
