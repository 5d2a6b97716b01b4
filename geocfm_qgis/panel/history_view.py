"""The project's earlier runs: repeat one, copy its job file, or forget it."""

from __future__ import annotations

from datetime import datetime

from qgis.PyQt.QtCore import QDateTime, QLocale, Qt, pyqtSignal
from qgis.PyQt.QtWidgets import (
    QApplication,
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
)

from ..runs import history
from ..translation import tr
from . import theme

SIZE = (560, 320)
RECORD = Qt.ItemDataRole.UserRole
ICONS = {"done": theme.DONE, "cancelled": theme.STOPPED}


class HistoryView(QDialog):
    """A list of runs with buttons; it stays open beside the panel."""

    repeat = pyqtSignal(dict)  # the choices of the run

    def __init__(self, project, parent=None):
        super().__init__(parent)
        self._project = project
        self.setObjectName("historyView")
        self.setWindowTitle(tr("GeoCFM: earlier runs of this project"))
        self.resize(*SIZE)
        self.list = QTreeWidget()
        self.list.setObjectName("historyList")
        self.list.setRootIsDecorated(False)
        self.list.setHeaderLabels([tr("Run"), tr("When"), tr("How it ended")])
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.list.header().setStretchLastSection(False)
        self.list.currentItemChanged.connect(self._show_state)
        self.list.itemDoubleClicked.connect(self._repeat)
        self._empty = QLabel(tr("No run of this project has ended yet."))
        self.repeat_button = self._button(
            "repeatButton",
            tr("Repeat"),
            tr("Fill the panel with what was chosen for this run."),
            self._repeat,
        )
        self.copy_button = self._button(
            "copyJobButton",
            tr("Copy job file"),
            tr("Copy the jobs of this run as a file for 'geocfm run'."),
            self._copy,
        )
        self.forget_button = self._button(
            "forgetButton", tr("Forget"), tr("Take it off this list; results stay."), self._forget
        )
        buttons = QHBoxLayout()
        for button in (self.repeat_button, self.copy_button, self.forget_button):
            buttons.addWidget(button)
        buttons.addStretch()
        layout = QVBoxLayout(self)
        layout.addWidget(self.list)
        layout.addWidget(self._empty)
        layout.addLayout(buttons)
        self.refresh()

    def refresh(self):
        """Read the history again."""
        self.list.clear()
        for record in history.runs(self._project):
            item = QTreeWidgetItem([record.name, _when(record.time), _status(record.status)])
            item.setIcon(2, theme.theme_icon(ICONS.get(record.status, theme.FAILURE)))
            item.setToolTip(2, record.message)
            item.setData(0, RECORD, record)
            self.list.addTopLevelItem(item)
        self.list.resizeColumnToContents(1)
        self.list.resizeColumnToContents(2)
        self.list.setCurrentItem(self.list.topLevelItem(0))
        self._empty.setVisible(self.list.topLevelItemCount() == 0)
        self._show_state()

    def record(self):
        """Give the record that is chosen, or None."""
        item = self.list.currentItem()
        return item.data(0, RECORD) if item is not None else None

    def _button(self, name, text, tip, action):
        button = QPushButton(text)
        button.setObjectName(name)
        button.setToolTip(tip)
        button.setAutoDefault(False)
        button.clicked.connect(lambda: action())
        return button

    def _show_state(self):
        chosen = self.record() is not None
        for button in (self.repeat_button, self.copy_button, self.forget_button):
            button.setEnabled(chosen)

    def _repeat(self):
        if self.record() is not None:
            self.repeat.emit(self.record().choices)

    def _copy(self):
        QApplication.clipboard().setText(self.record().job)

    def _forget(self):
        history.forget(self._project, self.record())
        self.refresh()


def _when(text):
    try:
        ended = datetime.fromisoformat(text)
    except ValueError:
        return text
    moment = QDateTime.fromSecsSinceEpoch(int(ended.timestamp()))
    return QLocale().toString(moment, QLocale.FormatType.ShortFormat)


def _status(status):
    texts = {
        "done": tr("finished"),
        "cancelled": tr("cancelled"),
        "failed": tr("not possible"),
        "broken": tr("broken off"),
    }
    return texts.get(status, status)
