"""Events as the engine prints them."""

import json
import sys

DEFAULTS = {
    "progress": {"seconds_left": None, "values": {}},
    "failed": {"hint": "", "log": ""},
    "job_ended": {"message": "", "hint": "", "log": "", "artifacts": []},
}


def say(event, **values):
    """Print one event."""
    line = {"event": event, **DEFAULTS.get(event, {}), **values}
    sys.stdout.buffer.write(json.dumps(line, ensure_ascii=False).encode("utf-8") + b"\n")
    sys.stdout.buffer.flush()


def started(arguments, protocol=1):
    """Say who speaks."""
    versions = {"geocfm": "0.0.0", "python": "3.11.7", "torch": "2.9.9"}
    say("started", protocol=protocol, command=arguments[0], versions=versions)
