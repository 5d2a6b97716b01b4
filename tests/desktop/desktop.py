"""The QGIS desktop on a screen of its own, with the built zip in a fresh profile.

A story (a module in stories/) runs inside QGIS and drives it as a user would; see driving.py.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from building import qgis_desktop

STORIES = Path(__file__).resolve().parent / "stories"
SIZE = (1440, 900)
MARK = "GEOCFM_DESKTOP_MARK"  # in the environment of QGIS and all that it starts
ENDING_S = 20


@dataclass(frozen=True)
class Screen:
    """An X display that nobody sees."""

    display: str

    def picture(self, path: Path) -> None:
        """Save what is on the screen."""
        command = ["scrot", "--overwrite", str(path)]
        subprocess.run(command, env={**os.environ, "DISPLAY": self.display}, check=True)


@dataclass(frozen=True)
class Told:
    """How a story ended: what it has to tell, all that QGIS printed, and what still runs."""

    exit_code: int | None  # None: it had to be ended
    answer: dict[str, Any]
    output: str
    left_running: list[str]


@contextmanager
def screen(size: tuple[int, int] = SIZE) -> Iterator[Screen]:
    """Start Xvfb on a free display, with a window manager; end both."""
    receiver, sender = os.pipe()
    geometry = f"{size[0]}x{size[1]}x24"
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(sender), "-screen", "0", geometry, "-nolisten", "tcp"],
        pass_fds=[sender],
        stderr=subprocess.DEVNULL,
    )
    os.close(sender)
    try:
        with os.fdopen(receiver) as answer:
            number = answer.readline().strip()
        assert number, "Xvfb did not start"
        environment = {**os.environ, "DISPLAY": f":{number}"}
        manager = subprocess.Popen(["openbox"], env=environment, stderr=subprocess.DEVNULL)
        try:
            yield Screen(environment["DISPLAY"])
        finally:
            end(manager)
    finally:
        end(server)


def tell(
    story: str,
    home: Path,
    shown_on: Screen,
    settings: Mapping[str, Mapping[str, str]],
    archive: Path,
    choices: Mapping[str, Any] | None = None,
    within: float = 240,
) -> Told:
    """Start QGIS with the plugin's zip in a new profile and let a story run in it to its end."""
    program = qgis_desktop.qgis_program()
    assert program, "QGIS is not installed"
    home.mkdir(parents=True)
    qgis_desktop.make_profile(home, archive, settings)
    answer, script = home / "answer.json", home / "start.py"
    told = {"story": story, "answer": str(answer), **(choices or {})}
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(STORIES)!r})\n"
        f"import driving\n"
        f"driving.start({json.dumps(told)!r})\n",
        encoding="utf-8",
    )
    mark = uuid.uuid4().hex
    command = qgis_desktop.start_command(program, home, script)
    with (home / "output.txt").open("w") as output:
        qgis = subprocess.Popen(
            command,
            env=_environment(home, shown_on.display, mark),
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            exit_code = qgis.wait(timeout=within)
        except subprocess.TimeoutExpired:
            shown_on.picture(home / "stuck.png")
            exit_code = None
        finally:
            end(qgis)
    left = running(mark)
    for process in left:
        os.kill(process, 9)
    return Told(
        exit_code,
        json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else {},
        (home / "output.txt").read_text(errors="replace"),
        list(left.values()),
    )


def end(process: subprocess.Popen[Any]) -> None:
    """Let a process of ours end, and see that it does."""
    process.terminate()
    try:
        process.wait(timeout=ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _environment(home: Path, display: str, mark: str) -> dict[str, str]:
    runtime, temporary = home / "runtime", home / "temporary"
    runtime.mkdir(mode=0o700)
    temporary.mkdir()
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",  # of a user who has set up nothing
        "HOME": str(home),
        "TMPDIR": str(temporary),  # what lies in it counts as temporary for QGIS; the profile not
        "XDG_RUNTIME_DIR": str(runtime),
        "LANG": "C.UTF-8",
        "DISPLAY": display,
        "OMP_NUM_THREADS": "2",
        "QT_QPA_PLATFORM": "xcb",
        MARK: mark,
    }


def running(mark: str, patience_s: float = 5) -> dict[int, str]:
    """Give the processes with our mark that are still there after a short while."""
    until = time.monotonic() + patience_s
    while True:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                    words = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(folder.name)] = words.decode(errors="replace")
            except OSError:
                continue  # it has ended, or is another user's
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.2)
