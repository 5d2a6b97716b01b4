"""A program as a child process: its lines as they come, and an end that leaves nothing running."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from .child_environment import popen_options

POLL_SECONDS = 0.1
TERMINATE_SECONDS = 5.0  # between the request of the system to end and its order
KILL_SECONDS = 5.0  # for the system to clear away what was killed
SILENT_SECONDS = 10.0  # for a program that says nothing more to end by itself
PIPE_SECONDS = 1.0  # for last lines to arrive when the program has ended
STDERR_LINES = 200  # the last ones are kept
STDERR_WIDTH = 4096  # bytes; a longer line is cut
LONGEST_LINE = 64 * 1024 * 1024  # bytes; more is cut

_END = object()  # stands in the queue for the end of standard output


class ChildProcess:
    """A running program; as a context it ends for sure, with all that it started.

    `stdin` and `stderr` are those of subprocess.Popen: what is a pipe is looked after here.
    """

    def __init__(self, command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **options):
        self._child = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            **options,
            **popen_options(),
        )
        self._lines = queue.Queue()
        self._last_words = deque(maxlen=STDERR_LINES)
        self._longest_grace = float("inf")
        self._asked_at = self._terminated_at = self._killed_at = None
        self._exited_at = self._silent_at = None
        self._readers = [
            (pipe, threading.Thread(target=read, name=f"geocfm {read.__name__}", daemon=True))
            for pipe, read in (
                (self._child.stdout, self._read_output),
                (self._child.stderr, self._read_errors),
            )
            if pipe is not None
        ]
        for _, reader in self._readers:
            reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        for pipe, reader in self._readers:
            reader.join(PIPE_SECONDS)
            if not reader.is_alive():  # else somebody out of reach holds it open
                _close(pipe)

    @property
    def exit_code(self):
        """The exit code as the system gives it; None while the program runs."""
        return self._child.poll()

    @property
    def was_asked(self):
        """Whether the program was asked to stop."""
        return self._asked_at is not None

    @property
    def was_ended(self):
        """Whether the program had to be ended, as it did not end by itself."""
        return self._terminated_at is not None

    @property
    def last_words(self):
        """What was said on standard error in the end."""
        return "\n".join(self._last_words)

    def lines(self, is_cancelled, grace):
        """Give each line of standard output until the program has ended.

        Once `is_cancelled()`, the program is asked to stop; after `grace()` seconds it is ended.
        """
        looked_at = time.monotonic()
        heard_at = looked_at
        while True:
            try:
                line = self._lines.get(timeout=POLL_SECONDS)
            except queue.Empty:
                line = None
            now = time.monotonic()
            if line is _END:
                self._silent_at = now
            elif line is not None:
                heard_at = now
                yield line
            if now - looked_at < POLL_SECONDS and line is not _END:
                continue
            looked_at = now
            if is_cancelled():
                self.ask_to_stop()
            self._press(now, grace)
            if self._is_over(now, heard_at):
                return

    def _is_over(self, now, heard_at):
        if self._killed_at is not None and now - self._killed_at > KILL_SECONDS:
            return True  # not even the system can end it
        if self._child.poll() is None:
            return False
        if self._exited_at is None:
            self._exited_at = now
        # what the program had started may hold its output open
        quiet = now - max(self._exited_at, heard_at)
        return self._silent_at is not None or quiet > PIPE_SECONDS

    def ask_to_stop(self, longest_grace=None):
        """Close standard input: the engine then saves what it has and ends.

        With `longest_grace` it has that many seconds, however patient lines() is.
        """
        if longest_grace is not None:
            self._longest_grace = longest_grace
        if self._asked_at is None:
            self._asked_at = time.monotonic()
            _close(self._child.stdin)

    def _press(self, now, grace):
        """Go on to the next means when the last one had its time."""
        if self._child.poll() is not None:
            return
        patience = min(grace(), self._longest_grace)
        asked = self._asked_at is not None and now - self._asked_at > patience
        silent = self._silent_at is not None and now - self._silent_at > SILENT_SECONDS
        if self._terminated_at is None:
            if asked or silent:
                self._terminated_at = now
                _end_group(self._child, by_force=False)
        elif self._killed_at is None and now - self._terminated_at > TERMINATE_SECONDS:
            self._killed_at = now
            _end_group(self._child, by_force=True)

    def end(self):
        """End at once what is left of the program and of what it started."""
        if self._child.poll() is None and self._terminated_at is None:
            self._terminated_at = time.monotonic()
        _close(self._child.stdin)
        _end_group(self._child, by_force=True)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(KILL_SECONDS)

    def _read_output(self):
        with suppress(OSError, ValueError):
            for line in iter(lambda: self._child.stdout.readline(LONGEST_LINE), b""):
                self._lines.put(line.decode("utf-8", "replace"))
        self._lines.put(_END)

    def _read_errors(self):
        with suppress(OSError, ValueError):
            goes_on = False
            for part in iter(lambda: self._child.stderr.readline(STDERR_WIDTH), b""):
                if not goes_on:
                    self._last_words.append(part.decode("utf-8", "replace").rstrip())
                goes_on = not part.endswith(b"\n")


def _close(pipe):
    if pipe is not None:
        with suppress(OSError):
            pipe.close()


if os.name == "nt":

    def _end_group(child, by_force):
        """End the child and its descendants; Windows knows no request, only the order."""
        if child.poll() is not None:
            return
        system = os.environ.get("SYSTEMROOT", r"C:\Windows")
        command = [str(Path(system, "System32", "taskkill.exe")), "/F", "/T", "/PID"]
        with suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [*command, str(child.pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                creationflags=subprocess.CREATE_NO_WINDOW,
                timeout=TERMINATE_SECONDS,
                check=False,
            )
        child.kill()

else:

    def _end_group(child, by_force):
        """Signal the child's group, which outlives the child while a descendant is left in it."""
        with suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL if by_force else signal.SIGTERM)
