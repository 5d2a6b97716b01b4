"""The file behind a layer, and what to say when it is gone."""

from __future__ import annotations

import os

from qgis.core import QgsProcessingException, QgsProviderRegistry

from ..translation import tr

FILE_PROVIDERS = ("gdal", "ogr", "delimitedtext", "spatialite", "gpx")


def layer_path(layer):
    """Give the path of the file that a layer shows, as QGIS spells it; empty if it shows none."""
    if layer.providerType() not in FILE_PROVIDERS:
        return ""
    parts = QgsProviderRegistry.instance().decodeUri(layer.providerType(), layer.source())
    path = parts.get("path") or ""
    return path if os.path.isabs(path) and not path.startswith("/vsi") else ""


def file_is_gone(layer):
    """Tell whether the file of a layer is not there, or not any more since QGIS opened it."""
    path = layer_path(layer)
    return bool(path) and not os.path.exists(path)


def file_state(path):
    """Give what changes when a file does; None for what is no file of this computer."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


def refuse_gone(layer):
    """Refuse a layer whose file is not there; one that QGIS opened before may still look well."""
    if file_is_gone(layer):
        raise QgsProcessingException(
            tr(
                "The file of the layer '{layer}' is gone: {path}. Put it back or repair the "
                "layer's source."
            ).format(layer=layer.name(), path=layer_path(layer))
        )
