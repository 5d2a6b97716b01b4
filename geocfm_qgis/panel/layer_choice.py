"""A combo box of layers that says so when the chosen layer is gone, instead of taking another."""

from qgis.gui import QgsMapLayerComboBox
from qgis.PyQt.QtCore import QEvent, pyqtSignal
from qgis.PyQt.QtWidgets import QToolTip

from ..plain_text import as_tip
from ..translation import tr
from .layer_origins import current_id, origins


class LayerChoice(QgsMapLayerComboBox):
    """Remembers the chosen layer, and finds it again when it comes back, if only by its source."""

    chosen = pyqtSignal()  # another layer, or the same one vanished or came back

    def __init__(self, parent=None):
        super().__init__(parent)
        self._project = None
        self._id = ""
        self._origins = {}  # of the chosen layer, see layer_origins
        self._was_missing = False
        self.setSizeAdjustPolicy(self.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        # activated and not layerChanged: the latter also tells of QGIS's own choice of another
        # layer when the chosen one is removed
        self.activated.connect(self._take)
        self.view().viewport().installEventFilter(self)

    def eventFilter(self, watched, event):
        """Say what a layer in the list is called: QGIS's own tip takes a name for HTML."""
        if event.type() != QEvent.Type.ToolTip:
            return super().eventFilter(watched, event)
        index = self.view().indexAt(event.pos())
        QToolTip.showText(event.globalPos(), as_tip(index.data() or ""), watched)
        return True

    def prepare(self, project, layer_filter, empty_text):
        """Offer layers of a kind, and the empty choice under a text of its own."""
        self._project = project
        self.setFilters(layer_filter)
        self.set_empty_text(empty_text)
        project.layersAdded.connect(self._project_changed)
        project.layersRemoved.connect(self._project_changed)
        project.cleared.connect(self._forget)  # another project: nothing in it is missing

    def set_empty_text(self, text):
        """Show this text for no layer."""
        self.setAllowEmptyLayer(False)  # QGIS takes a new text only when it adds the item
        self.setAllowEmptyLayer(True, text)
        self._show()

    def layer_id(self):
        """Give the id of the chosen layer, also if it is gone; empty for none."""
        return self._id

    def origins(self):
        """Give where the chosen layer comes from, see layer_origins."""
        return self._origins

    def chosen_layer(self):
        """Give the chosen layer; None if there is none or it is gone."""
        return None if not self._id or self.is_missing() else self.currentLayer()

    def offered_layers(self):
        """Give the layers that can be chosen."""
        layers = (self.layer(index) for index in range(self.count()))
        return [layer for layer in layers if layer is not None]

    def is_missing(self):
        """Tell whether a layer is chosen that the project does not have (any more)."""
        return bool(self._id) and (self.currentLayer() is None or not self._is_shown())

    def choose(self, layer_id, known=None):
        """Choose a layer by its id, empty for none; known: its origins, see layer_origins."""
        known = known or {}
        layer_id = self._current(layer_id, known)
        if layer_id == self._id and not self.is_missing():
            return
        self._id = layer_id
        self._origins = {layer_id: known[layer_id]} if layer_id in known else {}
        self._show()
        self.chosen.emit()

    def setLayer(self, layer):
        """Choose a layer as QgsMapLayerComboBox does."""
        self.choose("" if layer is None else layer.id())

    def setCurrentIndex(self, index):
        """Choose as a user does."""
        super().setCurrentIndex(index)
        self._take()

    def _take(self):
        layer = self.currentLayer()
        if layer is None and self._was_missing and self.currentIndex() == self.count() - 1:
            return  # the entry that tells of the missing layer
        self._id = "" if layer is None else layer.id()
        self._show()
        self.chosen.emit()

    def _project_changed(self):
        before = self._id, self._was_missing
        self._id = self._current(self._id, self._origins)
        self._show()
        if (self._id, self._was_missing) != before:
            self.chosen.emit()

    def _current(self, layer_id, known):
        return current_id(self._project, layer_id, known) if self._project else layer_id

    def _forget(self):
        self.choose("")

    def _is_shown(self):
        return self.currentLayer() is not None and self.currentLayer().id() == self._id

    def _show(self):
        layer = self._project.mapLayer(self._id) if self._project and self._id else None
        self.setAdditionalItems([])
        self._was_missing = False
        if not self._id:
            super().setCurrentIndex(0)
            return
        if layer is not None:
            self._origins = origins(self._project, [self._id])
            super().setLayer(layer)
        if not self._is_shown():
            self._was_missing = True
            name = self._origins.get(self._id, {}).get("name") or tr("layer")
            text = tr("{name} (not in the project)").format(name=name)
            self.setAdditionalItems([text])
            super().setCurrentIndex(self.count() - 1)
