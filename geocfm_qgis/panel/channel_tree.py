"""The checklist of the project's rasters and their bands."""

from qgis.core import QgsRasterLayer
from qgis.PyQt.QtCore import Qt, QTimer, pyqtSignal
from qgis.PyQt.QtGui import QBrush, QColor, QPalette
from qgis.PyQt.QtWidgets import QTreeWidgetItem

from ..jobs.raster_facts import (
    Band,
    at_a_glance,
    bands,
    clean_name,
    details,
    is_our_result,
    why_unusable,
)
from ..plain_text import as_tip
from ..translation import tr
from .channel_marks import ChannelMarks
from .fitting_column import FittingColumn
from .name_delegate import NameDelegate
from .ordered_tree import OrderedTree

NAME, GRID, CLASSES = range(3)
LAYER_ROLE = Qt.ItemDataRole.UserRole
BAND_ROLE = Qt.ItemDataRole.UserRole + 1  # a raster_facts.Band; None on a raster with several
CLASH = QColor("#c0392b")
WIDEST_NAME = 0.55  # of the width of the list

CHECKED, UNCHECKED = Qt.CheckState.Checked, Qt.CheckState.Unchecked


class ChannelTree(OrderedTree):
    """Rasters in an order that can be dragged; ticks, names and classes stay while layers come."""

    marked = pyqtSignal()  # the user changed something
    refreshed = pyqtSignal()  # the project changed something

    def __init__(self, parent=None):
        super().__init__(parent)
        self._project = None
        self._marks = ChannelMarks()
        self._watched = {}
        self._reasons = {}  # why rasters cannot be used, as shown
        self._filling = False
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.timeout.connect(self.refresh)
        self.setItemDelegate(NameDelegate(NAME, self))
        self.setHeaderLabels([tr("Name"), tr("Grid"), tr("Classes")])
        tip = tr(
            "Tick this where the values are codes, such as those of rock types: "
            "each code is then learned for itself."
        )
        self.headerItem().setToolTip(CLASSES, tip)
        self._columns = FittingColumn(self, NAME, GRID, WIDEST_NAME)
        self.itemChanged.connect(self._item_changed)
        self.row_moved.connect(self._row_moved)

    def watch(self, project):
        """Show the rasters of a project, from now on."""
        self._project = project
        project.layersAdded.connect(self._refresh_later)  # of many layers each may be told
        project.layersRemoved.connect(self.refresh)
        project.readProject.connect(self.refresh)  # only then the tree of layers is complete
        self.refresh()

    def rasters(self):
        """Give the project's rasters in the order shown."""
        if self._project is None:
            return []
        drawn = [node.layerId() for node in self._project.layerTreeRoot().findLayers()]
        layers = self._project.mapLayers()
        ids = sorted(layers, key=lambda key: drawn.index(key) if key in drawn else len(drawn))
        ids = [key for key in ids if isinstance(layers[key], QgsRasterLayer)]
        return [layers[key] for key in self._marks.ordered_layers(ids)]

    def all_channels(self):
        """Give every band of every raster that can be used, ticked or not."""
        return [
            self._marks.channel(layer.id(), band)
            for layer in self.rasters()
            if not why_unusable(layer)
            for band in self._bands(layer)
        ]

    def ticked_channels(self):
        """Give the ticked bands in order, also of rasters that are out of reach by now."""
        return [
            self._marks.channel(layer.id(), band)
            for layer in self.rasters()
            for band in self._bands(layer)
            if self._marks.of(layer.id(), band.number).ticked
        ]

    def set_channels(self, channels):
        """Tick these channels and no others; those whose layer comes later are ticked then."""
        self._marks.take(channels)
        self.refresh()

    def replace_layers(self, ids):
        """Pass marks on from layers that are gone to those of the same source: {old: new id}."""
        for old, new in ids.items():
            self._marks.rename(old, new)
        self.refresh()

    def tick(self, wanted, layers=None):
        """Tick or untick all bands of the given rasters; by default of all but our own results."""
        if layers is None:
            layers = [layer for layer in self.rasters() if not (wanted and is_our_result(layer))]
        for layer in layers:
            if wanted and why_unusable(layer):
                continue
            for band in self._bands(layer):
                self._marks.change(layer.id(), band.number, ticked=wanted)
        self._keep_order()
        self.refresh()
        self.marked.emit()

    def look_again(self):
        """Notice files that have gone or come back since, which nothing tells."""
        if self._reasons != self._why_unusable():
            self._refresh_later()

    def resizeEvent(self, event):
        """Leave room for the other columns beside long names."""
        super().resizeEvent(event)
        self._columns.fit()

    def refresh(self):
        """Show the rasters as they are now, everything marked kept."""
        self._later.stop()
        current = self._key(self.currentItem())
        folded = {
            item.data(NAME, LAYER_ROLE)
            for item in self.top_items()
            if item.childCount() and not item.isExpanded()
        }
        scrolled = self.verticalScrollBar().value()
        self._reasons = self._why_unusable()
        self._filling = True
        try:
            self.clear()
            for layer in self.rasters():
                self._watch_layer(layer)
                self._add(layer, layer.id() not in folded)
            self._restore_current(current)
            self._show_clashes()
        finally:
            self._filling = False
        self._columns.fit()
        self.verticalScrollBar().setValue(scrolled)
        self.refreshed.emit()

    def _why_unusable(self):
        return {layer.id(): why_unusable(layer) for layer in self.rasters()}

    def _bands(self, layer):
        if layer.isValid():
            return self._marks.ordered_bands(layer.id(), bands(layer))
        name = clean_name(layer.name())
        return [Band(number, name) for number in self._marks.ticked_bands(layer.id())]

    def _watch_layer(self, layer):
        if self._watched.get(layer.id()) is layer:
            return
        self._watched[layer.id()] = layer
        for signal in (
            layer.nameChanged,
            layer.crsChanged,
            layer.dataSourceChanged,
            layer.dataChanged,
            layer.rendererChanged,
        ):
            signal.connect(self._refresh_later)

    def _refresh_later(self):
        self._later.start(0)

    def _add(self, layer, expanded):
        reason = self._reasons[layer.id()]
        found = self._bands(layer)
        item = QTreeWidgetItem(self, [layer.name(), at_a_glance(layer)])
        item.setData(NAME, LAYER_ROLE, layer.id())
        tip = "\n".join(filter(None, [details(layer), reason]))
        if len(found) > 1:
            item.setFlags(
                (item.flags() | Qt.ItemFlag.ItemIsAutoTristate) & ~Qt.ItemFlag.ItemIsEditable
            )
            for band in found:
                child = QTreeWidgetItem(item)
                child.setData(NAME, LAYER_ROLE, layer.id())
                self._fill(child, layer, band, reason, tip)
            item.setExpanded(expanded)
        elif found:
            self._fill(item, layer, found[0], reason, tip)
        item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsDropEnabled)
        if len(found) > 1:
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsDropEnabled)
        self._explain(item, tip, reason)

    def _fill(self, item, layer, band, reason, tip):
        channel = self._marks.channel(layer.id(), band)
        ticked = self._marks.of(layer.id(), band.number).ticked
        item.setData(NAME, BAND_ROLE, band)
        item.setText(NAME, channel.name)
        flags = item.flags() & ~Qt.ItemFlag.ItemIsDropEnabled
        if not reason or ticked:  # what was ticked before it went wrong can be unticked
            flags |= Qt.ItemFlag.ItemIsUserCheckable
            item.setCheckState(NAME, CHECKED if ticked else UNCHECKED)
        if not reason:
            flags |= Qt.ItemFlag.ItemIsEditable
            item.setCheckState(CLASSES, CHECKED if channel.categorical else UNCHECKED)
        item.setFlags(flags)
        self._explain(item, tip, reason)

    def _explain(self, item, tip, reason):
        item.setToolTip(NAME, as_tip(tip))
        item.setToolTip(GRID, as_tip(tip))
        item.setToolTip(CLASSES, self.headerItem().toolTip(CLASSES))
        if reason:
            grey = self.palette().brush(QPalette.ColorGroup.Disabled, QPalette.ColorRole.Text)
            item.setForeground(NAME, grey)
            item.setForeground(GRID, grey)

    def _item_changed(self, item, column):
        band = item.data(NAME, BAND_ROLE)
        if self._filling or band is None:
            return
        layer_id = item.data(NAME, LAYER_ROLE)
        if column == CLASSES:
            codes = item.checkState(CLASSES) == CHECKED
            self._marks.change(layer_id, band.number, categorical=codes)
        elif column == NAME:
            self._name_changed(item, layer_id, band)
        self._keep_order()
        self._show_clashes()
        self.marked.emit()

    def _name_changed(self, item, layer_id, band):
        ticked = item.checkState(NAME) == CHECKED
        name = item.text(NAME).strip()
        shown = self._marks.channel(layer_id, band).name
        values = {"ticked": ticked}
        if name != shown:  # an emptied name is the proposed one again
            values["name"] = clean_name(name) if name else None
        self._marks.change(layer_id, band.number, **values)
        self._filling = True
        item.setText(NAME, self._marks.channel(layer_id, band).name)
        self._filling = False

    def _show_clashes(self):
        """Colour the names that two ticked bands share."""
        names = [channel.name for channel in self.ticked_channels()]
        was_filling, self._filling = self._filling, True
        for item in self._band_items():
            if not item.flags() & Qt.ItemFlag.ItemIsEditable:
                continue
            clash = item.checkState(NAME) == CHECKED and names.count(item.text(NAME)) > 1
            item.setForeground(NAME, QBrush(CLASH) if clash else QBrush())
        self._filling = was_filling

    def _row_moved(self):
        self._keep_order()
        self.marked.emit()

    def _keep_order(self):
        """From the user's first word on, the order shown stays as it is."""
        layers, numbers = [], {}
        for item in self.top_items():
            layer_id = item.data(NAME, LAYER_ROLE)
            layers.append(layer_id)
            if item.childCount():
                children = [item.child(row) for row in range(item.childCount())]
                numbers[layer_id] = [child.data(NAME, BAND_ROLE).number for child in children]
        self._marks.keep_order(layers, numbers)

    def _band_items(self):
        for item in self.top_items():
            if item.childCount():
                yield from (item.child(row) for row in range(item.childCount()))
            elif item.data(NAME, BAND_ROLE) is not None:
                yield item

    def _key(self, item):
        if item is None:
            return None
        band = item.data(NAME, BAND_ROLE)
        return item.data(NAME, LAYER_ROLE), band and band.number

    def _restore_current(self, key):
        for item in [*self.top_items(), *self._band_items()] if key else []:
            if self._key(item) == key:
                self.setCurrentItem(item)
                return
