"""The area of interest: an extent, polygons, or what both have in common."""

from __future__ import annotations

from qgis.core import (
    QgsCoordinateTransform,
    QgsCsException,
    QgsFeature,
    QgsGeometry,
    QgsProcessingException,
    QgsVectorLayer,
)

from ..translation import tr
from .occurrences import VectorInput
from .vector_export import LAYER_NAME, VectorExport
from .vector_source import VectorSource, vector_source

SIDE_POINTS = 20  # along each side of a rectangle that is bent by another CRS


class Area:
    """Where the job looks: its values for the engine, and the rectangle around it."""

    def __init__(self, vector_input, rectangle, crs):
        self.input = vector_input
        self._rectangle = rectangle
        self._crs = crs

    def rectangle_in(self, crs, context):
        """Give the rectangle around the area in another CRS, or None where it has no place."""
        transform = QgsCoordinateTransform(self._crs, crs, context.transformContext())
        try:
            return transform.transformBoundingBox(self._rectangle)
        except QgsCsException:
            return None


def area_of_interest(extent, extent_crs, polygons, context):
    """Give the Area of a rectangle (may be empty) and of a polygon parameter's value (or None)."""
    has_extent = not (extent.isNull() or extent.isEmpty())
    if not polygons:
        return _of_extent(extent, extent_crs, context) if has_extent else None
    source = vector_source(polygons, context, tr("Area of interest"))
    crs = source.layer.crs()
    if not crs.isValid():
        raise QgsProcessingException(
            tr(
                "The layer '{layer}' has no coordinate reference system. Give it one: Layer > Set "
                "CRS of Layer(s)."
            ).format(layer=source.layer.name())
        )
    rectangle = source.extent()
    if not has_extent:
        return Area(_input(source, context), rectangle, crs)
    clip = _bent_rectangle(extent, extent_crs, crs, context)
    common = rectangle.intersect(clip.boundingBox())
    if common.isEmpty():
        raise QgsProcessingException(
            tr(
                "The extent and the polygons of '{layer}' do not overlap. Leave out one of them, "
                "or move the extent."
            ).format(layer=source.layer.name())
        )
    path = source.path_for_copy("area.gpkg", clip.asWkt())
    export = VectorExport(source, path, context, clip=clip)
    return Area(_written(path, export), common, crs)


def _of_extent(extent, crs, context):
    """An extent is a polygon in its own CRS; the engine bends it into the grid's."""
    layer = QgsVectorLayer("Polygon", tr("Extent"), "memory")
    layer.setCrs(crs)
    feature = QgsFeature()
    feature.setGeometry(QgsGeometry.fromRect(extent))
    layer.dataProvider().addFeatures([feature])
    source = VectorSource(layer)
    path = source.path_for_copy("area.gpkg")
    return Area(_written(path, VectorExport(source, path, context)), extent, crs)


def _input(source, context):
    file = source.file()
    # the engine has no word for an area whose CRS differs from what its file says
    if file is None or source.layer.crs() != source.layer.dataProvider().crs():
        path = source.path_for_copy("area.gpkg")
        return _written(path, VectorExport(source, path, context))
    path, layer = file
    return VectorInput({"aoi": path, **({"aoi_layer": layer} if layer else {})})


def _written(path, export):
    return VectorInput({"aoi": path, "aoi_layer": LAYER_NAME}, (export,), (path,))


def _bent_rectangle(extent, extent_crs, crs, context):
    geometry = QgsGeometry.fromRect(extent).densifyByCount(SIDE_POINTS)
    transform = QgsCoordinateTransform(extent_crs, crs, context.transformContext())
    try:
        geometry.transform(transform)
    except QgsCsException:
        raise QgsProcessingException(
            tr("The extent lies beyond where {crs} is defined. Choose another one.").format(
                crs=crs.userFriendlyIdentifier()
            )
        ) from None
    return geometry
