"""The values of a field with their counts, to tick."""

from qgis.PyQt.QtCore import Qt, pyqtSignal
from qgis.PyQt.QtWidgets import QListWidget, QListWidgetItem

VALUE_ROLE = Qt.ItemDataRole.UserRole
CHECKED, UNCHECKED = Qt.CheckState.Checked, Qt.CheckState.Unchecked


class ValueList(QListWidget):
    """Keeps ticks in the order they were made, also of values that are not there (any more)."""

    ticked = pyqtSignal()

    def __init__(self, parent=None):
        super().__init__(parent)
        self._ticked = {}  # folded value: as it is written
        self._sought = ""
        self.itemChanged.connect(self._item_changed)

    def values(self):
        """Give the ticked values."""
        return tuple(self._ticked.values())

    def set_values(self, values):
        """Tick these values and no others."""
        self._ticked = {value.casefold(): value for value in values}
        listed = [item.data(VALUE_ROLE) for item in self._items()]
        self.show_counts([(value, count) for value, count in listed if count or self._has(value)])

    def show_counts(self, counts):
        """List (value, count) pairs in their order; ticked values that lack come at the end."""
        present = {value.casefold() for value, _ in counts}
        lacking = [(value, 0) for key, value in self._ticked.items() if key not in present]
        self.blockSignals(True)
        self.clear()
        for value, count in [*counts, *lacking]:
            item = QListWidgetItem(f"{value} ({count})", self)
            item.setData(VALUE_ROLE, (value, count))
            item.setCheckState(CHECKED if self._has(value) else UNCHECKED)
        self.blockSignals(False)
        self.seek(self._sought)

    def seek(self, text):
        """Show only values that hold a text, whatever the case of letters."""
        self._sought = text
        sought = text.strip().casefold()
        for item in self._items():
            item.setHidden(sought not in item.data(VALUE_ROLE)[0].casefold())

    def tick(self, value, wanted=True):
        """Tick or untick a value that is listed, as a click does."""
        for item in self._items():
            if item.data(VALUE_ROLE)[0].casefold() == value.casefold():
                item.setCheckState(CHECKED if wanted else UNCHECKED)

    def _item_changed(self, item):
        value, _ = item.data(VALUE_ROLE)
        if item.checkState() == CHECKED:
            self._ticked.setdefault(value.casefold(), value)
        else:
            self._ticked.pop(value.casefold(), None)
        self.ticked.emit()

    def _has(self, value):
        return value.casefold() in self._ticked

    def _items(self):
        return [self.item(row) for row in range(self.count())]
