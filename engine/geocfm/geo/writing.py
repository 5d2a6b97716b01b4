"""Results on disk: georeferenced, self-describing, and never half written."""

from __future__ import annotations

import csv
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyogrio.raw
import rasterio
import rasterio.shutil
import shapely
from numpy.typing import ArrayLike, NDArray
from rasterio.io import DatasetReader, DatasetWriter

from geocfm.errors import UserError
from geocfm.geo.grid import Grid
from geocfm.geo.layers import bounded_cache

TILE = 512  # cells along the side of a block, in working rasters and in COGs

POINT_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".json": "GeoJSON"}

# The COG driver can only copy, so what it copies must already be scaled, named and tagged.
DESCRIBED_BAND = """<VRTDataset rasterXSize="{width}" rasterYSize="{height}">
  <SRS>{crs}</SRS><GeoTransform>{c!r},{a!r},{b!r},{f!r},{d!r},{e!r}</GeoTransform>
  <Metadata>{tags}</Metadata>
  <VRTRasterBand dataType="Float32" band="1" blockXSize="{tile}" blockYSize="{tile}">
    <Description>{name}</Description><UnitType>{unit}</UnitType><NoDataValue>nan</NoDataValue>
    <ComplexSource>
      <SourceFilename relativeToVRT="0" shared="0">{path}</SourceFilename>
      <SourceBand>1</SourceBand>
      <SrcRect xOff="0" yOff="0" xSize="{width}" ySize="{height}"/>
      <DstRect xOff="0" yOff="0" xSize="{width}" ySize="{height}"/>
      <ScaleOffset>0</ScaleOffset><ScaleRatio>{scale!r}</ScaleRatio><NODATA>nan</NODATA>
    </ComplexSource>
  </VRTRasterBand>
</VRTDataset>"""


def ensure_writable(path: str | os.PathLike[str]) -> None:
    """Find out now, not after hours of work, whether a file can be written; makes its folder."""
    final = Path(path)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        trial = _beside(final)
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise UserError(
            f"Nothing can be written to the folder '{final.parent}' ({error.strerror}).",
            "Choose a folder that you may write to.",
        ) from error
    if final.is_dir():
        raise UserError(f"'{final}' is a folder.", "Give the name of a file.")


def _beside(final: Path) -> Path:
    return final.with_name(f".{final.stem}-{secrets.token_hex(4)}{final.suffix}")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside `path`; it replaces `path` in the end or, on failure, goes."""
    final = Path(path)
    ensure_writable(final)
    temporary = _beside(final)
    try:
        yield temporary
        try:
            os.replace(temporary, final)
        except OSError as error:
            raise UserError(
                f"'{final}' cannot be replaced ({error.strerror}).",
                "Close it in other programs, or choose another name.",
            ) from error
    finally:
        # also what GDAL leaves beside a file: .aux.xml, -journal, .ovr.tmp
        for leftover in final.parent.glob(f"{temporary.name}*"):
            with suppress(OSError):
                leftover.unlink()


@contextmanager
def open_raster_for_blocks(
    path: str | os.PathLike[str], grid: Grid, *, count: int = 1
) -> Iterator[DatasetWriter]:
    """Open a new float raster for windows in any order; cells never written are NaN."""
    with (
        bounded_cache(),
        rasterio.open(
            path,
            "w+",
            driver="GTiff",
            crs=grid.crs,
            transform=grid.transform,
            height=grid.height,
            width=grid.width,
            count=count,
            dtype="float32",
            nodata=math.nan,
            tiled=True,
            blockxsize=TILE,
            blockysize=TILE,
            interleave="band",  # else a block written for one band is 0 in the others
            SPARSE_OK=True,
            BIGTIFF="IF_SAFER",
        ) as raster,
    ):
        yield raster


def write_cog(
    source_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    *,
    band_name: str,
    unit: str,
    tags: Mapping[str, str],
    scale: float = 1.0,
) -> None:
    """Copy a one-band raster, times `scale`, to a Cloud Optimized GeoTIFF that carries `tags`."""
    with atomic_path(out_path) as temporary, bounded_cache():
        with rasterio.open(source_path) as source:
            text = _described_band(source, os.fspath(source_path), band_name, unit, tags, scale)
        with rasterio.open(text) as described:
            rasterio.shutil.copy(
                described,
                temporary,
                driver="COG",
                COMPRESS="DEFLATE",
                PREDICTOR="YES",
                BLOCKSIZE=TILE,
                OVERVIEW_RESAMPLING="AVERAGE",
                BIGTIFF="IF_SAFER",
                STATISTICS="YES",
            )


def _described_band(
    source: DatasetReader,
    path: str,
    name: str,
    unit: str,
    tags: Mapping[str, str],
    scale: float,
) -> str:
    items = (f"<MDI key={quoteattr(key)}>{escape(tag)}</MDI>" for key, tag in tags.items())
    return DESCRIBED_BAND.format(
        width=source.width,
        height=source.height,
        crs=escape(source.crs.to_wkt()),
        tags="".join(items),
        tile=TILE,
        name=escape(name),
        unit=escape(unit),
        path=escape(path),
        scale=float(scale),
        **{key: getattr(source.transform, key) for key in "abcdef"},
    )


def ensure_points_writable(path: str | os.PathLike[str]) -> None:
    """Find out before the work whether points can be written under this name."""
    suffix = Path(path).suffix.lower()
    if suffix != ".csv" and suffix not in POINT_DRIVERS:
        raise UserError(
            f"Points cannot be written as '{suffix or path}'.",
            "Name the file .gpkg, .geojson or .csv.",
        )
    ensure_writable(path)


def write_points(
    path: str | os.PathLike[str],
    grid: Grid,
    points: ArrayLike,
    columns: Mapping[str, NDArray[Any]],
    *,
    layer: str,
    description: str,
    metadata: Mapping[str, str],
) -> None:
    """Write points (N, 2), given as (column, row), in the grid's CRS.

    GeoPackage carries description and metadata, GeoJSON the description, CSV neither.
    """
    ensure_points_writable(path)
    suffix = Path(path).suffix.lower()
    world = grid.to_world(points)
    values = [np.asarray(column) for column in columns.values()]
    with atomic_path(path) as temporary:
        if suffix == ".csv":
            with open(temporary, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["x", "y", *columns])
                writer.writerows(zip(*world.T.tolist(), *(v.tolist() for v in values), strict=True))
            return
        is_package = suffix == ".gpkg"
        pyogrio.raw.write(
            temporary,
            shapely.to_wkb(shapely.points(world)),
            values,
            list(columns),
            layer=layer,
            driver=POINT_DRIVERS[suffix],
            geometry_type="Point",
            crs=grid.crs.to_wkt(),
            layer_options={"DESCRIPTION": description},
            # newer ones make the GDAL of QGIS 3.22 warn that it may not read them in full
            dataset_options={"VERSION": "1.2"} if is_package else None,
            layer_metadata=dict(metadata) if is_package else None,
        )
