"""The pre-flight report: what will happen, what is worth a look, what is wrong."""

from __future__ import annotations

import html

from qgis.PyQt.QtCore import Qt
from qgis.PyQt.QtWidgets import QLabel, QWidget

from ..bundle import load_form
from ..translation import tr
from . import theme
from .clear_layout import clear_layout
from .preflight import PENDING


class PreflightView(QWidget):
    """One line on the whole, then a sentence each; the engine's notes on demand."""

    def __init__(self, parent=None):
        super().__init__(parent)
        load_form("preflight", self)
        self.detailsButton.toggled.connect(self._show_details)
        self.detailsLabel.hide()
        self.detailsButton.hide()

    def show_report(self, report, summary):
        """Show a PreflightReport under one line that says what the run does."""
        if report.status == PENDING:
            theme.mark(self.preflightIcon, theme.WORKING)
            looking = tr("Looking at the data…")
            text = f"{summary} {looking}"
        elif report.problems:
            theme.mark(self.preflightIcon, theme.TO_MEND)
            text = tr("Before it can run:")
        else:
            theme.mark(self.preflightIcon, theme.DONE)
            text = summary
        self.summaryLabel.setText(text)
        self._show_sentences(report)
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in report.notes)
        self.detailsLabel.setText(f"<ul style='margin-left: -24px'>{notes}</ul>")
        self.detailsButton.setVisible(bool(report.notes))
        self._show_details()

    def sentences(self):
        """Give all sentences that are shown, for those who cannot see the icons and for tests."""
        rows = range(self.sentencesLayout.rowCount())
        items = (self.sentencesLayout.itemAtPosition(row, 1) for row in rows)
        return [item.widget().text() for item in items if item is not None]

    def _show_sentences(self, report):
        clear_layout(self.sentencesLayout)
        marked = [(theme.PROBLEM, text) for text in report.problems]
        marked += [(theme.REMARK, text) for text in report.warnings]
        for row, (icon_name, text) in enumerate(marked):
            icon, sentence = QLabel(), QLabel(text)
            theme.mark(icon, icon_name)
            icon.setAlignment(Qt.AlignmentFlag.AlignTop)
            sentence.setWordWrap(True)
            sentence.setTextFormat(Qt.TextFormat.PlainText)
            sentence.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self.sentencesLayout.addWidget(icon, row, 0)
            self.sentencesLayout.addWidget(sentence, row, 1)

    def _show_details(self):
        is_open = self.detailsButton.isChecked()
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.detailsButton.setArrowType(arrow)
        self.detailsLabel.setVisible(is_open and not self.detailsButton.isHidden())
