"""The steps above, the footer below, and a line between them that can be moved."""

from qgis.PyQt.QtCore import QEvent, Qt
from qgis.PyQt.QtWidgets import QSplitter

MOST_FOOTER = 0.55  # of the height: the rest is for the steps


class FootedSplitter(QSplitter):
    """The footer is as high as it needs to be, within bounds, until the line is moved by hand."""

    def __init__(self, steps, footer, parent=None):
        super().__init__(Qt.Orientation.Vertical, parent)
        self._footer = footer
        self._moved = False
        self.setChildrenCollapsible(False)
        self.addWidget(steps)
        self.addWidget(footer)
        self.setStretchFactor(0, 1)
        self.splitterMoved.connect(self._on_moved)
        footer.installEventFilter(self)

    def eventFilter(self, watched, event):
        """Fit the footer when its content changes."""
        if watched is self._footer and event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event):
        """Fit the footer to another height, or to lines that wrap elsewhere."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self):
        if self._moved:
            return
        height = self.height() - self.handleWidth()
        wanted = self._footer.layout().totalHeightForWidth(self.width())
        low = min(wanted, int(MOST_FOOTER * height))
        self.setSizes([height - low, low])

    def _on_moved(self):
        self._moved = True
