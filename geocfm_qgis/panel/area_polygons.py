"""The polygons of a layer, read once and again only when they have changed."""

from qgis.core import QgsFeatureRequest
from qgis.PyQt.QtCore import QObject

from .layer_watch import LayerWatch

MOST_POLYGONS = 5_000


class AreaPolygons(QObject):
    """Keeps the polygons of the layer that was asked for last."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self._layer = None
        self._shapes = None
        self._watch = LayerWatch(self)
        self._watch.touched.connect(self._forget)

    def of(self, layer):
        """Give the polygons of a layer as a tuple of WKB."""
        if layer is not self._layer:
            self._watch.follow(layer)
            self._layer, self._shapes = layer, None
        if self._shapes is None:
            self._shapes = read_polygons(layer)
        return self._shapes

    def _forget(self):
        self._shapes = None


def read_polygons(layer):
    """Read the polygons of a layer as a tuple of WKB; not more than can be handled at once."""
    request = QgsFeatureRequest()
    request.setSubsetOfAttributes([])
    request.setLimit(MOST_POLYGONS)
    shapes = (feature.geometry() for feature in layer.getFeatures(request))
    return tuple(bytes(shape.asWkb()) for shape in shapes if not shape.isNull())
