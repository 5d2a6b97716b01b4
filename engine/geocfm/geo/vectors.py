"""Features of any vector file: geometry, attributes and CRS, from the layer that is meant."""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyogrio
import pyogrio.raw
import shapely
from numpy.typing import NDArray
from pyogrio.errors import DataLayerError, DataSourceError, FeatureError
from rasterio.crs import CRS

from geocfm.errors import UserError, hindrance
from geocfm.file_names import refuse_endless, refuse_no_text
from geocfm.geo.crs import read_crs
from geocfm.geo.layers import refuse_locked
from geocfm.mistakes import nearest_name
from geocfm.network import (
    is_on_network,
    network_allowed,
    network_in,
    refers_to_network,
    refuse_network,
)

# a GeoJSON file whose CRS is at an address; GDAL takes longitude and latitude if it may not ask
LINKED_CRS = re.compile(rb'"crs"\s*:\s*\{[^{}]*"type"\s*:\s*"(link|url)"', re.IGNORECASE)
LINK_WITHIN = 2**16  # bytes of its beginning, and of its end
SHP_LENGTH = slice(24, 28)  # where a shapefile's header says how long it is


@dataclass(frozen=True)
class Features:
    """Features of one layer; a feature without geometry has None there."""

    geometries: NDArray[np.object_]
    ids: NDArray[np.int64]
    fields: dict[str, NDArray[Any]]
    crs: CRS | None


def read_features(path: str, layer: str | None, kind: str, attributes: bool = True) -> Features:
    """Read a vector file. kind, "Point" or "Polygon", tells layers apart when none is named."""
    refuse_network(path)
    if not os.path.exists(path) and not path.startswith("/vsi") and not is_on_network(path):
        raise missing_file(path, kind)
    refuse_no_text(path)
    refuse_endless(path)
    refuse_locked(path)
    try:
        _refuse_incomplete_shapefile(path)
        _refuse_linked_crs(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # measured geometries, odd date fields
            chosen = _choose_layer(path, layer, kind)
            meta, ids, geometry, values = _read(path, chosen, attributes)
            geometries = (
                np.full(len(ids), None, dtype=object)
                if geometry is None
                else shapely.from_wkb(geometry, on_invalid="ignore")
            )
    # IndexError: of a bad layer
    except (DataSourceError, DataLayerError, FeatureError, IndexError, OSError) as error:
        held = hindrance(path, error)
        raise network_in(path, error) or held or _not_a_vector_file(path) from error
    fields = dict(zip(meta["fields"].tolist(), values, strict=True))
    crs = read_crs(meta["crs"]) if meta["crs"] else None
    return Features(geometries, ids.astype(np.int64), fields, crs)


def _read(path: str, layer: str, attributes: bool) -> tuple[Any, Any, Any, Any]:
    """The layer's metadata, ids, geometries and values; texts that are not UTF-8 are Latin 1."""
    columns: list[str] | None = None if attributes else []
    read = partial(
        pyogrio.raw.read, path, layer=layer, columns=columns, force_2d=True, return_fids=True
    )
    try:
        found: tuple[Any, Any, Any, Any] = read()
    except UnicodeDecodeError:  # a shapefile's .cpg may say otherwise than its .dbf is
        found = read(encoding="ISO-8859-1")
    return found


def missing_file(path: str, kind: str) -> UserError:
    """The sentence for a file that is not there; QGIS joins a layer to the name of its file."""
    file, _, rest = path.partition("|")
    if rest and os.path.exists(file):
        options = {"Polygon": ("--aoi", "--aoi-layer")}.get(kind, ("--occurrences", "--layer"))
        named = re.search(r"layername=([^|]+)", rest)
        layer = f" {options[1]} {named[1]}" if named else ""
        return UserError(
            f"The file '{path}' does not exist; what follows the | is QGIS's own addition.",
            f"Write it as {options[0]} {file}{layer}.",
        )
    return UserError(f"The file '{path}' does not exist.", "Check its folder and its spelling.")


def _refuse_incomplete_shapefile(path: str) -> None:
    if not path.lower().endswith(".shp") or not os.path.isfile(path):
        return
    stem = os.path.splitext(path)[0]
    if not any(os.path.exists(stem + suffix) for suffix in (".shx", ".SHX")):
        raise UserError(
            f"The shapefile '{path}' lacks its .shx file.",
            "A shapefile is several files (.shp, .shx, .dbf, .prj): copy all of them.",
        )
    with open(path, "rb") as file:
        start = file.read(SHP_LENGTH.stop)
    stated = 2 * int.from_bytes(start[SHP_LENGTH], "big")  # the header counts 16-bit words
    if os.path.getsize(path) < max(stated, SHP_LENGTH.stop):
        raise UserError(f"The shapefile '{path}' is incomplete.", "Copy it or export it again.")


def _refuse_linked_crs(path: str) -> None:
    if network_allowed() or not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        start = file.read(LINK_WITHIN)
        file.seek(max(0, os.path.getsize(path) - LINK_WITHIN))
        is_json = start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
        if is_json and (LINKED_CRS.search(start) or LINKED_CRS.search(file.read())):
            raise refers_to_network(path)


def _not_a_vector_file(path: str) -> UserError:
    if os.path.isdir(path):
        return UserError(f"'{path}' is a folder.", "Give the name of a file.")
    return UserError(
        f"'{path}' is not a vector file that can be read.",
        "If QGIS opens it, export it from there as a GeoPackage; otherwise it is damaged or "
        "incomplete: copy it again.",
    )


def _choose_layer(path: str, layer: str | None, kind: str) -> str:
    listed = [(str(name), str(geometry)) for name, geometry in pyogrio.list_layers(path)]
    names = [name for name, _ in listed]
    if not names:
        raise UserError(
            f"'{path}' holds no layer.", "Export the layer again from the program that has it."
        )
    if layer is not None:
        if layer in names:
            return layer
        raise UserError(
            f"'{path}' has no layer '{layer}'.",
            f"{nearest_name(layer, names)}Its layers are: {', '.join(names)}.",
        )
    drawn = [name for name, geometry in listed if geometry != "None"]
    of_kind = [name for name, geometry in listed if kind in geometry]
    for candidates in (of_kind, drawn, names):
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            break
    raise UserError(
        f"'{path}' holds several layers, and none is named.",
        f"Name one with --layer (--aoi-layer for an area): {', '.join(names)}.",
    )
