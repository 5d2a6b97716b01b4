"""What the user's `--raster [name=]path[:band]` means: the layers of the geo-image, in order."""

from __future__ import annotations

import glob
import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np
import rasterio
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader

from geocfm.errors import UserError, hindrance
from geocfm.file_names import refuse_endless, refuse_no_text
from geocfm.geo.virtual_rasters import DRIVER as VIRTUAL
from geocfm.geo.virtual_rasters import refuse_unsafe
from geocfm.layer_spec import is_dataset_name, matching_files, readings
from geocfm.mistakes import nearest_name
from geocfm.network import network_in, refuse_network

CACHE_MB = 256  # GDAL's block cache; its default, 5 % of the memory, is too much on large machines
WEB_DRIVERS = ("WMS", "WMTS")
WEB_MAP_FAILS = "GDALWMS"  # in what GDAL says of one that it cannot reach
# how QGIS writes such a source, and how GDAL does
WEB_SOURCE = re.compile(r"type=xyz|url=https?:|service=wm|(^|=)wmt?s:", re.IGNORECASE)


class NotARaster(UserError):
    """GDAL opens nothing by this name; it may be read in another way."""


@dataclass(frozen=True)
class Layer:
    """One band of one raster under the name the model knows it by."""

    name: str
    path: str
    band: int
    categorical: bool = False
    units: str = ""
    crs: str | None = None  # outweighs the file's own
    nodata: float | None = None  # means no data, besides what the file says
    whole: bool = field(default=False, compare=False)  # holds whole numbers only
    scale: float = field(default=1.0, compare=False)  # a value is what is stored, times the scale
    offset: float = field(default=0.0, compare=False)  # and this on top
    coloured: bool = field(default=False, compare=False)  # by a table that has a colour per value


def find_layers(
    specs: Sequence[str],
    classes: Sequence[str] = (),
    crs: Sequence[str] = (),
    nodata: Sequence[str] = (),
) -> list[Layer]:
    """Find the layers that `[name=]path[:band]` texts mean; `classes` names the categorical.

    `name=EPSG:20350` in `crs` and `name=-9999` in `nodata` say what their files do not.
    """
    layers = [layer for spec in specs for layer in _layers_of(spec)]
    if not layers:
        raise UserError("No raster is given.", "Name at least one, for example --raster mag.tif.")
    names = [layer.name for layer in layers]
    for layer in layers:
        if names.count(layer.name) > 1:
            paths = ", ".join(other.path for other in layers if other.name == layer.name)
            raise UserError(
                f"Two layers have the name '{layer.name}' ({paths}).",
                f"Give them names of their own, for example --raster {layer.name}2={layer.path}.",
            )
    for name in classes:
        if name not in names:
            raise UserError(
                f"There is no layer '{name}' to read as classes.",
                f"{nearest_name(name, names)}The layers are: {', '.join(names)}.",
            )
    systems = _by_layer(crs, names, "--raster-crs", "EPSG:20350")
    fillers = _by_layer(nodata, names, "--nodata", "-9999")
    return [
        replace(
            layer,
            categorical=layer.name in classes,
            crs=systems.get(layer.name),
            nodata=_number(fillers.get(layer.name)),
        )
        for layer in layers
    ]


def find_effort(spec: str) -> Layer:
    """The one band of survey effort that a `path[:band]` text means."""
    bands = find_layers([spec])
    if len(bands) > 1:
        raise UserError(
            f"--effort {spec} means {len(bands)} bands; the survey effort is one.",
            f"Name it, for example --effort {bands[0].path}:{bands[0].band}.",
        )
    with open_raster(bands[0].path) as source:
        if source.crs is None:
            raise UserError(
                f"The survey effort '{bands[0].path}' has no coordinate reference system.",
                "Give it one in QGIS (Raster > Projections > Assign Projection).",
            )
    return replace(bands[0], name="survey effort")


def _by_layer(
    texts: Sequence[str], names: Sequence[str], option: str, example: str
) -> dict[str, str]:
    """Read `name=value` texts; each names a layer, and no layer is named twice."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise UserError(
                f"{option} {text} does not say of which layer, or what.",
                f"Write it as {option} {names[0]}={example}.",
            )
        if name not in names:
            raise UserError(
                f"{option} {text}: there is no layer '{name}'.",
                f"{nearest_name(name, names)}The layers are: {', '.join(names)}.",
            )
        if name in found:
            raise UserError(f"{option} names the layer '{name}' twice.", "Give it once.")
        found[name] = value
    return found


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        raise UserError(
            f"--nodata: '{text}' is no number.", "Write it like --nodata mag=-9999."
        ) from None


@contextmanager
def open_raster(path: str) -> Iterator[DatasetReader]:
    """Open a raster with GDAL's cache bounded; what cannot be opened is said in plain words."""
    refuse_no_text(path)
    refuse_endless(path)
    refuse_network(path)
    with bounded_cache(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        try:
            dataset = rasterio.open(path)
        except (RasterioError, OSError) as error:
            refuse_locked(path)
            if not os.path.exists(path) and not is_dataset_name(path):
                raise NotARaster(
                    f"The raster '{path}' does not exist.", "Check its folder and its spelling."
                ) from error
            if WEB_MAP_FAILS in str(error):
                raise _web_map(path) from error
            held = hindrance(path, error)
            raise network_in(path, error) or held or _not_a_raster(path) from error
        with dataset:
            if dataset.driver in WEB_DRIVERS:
                raise _web_map(path)
            if dataset.driver == VIRTUAL:
                refuse_unsafe(dataset)
            yield dataset


def stored_scale(source: DatasetReader, band: int) -> tuple[float, float]:
    """By what a stored number becomes a value of the band: times the scale, plus the offset."""
    scale, offset = float(source.scales[band - 1]), float(source.offsets[band - 1])
    if not (math.isfinite(scale) and math.isfinite(offset)) or scale == 0:
        raise UserError(
            f"Band {band} of '{source.name}' says that its values are what is stored, times "
            f"{scale:g} plus {offset:g}.",
            "Export it again with a scale that is a number above 0 (QGIS: Translate).",
        )
    return scale, offset


def refuse_locked(path: str) -> None:
    """Tell a file that may not be opened from one that is damaged."""
    if os.path.exists(path) and not os.access(path, os.R_OK):
        raise UserError(f"The file '{path}' cannot be read.", "Check that you may open it.")


def bounded_cache() -> rasterio.Env:
    """Keep GDAL from holding more than CACHE_MB of blocks, however large the raster."""
    return rasterio.Env(GDAL_CACHEMAX=CACHE_MB)


def _web_map(path: str) -> UserError:
    return UserError(
        f"'{path}' is a web map service, which gives pictures.",
        "Download the grid as a GeoTIFF.",
    )


def _not_a_raster(path: str) -> NotARaster:
    if os.path.isdir(path):
        return NotARaster(f"'{path}' is a folder.", f"For all its rasters give '{path}/*.tif'.")
    if path.lower().endswith(".safetensors"):
        return NotARaster(f"'{path}' is a model, not a raster.", "Give it as --checkpoint.")
    if os.path.exists(path) and not os.path.getsize(path):
        return NotARaster(f"'{path}' is empty.", "Copy it or export it again.")
    return NotARaster(
        f"'{path}' is not a raster that GDAL can read.",
        "If QGIS opens it, export it from there as a GeoTIFF; otherwise it is damaged or "
        "incomplete: copy it again.",
    )


def _layers_of(spec: str) -> list[Layer]:
    name, paths, band = _resolve(spec)
    found = []
    for path in paths:
        stem = _stem(path)
        own = stem if name is None else name if len(paths) == 1 else f"{name}_{stem}"
        try:
            found += _bands_of(path, own, band)
        except UserError as error:
            if path in spec:
                raise
            narrower = re.sub(r"[^/\\]*$", "*.tif", spec, count=1)
            advice = f"It was matched by '{spec}'; narrow it, for example to '{narrower}'."
            raise UserError(error.message, f"{error.hint} {advice}") from error
    return found


def _resolve(spec: str) -> tuple[str | None, list[str], int | None]:
    """Split a spec where the parts exist: paths may themselves contain '=' and ':'."""
    possible = readings(spec)
    for name, path, band in possible:
        files = matching_files(path)
        if files:
            return name, files, band
    if WEB_SOURCE.search(spec) and "/vsi" not in spec:  # before GDAL asks the network for it
        raise _web_map(spec)
    refuse_network(spec)
    for name, path, band in possible:
        if is_dataset_name(path):
            refuse_endless(path)
            try:
                with open_raster(path):
                    return name, [path], band
            except NotARaster:
                continue
    path = possible[-1][1]
    if glob.has_magic(path):
        raise UserError(f"No raster matches '{path}'.", "Check the folder and the pattern.")
    raise UserError(f"The raster '{path}' does not exist.", "Check its folder and its spelling.")


def _stem(path: str) -> str:
    if os.path.exists(path) or path.startswith("/vsi"):
        return PurePath(path).stem
    return PurePath(re.split(r"[:/\\]", path.replace('"', ""))[-1]).stem or path


def _bands_of(path: str, name: str, band: int | None) -> list[Layer]:
    with open_raster(path) as source:
        if source.count == 0:
            inside = ", ".join(source.subdatasets) or "nothing"
            raise UserError(
                f"'{path}' holds several data sets and no band of its own.",
                f"Name one of them instead: {inside}.",
            )
        if band is not None and not 1 <= band <= source.count:
            bands = "It has one, 1." if source.count == 1 else f"Its bands are 1 to {source.count}."
            raise UserError(f"'{path}' has no band {band}.", bands)
        alpha = [kind == ColorInterp.alpha for kind in source.colorinterp]
        data_bands = [index for index in source.indexes if not alpha[index - 1]]
        several = len(data_bands) > 1
        layers = []
        for index in data_bands if band is None else [band]:
            label = source.descriptions[index - 1] or str(index)
            plain = not several or band is not None
            if source.dtypes[index - 1].startswith("complex"):
                raise UserError(
                    f"Band {index} of '{path}' holds complex numbers.",
                    "Export its amplitude, or its real part, as a raster of its own.",
                )
            scale, offset = stored_scale(source, index)
            layers.append(
                Layer(
                    name=name if plain else f"{name}_{label}",
                    path=path,
                    band=index,
                    units=source.units[index - 1] or "",
                    whole=np.issubdtype(source.dtypes[index - 1], np.integer)
                    and (scale, offset) == (1, 0),
                    scale=scale,
                    offset=offset,
                    coloured=source.colorinterp[index - 1] == ColorInterp.palette,
                )
            )
        return layers
