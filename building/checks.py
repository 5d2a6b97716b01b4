"""What `build.py test` runs: linter, formatter, type checker, and each test in the Python it needs.

The plugin's tests wait more than they compute, so they run beside the engine's; what they said is
shown when both are done.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from building import qgis_desktop
from building.environments import ROOT, environment_program, install_qgis, make_qgis_environment

SUITES = {  # what runs in one pytest: its folders
    "engine": ("tests/engine", "tests/end_to_end", "tests/packaging"),
    "plugin": ("tests/plugin",),
    "desktop": ("tests/desktop",),
}
IN_QGIS = ("plugin", "desktop")
NO_TESTS = 5  # the exit code of pytest when nothing was chosen
INTERRUPTED = 130  # the exit code of a command ended with Ctrl-C
STOPPED = (INTERRUPTED, 143)  # or told to end: nothing else is begun
ENDING_S = 20


@dataclass(frozen=True)
class Step:
    """A command of the tests; one that runs aside is begun first and shown last but one."""

    title: str
    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)
    aside: bool = False

    @property
    def is_pytest(self) -> bool:
        """Tell tests from other checks."""
        return "pytest" in self.command


class Aside:
    """A command at work in the background, and what it says."""

    def __init__(self, step: Step) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._process = subprocess.Popen(
            step.command,
            cwd=ROOT,
            env={**os.environ, **step.variables},
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=subprocess.STDOUT,
        )

    def finish(self) -> int:
        """Wait for its end, show what it said, and give its exit code."""
        exit_code = self._process.wait()
        self._said.seek(0)
        sys.stdout.flush()
        sys.stdout.buffer.write(self._said.read())  # as it is, whatever this terminal's encoding
        sys.stdout.flush()
        return exit_code

    def stop(self) -> None:
        """End it, if it has not ended."""
        self._process.terminate()
        try:
            self._process.wait(timeout=ENDING_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._said.close()


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
    for suite, words in chosen.items():
        pytest = ["-m", "pytest", "-q", *words]
        if suite == "engine":
            found.append(Step("pytest", [python, *pytest]))
        elif suite == "plugin":
            qgis_python = str(make_qgis_environment())
            path = qgis_desktop.own_path(qgis_desktop.qgis_program() or "")
            in_qgis = {**variables, "PATH": path, "QT_QPA_PLATFORM": "offscreen"}
            beside = "engine" in chosen
            found.append(Step("pytest in QGIS", [qgis_python, *pytest], in_qgis, beside))
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
    begin: Callable[[Step], Aside] = Aside,
    narrowed: bool = False,
) -> int:
    """Run them all; one that finds no test is well when tests were chosen and another has some."""
    results: dict[str, int] = {}
    aside = {step.title: begin(step) for step in todo if step.aside}
    try:
        for step in todo:
            failed = [title for title, exit_code in results.items() if exit_code != 0]
            if step.is_pytest and failed:
                print(f"\nFailed so far: {', '.join(failed)} (see above).")
            print(f"\n{step.title}", flush=True)
            results[step.title] = aside[step.title].finish() if step.aside else run(step)
            if results[step.title] in STOPPED:
                return results[step.title]
    finally:
        for process in aside.values():
            process.stop()
    if narrowed and any(results[step.title] == 0 for step in todo if step.is_pytest):
        results = {title: 0 if code == NO_TESTS else code for title, code in results.items()}
    failed = [title for title, exit_code in results.items() if exit_code != 0]
    if failed:
        print(f"\nFailed: {', '.join(failed)}.")
    return 1 if failed else 0


def _holds(folders: Sequence[str], place: Path) -> bool:
    return any(place.is_relative_to(ROOT / folder) for folder in folders)
