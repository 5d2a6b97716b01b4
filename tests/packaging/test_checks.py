"""What `build.py test` runs: in which Python, side by side, and when it has failed."""

import os
import sys
import time
from pathlib import Path

import pytest

import build
from building import checks, qgis_desktop
from building.checks import INTERRUPTED, Aside, Step

ROOT = Path(__file__).resolve().parents[2]
ENGINE = str(build.environment_program("python"))
EVERYTHING = {"engine", "plugin", "end to end", "desktop"}


@pytest.fixture(autouse=True)
def nothing_to_install(monkeypatch):
    monkeypatch.setattr(build, "make_environment", lambda *_, **__: None)
    monkeypatch.setattr(checks, "make_qgis_environment", lambda: Path("/venv-qgis/bin/python"))
    monkeypatch.setattr(checks, "install_qgis", lambda: None)
    monkeypatch.setattr(qgis_desktop, "qgis_program", lambda: "/opt/qgis/bin/qgis")


def test_all_tests_run_in_the_python_they_need():
    *others, engine, plugin, end_to_end, desktop = checks.steps([], with_qgis=True)
    assert [step.command[:3] for step in others] == [
        [ENGINE, "-m", "ruff"],
        [ENGINE, "-m", "ruff"],
        [ENGINE, "-m", "mypy"],
    ]
    assert engine.command[0] == end_to_end.command[0] == desktop.command[0] == ENGINE
    assert engine.command[-2:] == ["tests/engine", "tests/packaging"]
    assert end_to_end.command[-1] == "tests/end_to_end"
    for side_by_side in (engine, end_to_end):
        assert side_by_side.variables == {"OMP_NUM_THREADS": "1"}
    assert plugin.command == ["/venv-qgis/bin/python", "-m", "pytest", "-q", "tests/plugin"]
    assert desktop.command[-1] == "tests/desktop"
    assert plugin.variables["GEOCFM_TEST_PYTHON"] == ENGINE
    assert plugin.variables["QT_QPA_PLATFORM"] == "offscreen"
    # before a Python of pyenv's or of a virtual environment, in which there is no qgis
    assert plugin.variables["PATH"].split(os.pathsep)[0] == "/opt/qgis/bin"


def test_tests_in_qgis_can_be_left_out():
    titles = [step.title for step in checks.steps([], with_qgis=False)]
    assert titles == ["ruff check", "ruff format", "mypy", "pytest", "pytest end to end"]


def test_the_tests_of_commands_run_beside_the_engines_only():
    beside = [step.title for step in checks.steps([], with_qgis=True) if step.aside]
    assert beside == ["pytest end to end"]
    for alone in ("tests/plugin", "tests/end_to_end"):
        assert not any(step.aside for step in checks.steps([alone], with_qgis=True))


def test_every_folder_of_tests_belongs_to_one_suite():
    folders = {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/conftest.py")}
    folders |= {f"tests/{path.parent.name}" for path in (ROOT / "tests").glob("*/test_*.py")}
    known = [folder for suite in checks.SUITES.values() for folder in suite]
    assert folders <= set(known)
    assert len(known) == len(set(known))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-k", "csv", "-x"], EVERYTHING),
        (["tests/engine/geo", "-k", "csv"], {"engine"}),
        (["tests/plugin"], {"plugin"}),
        (["tests/plugin/conftest.py::test_a", "tests/packaging"], {"engine", "plugin"}),
        (["tests"], EVERYTHING),
        (
            ["-k", "engine"],
            EVERYTHING,
        ),  # also the name of a folder
    ],
)
def test_other_arguments_go_to_the_right_pytest(arguments, expected):
    suites = checks.chosen_suites(arguments)
    assert set(suites) == expected
    for suite, words in suites.items():
        for option in set(arguments) & {"-k", "csv", "-x", "engine"}:
            assert option in words
        assert any(word.startswith(checks.SUITES[suite]) for word in words)
        others = {
            folder for name in checks.SUITES if name != suite for folder in checks.SUITES[name]
        }
        assert not any(word.startswith(tuple(others)) for word in words)


class Begun:
    """Stands for commands in the background."""

    def __init__(self, steps, exit_codes):
        self.steps, self.exit_codes = steps, exit_codes
        self.stopped = False

    def finish(self, step):
        assert step in self.steps
        return self.exit_codes[step.title]

    def stop(self):
        self.stopped = True


@pytest.mark.parametrize(
    ("exit_codes", "narrowed", "expected"),
    [
        ([0, 0, 0, 0, 0, 0, 0], False, 0),
        ([0, 0, 1, 0, 0, 0, 0], False, 1),
        ([0, 0, 0, 0, 1, 0, 0], False, 1),
        ([0, 0, 0, 0, 0, 1, 0], False, 1),
        ([0, 0, 0, 0, 5, 0, 0], False, 1),  # a suite without tests is a mistake
        ([0, 0, 0, 0, 5, 5, 5], True, 0),  # unless they were chosen
        ([0, 0, 0, 5, 5, 5, 5], True, 1),
        ([0, 0, 0, INTERRUPTED], False, INTERRUPTED),
        ([0, 0, 0, 143], False, 143),
    ],
)
def test_one_failure_fails_the_tests(exit_codes, narrowed, expected):
    todo = checks.steps([], with_qgis=True)
    codes = dict(zip([step.title for step in todo], exit_codes, strict=False))
    ran, begun = [], []

    def run(step):
        ran.append(step.title)
        return codes[step.title]

    def begin(steps):
        begun.append(Begun(steps, codes))
        return begun[-1]

    assert checks.run_steps(todo, run, begin, narrowed) == expected
    (aside,) = begun
    assert [step.title for step in aside.steps] == ["pytest end to end"]
    assert len(ran) == (4 if expected in checks.STOPPED else len(exit_codes) - 1)
    assert aside.stopped  # none outlives build.py


def python_step(title, code):
    return Step(title, [sys.executable, "-c", code])


def test_what_ran_aside_is_shown_with_its_exit_code(tmp_path, capfd):
    """One after the other: the second finds what the first left."""
    left = tmp_path / "left"
    first = python_step("first", f"open({str(left)!r}, 'w').write('x'); print('Grüße')")
    second = python_step("second", f"raise SystemExit(len(open({str(left)!r}).read()) + 2)")
    aside = Aside([first, second])
    assert aside.finish(first) == 0
    assert "Grüße" in capfd.readouterr().out
    assert aside.finish(second) == 3
    aside.stop()


def test_what_is_stopped_aside_ends_and_nothing_follows(tmp_path):
    began, followed = tmp_path / "began", tmp_path / "followed"
    long = python_step("long", f"open({str(began)!r}, 'w'); import time; time.sleep(60)")
    aside = Aside([long, python_step("next", f"open({str(followed)!r}, 'w')")])
    while not began.exists():
        time.sleep(0.01)
    start = time.monotonic()
    aside.stop()
    assert time.monotonic() - start < 30
    assert not followed.exists()


def test_build_hands_the_arguments_on(monkeypatch):
    commands = []
    monkeypatch.setattr(build, "run", lambda command, *_: commands.append(command) or 0)
    assert build.main(["test", "tests/engine/geo", "-k", "csv"]) == 0
    assert commands[-1] == [ENGINE, "-m", "pytest", "-q", "-k", "csv", "tests/engine/geo"]
