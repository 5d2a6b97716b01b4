"""A scroll area that is as high as its content, up to a limit."""

from qgis.PyQt.QtCore import QEvent, QSize, Qt, QTimer
from qgis.PyQt.QtWidgets import QFrame, QScrollArea, QSizePolicy


class FittingScrollArea(QScrollArea):
    """Takes no more height than its widget needs, and never more than `most` pixels.

    Where there is little room it gives way, down to `least` pixels. It is hidden when its widget
    is.
    """

    def __init__(self, widget, most, least=0, parent=None):
        super().__init__(parent)
        self._most = most
        self._least = least
        self._again = QTimer(self)  # a child: it ends with the panel
        self._again.setSingleShot(True)
        self._again.timeout.connect(self.updateGeometry)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)  # lines wrap
        self.setSizePolicy(policy)
        explicit = Qt.WidgetAttribute.WA_WState_ExplicitShowHide
        wanted = not (widget.isHidden() and widget.testAttribute(explicit))
        self.setWidget(widget)
        widget.setVisible(wanted)  # a scroll area shows whatever it gets
        self.setVisible(wanted)
        widget.installEventFilter(self)

    def heightForWidth(self, width):
        """Give the height that the content has at this width."""
        return min(self._whole_height(width), self._most)

    def sizeHint(self):
        """Give the size at the content's own width."""
        width = self.widget().sizeHint().width()
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self):
        """Ask for no width of its own."""
        return QSize(0, min(self._least, self.heightForWidth(self.width())))

    def eventFilter(self, watched, event):
        """Take another height when the content changes."""
        kinds = (QEvent.Type.LayoutRequest, QEvent.Type.ShowToParent, QEvent.Type.HideToParent)
        if watched is self.widget() and event.type() in kinds:
            self.setVisible(not watched.isHidden())
            self._show_bar()
            self.updateGeometry()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event):
        """Ask again for a height that was not given, as when the panel was hidden meanwhile."""
        super().resizeEvent(event)
        self._show_bar()
        if event.size().height() < self.heightForWidth(event.size().width()):
            self._again.start()

    def _whole_height(self, width):
        layout = self.widget().layout()
        if layout.hasHeightForWidth():
            return layout.totalHeightForWidth(width)
        return layout.totalSizeHint().height()

    def _show_bar(self):
        """Without a bar where all fits: with one, lines wrap earlier, and it would stay."""
        fits = self.height() >= self._whole_height(self.width())
        needed, off = Qt.ScrollBarPolicy.ScrollBarAsNeeded, Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        self.setVerticalScrollBarPolicy(off if fits else needed)
