"""The look of results that Processing loads into the project."""

from __future__ import annotations

from collections import deque

from qgis.core import QgsProcessingLayerPostProcessorInterface

from .provenance import describe
from .styling import apply_style

# QGIS calls them later and keeps no reference; one for each layer that a batch may load
_ALIVE = deque(maxlen=1000)


class LayerPostProcessor(QgsProcessingLayerPostProcessorInterface):
    """Styles and describes a layer once Processing has loaded it, in the main thread."""

    def __init__(self, kind, path):
        super().__init__()
        self._kind = kind
        self._path = path

    @classmethod
    def create(cls, kind, path):
        """Give one that lives long enough, for `QgsProcessingContext.LayerDetails`."""
        processor = cls(kind, path)
        _ALIVE.append(processor)
        return processor

    def postProcessLayer(self, layer, context, feedback):
        """Style the layer and tell where it comes from."""
        apply_style(layer, self._kind, self._path)
        describe(layer, self._path)
