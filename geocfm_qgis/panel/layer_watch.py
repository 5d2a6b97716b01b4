"""Follows one layer: tells that its features, its place or its source have changed."""

from qgis.PyQt import sip
from qgis.PyQt.QtCore import QObject, QTimer, pyqtSignal

SOON_MS = 150  # a change of a layer is often followed by more
SIGNALS = (
    "layerModified",
    "editingStopped",
    "dataChanged",
    "dataSourceChanged",
    "subsetStringChanged",
    "crsChanged",
)


class LayerWatch(QObject):
    """Watches the layer it was last told to follow, and no other."""

    touched = pyqtSignal()  # at once, and as often as it happens
    changed = pyqtSignal()  # when the layer has come to rest

    def __init__(self, parent=None):
        super().__init__(parent)
        self._layer = None
        self._soon = QTimer(self)
        self._soon.setSingleShot(True)
        self._soon.setInterval(SOON_MS)
        self._soon.timeout.connect(self.changed)

    def follow(self, layer):
        """Watch this vector layer; None watches nothing."""
        if layer is self._layer:
            return
        if self._layer is not None and not sip.isdeleted(self._layer):
            for name in SIGNALS:
                getattr(self._layer, name).disconnect(self._on_signal)
        self._soon.stop()
        self._layer = layer
        if layer is not None:
            for name in SIGNALS:
                getattr(layer, name).connect(self._on_signal)

    def _on_signal(self):
        self.touched.emit()
        self._soon.start()
