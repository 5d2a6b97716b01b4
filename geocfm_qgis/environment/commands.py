"""Runs one command of an installation: its lines as they come, and an end when asked."""

from ..child_process import ChildProcess


class Cancelled(Exception):
    """The user asked to stop."""


def run_command(command, variables, folder, on_line, is_cancelled, on_wait=None):
    """Run a command to its end and give its exit code; on_wait is called every now and then."""

    def look():
        if on_wait:
            on_wait()
        return is_cancelled()

    with ChildProcess(list(command), env=variables, cwd=str(folder)) as child:
        for line in child.lines(look, grace=lambda: 0.0):
            if not child.was_asked:
                on_line(line.rstrip())
    if child.was_asked:
        raise Cancelled
    return child.exit_code
