"""Algorithms that end with a report: it is in Processing's results viewer and one click away."""

from __future__ import annotations

import os
from functools import partial

import qgis.utils
from qgis.core import Qgis, QgsProcessingOutputHtml
from qgis.PyQt.QtCore import QCoreApplication, QThread
from qgis.PyQt.QtWidgets import QPushButton

from ..results.finished import report_of
from ..results.opening import open_report
from ..translation import tr
from .engine_algorithm import EngineAlgorithm

REPORT = "REPORT"
MESSAGE_SECONDS = 15


class ReportAlgorithm(EngineAlgorithm):
    """The report becomes an output of the algorithm, and a button in QGIS's message bar."""

    _report = ""

    def initAlgorithm(self, configuration=None):
        """Declare the parameters and the report."""
        super().initAlgorithm(configuration)
        self.addOutput(QgsProcessingOutputHtml(REPORT, tr("Report")))

    def results(self, outcome, job, context, feedback):
        """Give the result, and the report if one was written."""
        return {**super().results(outcome, job, context, feedback), **self.report(outcome)}

    def report(self, outcome):
        """Give the output that the report is, and remember to offer it."""
        self._report = report_of(outcome)
        return {REPORT: self._report} if self._report else {}

    def postProcessAlgorithm(self, context, feedback):
        """Offer the report, where there is somebody to open it."""
        if self._report:
            offer_report(self._report)
        return {}


def offer_report(path):
    """Put a button for a report into QGIS's message bar; a server has none, nor has a model."""
    is_main_thread = QThread.currentThread() == QCoreApplication.instance().thread()
    if qgis.utils.iface is None or not is_main_thread:
        return
    bar = qgis.utils.iface.messageBar()
    message = bar.createMessage("GeoCFM", tr("The report is ready to be read."))
    button = QPushButton(tr("Open report"), message)
    button.setObjectName("openReportButton")
    button.clicked.connect(partial(_open, path))
    message.layout().addWidget(button)
    bar.pushWidget(message, Qgis.MessageLevel.Success, MESSAGE_SECONDS)


def _open(path, *_):
    open_report(path, os.path.dirname(path))
