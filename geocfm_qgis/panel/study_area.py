"""Which cells of the grid are learned from, as the engine will see it."""

import math
from dataclasses import dataclass, field
from functools import cached_property

from qgis.core import (
    QgsCoordinateTransform,
    QgsCsException,
    QgsGeometry,
    QgsLineString,
    QgsPoint,
    QgsRasterLayer,
)

from .area_polygons import read_polygons
from .extent_text import parse_extent

EDGE_CELLS = 1e-3  # a raster this near to a whole number of cells is taken to have it
SIDE_PARTS = 500  # the outline of an area gets so many points a side before it is reprojected


@dataclass(frozen=True)
class StudyArea:
    """The cells of a raster, and perhaps polygons that hold the wanted ones."""

    crs: object
    left: float
    top: float
    cell_width: float
    cell_height: float
    columns: int
    rows: int
    transform_context: object = field(compare=False)
    shapes: tuple = ()  # polygons of the area of interest as WKB; none: everywhere
    shapes_crs: object = None

    def cells(self, x, y, crs):
        """Give (column, row) of each point, None for one outside. x, y: lists, in `crs`."""
        inside = {}
        engine = self._engine[1] if self._engine else None
        found = []
        for cell in map(self._cell, *self._moved(x, y, crs)):
            if cell is not None and engine is not None:
                if cell not in inside:
                    inside[cell] = engine.contains(self._centre(cell))
                cell = cell if inside[cell] else None
            found.append(cell)
        return found

    def _moved(self, x, y, crs):
        if crs == self.crs or not x:
            return x, y
        transform = QgsCoordinateTransform(crs, self.crs, self.transform_context)
        line = QgsGeometry(QgsLineString(list(x), list(y)))
        try:
            line.transform(transform)  # all at once: a call for each point takes seconds
        except QgsCsException:
            pairs = [_one_moved(transform, *point) for point in zip(x, y)]
        else:
            pairs = [(point.x(), point.y()) for point in line.constGet().points()]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    @cached_property
    def _engine(self):
        """The area of interest in the grid's CRS with its tests, None for everywhere."""
        polygons = QgsGeometry.unaryUnion([_shape(wkb).makeValid() for wkb in self.shapes])
        if polygons.isEmpty():
            return None
        bounds = polygons.boundingBox()
        polygons = polygons.densifyByDistance(max(bounds.width(), bounds.height()) / SIDE_PARTS)
        transform = QgsCoordinateTransform(self.shapes_crs, self.crs, self.transform_context)
        try:
            polygons.transform(transform)
        except QgsCsException:
            return None
        engine = QgsGeometry.createGeometryEngine(polygons.constGet())
        engine.prepareGeometry()
        return polygons, engine  # the engine does not keep the polygons alive

    def _cell(self, x, y):
        if not (math.isfinite(x) and math.isfinite(y)):
            return None
        column = math.floor((x - self.left) / self.cell_width)
        row = math.floor((self.top - y) / self.cell_height)
        inside = 0 <= column < self.columns and 0 <= row < self.rows
        return (column, row) if inside else None

    def _centre(self, cell):
        return QgsPoint(
            self.left + (cell[0] + 0.5) * self.cell_width,
            self.top - (cell[1] + 0.5) * self.cell_height,
        )


def study_area(project, choices, resolution=None, polygons=read_polygons):
    """Give the StudyArea of LayerChoices; None while they name no raster with a place.

    resolution: the size of the cells where it is not the raster's own. polygons: reads those of a
    layer. Where the engine ends its grid at the area, it leaves out only cells that lie outside.
    """
    first = choices.channels[0].layer if choices.channels else ""
    layer = project.mapLayer(choices.reference or first)
    if not isinstance(layer, QgsRasterLayer) or not layer.isValid() or not layer.crs().isValid():
        return None
    extent = layer.extent()
    return StudyArea(
        layer.crs(),
        extent.xMinimum(),
        extent.yMaximum(),
        *_cells(layer, resolution),
        project.transformContext(),
        *_area_of_interest(project, choices, polygons),
    )


def _cells(layer, resolution):
    """Width and height of a cell, columns and rows; the first cell lies at the top left."""
    if not resolution:
        sizes = layer.rasterUnitsPerPixelX(), layer.rasterUnitsPerPixelY()
        return (*sizes, layer.width(), layer.height())
    extent = layer.extent()
    columns, rows = extent.width() / resolution, extent.height() / resolution
    counts = (max(1, math.ceil(count - EDGE_CELLS)) for count in (columns, rows))
    return (resolution, resolution, *counts)


def _area_of_interest(project, choices, polygons):
    """The polygons as a tuple of WKB, and their CRS."""
    extent = parse_extent(choices.extent) if choices.extent else None
    if extent is not None:
        return (bytes(QgsGeometry.fromRect(extent[0]).asWkb()),), extent[1]
    layer = project.mapLayer(choices.area_layer) if choices.area_layer else None
    if layer is None or not layer.isValid() or not layer.crs().isValid():
        return (), None
    return polygons(layer), layer.crs()


def _shape(wkb):
    shape = QgsGeometry()
    shape.fromWkb(wkb)
    return shape


def _one_moved(transform, x, y):
    try:
        point = transform.transform(x, y)
    except QgsCsException:
        return math.nan, math.nan
    return point.x(), point.y()
