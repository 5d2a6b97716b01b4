"""What a virtual raster (VRT) may hold: other rasters, but no program and no bytes of any file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import rasterio
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader

from geocfm.errors import UserError
from geocfm.layer_spec import is_dataset_name
from geocfm.network import refuse_network

DRIVER = "VRT"
SOURCES = ("sourcefilename", "sourcedataset")
MARK = b"<VRTDataset"
MARK_WITHIN = 4096  # bytes of a file


def refuse_unsafe(dataset: DatasetReader) -> None:
    """Refuse a virtual raster that brings a program or raw bytes, itself or in a source's source.

    GDAL would not run the program either; the sentence is better than what it says.
    """
    seen: set[str] = set()
    waiting = [dataset.name]
    _refuse_one(dataset, seen, waiting)
    while waiting:
        with suppress(RasterioError), rasterio.open(waiting.pop()) as source:
            if source.driver == DRIVER:
                _refuse_one(source, seen, waiting)


def _refuse_one(dataset: DatasetReader, seen: set[str], waiting: list[str]) -> None:
    """Look at one, and note which of its sources may be virtual too."""
    name = dataset.name
    folder = "" if name.startswith("<") else os.path.dirname(name)
    for element, path in _parts(dataset, folder):
        if element.get("subClass") == "VRTRawRasterBand":
            if not _lies_below(path, folder):
                raise UserError(
                    f"The virtual raster '{name}' reads the bytes of '{path}', which need not be "
                    "a raster.",
                    "Put that file into the folder of the virtual raster, or export it as a "
                    "GeoTIFF.",
                )
            continue
        if element.tag == "PixelFunctionLanguage" and (element.text or "").strip() == "Python":
            raise UserError(
                f"The virtual raster '{name}' holds a program in Python, which GeoCFM does not "
                "run.",
                "If you trust it, export the raster as a GeoTIFF with QGIS or gdal_translate.",
            )
        if path:
            refuse_network(path)
            if path not in seen and _may_be_virtual(path):
                waiting.append(path)
            seen.add(path)


def _parts(dataset: DatasetReader, folder: str) -> Iterator[tuple[ElementTree.Element, str]]:
    """The elements of a virtual raster, as GDAL itself writes them, with the path of a source."""
    text = dataset.tags(ns="xml:VRT").get("xml:VRT", "<none/>")
    for element in ElementTree.fromstring(text).iter():  # noqa: S314 GDAL has just written it
        source = element
        if element.get("subClass") == "VRTRawRasterBand":
            found = element.find("SourceFilename")
            source = element if found is None else found
        path = (source.text or "").strip() if source.tag.lower() in SOURCES else ""
        if path and _is_relative(source):
            path = os.path.join(folder, path)
        yield element, path


def _is_relative(source: ElementTree.Element) -> bool:
    return any(key.lower() == "relativetovrt" and value == "1" for key, value in source.items())


def _lies_below(path: str, folder: str) -> bool:
    return bool(folder) and Path(os.path.realpath(folder)) in Path(os.path.realpath(path)).parents


def _may_be_virtual(path: str) -> bool:
    """Whether it is worth opening; of a mosaic's many tiles only the beginning is read."""
    try:
        with open(path, "rb") as file:
            return MARK in file.read(MARK_WITHIN)
    except (OSError, ValueError):
        return is_dataset_name(path)
