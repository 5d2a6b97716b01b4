"""A stand-in for the engine: `python -m geocfm run FILE.json [--dry-run] --json`, `doctor --json`.

It needs the standard library only, computes nothing, and speaks the engine's events. How it
behaves is said by variables of the environment:

GEOCFM_FAKE            one of BEHAVIOURS below; `succeed` if it is not set
GEOCFM_FAKE_SECONDS    how long each of the ten steps of a stage takes (0.01)
GEOCFM_FAKE_TIF        the raster that becomes the map (a sample layer)
GEOCFM_FAKE_GPKG       the points that become the samples (the sample's occurrences)
GEOCFM_FAKE_TARGETS    the polygons that become the targets (the sample's occurrences)
GEOCFM_FAKE_UNCERTAINTY  the raster that becomes the map's uncertainty (a sample layer)
GEOCFM_FAKE_PIDS       a file to which it and what it starts write their process ids, one per line

Tests reach it by a program that passes for a Python and sets all that: see fake_python() in
tests/plugin/fake_engine_fixture.py. Models are copies of the one in resources/checkpoints.
"""

import os
import signal
import subprocess
import sys
import time

from geocfm import jobs
from geocfm.speaking import say, started

BEHAVIOUR = os.environ.get("GEOCFM_FAKE", "succeed")
LONG = 10 * 1024 * 1024  # characters
FOR_EVER = 600  # seconds: no test waits so long


def succeed(arguments):
    """Do what is asked, in a moment."""
    started(arguments)
    return work(arguments)


def dawdle(arguments):
    """Train for ever, until asked to stop; then keep a model, as the engine does."""
    os.environ["GEOCFM_FAKE_SECONDS"] = "60"
    return succeed(arguments)


def fail(arguments):
    """Fail in the last job, with the engine's sentence; the others are done."""
    started(arguments)
    return work(arguments, failing="failed")


def broken(arguments):
    """Fail in the last job by an error of the engine's own, with a log."""
    started(arguments)
    return work(arguments, failing="broken")


def crash(arguments):
    """End in the midst of it with a traceback."""
    started(arguments)
    say("progress", stage="Training", done=1.0, total=100.0, values={"loss": 1.5})
    print("Traceback (most recent call last):\nRuntimeError: no luck", file=sys.stderr)
    return 3


def killed(arguments):
    """Be ended by the system, as when the memory is full."""
    started(arguments)
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(arguments):
    """Crash as C code does."""
    started(arguments)
    os.kill(os.getpid(), signal.SIGSEGV)


def import_error(arguments):
    """Not even start, as the packages of this Python do not work."""
    print(
        "Traceback (most recent call last):\n"
        '  File "C:\\env\\Lib\\site-packages\\rasterio\\__init__.py", line 30, in <module>\n'
        "ImportError: DLL load failed while importing _base: The module was not found.",
        file=sys.stderr,
    )
    return 1


def garbage(arguments):
    """Print what is no event before, between and after the events, and do the work."""
    sys.stdout.buffer.write(b'\xff\xfe\x00 no text\n\n[1, 2]\n{"event": 7}\n"text"\n{\n')
    started(arguments)
    print("Intel MKL WARNING: something about this processor", flush=True)
    print('{"event": "progress", "stage": "Training", "done": "much"}')
    print('{"event": "of_a_later_version", "what": 1}', flush=True)
    code = work(arguments)
    print("some library says goodbye", flush=True)
    return code


def only_garbage(arguments):
    """Print no event at all."""
    print("Welcome!\n" * 10)
    return 0


def old_protocol(arguments):
    """Speak as an earlier version did, and go on working."""
    print('{"event": "started", "protocol": 0, "engine": "0.0.1"}', flush=True)
    time.sleep(FOR_EVER)


def new_protocol(arguments):
    """Speak as a later version may."""
    started(arguments, protocol=2)
    time.sleep(FOR_EVER)


def no_introduction(arguments):
    """Begin without saying who speaks."""
    say("note", text="Here I am.")
    time.sleep(FOR_EVER)


def ignore_cancel(arguments):
    """Go on whatever is asked, by whatever means short of force."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started(arguments)
    for step in range(FOR_EVER * 10):
        say("progress", stage="Training", done=float(step % 100), total=100.0)
        time.sleep(0.1)


def flood(arguments):
    """Say far more than a pipe holds on standard error, and much on standard output."""
    started(arguments)
    for number in range(200):
        sys.stderr.write(f"warning {number}: " + "x" * 20_000 + "\n")
        for each in range(25):
            say("note", text=f"note {number}.{each}")
    sys.stderr.write("y" * 1_000_000)  # without an end of line
    return work(arguments)


def long_line(arguments):
    """Say a sentence of ten million letters, not all of them English."""
    started(arguments)
    say("note", text="ü" * LONG)
    return work(arguments)


def partial(arguments):
    """End without ending the last line."""
    started(arguments)
    sys.stdout.write('{"event": "finished", "seconds": 1.0}')
    sys.stdout.flush()
    return 0


def close_stdout(arguments):
    """Say nothing more and go on running."""
    started(arguments)
    sys.stdout.flush()
    os.close(1)
    time.sleep(FOR_EVER)


def silent(arguments):
    """Say nothing at all and go on running."""
    time.sleep(FOR_EVER)


def grandchild(arguments):
    """Leave a process behind that holds standard output open."""
    started(arguments)
    sleeping = f"import time; time.sleep({FOR_EVER})"
    child = subprocess.Popen([sys.executable, "-c", sleeping])
    jobs.note_pid(child.pid)
    return work(arguments)


def missing(arguments):
    """Lack packages."""
    started(arguments)
    say("report", kind="engine", content={"missing": ["torch", "rasterio"], "devices": []})
    return ended(2, "failed", message="This Python lacks torch, rasterio.", hint="Install them.")


def lacks_everything(arguments):
    """Lack even what the first event needs."""
    return ended(2, "failed", message="This Python lacks pydantic.", hint="Install it.")


def unloadable(arguments):
    """Have a package that does not load."""
    started(arguments)
    say("report", kind="engine", content={"missing": ["torch"], "devices": []})
    said = (
        "The package torch is there but cannot be loaded: [WinError 1114] A dynamic link library "
        '(DLL) initialization routine failed. Error loading "C:\\env\\torch\\lib\\c10.dll"'
    )
    return ended(2, "failed", message=said, hint="Install the engine's packages.")


BEHAVIOURS = {
    each.__name__: each
    for each in (
        *(succeed, dawdle, fail, broken, crash, killed, segfault, import_error, garbage),
        *(only_garbage, old_protocol, new_protocol, no_introduction, ignore_cancel, flood),
        *(long_line, partial, close_stdout, silent, grandchild),
        *(missing, lacks_everything, unloadable),
    )
}


def work(arguments, failing=None):
    """Do the command; `failing` is how the last of its jobs ends."""
    return doctor() if arguments[0] == "doctor" else jobs.run(arguments, failing)


def doctor():
    """Tell versions and devices."""
    say(
        "report",
        kind="engine",
        content={
            "versions": {"geocfm": "0.0.0", "torch": "2.9.9"},
            "python": "3.11.7",
            "executable": sys.executable,
            "devices": [
                {"name": "cpu", "description": "CPU (2 threads)", "memory_bytes": 8_000_000_000},
                {"name": "cuda:0", "description": "a graphics card", "memory_bytes": 4_000_000_000},
            ],
            "missing": [],
        },
    )
    return ended(0, "finished", seconds=0.1)


def ended(code, event, **values):
    """Say the last event, and give the exit code."""
    say(event, **values)
    return code


def main():
    """Behave as asked."""
    jobs.note_pid(os.getpid())
    arguments = [each for each in sys.argv[1:] if each != "--json"]
    sys.exit(BEHAVIOURS[BEHAVIOUR](arguments))


if __name__ == "__main__":
    main()
