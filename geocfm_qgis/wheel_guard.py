"""The wheel scrolls: only a box that was chosen by a click or a key is turned by it."""

from __future__ import annotations

from qgis.PyQt.QtCore import QEvent, QObject, Qt, QTimer
from qgis.PyQt.QtWidgets import (
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QScrollBar,
    QTabBar,
    QWidget,
)

TURNED_BY_WHEEL = (QComboBox, QAbstractSpinBox, QAbstractSlider, QTabBar)


class WheelGuard(QObject):
    """Watches a widget and all that is, or will be, in it; QGIS's own widgets too."""

    def __init__(self, widget):
        super().__init__(widget)
        self._widget = widget
        self._again = QTimer(self)  # a new child is looked at when it is complete
        self._again.setSingleShot(True)
        self._again.timeout.connect(self._watch_all)
        self._watch_all()

    def eventFilter(self, watched, event):
        """Let the wheel pass by a box that is not in use: what it lies on scrolls."""
        kind = event.type()
        if kind in (QEvent.Type.ChildAdded, QEvent.Type.ChildPolished):
            self._again.start(0)
        elif kind == QEvent.Type.Wheel and _is_turned(watched) and not watched.hasFocus():
            event.ignore()
            return True
        return False

    def _watch_all(self):
        for each in (self._widget, *self._widget.findChildren(QWidget)):
            each.installEventFilter(self)  # of one that is watched already it is the same
            if _is_turned(each) and each.focusPolicy() == Qt.FocusPolicy.WheelFocus:
                each.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


def _is_turned(widget):
    return isinstance(widget, TURNED_BY_WHEEL) and not isinstance(widget, QScrollBar)
