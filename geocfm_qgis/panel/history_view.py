"""The project's earlier runs: repeat one, see its results again, use its model, or forget it."""

from __future__ import annotations

import os
from datetime import datetime

from qgis.PyQt.QtCore import QDateTime, QLocale, Qt, pyqtSignal
from qgis.PyQt.QtWidgets import (
    QApplication,
    QDialog,
    QFileDialog,
    QGridLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
)

from ..plain_text import as_tip
from ..results import LAYERS, PROSPECTIVITY, ExportRefused, add_run_layers, export_geotiff
from ..results.finished import report_of
from ..results.opening import can_open, open_folder, open_report
from ..runs import history
from ..runs.own_files import is_plain_folder, own_file
from ..runs.replay import replay
from ..translation import tr
from . import theme
from .choices import Choices
from .result_files import MODEL_SUFFIX, file_name

SIZE = (560, 360)
COLUMNS = 4  # of buttons
RECORD = Qt.ItemDataRole.UserRole
ICONS = {"done": theme.DONE, "cancelled": theme.STOPPED}


class HistoryView(QDialog):
    """A list of runs with buttons; it stays open beside the panel."""

    repeat = pyqtSignal(dict)  # the choices of the run
    use_model = pyqtSignal(str)  # the path of the model it made

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
        self.said = QLabel()
        self.said.setTextFormat(Qt.TextFormat.PlainText)
        self.said.setObjectName("historySentence")
        self.said.setWordWrap(True)
        self._buttons = QGridLayout()
        self._add_buttons()
        layout = QVBoxLayout(self)
        layout.addWidget(self.list)
        layout.addWidget(self._empty)
        layout.addWidget(self.said)
        layout.addLayout(self._buttons)
        project.cleared.connect(self.refresh)
        project.readProject.connect(self.refresh)
        self.refresh()

    def refresh(self):
        """Read the history again."""
        self.list.clear()
        for record in history.runs(self._project):
            item = QTreeWidgetItem([record.name, _when(record.time), _status(record.status)])
            item.setIcon(2, theme.theme_icon(ICONS.get(record.status, theme.FAILURE)))
            item.setToolTip(2, as_tip(record.message))
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

    def _add_buttons(self):
        self.repeat_button = self._button(
            "repeatButton",
            tr("Repeat"),
            tr("Fill the panel with what was chosen for this run."),
            self._repeat,
        )
        self.layers_button = self._button(
            "addLayersButton",
            tr("Add layers again"),
            tr("Show the results of this run as a group of layers."),
            self._add_layers,
        )
        self.model_button = self._button(
            "historyModelButton",
            tr("Use its model"),
            tr("Apply the model of this run, in step 3."),
            lambda: self.use_model.emit(_model(self.record())),
        )
        self.export_button = self._button(
            "historyExportButton",
            tr("Export GeoTIFF…"),
            tr("Copy the map of this run to where you want it."),
            self._export,
        )
        self.report_button = self._button(
            "historyReportButton",
            tr("Open report"),
            tr("Read the report of this run in the browser."),
            lambda: open_report(_report(self.record()), self.record().folder),
        )
        self.folder_button = self._button(
            "historyFolderButton",
            tr("Open folder"),
            tr("Show the files of this run."),
            lambda: open_folder(self.record().folder),
        )
        self.copy_button = self._button(
            "copyJobButton",
            tr("Copy job file"),
            tr("Copy the jobs of this run as a file for 'geocfm run'."),
            lambda: QApplication.clipboard().setText(_printable(self.record().job)),
        )
        self.forget_button = self._button(
            "forgetButton", tr("Forget"), tr("Take it off this list; results stay."), self._forget
        )

    def _button(self, name, text, tip, action):
        button = QPushButton(text)
        button.setObjectName(name)
        button.setToolTip(tip)
        button.setAutoDefault(False)
        button.clicked.connect(lambda: action())
        place = self._buttons.count()
        self._buttons.addWidget(button, place // COLUMNS, place % COLUMNS)
        return button

    def _show_state(self):
        record = self.record()
        for button in (self.repeat_button, self.copy_button, self.forget_button):
            button.setEnabled(record is not None)
        there = record is not None
        self.layers_button.setEnabled(there and bool(_results(record)))
        self.model_button.setEnabled(there and bool(_model(record)))
        self.export_button.setEnabled(there and bool(_map(record)))
        self.report_button.setEnabled(there and bool(_report(record)))
        self.folder_button.setEnabled(there and is_plain_folder(record.folder))
        self._say(record.message if there else "")

    def _say(self, text):
        self.said.setText(text)
        self.said.setVisible(bool(text))

    def _repeat(self):
        if self.record() is None:
            return
        try:
            Choices.from_dict(self.record().choices)
        except (ValueError, TypeError, AttributeError):
            self._say(tr("This run cannot be repeated: what was chosen for it is not all there."))
        else:
            self.repeat.emit(self.record().choices)

    def _add_layers(self):
        layers = add_run_layers(self._project, *replay(self.record()))
        said = [tr("The results are the topmost group of layers.")] if layers else []
        self._say(" ".join([*said, *layers.problems]))

    def _export(self):
        name = f"{file_name(self.record().name)}.tif"
        proposed = os.path.join(os.path.expanduser("~"), name)
        path, _ = QFileDialog.getSaveFileName(
            self, tr("Export the GeoTIFF"), proposed, "GeoTIFF (*.tif)"
        )
        if path:
            self.export_to(path)

    def export_to(self, path):
        """Copy the map of the chosen run to this path, which may be replaced; say how it went."""
        try:
            written = export_geotiff(_map(self.record()), path, overwrite=True)
        except ExportRefused as refused:
            self._say(str(refused))
        else:
            self._say(tr("The GeoTIFF is at {path}.").format(path=written))

    def _forget(self):
        history.forget(self._project, self.record())
        self.refresh()


def _results(record):
    """Give the files of a run that can be shown as layers and are still there."""
    _, outcome = replay(record)
    shown = (each for each in outcome.artifacts if each.kind in LAYERS)
    return [each.path for each in shown if os.path.isfile(each.path)]


def _model(record):
    """Give the model of a run, or an empty text if there is none (any more)."""
    path = own_file(record.model, record.folder)
    return record.model if os.path.isfile(path) and path.endswith(MODEL_SUFFIX) else ""


def _report(record):
    """Give the report of a run, or an empty text if there is none (any more)."""
    page = report_of(replay(record)[1])
    return page if can_open(page, record.folder) else ""


def _map(record):
    """Give the map of a run, or an empty text if there is none (any more)."""
    kinds = {each["path"]: each["kind"] for each in record.artifacts}
    return next((path for path in _results(record) if kinds[path] == PROSPECTIVITY), "")


def _printable(text):
    """Give a text without what a terminal would take for commands of its own."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def _when(text):
    try:
        seconds = int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError, OSError):  # a year that this computer does not count
        return text
    moment = QDateTime.fromSecsSinceEpoch(seconds)
    return QLocale().toString(moment, QLocale.FormatType.ShortFormat)


def _status(status):
    texts = {
        "done": tr("finished"),
        "cancelled": tr("cancelled"),
        "failed": tr("not possible"),
        "broken": tr("broken off"),
    }
    return texts.get(status, status)
