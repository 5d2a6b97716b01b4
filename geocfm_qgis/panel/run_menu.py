"""The menu beside Run: the same run elsewhere, earlier runs, sample data, help."""

from __future__ import annotations

from qgis.core import Qgis, QgsProcessingException
from qgis.PyQt.QtCore import pyqtSignal
from qgis.PyQt.QtWidgets import QApplication, QFileDialog, QMenu, QPushButton

from ..jobs import as_command_line, as_job_file, save_for_server
from ..jobs.raster_export import RasterExport
from ..plain_text import as_html
from ..translation import tr
from . import theme

TITLE = "GeoCFM"


class RunMenu(QMenu):
    """What can be done with the choices besides running them here."""

    history_asked = pyqtSignal()
    sample_asked = pyqtSignal()
    help_asked = pyqtSignal()

    def __init__(self, iface, make_run, parent=None):
        """Make the menu; `make_run()` gives the Run of the choices, or raises a sentence."""
        super().__init__(parent)
        self._iface = iface
        self._make_run = make_run
        self.setToolTipsVisible(True)
        self._add(
            "copyCommandLineAction",
            tr("Copy as command line"),
            tr("The equivalent calls of geocfm, for a terminal."),
            self._copy_command_line,
            "mActionEditCopy",
        )
        self._add(
            "copyJobFileAction",
            tr("Copy as job file"),
            tr("The jobs as a file for 'geocfm run', on this computer."),
            self._copy_job_file,
            "mActionEditCopy",
        )
        self._add(
            "saveJobFileAction",
            tr("Save job file…"),
            tr("The jobs as a file for a server; temporary inputs are saved beside it."),
            self._save_job_file,
            "mActionFileSave",
        )
        self.addSeparator()
        self._add(
            "historyAction",
            tr("Repeat an earlier run…"),
            tr("The runs of this project."),
            self.history_asked.emit,
            "mIconHistory",
        )
        self._add(
            "sampleDataAction",
            tr("Load the sample data"),
            tr("Gold in the Murchison, Western Australia: four rasters and 255 deposits."),
            self.sample_asked.emit,
            "mActionAddGroup",
        )
        self.addSeparator()
        self._add(
            "helpAction",
            tr("Help"),
            tr("The tutorial."),
            self.help_asked.emit,
            "mActionHelpContents",
        )

    def _add(self, name, text, tip, action, icon):
        entry = self.addAction(theme.theme_icon(icon), text)
        entry.setObjectName(name)
        entry.setToolTip(tip)
        entry.triggered.connect(lambda: action())

    def _copy_command_line(self):
        self._copy(lambda jobs: "\n".join(map(as_command_line, jobs)) + "\n")

    def _copy_job_file(self):
        self._copy(as_job_file)

    def _copy(self, as_text):
        """Copy the jobs with inputs that are there: temporary ones are written first."""
        run = self._run()
        if run is None:
            return
        exports = [export for job in run.jobs for export in job.exports]
        if any(isinstance(export, RasterExport) for export in exports):
            text = tr(
                "Some layers are no files that the engine can read. 'Save job file…' exports them "
                "and saves them beside the file."
            )
            self._tell(text, Qgis.MessageLevel.Info, with_saving=True)
            return
        try:
            for export in exports:
                export.run()
        except (OSError, QgsProcessingException) as error:
            self._tell(str(error), Qgis.MessageLevel.Warning)
            return
        QApplication.clipboard().setText(as_text(run.jobs))
        if any(job.temporary for job in run.jobs):
            text = tr(
                "Copied. Some inputs are temporary files, which are gone when QGIS closes; "
                "'Save job file…' keeps them."
            )
            self._tell(text, Qgis.MessageLevel.Info, with_saving=True)
        else:
            self._tell(tr("Copied."), Qgis.MessageLevel.Info)

    def _save_job_file(self):
        run = self._run()
        if run is None:
            return
        path, _ = QFileDialog.getSaveFileName(
            self._iface.mainWindow(), tr("Save the job file"), f"{run.name}.toml", "TOML (*.toml)"
        )
        if not path:
            return
        try:
            save_for_server(run.jobs, path)
        except (OSError, QgsProcessingException) as error:
            text = tr("The job file could not be written: {reason}").format(reason=error)
            self._tell(text, Qgis.MessageLevel.Warning)
        else:
            text = tr("The job file is at {path}. To run it: geocfm run {path}").format(path=path)
            self._tell(text, Qgis.MessageLevel.Success)

    def _run(self):
        try:
            return self._make_run()
        except QgsProcessingException as error:
            self._tell(str(error), Qgis.MessageLevel.Warning)
            return None

    def _tell(self, text, level, with_saving=False):
        bar = self._iface.messageBar()
        if not with_saving:
            bar.pushMessage(TITLE, as_html(text), level)
            return
        message = bar.createMessage(TITLE, as_html(text))
        button = QPushButton(tr("Save job file…"), message)
        button.clicked.connect(lambda: self._save_job_file())
        message.layout().addWidget(button)
        bar.pushWidget(message, level)
