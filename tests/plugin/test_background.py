"""Work in the background: one answer, in the main thread, to whoever is still there."""

import threading

import pytest
from panel_support import wait_until
from qgis.core import QgsApplication
from qgis.PyQt import sip
from qgis.PyQt.QtCore import QObject

from geocfm_qgis.background import BackgroundCall


class Asker(QObject):
    """Notes what it is told, and in which thread."""

    def __init__(self):
        super().__init__()
        self.told = []

    def ask(self, function):
        call = BackgroundCall("a question", function)
        call.done.connect(self.on_done)
        call.failed.connect(self.on_failed)
        call.stopped.connect(self.on_stopped)
        return call.start()

    def on_done(self, call):
        self.told.append(("done", call.result, threading.current_thread()))

    def on_failed(self, error):
        self.told.append(("failed", error, threading.current_thread()))

    def on_stopped(self):
        self.told.append(("stopped", None, threading.current_thread()))


@pytest.fixture
def asker(qgis_app):
    return Asker()


def test_the_result_comes_in_the_main_thread(asker):
    asker.ask(lambda is_cancelled: threading.current_thread())
    assert wait_until(lambda: asker.told)
    ((kind, worked_in, told_in),) = asker.told
    assert kind == "done"
    assert worked_in is not threading.main_thread()
    assert told_in is threading.main_thread()


def test_a_mistake_is_told(asker):
    asker.ask(lambda is_cancelled: 1 / 0)
    assert wait_until(lambda: asker.told)
    assert asker.told[0][0] == "failed"
    assert isinstance(asker.told[0][1], ZeroDivisionError)


def test_what_was_cancelled_gives_no_result(asker):
    call = asker.ask(lambda is_cancelled: wait_for(is_cancelled))
    call.cancel()
    assert wait_until(lambda: asker.told)
    assert [kind for kind, *_ in asker.told] == ["stopped"]


def test_one_who_is_gone_is_not_told(asker):
    told = asker.told
    go_on = threading.Event()
    asker.ask(lambda is_cancelled: go_on.wait(5))
    sip.delete(asker)
    go_on.set()
    assert not wait_until(lambda: told, 0.1)


def test_qgis_announces_none_of_it(asker):
    tasks = []
    QgsApplication.taskManager().taskAdded.connect(tasks.append)
    asker.ask(lambda is_cancelled: None)
    assert wait_until(lambda: asker.told)
    QgsApplication.taskManager().taskAdded.disconnect(tasks.append)
    assert tasks == []


def wait_for(is_cancelled):
    """Wait until it is cancelled."""
    pause = threading.Event()
    while not is_cancelled():
        pause.wait(0.01)
