"""The pre-flight report: what will happen, what is worth a look, what is wrong."""

from __future__ import annotations

import html

from qgis.PyQt.QtCore import Qt, pyqtSignal
from qgis.PyQt.QtWidgets import QLabel, QWidget

from ..bundle import load_form
from ..translation import tr
from . import theme
from .clear_layout import clear_layout
from .preflight import BLOCKED, PENDING, UNCHECKED


class PreflightView(QWidget):
    """One line on the whole, then a sentence each; the engine's notes on demand."""

    diagnostics_asked = pyqtSignal()

    def __init__(self, parent=None):
        super().__init__(parent)
        load_form("preflight", self)
        self.detailsButton.toggled.connect(self._show_details)
        self.checkDiagnosticsButton.clicked.connect(self.diagnostics_asked)
        self.detailsLabel.hide()
        self.detailsButton.hide()

    def show_report(self, report, summary, briefly=False):
        """Show a PreflightReport under one line that says what the run does.

        Briefly: only what keeps the run from starting, as another one needs the room.
        """
        if report.status == PENDING:
            theme.mark(self.preflightIcon, theme.WORKING)
            looking = tr("Looking at the data…")
            text = f"{summary} {looking}"
        elif report.problems:
            theme.mark(self.preflightIcon, theme.TO_MEND)
            text = tr("Before it can run:")
        elif report.status == BLOCKED:  # there is no engine, which is said above the steps
            theme.mark(self.preflightIcon, theme.TO_MEND)
            text = summary
        elif report.status == UNCHECKED:
            theme.mark(self.preflightIcon, theme.WAITING)
            text = " ".join([summary, *report.notes])
        else:
            theme.mark(self.preflightIcon, theme.DONE)
            text = summary
        self.summaryLabel.setText(text)
        self._show_sentences(report.problems, () if briefly else report.warnings)
        self.checkDiagnosticsButton.setVisible(bool(report.transcript))
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in report.notes)
        self.detailsLabel.setText(f"<ul style='margin-left: -24px'>{notes}</ul>")
        told = bool(report.notes) and report.status != UNCHECKED
        self.detailsButton.setVisible(told and not briefly)
        self._show_details()

    def sentences(self):
        """Give all sentences that are shown, for those who cannot see the icons and for tests."""
        rows = range(self.sentencesLayout.rowCount())
        items = (self.sentencesLayout.itemAtPosition(row, 1) for row in rows)
        return [item.widget().text() for item in items if item is not None]

    def _show_sentences(self, problems, warnings):
        clear_layout(self.sentencesLayout)
        marked = [(theme.PROBLEM, text) for text in problems]
        marked += [(theme.REMARK, text) for text in warnings]
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
