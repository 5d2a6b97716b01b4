"""The ``geocfm`` program: begins at once, so that even an early Ctrl-C ends it with a sentence.

It also begins in a Python that is too old or lacks every package, to say so.
"""

import json
import os
import platform
import sys
from typing import NoReturn

OLDEST_PYTHON = (3, 10)


def main() -> None:
    """Load the command line, which takes a moment, and run it."""
    if sys.version_info < OLDEST_PYTHON:
        refuse(
            "GeoCFM needs Python 3.10 or newer, and this one is " + platform.python_version() + ".",
            "Choose a newer Python.",
        )
    # torch's threads wait for each other at full speed, which takes time from other programs and
    # from the threads that make batches; falling asleep at once is slower yet (docs/benchmarks.md)
    if "OMP_WAIT_POLICY" not in os.environ:  # which the count would outweigh
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    try:
        from geocfm.cli import main as run
    except KeyboardInterrupt:
        stop()
    except ImportError as error:
        from geocfm.packages import INSTALL, lacking, missing_packages

        missing = missing_packages()
        if isinstance(error, ModuleNotFoundError) and error.name and not missing:
            missing = [error.name]  # one that a package needs itself
        refuse(lacking(missing) if missing else str(error), INSTALL)
    try:
        run()
    except KeyboardInterrupt:
        stop()


def stop() -> NoReturn:
    """End as asked."""
    print("Stopped as asked; nothing had begun.")
    sys.exit(130)


def refuse(message: str, hint: str) -> NoReturn:
    """Say what is wrong, as events.py would if it could be loaded, and end."""
    if "--json" in sys.argv:
        print(json.dumps({"event": "failed", "message": message, "hint": hint, "log": ""}))
    else:
        print(message + "\n" + hint)
    sys.exit(2)


if __name__ == "__main__":
    main()
