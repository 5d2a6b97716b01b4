"""Small rasters and point layers for the tests of the panel's first steps."""

from osgeo import gdal, osr
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsGeometry,
    QgsProject,
    QgsRectangle,
    QgsVectorFileWriter,
    QgsVectorLayer,
)

CORNER = (400_000.0, 7_000_000.0)  # left and top of every raster made here
CELL = 100.0
SIZE = 64


def make_raster(
    path, descriptions=("",), epsg=20350, kind=gdal.GDT_Float32, size=64, palette=False
):
    """Write a GeoTIFF of SIZE x SIZE cells with a ramp in every band."""
    driver = gdal.GetDriverByName("GTiff")
    dataset = driver.Create(str(path), SIZE, SIZE, len(descriptions), kind)
    dataset.SetGeoTransform((CORNER[0], CELL, 0, CORNER[1], 0, -CELL))
    if epsg:
        crs = osr.SpatialReference()
        crs.ImportFromEPSG(epsg)
        dataset.SetProjection(crs.ExportToWkt())
    for number, description in enumerate(descriptions, 1):
        band = dataset.GetRasterBand(number)
        if description:
            band.SetDescription(description)
        if palette:
            table = gdal.ColorTable()
            table.SetColorEntry(1, (255, 0, 0))
            band.SetColorTable(table)
        band.WriteRaster(0, 0, SIZE, SIZE, bytes(range(SIZE)) * SIZE, buf_type=gdal.GDT_Byte)
    dataset = None
    return str(path)


def make_points(rows, fields="commodity:string", crs="EPSG:20350", kind="Point"):
    """Make a memory layer of (column, row, *attributes); column None is a missing geometry."""
    names = "".join(f"&field={each}" for each in fields.split(","))
    layer = QgsVectorLayer(f"{kind}?crs={crs}{names}", "mines", "memory")
    if not crs:
        layer.setCrs(QgsCoordinateReferenceSystem())
    features = []
    for column, row, *attributes in rows:
        feature = QgsFeature(layer.fields())
        feature.setAttributes(attributes)
        if column is not None:
            x, y = CORNER[0] + (column + 0.5) * CELL, CORNER[1] - (row + 0.5) * CELL
            feature.setGeometry(QgsGeometry.fromWkt(f"{kind}({x} {y})"))
        features.append(feature)
    assert layer.dataProvider().addFeatures(features)[0]
    layer.updateExtents()
    return layer


def make_polygons(path):
    """Give a layer of a GeoPackage with a square in it, which is written if it is not there."""
    if not path.exists():
        memory = QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory")
        feature = QgsFeature()
        left, top = CORNER
        feature.setGeometry(QgsGeometry.fromRect(QgsRectangle(left, top - 6400, left + 3000, top)))
        memory.dataProvider().addFeatures([feature])
        options = QgsVectorFileWriter.SaveVectorOptions()
        options.driverName = "GPKG"
        context = QgsProject.instance().transformContext()
        QgsVectorFileWriter.writeAsVectorFormatV3(memory, str(path), context, options)
    layer = QgsVectorLayer(str(path), "area", "ogr")
    assert layer.isValid()
    return layer
