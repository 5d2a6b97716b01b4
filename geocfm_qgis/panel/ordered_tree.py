"""A tree whose rows can be moved among their like, by dragging or by keys and buttons."""

from qgis.PyQt.QtCore import Qt, pyqtSignal
from qgis.PyQt.QtWidgets import QTreeWidget

from ..compat import drop_position


class OrderedTree(QTreeWidget):
    """Rows of the top stay at the top, and children with their parent."""

    row_moved = pyqtSignal()

    def __init__(self, parent=None):
        super().__init__(parent)
        self.setDragDropMode(self.DragDropMode.InternalMove)

    def top_items(self):
        """Give the rows of the top."""
        return [self.topLevelItem(row) for row in range(self.topLevelItemCount())]

    def move_current(self, places):
        """Move the current row up (-1) or down (1)."""
        item = self.currentItem()
        if item is not None:
            self.move(item, self._siblings(item).indexOfChild(item) + places)

    def move(self, item, place):
        """Move a row to a place among its like; a place that is none is passed over."""
        siblings = self._siblings(item)
        row = siblings.indexOfChild(item)
        if not 0 <= place < siblings.childCount() or place == row:
            return
        expanded = item.isExpanded()
        siblings.insertChild(place, siblings.takeChild(row))
        item.setExpanded(expanded)
        self.setCurrentItem(item)
        self.row_moved.emit()

    def dropEvent(self, event):
        """Put the dragged row above or below the one it was dropped at."""
        item, target = self.currentItem(), self.itemAt(drop_position(event))
        if event.source() is self and item is not None:
            self.drop(item, target, self.dropIndicatorPosition())
        event.setDropAction(Qt.DropAction.CopyAction)  # else the view removes the row once more
        event.accept()

    def drop(self, item, target, indicator):
        """Move a row to where another one is, or to the end if there is none."""
        siblings = self._siblings(item)
        if target is None:
            self.move(item, siblings.childCount() - 1)
            return
        if item.parent() is None:
            target = target.parent() or target
        place, row = siblings.indexOfChild(target), siblings.indexOfChild(item)
        if place < 0:  # a band stays with its raster
            return
        if indicator == self.DropIndicatorPosition.BelowItem:
            place += 1
        self.move(item, place - 1 if place > row else place)

    def keyPressEvent(self, event):
        """Alt with an arrow moves the current row, as in QGIS's lists."""
        places = {Qt.Key.Key_Up: -1, Qt.Key.Key_Down: 1}.get(event.key())
        if places and event.modifiers() & Qt.KeyboardModifier.AltModifier:
            self.move_current(places)
        else:
            super().keyPressEvent(event)

    def _siblings(self, item):
        return item.parent() or self.invisibleRootItem()
