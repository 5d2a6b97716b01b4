"""Raster layers of QGIS as rasters of the engine, with what QGIS knows better than the file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from osgeo import gdal
from qgis.core import Qgis, QgsProcessingException

from ..compat import PREFERRED_WKT
from ..redaction import has_credentials
from ..translation import tr
from .crs_text import crs_text
from .layer_file import file_state, refuse_gone
from .raster_export import RasterExport
from .temporary import path_by_content

PICTURE_TYPES = (
    Qgis.DataType.UnknownDataType,
    Qgis.DataType.ARGB32,
    Qgis.DataType.ARGB32_Premultiplied,
)
WEB_MAP_DRIVERS = ("WMS", "WMTS")
# the engine's GDAL comes from a package of Python's; it has no drivers for these
DRIVERS_OF_QGIS_ONLY = (
    *("ECW", "JP2ECW", "MrSID", "JP2MrSID", "JPEG2000", "JP2KAK", "HDF4", "HDF4Image"),
    *("PostGISRaster", "GeoRaster", "OpenFileGDB", "FileGDB", "WCS", "KEA", "GTA", "GRASS"),
)


@dataclass(frozen=True)
class RasterInput:
    """A raster as the engine opens it, and what a job must say of each band of it."""

    path: str
    crs: str = ""  # outweighs what the file says
    no_data: dict = field(default_factory=dict)  # {band: value}, besides what the file says
    exports: tuple = ()
    temporary: tuple[str, ...] = ()

    def spec(self, name, band):
        """Give the engine's text for a band."""
        return f"{name}={self.path}:{band}"


def raster_input(layer, context, area=None, bands=(1,)):
    """Give the RasterInput of a layer of which these bands are used, exported where necessary."""
    refuse_broken(layer)
    _refuse_picture(layer)
    provider = layer.dataProvider()
    path, options = _gdal_name(layer)
    ranges = {band: provider.userNoDataValues(band) for band in bands}
    ignored = [
        band
        for band in bands
        if provider.sourceHasNoDataValue(band) and not provider.useSourceNoDataValue(band)
    ]
    if not path or any(_number(found) is None for found in ranges.values() if found):
        if ignored:
            raise _cannot_be_handed_on(layer)
        export = RasterExport(layer, f"{_file_stem(layer.name())}.tif", context, area)
        return RasterInput(export.path, exports=(export,), temporary=(export.path,))
    no_data = {band: _number(found) for band, found in ranges.items() if found}
    crs = crs_text(layer.crs()) if _crs_is_users(layer) else ""
    if options or ignored:
        if ignored:  # the virtual raster forgets it for all bands, so the others' is said again
            for band in set(bands) - set(ignored):
                if provider.sourceHasNoDataValue(band):
                    no_data.setdefault(band, provider.sourceNoDataValue(band))
        path = _virtual_raster(layer, path, options, forget_no_data=bool(ignored))
        return RasterInput(path, crs, no_data, temporary=(path,))
    return RasterInput(path, crs, no_data)


def refuse_broken(layer):
    """Refuse a layer whose file has gone, or that QGIS could not open."""
    refuse_gone(layer)
    if not layer.isValid():
        raise QgsProcessingException(
            tr("The layer '{layer}' cannot be opened. Repair its data source in QGIS.").format(
                layer=layer.name()
            )
        )


def reference_path(layer, context, rasters):
    """Give (path, temporary paths, exports) of a raster of which only the grid is used.

    `rasters` are the job's own, whose CRS the engine is told anyway.
    """
    for known, given in rasters:
        if known.id() == layer.id():
            return given.path, (), ()
    given = raster_input(layer, context)
    if given.crs:
        path = _virtual_raster(layer, given.path, (), crs=layer.crs())
        return path, (*given.temporary, path), given.exports
    return given.path, given.temporary, given.exports


def _refuse_picture(layer):
    provider = layer.dataProvider()
    is_picture = provider.dataType(1) in PICTURE_TYPES
    if layer.providerType() == "gdal":
        driver = gdal.IdentifyDriver(layer.source().split("|option:")[0])
        is_picture = driver is not None and driver.ShortName in WEB_MAP_DRIVERS
    if is_picture:
        raise QgsProcessingException(
            tr(
                "The layer '{layer}' is a web map, which gives pictures and no values. Download "
                "the grid behind it as a GeoTIFF, or leave the layer out."
            ).format(layer=layer.name())
        )


def _gdal_name(layer):
    """Give what GDAL opens and with which options; an empty name if the engine's GDAL cannot."""
    if layer.providerType() != "gdal":
        return "", ()
    path, *options = re.split(r"\|(?=(?:option|credential):)", layer.source())
    if any(option.startswith("credential:") for option in options):
        return "", ()
    if has_credentials(path) or any(map(has_credentials, options)):
        return "", ()  # it would be told in job files, histories and results: QGIS reads it
    driver = gdal.IdentifyDriver(path)
    if driver is None or driver.ShortName in DRIVERS_OF_QGIS_ONLY:
        return "", ()
    if os.path.exists(path):
        path = os.path.abspath(path)
    return path, tuple(option.partition(":")[2] for option in options)


def _crs_is_users(layer):
    return layer.crs().isValid() and layer.crs() != layer.dataProvider().crs()


def _number(ranges):
    """Give the one number that the ranges of no-data values are, or None."""
    if len(ranges) == 1 and ranges[0].min() == ranges[0].max():
        return ranges[0].min()
    return None


def _virtual_raster(layer, path, options, crs=None, forget_no_data=False):
    """Write what the engine has no words for as a small VRT file around the raster."""
    wkt = crs.toWkt(PREFERRED_WKT) if crs is not None else ""
    # it repeats size and place of its source, so it is another one for a source that has changed
    content = repr((path, file_state(path), options, wkt, forget_no_data))
    written = path_by_content(f"{_file_stem(layer.name())}.vrt", content)
    if os.path.exists(written):
        return written
    os.makedirs(os.path.dirname(written), exist_ok=True)
    source = gdal.OpenEx(path, gdal.OF_RASTER, open_options=list(options))
    changes = {"outputSRS": wkt} if wkt else {}
    if forget_no_data:
        changes["noData"] = "none"
    if source is None or gdal.Translate(written, source, format="VRT", **changes) is None:
        raise _cannot_be_handed_on(layer)
    return written


def _cannot_be_handed_on(layer):
    return QgsProcessingException(
        tr(
            "What is set for the layer '{layer}' (no-data values, how it is opened) cannot be "
            "handed on. Export it as a GeoTIFF in QGIS (Export > Save As), and choose that file."
        ).format(layer=layer.name())
    )


def _file_stem(name):
    return re.sub(r"\W+", "_", name).strip("_")[:60] or "raster"
