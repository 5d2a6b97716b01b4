"""Known occurrences: the file of a point layer, or a temporary GeoPackage of what is meant."""

from __future__ import annotations

from dataclasses import dataclass

from ..translation import tr
from .crs_text import crs_text
from .vector_export import LAYER_NAME, VectorExport
from .vector_source import vector_source


@dataclass(frozen=True)
class VectorInput:
    """Values of a job that name features, and what must be written for them to be true."""

    values: dict
    exports: tuple = ()
    temporary: tuple[str, ...] = ()


def occurrence_input(value, context):
    """Give the job's `occurrences`, `layer` and `occurrences_crs` for a parameter's value."""
    source = vector_source(value, context, tr("Occurrences"))
    crs = source.layer.crs()
    file = source.file()
    if file is None:
        path = source.path_for_copy("occurrences.gpkg")
        export = VectorExport(source, path, context)
        return VectorInput({"occurrences": path, "layer": LAYER_NAME}, (export,), (path,))
    path, layer = file
    values = {"occurrences": path}
    if layer:
        values["layer"] = layer
    if crs.isValid() and crs != source.layer.dataProvider().crs():
        values["occurrences_crs"] = crs_text(crs)
    return VectorInput(values)


def parse_where(text):
    """Give the conditions of a filter, one per line; all of them must hold."""
    return [line.strip() for line in (text or "").splitlines() if line.strip()]
