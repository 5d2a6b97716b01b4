"""The files behind an input: all that is read when GDAL is asked for one of them.

A raster may be a text that names others, lie in an archive, or have its place, its mask or its
overviews in files beside it; a shapefile is several files, a file geodatabase a folder of them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from xml.sax.saxutils import unescape

from rasterio.errors import RasterioError

from geocfm.errors import UserError
from geocfm.geo.layers import open_raster

# what a VRT, of rasters or of vectors, names as its source
SOURCES = re.compile(r"<(?:SourceFilename|SourceDataset|SrcDataSource)\b([^>]*)>([^<]+)<")
BESIDE_THE_VRT = re.compile(r"""relativeToVRT\s*=\s*["']1""")
QUOTES = {"&quot;": '"', "&apos;": "'"}
FILE_SYSTEMS = re.compile(r"(?:/vsi[a-z0-9_]+/)+(?:\d+_\d+,)?")  # GDAL's own, as for archives
COMPANIONS = {  # of vectors, where they count; an index of places changes nothing that is read
    ".shp": (".shx", ".dbf", ".prj", ".cpg"),
    ".csv": (".csvt", ".prj"),
    ".tab": (".dat", ".map", ".id"),
    ".mif": (".mid",),
    ".gml": (".xsd",),
}
FOLDERS = (".gdb", ".zarr")  # that are opened as one file


def raster_files(name: str) -> list[str]:
    """The files of this disk that a raster is read from: as GDAL names them, sources of sources."""
    found: dict[str, None] = {}
    seen: set[str] = set()
    names = [name]
    while names:
        name = names.pop()
        path = on_disk(name)
        key = os.path.realpath(name) if path == name else os.path.normpath(name)
        if key in seen or (path is None and not name.startswith("<")):  # it is of another computer
            continue
        seen.add(key)
        try:
            with open_raster(name) as raster:
                files = raster.files
                text = raster.tags(ns="xml:VRT").get("xml:VRT", "")
        except (UserError, RasterioError):  # whoever reads it will say so
            files, text = [], ""
        found |= dict.fromkeys(filter(None, [path, *map(on_disk, files)]))
        names += sources(text, os.path.dirname(name))
    return sorted(found)


def vector_files(name: str) -> list[str]:
    """The files of this disk that features are read from."""
    path = on_disk(name)
    if path is None:
        return []
    found = {path: None}
    stem, suffix = os.path.splitext(path)
    for companion in COMPANIONS.get(suffix.lower(), ()):
        beside = (stem + companion, stem + companion.upper())
        found |= dict.fromkeys([next(filter(os.path.exists, beside), path)])
    if suffix.lower() == ".vrt":
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        named = map(on_disk, sources(text, os.path.dirname(path)))
        for source in filter(None, named):
            if os.path.splitext(source)[1].lower() != ".vrt":  # one that names itself has no end
                found |= dict.fromkeys(vector_files(source))
    return sorted(found)


def sources(text: str, folder: str) -> list[str]:
    """The names of the sources in the text of a VRT that lies in a folder."""
    found = []
    for attributes, escaped in SOURCES.findall(text):
        source = unescape(escaped.strip(), QUOTES)
        if BESIDE_THE_VRT.search(attributes):
            source = _beside(source, folder)
        found.append(source)
    return found


def _beside(source: str, folder: str) -> str:
    """A source, with its file looked for in a folder."""
    whole = os.path.join(folder, source)
    if os.path.exists(whole) or folder.startswith("/vsi"):
        return whole
    for piece in _pieces(source):
        if os.path.isfile(os.path.join(folder, piece)):
            return source.replace(piece, os.path.join(folder, piece), 1)
    return whole


def on_disk(name: str) -> str | None:
    """The file or folder that GDAL reads for a name: of what lies in an archive, the archive."""
    if name.startswith("<"):
        return None
    if os.path.exists(name):
        return name
    within = FILE_SYSTEMS.match(name)
    if within:
        rest = name[within.end() :]
        for text in (rest, rest.replace("{", "").replace("}", ""), f"/{rest}"):
            for path in (PurePath(text), *PurePath(text).parents):
                if os.path.isfile(path) or (path.suffix in FOLDERS and os.path.isdir(path)):
                    return str(path)
        return None
    return next(filter(_is_one, _pieces(name)), None)


def _pieces(name: str) -> Iterator[str]:
    """What of a name such as NETCDF:"x.nc":band may be a path, the longest first."""
    yield from re.findall(r'"([^"]+)"', name)
    parts = re.sub(r"^vrt://|\?.*$", "", name).split(":")
    for length in range(len(parts), 0, -1):
        for start in range(len(parts) - length + 1):
            yield ":".join(parts[start : start + length])


def _is_one(path: str) -> bool:
    return os.path.isfile(path) or (path.lower().endswith(FOLDERS) and os.path.isdir(path))
