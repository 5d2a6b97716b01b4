"""How a running job is asked to stop: Ctrl-C, SIGTERM, a lost terminal, or a closed pipe."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from types import FrameType

STDIN = 0
POLL_SECONDS = 0.2


def stop_requests(*, watch_stdin: bool) -> threading.Event:
    """An event that is set when somebody asks the work to end; a second signal ends it at once.

    Standard input is watched only if it is a pipe: in cron and Slurm it is empty from the start.
    """
    asked = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            signal.signal(signal.SIGHUP, stop)  # a lost connection; nohup has it ignored
        if hasattr(signal, "SIGBREAK"):  # Windows: Ctrl-Break, all a parent process can send there
            signal.signal(signal.SIGBREAK, stop)
    if watch_stdin and _stdin_is_pipe():
        threading.Thread(target=_wait_for_end_of_stdin, args=(asked,), daemon=True).start()
    return asked


def _stdin_is_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(STDIN).st_mode)
    except OSError:  # closed before we began, as some services do
        return False


def _wait_for_end_of_stdin(asked: threading.Event) -> None:
    while not asked.is_set():
        if _stdin_ended():
            asked.set()
        time.sleep(POLL_SECONDS)


if sys.platform == "win32":
    import _winapi
    import msvcrt

    def _stdin_ended() -> bool:
        """Look without reading: a thread blocked in a read makes Windows wait in LoadLibrary."""
        try:
            waiting, _ = _winapi.PeekNamedPipe(msvcrt.get_osfhandle(STDIN), 0)
            return bool(waiting) and not os.read(STDIN, waiting)
        except OSError:  # the other end is gone
            return True

else:
    import select

    def _stdin_ended() -> bool:
        try:
            readable, _, _ = select.select([STDIN], [], [], 0)
            return bool(readable) and not os.read(STDIN, 65536)
        except OSError:
            return True
