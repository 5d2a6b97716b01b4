"""What the user's `--raster [name=]path[:band]` means: the layers of the geo-image, in order."""

from __future__ import annotations

import difflib
import glob
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePath

import rasterio
from rasterio.enums import ColorInterp
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import DatasetReader

from geocfm.errors import UserError

CACHE_MB = 256  # GDAL's block cache; its default, 5 % of the memory, is too much on large machines
SIDECARS = (".aux.xml", ".ovr", ".msk", ".tfw", ".prj", ".qml", ".qmd")


@dataclass(frozen=True)
class Layer:
    """One band of one raster under the name the model knows it by."""

    name: str
    path: str
    band: int
    categorical: bool = False
    units: str = ""


def find_layers(specs: Sequence[str], classes: Sequence[str] = ()) -> list[Layer]:
    """Find the layers that `[name=]path[:band]` texts mean; `classes` names the categorical."""
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
    return [replace(layer, categorical=layer.name in classes) for layer in layers]


@contextmanager
def open_raster(path: str) -> Iterator[DatasetReader]:
    """Open a raster with GDAL's cache bounded; what cannot be opened is said in plain words."""
    with bounded_cache(), warnings.catch_warnings():
        warnings.simplefilter("ignore", NotGeoreferencedWarning)
        try:
            dataset = rasterio.open(path)
        except (RasterioError, OSError) as error:
            if not os.path.exists(path) and not is_dataset_name(path):
                raise UserError(
                    f"The raster '{path}' does not exist.", "Check its folder and its spelling."
                ) from error
            raise UserError(
                f"'{path}' is not a raster that GDAL can read.",
                "Open it in QGIS and export it as a GeoTIFF.",
            ) from error
        with dataset:
            yield dataset


def bounded_cache() -> rasterio.Env:
    """Keep GDAL from holding more than CACHE_MB of blocks, however large the raster."""
    return rasterio.Env(GDAL_CACHEMAX=CACHE_MB)


def is_dataset_name(path: str) -> bool:
    """Tell whether a text names something GDAL opens that is no plain file: /vsizip/, NETCDF:..."""
    return path.startswith(("/vsi", "<")) or re.match(r"[A-Za-z_0-9+]{2,}:", path) is not None


def nearest_name(name: str, names: Sequence[str]) -> str:
    """Suggest the known name most like a misspelt one, as a sentence; empty if none is near."""
    folded = {known.lower(): known for known in names}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1)
    return f"Did you mean '{folded[near[0]]}'? " if near else ""


def _layers_of(spec: str) -> list[Layer]:
    name, paths, band = _resolve(spec)
    found = []
    for path in paths:
        stem = _stem(path)
        own = stem if name is None else name if len(paths) == 1 else f"{name}_{stem}"
        found += _bands_of(path, own, band)
    return found


def _resolve(spec: str) -> tuple[str | None, list[str], int | None]:
    """Split a spec where the parts exist: paths may themselves contain '=' and ':'."""
    readings = _readings(spec)
    for name, path, band in readings:
        files = _matching_files(path)
        if files:
            return name, files, band
    for name, path, band in readings:
        if is_dataset_name(path):
            try:
                with open_raster(path):
                    return name, [path], band
            except UserError:
                continue
    path = readings[-1][1]
    if glob.has_magic(path):
        raise UserError(f"No raster matches '{path}'.", "Check the folder and the pattern.")
    raise UserError(f"The raster '{path}' does not exist.", "Check its folder and its spelling.")


def _readings(spec: str) -> list[tuple[str | None, str, int | None]]:
    """All ways to read a spec, the most literal first."""
    readings: list[tuple[str | None, str, int | None]] = []
    named = re.fullmatch(r"([^=/\\]+)=(.+)", spec)
    whole: list[tuple[str | None, str]] = [(None, spec)]
    if named:
        whole.append((named[1].strip() or None, named[2]))
    for name, text in whole:
        readings.append((name, text, None))
        banded = re.fullmatch(r"(.+):(\d+)", text)
        if banded:
            readings.append((name, banded[1], int(banded[2])))
    return readings


def _matching_files(path: str) -> list[str]:
    if os.path.exists(path):
        return [path]
    if not glob.has_magic(path):
        return []
    matches = sorted(glob.glob(path, recursive=True))
    return [match for match in matches if not match.lower().endswith(SIDECARS)]


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
            raise UserError(f"'{path}' has no band {band}.", f"Its bands are 1 to {source.count}.")
        alpha = [kind == ColorInterp.alpha for kind in source.colorinterp]
        data_bands = [index for index in source.indexes if not alpha[index - 1]]
        several = len(data_bands) > 1
        layers = []
        for index in data_bands if band is None else [band]:
            label = source.descriptions[index - 1] or str(index)
            plain = not several or band is not None
            layers.append(
                Layer(
                    name=name if plain else f"{name}_{label}",
                    path=path,
                    band=index,
                    units=source.units[index - 1] or "",
                )
            )
        return layers
