"""Work that takes a while, done in the background so that the window stays alive.

It is done in plain threads: QGIS announces the end of each of its own tasks over the map, and
before 3.26 there is no way to keep it from doing so for what the user never asked for.
"""

from __future__ import annotations

import threading

from qgis.PyQt.QtCore import QObject, Qt, pyqtSignal

_at_work = set()  # held until their end has been told


class BackgroundTask(QObject):
    """Does `work()` in a thread of its own; exactly one of its signals comes, in the main thread.

    Connect methods of QObjects: when the object is gone by then, nothing happens.
    """

    done = pyqtSignal(object)  # the task; `result` is what work() gave
    failed = pyqtSignal(object)  # the exception
    stopped = pyqtSignal()  # cancelled

    _over = pyqtSignal()

    def __init__(self, title, on_done=None):
        super().__init__()
        self.result = None
        self._error = None
        self._cancelled = threading.Event()
        self._thread = threading.Thread(target=self._run, name=title, daemon=True)
        self._over.connect(self._finish, Qt.ConnectionType.QueuedConnection)
        if on_done is not None:
            self.done.connect(on_done)

    def start(self):
        """Begin."""
        _at_work.add(self)
        self._thread.start()
        return self

    def cancel(self):
        """Ask the work to stop."""
        self._cancelled.set()

    def isCanceled(self):
        """Whether the work shall stop, as QGIS's tasks and feedbacks tell it."""
        return self._cancelled.is_set()

    def work(self):
        """Do it and give the result; called in a thread of its own."""
        raise NotImplementedError

    def _run(self):
        try:
            self.result = self.work()
        except Exception as error:  # told in the main thread, whatever it is
            self._error = error
        try:
            self._over.emit()
        except RuntimeError:  # QGIS has ended meanwhile, and Qt's part of this object with it
            _at_work.discard(self)

    def _finish(self):
        _at_work.discard(self)
        if self.isCanceled():
            self.stopped.emit()
        elif self._error is not None:
            self.failed.emit(self._error)
        else:
            self.done.emit(self)


class BackgroundCall(BackgroundTask):
    """Calls `function(is_cancelled)`."""

    def __init__(self, title, function):
        super().__init__(title)
        self._function = function

    def work(self):
        """Call the function."""
        return self._function(self.isCanceled)
