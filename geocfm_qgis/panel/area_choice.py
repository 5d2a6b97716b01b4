"""Where: everywhere on the grid, within an extent, or within the polygons of a layer."""

import qgis.utils
from qgis.PyQt.QtCore import pyqtSignal
from qgis.PyQt.QtWidgets import QLineEdit, QWidget

from ..bundle import load_form
from ..compat import POLYGON_LAYERS
from ..translation import tr
from .extent_text import extent_text, parse_extent
from .layer_watch import LayerWatch

WHOLE_GRID, EXTENT, POLYGONS = range(3)  # as in the form


class AreaChoice(QWidget):
    """The area of interest; at most one of extent and polygons is chosen."""

    changed = pyqtSignal()

    def __init__(self, parent=None):
        super().__init__(parent)
        self._project = None
        self._watch = LayerWatch(self)
        load_form("area_choice", self)
        if qgis.utils.iface is not None:
            self.extentWidget.setMapCanvas(qgis.utils.iface.mapCanvas())
        self.kindCombo.currentIndexChanged.connect(self._kind_changed)
        self.extentWidget.extentChanged.connect(self._told)
        self.polygonCombo.chosen.connect(self._polygons_chosen)
        self._watch.changed.connect(self._polygons_changed)
        self._show_kind()

    def prepare(self, project):
        """Offer the polygon layers of a project."""
        self._project = project
        self.polygonCombo.prepare(project, POLYGON_LAYERS, tr("Choose a polygon layer"))

    def extent(self):
        """Give the extent as text (see extent_text), empty if none is chosen."""
        if self.kindCombo.currentIndex() != EXTENT or not self._has_extent():
            return ""
        return extent_text(self.extentWidget.outputExtent(), self.extentWidget.outputCrs())

    def layer_id(self):
        """Give the id of the polygon layer, empty if none is chosen."""
        return self.polygonCombo.layer_id() if self.kindCombo.currentIndex() == POLYGONS else ""

    def origins(self):
        """Give where the polygon layer comes from, see layer_origins."""
        return self.polygonCombo.origins() if self.layer_id() else {}

    def choose(self, extent, layer_id, known=None):
        """Show an extent or a polygon layer, known by its origins; both empty: the whole grid."""
        found = parse_extent(extent) if extent else None
        if found is not None:
            self.extentWidget.setOutputCrs(found[1])
            self.extentWidget.setOutputExtentFromUser(*found)
        self.polygonCombo.choose(layer_id, known)
        self.kindCombo.setCurrentIndex(
            EXTENT if found is not None else POLYGONS if layer_id else WHOLE_GRID
        )

    def problems(self):
        """Say what keeps the area from being used."""
        kind = self.kindCombo.currentIndex()
        if kind == EXTENT and not self._has_extent():
            return [
                tr(
                    "The extent of the area of interest is not set. Take it from the map or a "
                    "layer with the button beside it, or choose the whole grid."
                )
            ]
        if kind != POLYGONS:
            return []
        layer = self.polygonCombo.chosen_layer()
        if layer is None:
            return [
                tr(
                    "No polygon layer is chosen for the area of interest. Choose one, or choose "
                    "the whole grid."
                )
            ]
        name = layer.name()
        if not layer.isValid():
            return [
                tr(
                    "The polygons of '{name}' cannot be read. Repair the layer in the Layers "
                    "panel, or choose another area of interest."
                ).format(name=name)
            ]
        if not layer.featureCount():
            return [
                tr(
                    "The polygon layer '{name}' is empty. Draw the area of interest in it, or "
                    "choose another layer."
                ).format(name=name)
            ]
        if not layer.crs().isValid():
            return [
                tr(
                    "The polygon layer '{name}' has no coordinate system. Right-click it in the "
                    "Layers panel and choose Layer CRS, Set Layer CRS."
                ).format(name=name)
            ]
        return []

    def _has_extent(self):
        extent = self.extentWidget.outputExtent()
        return self.extentWidget.isValid() and extent.width() > 0 and extent.height() > 0

    def _kind_changed(self):
        if self.kindCombo.currentIndex() == EXTENT and not self._has_extent():
            self.extentWidget.setOutputCrs(self._likely_crs())
        self._show_kind()
        self.changed.emit()

    def _polygons_chosen(self):
        self._watch.follow(self.polygonCombo.chosen_layer())
        self.changed.emit()

    def _polygons_changed(self):
        if self.kindCombo.currentIndex() == POLYGONS:
            self.changed.emit()

    def _likely_crs(self):
        """The project's CRS, or a layer's while the project has none."""
        own = [self._project.crs()]
        own += [layer.crs() for layer in self._project.mapLayers().values()]
        return next((crs for crs in own if crs.isValid()), own[0])

    def _show_kind(self):
        self.extentWidget.setVisible(self.kindCombo.currentIndex() == EXTENT)
        self.polygonCombo.setVisible(self.kindCombo.currentIndex() == POLYGONS)

    def _told(self):
        for line in self.extentWidget.findChildren(QLineEdit):
            if not line.hasFocus():
                line.setCursorPosition(0)  # a long extent is read from its start
        if self.kindCombo.currentIndex() == EXTENT:
            self.changed.emit()
