"""The editor of names in the list of layers."""

from qgis.PyQt.QtCore import QRegularExpression
from qgis.PyQt.QtGui import QRegularExpressionValidator
from qgis.PyQt.QtWidgets import QStyledItemDelegate

PATTERN = r"[^=/\\,]*"


class NameDelegate(QStyledItemDelegate):
    """Lets names be edited, and no other column; characters that cannot be used are not taken."""

    def __init__(self, column, parent=None):
        super().__init__(parent)
        self._column = column

    def createEditor(self, parent, option, index):
        """Give the line to write a name in."""
        if index.column() != self._column:
            return None
        editor = super().createEditor(parent, option, index)
        editor.setValidator(QRegularExpressionValidator(QRegularExpression(PATTERN), editor))
        return editor
