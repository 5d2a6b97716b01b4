"""What tests of the panel share: an interface of QGIS to stand in, and patience."""

import time

from qgis.gui import QgsBrowserGuiModel, QgsMapCanvas, QgsMessageBar
from qgis.PyQt import sip
from qgis.PyQt.QtCore import QCoreApplication, QEvent
from qgis.PyQt.QtWidgets import QMainWindow, QWidget

from geocfm_qgis import settings
from geocfm_qgis.panel.panel import GeoCFMPanel
from geocfm_qgis.runs.run_queue import RunQueue


class Iface:
    """The few things of QGIS's interface that the panel and Processing use, real ones."""

    def __init__(self):
        self.window = QMainWindow()
        self.bar = QgsMessageBar()
        self.canvas = QgsMapCanvas()
        self.browser = QgsBrowserGuiModel()
        self.options_opened = []

    def mainWindow(self):
        return self.window

    def messageBar(self):
        return self.bar

    def mapCanvas(self):
        return self.canvas

    def browserModel(self):
        return self.browser

    def activeLayer(self):
        return None

    def showOptionsDialog(self, parent=None, currentPage=""):
        self.options_opened.append(currentPage)


class OpenPanel:
    """A panel that is shown, with its queue; close it in the end."""

    def __init__(self, python, results):
        settings.set_engine_python(python)
        settings.set_results_folder(str(results))
        self.iface = Iface()
        self.queue = RunQueue()
        self.panel = GeoCFMPanel(self.iface, self.queue)
        self.panel.show()
        QCoreApplication.processEvents()

    def close(self):
        if sip.isdeleted(self.panel):
            return
        self.queue.shutdown()
        self.panel.preflight.stop()
        self.panel.engine.stop()
        self.panel.deleteLater()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)

    def find(self, name):
        """Give the widget of that name, as a test of the desktop finds it."""
        found = self.panel.findChild(QWidget, name)
        assert found is not None, name
        return found

    def tick_all(self):
        self.find("allButton").click()

    def wait_until_checked(self):
        assert wait_until(lambda: self.panel.preflight.report.status in ("ready", "unchecked")), (
            self.panel.preflight.report
        )

    def run(self):
        self.wait_until_checked()
        assert self.find("runButton").isEnabled()
        self.find("runButton").click()

    def wait_until_ended(self):
        assert wait_until(lambda: self.queue.current is None)


def wait_until(condition, seconds=20.0):
    """Let QGIS work until the condition holds; tell whether it does."""
    deadline = time.monotonic() + seconds
    QCoreApplication.processEvents()  # a change made just now is taken in
    while not condition() and time.monotonic() < deadline:
        QCoreApplication.processEvents()
        time.sleep(0.005)
    QCoreApplication.processEvents()
    return bool(condition())
