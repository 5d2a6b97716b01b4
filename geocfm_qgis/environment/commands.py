"""Runs one command of an installation: its lines as they come, and an end when asked."""

import os
import queue
import signal
import subprocess
import threading

from ..child_environment import IS_WINDOWS, popen_options

LOOK_SECONDS = 0.2  # how soon a wish to cancel is noticed
GRACE_SECONDS = 3.0


class Cancelled(Exception):
    """The user asked to stop."""


def run_command(command, variables, folder, on_line, is_cancelled, on_wait=None):
    """Run a command to its end and give its exit code; on_wait is called while it is silent."""
    process = subprocess.Popen(
        list(command),
        env=variables,
        cwd=str(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        **popen_options(),
    )
    lines = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        while True:
            if is_cancelled():
                raise Cancelled
            try:
                line = lines.get(timeout=LOOK_SECONDS)
            except queue.Empty:
                if on_wait:
                    on_wait()
                continue
            if line is None:
                return process.wait()
            on_line(line)
    finally:
        end_group(process)
        reader.join(GRACE_SECONDS)
        process.stdout.close()


def end_group(process):
    """End a process and all that it started; nothing happens if they have ended."""
    if process.poll() is not None:
        return
    if IS_WINDOWS:
        # TerminateProcess would leave the processes that pip started
        subprocess.run(
            ["taskkill", "/T", "/F", "/PID", str(process.pid)],  # noqa: S607 (Windows's own)
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
            **popen_options(),
        )
        process.wait()
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(GRACE_SECONDS)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _read(stream, lines):
    try:
        for line in stream:
            lines.put(line.rstrip())
    except ValueError:  # closed while reading, after a cancel
        pass
    finally:
        lines.put(None)
