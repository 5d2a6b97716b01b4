"""A step with its header: number, title, and its state at a glance; it can be folded away."""

from qgis.PyQt.QtCore import Qt, pyqtSignal
from qgis.PyQt.QtGui import QPainter
from qgis.PyQt.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QVBoxLayout, QWidget

from . import theme
from .elided_label import ElidedLabel

BODY_MARGINS = (12, 4, 6, 8)  # pixels
SHADE = 0.09  # opacity


class _Header(QFrame):
    pressed = pyqtSignal()

    def __init__(self, title):
        super().__init__()
        self.heading = QLabel(title, self)
        font = self.heading.font()
        font.setBold(True)
        self.heading.setFont(font)

    def mousePressEvent(self, event):
        self.pressed.emit()

    def paintEvent(self, event):
        """A shade of the text's colour stands out from light and dark windows alike."""
        shade = theme.text_colour(self.heading)
        shade.setAlphaF(SHADE)
        painter = QPainter(self)
        painter.fillRect(self.rect(), shade)
        painter.end()


class Section(QWidget):
    """A header that is always there, and the step below it."""

    def __init__(self, number, title, step, parent=None):
        super().__init__(parent)
        self.step = step
        self.setObjectName(f"section{number}")
        self._arrow = QToolButton()
        self._arrow.setObjectName(f"section{number}Button")
        self._arrow.setAutoRaise(True)
        self._arrow.setAccessibleName(title)
        self._arrow.clicked.connect(self._toggle)
        self._mark = QLabel()
        self._state = ElidedLabel()
        self._state.setObjectName(f"section{number}State")
        self._header = _Header(f"{number}  {title}")
        line = QHBoxLayout(self._header)
        line.setContentsMargins(0, 2, 6, 2)
        line.setSpacing(4)
        line.addWidget(self._arrow)
        line.addWidget(self._header.heading)
        line.addSpacing(8)
        line.addWidget(self._mark)
        line.addWidget(self._state, 1)
        self._header.pressed.connect(self._toggle)
        self._header.setCursor(Qt.CursorShape.PointingHandCursor)
        self._body = QWidget()
        inner = QVBoxLayout(self._body)
        inner.setContentsMargins(*BODY_MARGINS)
        inner.addWidget(step)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(self._header)
        outer.addWidget(self._body)
        self.set_open(True)

    def show_state(self, state=None):
        """Show the step's state, or another one that outweighs it."""
        state = state or self.step.state()
        theme.mark(self._mark, theme.STATE_ICONS[state.level])
        self._state.setText(state.text)

    def set_open(self, is_open):
        """Fold the step away, or show it."""
        self._body.setVisible(is_open)
        self._arrow.setArrowType(Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow)

    def is_open(self):
        """Whether the step is unfolded."""
        return not self._body.isHidden()

    def _toggle(self):
        self.set_open(not self.is_open())
