"""Work in the background whose answer goes to an object that may be gone by then."""

from qgis.core import QgsTask
from qgis.PyQt import sip


class BackgroundTask(QgsTask):
    """A task that tells its owner when it is done; one that was cancelled says nothing."""

    def __init__(self, title, on_done):
        """Make a task; `on_done(task)` is a method of the object that asked."""
        super().__init__(title, QgsTask.Flag.CanCancel)
        self._on_done = on_done

    def work(self):
        """Do it; called in a thread of its own."""
        raise NotImplementedError

    def run(self):
        """Called by QGIS in the background."""
        self.work()
        return not self.isCanceled()

    def finished(self, result):
        """Called by QGIS in the main thread."""
        if result and not sip.isdeleted(self._on_done.__self__):
            self._on_done(self)
