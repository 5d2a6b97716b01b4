"""A result copied to where the user wants it, byte for byte: a COG stays a COG, tags and all."""

from __future__ import annotations

import os
import shutil

from qgis.core import QgsMapLayer

from ..translation import tr
from .reopening import file_of
from .styling import style_path

SUFFIXES = (".tif", ".tiff")


class ExportRefused(Exception):
    """Why nothing was exported, in a sentence for the user."""


def export_geotiff(layer_or_path, destination, overwrite=False):
    """Copy a GeoTIFF as it is, with its style; give the path of the copy, or raise ExportRefused.

    Of a layer the style it has now is saved beside the copy, of a file the .qml beside it. A .qml
    that is there already is only replaced along with its GeoTIFF.
    """
    is_layer = isinstance(layer_or_path, QgsMapLayer)
    source = file_of(layer_or_path) if is_layer else os.fspath(layer_or_path)
    target = os.fspath(destination)
    if not target.lower().endswith(SUFFIXES):
        target += SUFFIXES[0]
    replaces = os.path.exists(target)
    _ensure_possible(source, target, replaces and not overwrite)
    _copy(source, target)
    style = style_path(target)
    if replaces or not os.path.exists(style):
        if is_layer:
            layer_or_path.saveNamedStyle(style, categories=QgsMapLayer.StyleCategory.Symbology)
        elif os.path.exists(style_path(source)):
            _copy(style_path(source), style)
    return target


def _ensure_possible(source, target, is_in_the_way):
    if not source.lower().endswith(SUFFIXES) or not os.path.isfile(source):
        raise ExportRefused(
            tr("{path} is no GeoTIFF on this computer, so it cannot be copied as it is.").format(
                path=source or tr("The layer")
            )
        )
    if os.path.exists(target) and os.path.samefile(source, target):
        raise ExportRefused(
            tr("{path} is the file that is to be exported. Choose another name.").format(
                path=target
            )
        )
    if is_in_the_way:
        raise ExportRefused(
            tr("There is a file {path} already. Choose another name.").format(path=target)
        )


def _copy(source, target):
    """Copy under a temporary name first, so that a full disk leaves no half of a file."""
    partial = f"{target}.part"
    try:
        shutil.copyfile(source, partial)
        os.replace(partial, target)
    except OSError as error:
        if os.path.exists(partial):
            os.remove(partial)
        raise ExportRefused(
            tr("{path} could not be written ({reason}). Choose another folder.").format(
                path=target, reason=error.strerror or error
            )
        ) from error
