"""A label on one line that is cut off rather than widening the panel."""

from qgis.PyQt.QtCore import QSize, Qt
from qgis.PyQt.QtGui import QPainter
from qgis.PyQt.QtWidgets import QLabel, QSizePolicy

from ..plain_text import as_tip


class ElidedLabel(QLabel):
    """Shows as much of its text as there is room for; the tooltip has all of it."""

    def __init__(self, text="", parent=None):
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setText(text)

    def setText(self, text):
        """Show a text."""
        super().setText(text)
        self.setToolTip(as_tip(text))

    def minimumSizeHint(self):
        """Ask for no width at all."""
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event):
        """Draw the text, cut off at the end."""
        painter = QPainter(self)
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.setPen(self.palette().color(self.foregroundRole()))
        painter.drawText(self.rect(), self.alignment() | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()
