"""Small result files as the engine writes them, by QGIS's own GDAL, and runs that made them."""

import json
import os
from array import array

from osgeo import gdal, ogr, osr

from geocfm_qgis.engine_client import Artifact, JobEnded, JobStarted, Outcome, Started
from geocfm_qgis.jobs import EngineJob
from geocfm_qgis.runs import Run

NO_DATA = float("nan")
SAMPLE_FIELDS = (("draw", int), ("log_relative_density", float))
TARGET_FIELDS = (  # as the engine writes them
    *(("rank", int), ("area_km2", float), ("mass_share", float), ("lift", float), ("peak", float)),
    *(("uncertainty", float), ("outside_experience", float), ("nearest_known_km", float)),
    *(("known_inside", int), ("layers", str)),
)
VERSIONS = {"geocfm": "0.1.0", "torch": "2.13.0", "python": "3.11.7"}
MEANING = "Density relative to the mean of the mapped area."
MODEL = {
    "layers": ["mag", "gravity"],
    "created": "2026-11-16T03:53:14+00:00",
    "occurrences": {"source": "gold.gpkg", "where": ["commodity ~ gold"], "counts": {"used": 255}},
}


def provenance(command, out, seed=1):
    layer = {"use": "layer mag, band 1", "path": "/data/mag.tif", "size": 7, "modified": "2026"}
    return {
        "job": {"command": command, "out": str(out), "checkpoint": "/models/gold.safetensors"},
        "seed": seed,
        "inputs": [layer],
        "versions": VERSIONS,
    }


def tags(command, out, seed=1):
    return {
        "GEOCFM_PROVENANCE": json.dumps(provenance(command, out, seed)),
        "GEOCFM_MODEL": json.dumps(MODEL),
        "GEOCFM_MEANING": MEANING,
    }


def _crs():
    crs = osr.SpatialReference()
    crs.ImportFromEPSG(32650)
    return crs


def write_map(path, values, width, seed=1):
    """Write rows of `width` values as a GeoTIFF, which appears only when it is complete."""
    return write_raster(path, {"relative density": values}, width, seed)


def write_raster(path, bands, width, seed=1):
    """Write rows of `width` values, by the description of their band, as a GeoTIFF."""
    partial = f"{path}.partial"
    height = len(next(iter(bands.values()))) // width
    driver = gdal.GetDriverByName("GTiff")
    dataset = driver.Create(partial, width, height, len(bands), gdal.GDT_Float32)
    dataset.SetGeoTransform((500000, 500, 0, 7000000, 0, -500))
    dataset.SetProjection(_crs().ExportToWkt())
    dataset.SetMetadata(tags("map", path, seed))
    for number, (description, values) in enumerate(bands.items(), 1):
        band = dataset.GetRasterBand(number)
        band.SetNoDataValue(NO_DATA)
        band.SetDescription(description)
        band.WriteRaster(0, 0, width, height, array("f", values).tobytes())
    del band, dataset
    os.replace(partial, path)
    return str(path)


def write_uncertainty(path, variation=True):
    """Write 20 x 20 cells: networks that disagree more and more, and new ground in the south."""
    bands = {}
    if variation:
        bands["coefficient of variation"] = [cell % 20 / 10 for cell in range(400)]
        bands["mutual information"] = [0.0] * 400
    bands["outside experience"] = [0.0] * 300 + [1.0] * 100
    return write_raster(path, bands, 20)


def write_targets(path, count=12, missing=()):
    """Write squares of 1 km side by side, ranked from west to east, as a GeoPackage."""
    fields = [field for field in TARGET_FIELDS if field[0] not in missing]
    rows = []
    for rank in range(1, count + 1):
        west = 500000 + 2000 * rank
        ring = ((west, 6999000), (west + 1000, 6999000), (west + 1000, 6998000), (west, 6998000))
        corners = ", ".join(f"{x} {y}" for x, y in (*ring, ring[0]))
        values = {
            "rank": rank,
            "area_km2": 1.0,
            "mass_share": 0.1 / rank,
            "lift": 20.0 / rank,
            "peak": 31.25 / rank,
            "uncertainty": None if rank % 2 else 0.25,
            "outside_experience": 0.0,
            "nearest_known_km": 3.14159,
            "known_inside": rank - 1,
            "layers": {1: "mag, gravity", 2: ""}.get(rank),
        }
        rows.append((f"MULTIPOLYGON ((({corners})))", *(values[name] for name, _ in fields)))
    return _write_features(path, rows, "targets", fields, ogr.wkbMultiPolygon, "targets")


def write_points(path, rows, layer="samples", fields=SAMPLE_FIELDS):
    """Write (x, y, *attributes) as a GeoPackage."""
    shapes = [(f"POINT ({x} {y})", *attributes) for x, y, *attributes in rows]
    return _write_features(path, shapes, layer, fields, ogr.wkbPoint, "sample")


def _write_features(path, rows, layer, fields, geometry, command):
    partial = f"{path}.partial.gpkg"
    package = ogr.GetDriverByName("GPKG").CreateDataSource(partial)
    table = package.CreateLayer(layer, _crs(), geometry)
    types = {int: ogr.OFTInteger64, float: ogr.OFTReal, str: ogr.OFTString}
    for name, kind in fields:
        table.CreateField(ogr.FieldDefn(name, types[kind]))
    table.SetMetadata(tags(command, path))
    for shape, *attributes in rows:
        feature = ogr.Feature(table.GetLayerDefn())
        feature.SetGeometry(ogr.CreateGeometryFromWkt(shape))
        for (name, _), value in zip(fields, attributes, strict=True):
            if value is not None:
                feature[name] = value
        table.CreateFeature(feature)
    del feature, table, package
    os.replace(partial, path)
    return str(path)


def write_samples(path, draws=3, points=4):
    rows = [
        (500100 + 100 * point, 6999000, draw, point - 1.0)
        for draw in range(1, draws + 1)
        for point in range(points)
    ]
    return write_points(path, rows)


def make_run(name="Gold", **changes):
    values = {"jobs": (), "folder": "", "choices": {}, "temporary": False}
    return Run(name=name, **{**values, **changes})


def outcome_of(*jobs, status="done", message=""):
    """Give the Outcome of (command, status, artifact's kind, path) jobs."""
    events = [Started(1, "run", VERSIONS)]
    for number, (command, ended, kind, path) in enumerate(jobs, 1):
        events.append(JobStarted(number, len(jobs), command, command))
        events.append(Artifact(kind, path, "made"))
        events.append(JobEnded(number, command, command, ended, artifacts=(path,)))
    return Outcome(status, message, events=tuple(events))


def training_job(occurrences, **values):
    return EngineJob("train", {"occurrences": occurrences, **values})
