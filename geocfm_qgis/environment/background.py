"""A function that takes a while, called in the background so that the window stays alive."""

from qgis.core import QgsApplication, QgsTask
from qgis.PyQt.QtCore import pyqtSignal

_at_work = []  # QGIS loses a task's end when no one in Python holds the task


class BackgroundCall(QgsTask):
    """Calls `function()`; the result, or the exception, arrives in the main thread."""

    done = pyqtSignal(object)
    failed = pyqtSignal(object)

    def __init__(self, title, function):
        super().__init__(title, QgsTask.Flag.CanCancel)
        self._function = function
        self._result = None
        self._error = None

    def start(self):
        """Hand it to QGIS."""
        _at_work.append(self)
        QgsApplication.taskManager().addTask(self)
        return self

    def run(self):
        """Call the function (in the background)."""
        try:
            self._result = self._function()
        except Exception as error:  # told in the main thread, whatever it is
            self._error = error
        return self._error is None

    def finished(self, succeeded):
        """Tell what came of it (in the main thread)."""
        _at_work.remove(self)
        if succeeded:
            self.done.emit(self._result)
        elif self._error is not None:
            self.failed.emit(self._error)
