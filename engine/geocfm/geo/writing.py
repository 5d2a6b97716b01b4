"""Results on disk: georeferenced, self-describing, and never half written."""

from __future__ import annotations

import csv
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pyogrio
import pyogrio.raw
import rasterio
import rasterio.shutil
import rasterio.windows
import shapely
from numpy.typing import ArrayLike, NDArray
from rasterio.errors import RasterioError, RasterioIOError
from rasterio.io import DatasetReader, DatasetWriter

from geocfm.errors import FULL, Interrupted, UserError, disk_full
from geocfm.geo.grid import Grid
from geocfm.geo.layers import bounded_cache

TILE = 512  # cells along the side of a block, in working rasters and in COGs

RELATIVE_ROUNDING = 1e-5  # the COG driver keeps six digits of the scale

VECTOR_DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".json": "GeoJSON"}

# The COG driver can only copy, so what it copies must already be scaled, named and tagged.
DESCRIBED = """<VRTDataset rasterXSize="{width}" rasterYSize="{height}">
  <SRS>{crs}</SRS><GeoTransform>{c!r},{a!r},{b!r},{f!r},{d!r},{e!r}</GeoTransform>
  <Metadata>{tags}</Metadata>{bands}
</VRTDataset>"""
DESCRIBED_BAND = """
  <VRTRasterBand dataType="Float32" band="{number}" blockXSize="{tile}" blockYSize="{tile}">
    <Description>{name}</Description><UnitType>{unit}</UnitType><NoDataValue>nan</NoDataValue>
    <ComplexSource>
      <SourceFilename relativeToVRT="0" shared="0">{path}</SourceFilename>
      <SourceBand>{source}</SourceBand>
      <SrcRect xOff="0" yOff="0" xSize="{width}" ySize="{height}"/>
      <DstRect xOff="0" yOff="0" xSize="{width}" ySize="{height}"/>
      <ScaleOffset>0</ScaleOffset><ScaleRatio>{scale!r}</ScaleRatio><NODATA>nan</NODATA>
    </ComplexSource>
  </VRTRasterBand>"""


@dataclass(frozen=True)
class Band:
    """A band of a result: from which band it is copied, its name and unit, and times what."""

    source: int
    name: str
    unit: str
    scale: float = 1.0


def ensure_writable(path: str | os.PathLike[str]) -> None:
    """Find out now, not after hours of work, whether a file can be written; makes its folder."""
    final = Path(path)
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        trial = _beside(final)
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise cannot_write(final.parent, error) from error
    if final.is_dir():
        raise UserError(f"'{final}' is a folder.", "Give the name of a file.")


def cannot_write(folder: Path, error: OSError) -> Interrupted:
    """The sentence for a folder that cannot be written to."""
    if error.errno in FULL:
        return disk_full(folder)
    return Interrupted(
        f"Nothing can be written to the folder '{folder}' ({error.strerror}).",
        "Choose a folder that you may write to.",
    )


def _beside(final: Path) -> Path:
    # short whatever the final name is: a file system allows names of 255 bytes
    return final.with_name(f".geocfm-{secrets.token_hex(4)}{final.suffix[:16]}")


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary name beside `path`; it replaces `path` in the end or, on failure, goes."""
    final = Path(path)
    ensure_writable(final)
    temporary = _beside(final)
    try:
        yield temporary
        replace_file(temporary, final)
    finally:
        # also what GDAL leaves beside a file: .aux.xml, -journal, .ovr.tmp
        for leftover in final.parent.glob(f"{temporary.name}*"):
            with suppress(OSError):
                leftover.unlink()


def replace_file(complete: Path, final: Path) -> None:
    """Move a complete file to its name, so that even after a power cut it is there in full."""
    try:
        with complete.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(complete, final)
    except OSError as error:
        if error.errno in FULL:
            raise disk_full(final.parent) from error
        raise Interrupted(
            f"'{final}' cannot be written ({error.strerror}).",
            "Close it in other programs, or choose another name.",
        ) from error


@contextmanager
def open_raster_for_blocks(
    path: str | os.PathLike[str], grid: Grid, *, count: int = 1
) -> Iterator[DatasetWriter]:
    """Open a new float raster for windows in any order; cells never written are NaN."""
    Path(path).unlink(missing_ok=True)  # GDAL would read it first; a killed run's cannot be read
    try:
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
    except RasterioIOError as error:
        if "Write failed" in str(error):
            raise disk_full(Path(path).parent) from error
        raise


def write_cog(
    source_path: str | os.PathLike[str],
    out_path: str | os.PathLike[str],
    *,
    bands: Sequence[Band],
    tags: Mapping[str, str],
) -> None:
    """Copy bands of a raster to a Cloud Optimized GeoTIFF that carries `tags`."""
    with atomic_path(out_path) as temporary, bounded_cache():
        with rasterio.open(source_path) as source:
            text = _described(source, os.fspath(source_path), bands, tags)
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
                NUM_THREADS="ALL_CPUS",
            )
            ensure_complete(temporary, raster_totals(described))


def raster_totals(raster: DatasetReader) -> list[tuple[int, float]]:
    """How many cells of each band have data, and their sum."""
    counts, totals = np.zeros(raster.count, dtype=np.int64), np.zeros(raster.count)
    for row in range(0, raster.height, TILE):
        window = rasterio.windows.Window(0, row, raster.width, min(TILE, raster.height - row))
        values = raster.read(window=window)
        valid = np.isfinite(values)
        counts += valid.sum(axis=(1, 2))
        totals += np.where(valid, values, 0).sum(axis=(1, 2), dtype=np.float64)
    return list(zip(counts.tolist(), totals.tolist(), strict=True))


def ensure_complete(path: str | os.PathLike[str], expected: Sequence[tuple[int, float]]) -> None:
    """GDAL may lose what a full disk refuses when it closes a file, and not say so.

    expected: what is known of the first bands.
    """
    try:
        with rasterio.open(path) as raster:
            found = raster_totals(raster)
    except RasterioError as error:
        raise disk_full(Path(path).parent) from error
    for (count, total), (known, summed) in zip(found, expected, strict=False):
        if count != known or not math.isclose(total, summed, rel_tol=RELATIVE_ROUNDING):
            raise disk_full(Path(path).parent)


def _described(
    source: DatasetReader, path: str, bands: Sequence[Band], tags: Mapping[str, str]
) -> str:
    items = (f"<MDI key={quoteattr(key)}>{escape(tag)}</MDI>" for key, tag in tags.items())
    size = {"width": source.width, "height": source.height}
    described = (
        DESCRIBED_BAND.format(
            number=number + 1,
            source=band.source,
            tile=TILE,
            name=escape(band.name),
            unit=escape(band.unit),
            path=escape(path),
            scale=float(band.scale),
            **size,
        )
        for number, band in enumerate(bands)
    )
    return DESCRIBED.format(
        crs=escape(source.crs.to_wkt()),
        tags="".join(items),
        bands="".join(described),
        **size,
        **{key: getattr(source.transform, key) for key in "abcdef"},
    )


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
    suffix = Path(path).suffix.lower()
    if suffix != ".csv" and suffix not in VECTOR_DRIVERS:
        raise UserError(
            f"Points cannot be written as '{suffix or path}'.",
            "Name the file .gpkg, .geojson or .csv.",
        )
    world = grid.to_world(points)
    with atomic_path(path) as temporary:
        if suffix == ".csv":
            values = [np.asarray(column) for column in columns.values()]
            with open(temporary, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["x", "y", *columns])
                writer.writerows(zip(*world.T.tolist(), *(v.tolist() for v in values), strict=True))
            return
        _write_features(
            temporary,
            grid,
            shapely.points(world),
            columns,
            geometry_type="Point",
            layer=layer,
            description=description,
            metadata=metadata,
        )


def write_polygons(
    path: str | os.PathLike[str],
    grid: Grid,
    polygons: ArrayLike,
    columns: Mapping[str, NDArray[Any]],
    *,
    layer: str,
    description: str,
    metadata: Mapping[str, str],
) -> None:
    """Write multipolygons (N,), given in (column, row), as a GeoPackage in the grid's CRS.

    What a masked array hides is null.
    """
    if Path(path).suffix.lower() != ".gpkg":
        raise UserError(f"Polygons cannot be written as '{path}'.", "Name the file .gpkg.")
    with atomic_path(path) as temporary:
        _write_features(
            temporary,
            grid,
            shapely.transform(np.asarray(polygons, dtype=object), grid.to_world),
            columns,
            geometry_type="MultiPolygon",
            layer=layer,
            description=description,
            metadata=metadata,
        )


def _write_features(
    path: Path,
    grid: Grid,
    shapes: NDArray[np.object_],
    columns: Mapping[str, NDArray[Any]],
    *,
    geometry_type: str,
    layer: str,
    description: str,
    metadata: Mapping[str, str],
) -> None:
    suffix = path.suffix.lower()
    is_package = suffix == ".gpkg"
    pyogrio.raw.write(
        path,
        shapely.to_wkb(shapes),
        [np.ma.getdata(column) for column in columns.values()],
        list(columns),
        field_mask=[np.ma.getmaskarray(column) for column in columns.values()],
        layer=layer,
        driver=VECTOR_DRIVERS[suffix],
        geometry_type=geometry_type,
        crs=grid.crs.to_wkt(),
        layer_options={"DESCRIPTION": description},
        # newer ones make the GDAL of QGIS 3.22 warn that it may not read them in full
        dataset_options={"VERSION": "1.2"} if is_package else None,
        layer_metadata=dict(metadata) if is_package else None,
    )
    if pyogrio.read_info(path, force_feature_count=True)["features"] != len(shapes):
        raise disk_full(path.parent)
