"""Showing results on the map."""

from __future__ import annotations

from qgis.core import QgsCoordinateTransform, QgsCsException, QgsRectangle

MARGIN = 1.05  # of the extent, when zooming


def still_there(project, ids):
    """Give those of the layers that are in the project."""
    found = (project.mapLayer(each) for each in ids)
    return [layer for layer in found if layer is not None]


def zoom_to(iface, project, ids):
    """Show the whole of these layers on the map, as far as they are there."""
    canvas = iface.mapCanvas()
    target = canvas.mapSettings().destinationCrs()
    extent = QgsRectangle()
    for layer in still_there(project, ids):
        transform = QgsCoordinateTransform(layer.crs(), target, project)
        try:
            extent.combineExtentWith(transform.transformBoundingBox(layer.extent()))
        except QgsCsException:  # it lies where the map's projection is not defined
            continue
    if not extent.isEmpty():
        extent.scale(MARGIN)
        canvas.setExtent(extent)
        canvas.refresh()
