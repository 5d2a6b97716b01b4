"""What `build.py test` runs: linter, formatter, type checker, and each test in the Python it needs.

The tests of the command line wait for one process at a time and take as long as the engine's and
the plugin's together: they run beside these, and what they said is shown after them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from building import qgis_desktop
from building.environments import ROOT, environment_program, install_qgis, make_qgis_environment

SUITES = {  # what runs in one pytest: its folders
    "engine": ("tests/engine", "tests/packaging"),
    "plugin": ("tests/plugin",),
    "end to end": ("tests/end_to_end",),
    "desktop": ("tests/desktop",),
}
IN_QGIS = ("plugin", "desktop")
NO_TESTS = 5  # the exit code of pytest when nothing was chosen
INTERRUPTED = 130  # the exit code of a command ended with Ctrl-C
STOPPED = (INTERRUPTED, 143)  # or told to end: nothing else is begun
ENDING_S = 20
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # side by side, torch's threads would wait for each other


@dataclass(frozen=True)
class Step:
    """A command of the tests; those that run aside are begun first and shown when it is time."""

    title: str
    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    aside: bool = False

    @property
    def is_pytest(self) -> bool:
        """Tell tests from other checks."""
        return "pytest" in self.command


class Aside:
    """Commands in the background, one after the other, and what they say."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._ended = {step.title: threading.Event() for step in steps}
        self._said = {step.title: tempfile.TemporaryFile() for step in steps}  # noqa: SIM115
        self._exit_codes: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._beginning = threading.Lock()  # a process is begun, or none ever will be
        self._stopped = False
        self._lane = threading.Thread(target=self._run, args=(steps,), daemon=True)
        self._lane.start()

    def _run(self, steps: Sequence[Step]) -> None:
        for step in steps:
            with self._beginning:
                if self._stopped:
                    return
                self._process = subprocess.Popen(
                    step.command,
                    cwd=ROOT,
                    env={**os.environ, **step.variables},
                    stdin=subprocess.DEVNULL,
                    stdout=self._said[step.title],
                    stderr=subprocess.STDOUT,
                )
            self._exit_codes[step.title] = self._process.wait()
            self._ended[step.title].set()

    def finish(self, step: Step) -> int:
        """Wait for its end, show what it said, and give its exit code."""
        self._ended[step.title].wait()
        said = self._said[step.title]
        said.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(said.read())  # as it is, whatever this terminal's encoding
        sys.stdout.flush()
        return self._exit_codes[step.title]

    def stop(self) -> None:
        """End what has not ended, and begin nothing more."""
        with self._beginning:
            self._stopped = True
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=ENDING_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._lane.join()
        for said in self._said.values():
            said.close()


def steps(arguments: Sequence[str], with_qgis: bool) -> list[Step]:
    """Give all that is to run, and install what it needs of QGIS before anything begins."""
    python = str(environment_program("python"))
    chosen = chosen_suites(arguments)
    if not with_qgis:
        chosen = {suite: words for suite, words in chosen.items() if suite not in IN_QGIS}
    found = [
        Step("ruff check", [python, "-m", "ruff", "check"]),
        Step("ruff format", [python, "-m", "ruff", "format", "--check"]),
        Step("mypy", [python, "-m", "mypy"]),
    ]
    variables = {"GEOCFM_TEST_PYTHON": python}
    beside = "engine" in chosen  # else each part as it comes
    for suite, words in chosen.items():
        pytest = ["-m", "pytest", "-q", *words]
        if suite == "engine":
            found.append(Step("pytest", [python, *pytest], ONE_THREAD))
        elif suite == "end to end":
            found.append(Step("pytest end to end", [python, *pytest], ONE_THREAD, beside))
        elif suite == "plugin":
            qgis_python = str(make_qgis_environment())
            path = qgis_desktop.own_path(qgis_desktop.qgis_program() or "")
            in_qgis = {**variables, "PATH": path, "QT_QPA_PLATFORM": "offscreen"}
            found.append(Step("pytest in QGIS", [qgis_python, *pytest], in_qgis))
        else:
            install_qgis()
            found.append(Step("pytest of the desktop", [python, *pytest], variables))
    return found


def chosen_suites(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Give the arguments of pytest for each suite: the paths that are its own, and all options."""
    paths: dict[str, list[str]] = {suite: [] for suite in SUITES}
    options: list[str] = []
    for argument in arguments:
        place = (ROOT / argument.split("::")[0]).resolve()
        owners = [suite for suite, folders in SUITES.items() if _holds(folders, place)]
        if place == ROOT / "tests":
            for suite, folders in SUITES.items():
                paths[suite] += folders
        elif owners and place.exists():
            paths[owners[0]].append(argument)
        else:
            options.append(argument)
    if not any(paths.values()):
        paths = {suite: list(folders) for suite, folders in SUITES.items()}
    return {suite: [*options, *chosen] for suite, chosen in paths.items() if chosen}


def run_steps(
    todo: Sequence[Step],
    run: Callable[[Step], int],
    begin: Callable[[Sequence[Step]], Aside] = Aside,
    narrowed: bool = False,
) -> int:
    """Run them all; one that finds no test is well when tests were chosen and another has some."""
    results: dict[str, int] = {}
    aside = begin([step for step in todo if step.aside])
    try:
        for step in todo:
            failed = [title for title, exit_code in results.items() if exit_code != 0]
            if step.is_pytest and failed:
                print(f"\nFailed so far: {', '.join(failed)} (see above).")
            print(f"\n{step.title}", flush=True)
            results[step.title] = aside.finish(step) if step.aside else run(step)
            if results[step.title] in STOPPED:
                return results[step.title]
    finally:
        aside.stop()
    if narrowed and any(results[step.title] == 0 for step in todo if step.is_pytest):
        results = {title: 0 if code == NO_TESTS else code for title, code in results.items()}
    failed = [title for title, exit_code in results.items() if exit_code != 0]
    if failed:
        print(f"\nFailed: {', '.join(failed)}.")
    return 1 if failed else 0


def _holds(folders: Sequence[str], place: Path) -> bool:
    return any(place.is_relative_to(ROOT / folder) for folder in folders)
