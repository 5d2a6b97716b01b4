"""The user's rasters on one grid: which grid, and reading all layers of a window of it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import PurePath
from types import TracebackType
from xml.sax.saxutils import escape

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio._err import CPLE_BaseError
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.errors import RasterioError
from rasterio.io import DatasetReader
from rasterio.transform import Affine
from rasterio.vrt import WarpedVRT

from geocfm.errors import Interrupted, UserError, hindrance
from geocfm.geo.alignment import (
    MOST_PARTS,
    Alignment,
    Placement,
    Unrolled,
    align,
    source_cells_per_cell,
    unroll,
)
from geocfm.geo.area import Area
from geocfm.geo.crs import crs_name, parse_crs
from geocfm.geo.grid import (
    EDGE_CELLS,
    Grid,
    Window,
    densify,
    has_place,
    refuse_countless,
    reproject_points,
    unrolled,
)
from geocfm.geo.layers import Layer, bounded_cache, find_layers, open_raster, stored_scale
from geocfm.network import network_in

__all__ = [
    "Alignment",
    "Layer",
    "Stack",
    "find_layers",
    "grid_like",
    "layer_grid",
    "raster_grid",
    "reference_grid",
]

Extent = tuple[float, float, float, float]

# How far, in source cells, GDAL may place a cell wrongly to save time. Its own 1/8 cell makes a
# value depend on the window it was read with.
WARP_TOLERANCE = 1e-3

NAMED_FILE = re.compile(r"[^\s'\"]+\.[A-Za-z][A-Za-z0-9]{1,4}\b")  # in what GDAL says

# One float band of values as they are meant, whatever scale they are stored with, whose no-data is
# NaN, whatever the file calls no-data: a number, NaN, a mask, an alpha band. GDAL's warper takes
# one of these at a time, and of several bands only a pixel that is no-data in all of them.
COPY = """
    <ComplexSource>
      <SourceFilename relativeToVRT="0" shared="0">{path}</SourceFilename>
      <SourceBand>{band}</SourceBand>
      <SrcRect xOff="0" yOff="0" xSize="{width}" ySize="{height}"/>
      <DstRect xOff="{column}" yOff="0" xSize="{width}" ySize="{height}"/>
      {unless}{scaled}
    </ComplexSource>"""
MASKED_BAND = """<VRTDataset rasterXSize="{width}" rasterYSize="{height}">
  <SRS>{crs}</SRS><GeoTransform>{c!r},{a!r},{b!r},{f!r},{d!r},{e!r}</GeoTransform>
  <VRTRasterBand dataType="{dtype}" band="1"><NoDataValue>nan</NoDataValue>{copies}
  </VRTRasterBand>
</VRTDataset>"""


SCALED = "<ScaleOffset>{offset!r}</ScaleOffset><ScaleRatio>{scale!r}</ScaleRatio>"


def raster_grid(path: str, crs: str | None = None) -> Grid:
    """Give a raster's own grid, rotation included; `crs` outweighs what its file says."""
    with open_raster(path) as source:
        if source.transform.is_identity or not has_place(source.transform):
            raise UserError(
                f"The raster '{path}' does not say where it lies.",
                "Georeference it and save it as a GeoTIFF (QGIS: Layer > Georeferencer).",
            )
        stated = source.crs if crs is None else parse_crs(crs)
        if stated is None:
            raise UserError(
                f"The raster '{path}' has no coordinate reference system.",
                "Say it with --raster-crs NAME=EPSG:20350, or give it one in QGIS (Raster > "
                "Projections > Assign Projection).",
            )
        return Grid(stated, source.transform, source.height, source.width)


def reference_grid(
    layers: Sequence[Layer],
    like: str | None = None,
    crs: str | None = None,
    resolution: float | None = None,
    extent: Extent | None = None,
) -> Grid:
    """Choose the grid of a job: `like`'s or the first raster's, changed as asked.

    resolution is in the unit of the grid's CRS, extent is (xmin, ymin, xmax, ymax) in that CRS.
    """
    base = layer_grid(layers[0]) if like is None else grid_like(like, layers)
    if extent is not None and not (extent[0] < extent[2] and extent[1] < extent[3]):
        raise UserError(
            f"The extent {extent} is empty.",
            "Its order is xmin, ymin, xmax, ymax in the grid's CRS.",
        )
    if crs is None and resolution is None:
        return base if extent is None else base.covering(_box(extent), base.crs)
    target = base.crs if crs is None else parse_crs(crs)
    if extent is None:
        outline = unrolled(reproject_points(densify(base.outline()), base.crs, target), target)
        if not np.isfinite(outline).all():
            raise UserError(
                f"The first raster does not fit into {crs_name(target)}.",
                "Give an extent in that CRS as well.",
            )
        extent = (*outline.min(axis=0).tolist(), *outline.max(axis=0).tolist())
    if resolution is not None and not resolution > 0:
        raise UserError(f"The cell size {resolution} is not a length.", "It must be above 0.")
    size = (resolution, resolution) if resolution else _cell_size_in(target, base, extent)
    width, height = extent[2] - extent[0], extent[3] - extent[1]
    refuse_countless(
        height / size[1],
        width / size[0],
        "Check the extent, or choose larger cells; cell size (--resolution) and extent are in "
        f"the unit of {crs_name(target)}.",
    )
    grid = Grid(
        target,
        Affine(size[0], 0, extent[0], 0, -size[1], extent[3]),
        max(1, math.ceil(height / size[1] - EDGE_CELLS)),
        max(1, math.ceil(width / size[0] - EDGE_CELLS)),
    )
    if size[0] > width or size[1] > height:
        raise UserError(
            f"A cell of {grid.length(*size)} is larger than the whole area.",
            f"The cell size is counted in the unit of {crs_name(target)}.",
        )
    return grid


def _cell_size_in(crs: CRS, base: Grid, extent: Extent) -> tuple[float, float]:
    """The size of `base`'s cells in another CRS at the middle of `extent`, to three digits."""
    if base.crs == crs:
        return base.cell_size
    across = max(extent[2] - extent[0], extent[3] - extent[1]) / 1000
    probe = Grid(crs, Affine(across, 0, extent[0], 0, -across, extent[3]), 1, 1)
    middle = probe.to_pixel((extent[0] + extent[2]) / 2, (extent[1] + extent[3]) / 2)[0]
    size = float(f"{across / source_cells_per_cell(base, probe, middle):.3g}")
    return size, size


def _box(extent: Extent) -> list[tuple[float, float]]:
    left, bottom, right, top = extent
    return [(left, top), (right, top), (right, bottom), (left, bottom)]


def layer_grid(layer: Layer) -> Grid:
    """The grid of a layer's raster, in the CRS that the user or the file says."""
    return raster_grid(layer.path, layer.crs)


def grid_like(path: str, layers: Sequence[Layer]) -> Grid:
    """The grid of a raster; if it is one of the layers', in the CRS the user said for that."""
    place = os.path.realpath(path)
    said = [layer.crs for layer in layers if layer.crs and os.path.realpath(layer.path) == place]
    return raster_grid(path, said[0] if said else None)


class Stack:
    """All layers, read window by window onto one grid. Each thread opens its own.

    With an area of interest, what lies outside of it has no data.
    """

    def __init__(self, layers: Sequence[Layer], grid: Grid, area: Area | None = None) -> None:
        self.layers = list(layers)
        self.grid = grid
        self._area = area
        self.alignments: list[Alignment] = []
        self._placements: list[Placement] = []
        self._sources: list[DatasetReader] = []
        self._open = ExitStack()
        self.dtype: type[np.floating] = np.float32  # float64 where codes of classes need it
        try:
            for layer in self.layers:
                own = layer_grid(layer)
                source = unroll(own, grid)
                placement = align(layer, source.grid, grid)
                self.alignments.append(placement.alignment)
                self._placements.append(placement)
                self._sources.append(self._open.enter_context(_masked_band(layer, own, source)))
                if layer.categorical and self._sources[-1].dtypes != ("float32",):
                    self.dtype = np.float64
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files."""
        self._open.close()

    def read(self, window: Window) -> NDArray[np.floating]:
        """Read all layers of a window. Returns (layers, height, width); NaN is no data."""
        values = np.full((len(self.layers), window.height, window.width), np.nan, self.dtype)
        inside = window.intersection(self.grid.window())
        if inside is None:
            return values
        with bounded_cache():
            for index, (source, placement) in enumerate(
                zip(self._sources, self._placements, strict=True)
            ):
                reached = inside.intersection(placement.reach)
                if reached is not None:
                    rows, columns = reached.slices_in(window)
                    cells = self.grid.subgrid(reached)
                    try:
                        values[index, rows, columns] = _read_cells(source, placement, cells)
                    except (RasterioError, CPLE_BaseError) as error:
                        raise _unreadable(self.layers[index], error) from error
        if self._area is not None:
            values[:, ~self._area.mask(window)] = np.nan
        return values


def _read_cells(source: DatasetReader, placement: Placement, cells: Grid) -> NDArray[np.floating]:
    parts, resampling = placement.parts, placement.alignment.resampling
    if placement.alignment.layer.categorical:  # float32 would make one class of large codes
        return _warp(source, cells, resampling, np.float64)
    if parts == 1:
        return _warp(source, cells, resampling)
    divided = cells.divided(parts)
    # parts no larger than the source's cells are points of it; larger ones are averages
    values = _warp(source, divided, "bilinear" if parts < MOST_PARTS else "average")
    blocks = values.reshape(cells.height, parts, cells.width, parts)
    valid = np.isfinite(blocks)
    count = valid.sum(axis=(1, 3))
    total = np.where(valid, blocks, 0).sum(axis=(1, 3), dtype=np.float64)
    mean = np.full(count.shape, np.nan, dtype=np.float32)
    np.divide(total, count, out=mean, where=count > 0, casting="same_kind")
    return mean


def _warp(
    source: DatasetReader, cells: Grid, resampling: str, dtype: type[np.floating] = np.float32
) -> NDArray[np.floating]:
    # A VRT of these cells alone: one of the whole grid would warp blocks of 512 x 128 cells for
    # every small window, five times the work. Left alone, GDAL widens its bilinear kernel by a
    # scale it guesses from each window.
    kernel = {"XSCALE": 1, "YSCALE": 1} if resampling == "bilinear" else {}
    with WarpedVRT(
        source,
        crs=cells.crs,
        transform=cells.transform,
        width=cells.width,
        height=cells.height,
        resampling=Resampling[resampling],
        nodata=math.nan,
        tolerance=WARP_TOLERANCE,
        **kernel,
    ) as onto_grid:
        values = onto_grid.read(1)
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype=dtype)


def _unreadable(layer: Layer, error: BaseException) -> UserError:
    remote = network_in(layer.path, error)
    if remote is not None:
        return remote
    while error.__cause__ is not None:
        error = error.__cause__
    held = hindrance(layer.path, error)
    if held is not None:
        return held
    # GDAL's own words help where they name another file, a part of a VRT
    files = {PurePath(name).name for name in NAMED_FILE.findall(str(error))}
    words = f" ({error})" if files - {PurePath(layer.path).name} else ""
    return Interrupted(
        f"The raster '{layer.path}' cannot be read to its end{words}.",
        "It is damaged or incomplete, or its disk is gone: copy it or export it again.",
    )


def _masked_band(layer: Layer, own: Grid, there: Unrolled) -> DatasetReader:
    """A layer's band, on the raster's own grid, as it is met along the longitudes of the job's."""
    with open_raster(layer.path) as raster:
        exact = np.can_cast(raster.dtypes[layer.band - 1], np.float32)
        scale, offset = stored_scale(raster, layer.band)
    scaled = ""
    if (scale, offset) != (1, 0) and not layer.categorical:  # codes are as they are stored
        scaled, exact = SCALED.format(offset=offset, scale=scale), False

    def without(unless: str, path: str, band: int, scaled: str, there: Unrolled) -> str:
        source = {"path": escape(path), "band": band, "unless": unless, "scaled": scaled}
        size = {"width": own.width, "height": own.height}
        copies = (COPY.format(column=column, **source, **size) for column in there.columns)
        return MASKED_BAND.format(
            width=there.grid.width,
            height=there.grid.height,
            crs=escape(there.grid.crs.to_wkt()),
            dtype="Float32" if exact else "Float64",
            copies="".join(copies),
            **{key: getattr(there.grid.transform, key) for key in "abcdef"},
        )

    masked = "<UseMaskBand>true</UseMaskBand>"
    if layer.nodata is None:
        text = without(masked, layer.path, layer.band, scaled, there)
    else:  # on top: GDAL passes over NODATA where it uses a mask
        stored = without(masked, layer.path, layer.band, "", Unrolled(own))
        text = without(f"<NODATA>{layer.nodata!r}</NODATA>", stored, 1, scaled, there)
    with bounded_cache():
        return rasterio.open(text)
