"""The loss while a model trains: the training loss as a line, each validation as a mark."""

from __future__ import annotations

import math

from qgis.PyQt.QtCore import QPointF, QRectF, QSize, Qt
from qgis.PyQt.QtGui import QColor, QPainter, QPen, QPolygonF
from qgis.PyQt.QtWidgets import QLabel, QSizePolicy, QWidget

from ..translation import tr
from .theme import MUTED, text_colour

MOST_POINTS = 1500  # more than a panel has pixels; beyond it every second one is dropped
TRAINING, VALIDATION = QColor("#3b8ed8"), QColor("#e0801a")  # seen on light and dark grounds
TICKS = 3
MARK_PX = 2.5
GAP_PX = 4.0


class LossCurve(QWidget):
    """A small plot that grows with the training; the lower, the better."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self.setObjectName("lossCurve")
        self._text = QLabel(self)  # never seen: it knows the colour of texts
        self._text.hide()
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setToolTip(
            tr(
                "How far the model is from the known occurrences: the lower, the better. The "
                "line is what it learns from, the marks are tiles kept apart. When they no longer "
                "fall, more time does not help."
            )
        )
        self.clear()

    def clear(self):
        """Begin anew."""
        self.training = []  # (share of the training in percent, loss)
        self.validation = []
        self.update()

    def add(self, percent, values):
        """Take in what one progress event says; validations are marked when they are new."""
        loss, validation = values.get("loss"), values.get("validation")
        if _is_number(loss):
            self.training.append((percent, loss))
            if len(self.training) > MOST_POINTS:
                self.training = self.training[::2]
        if _is_number(validation) and (not self.validation or self.validation[-1][1] != validation):
            self.validation.append((percent, validation))
        self.update()

    def is_empty(self):
        """Whether there is nothing to see yet."""
        return not (self.training or self.validation)

    def sizeHint(self):
        """Wide and low."""
        return QSize(300, self.fontMetrics().height() * 8)

    def minimumSizeHint(self):
        """Never lower than it is meant to be."""
        return QSize(0, self.sizeHint().height())

    def paintEvent(self, event):
        """Draw axes, legend, line and marks in the colours of the window."""
        if self.is_empty():
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = painter.font()
        font.setPointSizeF(font.pointSizeF() * 0.85)
        painter.setFont(font)
        low, high = self._range()
        plot = self._plot_area(painter, low, high)
        self._draw_axes(painter, plot, low, high)

        def place(percent, value):
            x = plot.left() + plot.width() * min(percent, 100.0) / 100
            return QPointF(x, plot.bottom() - plot.height() * (value - low) / (high - low))

        painter.setPen(QPen(TRAINING, 1.2))
        for stretch in stretches(self.training):
            painter.drawPolyline(QPolygonF([place(*point) for point in stretch]))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(VALIDATION)
        for point in self.validation:
            painter.drawEllipse(place(*point), MARK_PX, MARK_PX)
        self._draw_legend(painter, plot)
        painter.end()

    def _range(self):
        values = [value for _, value in self.training + self.validation]
        low, high = min(values), max(values)
        room = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        return low - room, high + room

    def _plot_area(self, painter, low, high):
        metrics = painter.fontMetrics()
        widest = max(metrics.horizontalAdvance(text) for _, text in _ticks(low, high))
        return QRectF(self.rect()).adjusted(
            widest + 2 * GAP_PX, metrics.height() + GAP_PX, -GAP_PX, -metrics.height() - GAP_PX
        )

    def _draw_axes(self, painter, plot, low, high):
        text = text_colour(self._text)
        text.setAlphaF(MUTED)
        grid = QColor(text)
        grid.setAlphaF(MUTED / 4)
        height = painter.fontMetrics().height()
        for value, label in _ticks(low, high):
            y = plot.bottom() - plot.height() * (value - low) / (high - low)
            painter.setPen(QPen(grid, 1))
            painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
            painter.setPen(text)
            box = QRectF(0, y - height / 2, plot.left() - GAP_PX, height)
            painter.drawText(
                box, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, label
            )
        painter.setPen(QPen(text, 1))
        painter.drawLine(plot.bottomLeft(), plot.bottomRight())
        below = QRectF(plot.left(), plot.bottom() + 2, plot.width(), height)
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft, "0 %")
        painter.drawText(below, Qt.AlignmentFlag.AlignHCenter, tr("of the training"))
        painter.drawText(below, Qt.AlignmentFlag.AlignRight, "100 %")
        above = QRectF(0, 0, plot.width(), height)
        painter.drawText(above, Qt.AlignmentFlag.AlignLeft, tr("loss"))

    def _draw_legend(self, painter, plot):
        """Each kind with its last value, right-aligned above the plot."""
        metrics = painter.fontMetrics()
        middle = metrics.height() / 2
        x = plot.right()
        entries = []
        if self.validation:
            entries.append((VALIDATION, tr("validation {}"), self.validation[-1][1]))
        if self.training:
            entries.append((TRAINING, tr("training {}"), self.training[-1][1]))
        for colour, label, value in entries:
            text = label.format(f"{value:.3g}")
            x -= metrics.horizontalAdvance(text)
            painter.setPen(text_colour(self._text))
            painter.drawText(QPointF(x, metrics.ascent()), text)
            x -= 3 * GAP_PX
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            painter.drawEllipse(QPointF(x + GAP_PX, middle), MARK_PX + 0.5, MARK_PX + 0.5)
            x -= 2 * GAP_PX


def stretches(points):
    """Cut (percent, value) where the percent falls: there the next network of several begins."""
    found = []
    for point in points:
        if not found or point[0] < found[-1][-1][0]:
            found.append([])
        found[-1].append(point)
    return found


def _is_number(value):
    return value is not None and math.isfinite(value)


def _ticks(low, high):
    """Round values within the range, about TICKS of them, with their texts."""
    raw = (high - low) / TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw * 0.999)
    decimals = max(0, -math.floor(math.log10(step)))
    first = math.ceil(low / step)
    last = math.floor(high / step)
    return [(n * step, f"{n * step:.{decimals}f}") for n in range(first, last + 1)] or [(low, "")]
