import os
import subprocess
from pathlib import Path

import pytest
from environment_support import BASE_PYTHON

from geocfm_qgis.environment import base_python
from geocfm_qgis.environment.base_python import ask, find_pythons, launcher_paths


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def answering(path, **changes):
    """A program that answers as a Python with these properties would."""
    answer = {
        "version": "3.12.1",
        "executable": str(path),
        "base": str(path.parent),
        "bits": 64,
        "venv": True,
        "pip": True,
        "free_threaded": False,
    }
    answer.update(changes)
    import json

    return script(path, f"cat <<'END'\n{json.dumps(answer)}\nEND\n")


def search(*folders, of_qgis=()):
    path = os.pathsep.join([*map(str, folders), "/bin"])
    found = find_pythons({"PATH": path, "HOME": os.environ["HOME"]}, of_qgis=list(of_qgis))
    return [python for python in found if not python.base.startswith("/usr")]


def test_finds_a_real_python_behind_links_once(tmp_path):
    for name in ("python3.11", "python3", "python"):
        (tmp_path / name).symlink_to(BASE_PYTHON)
    variables = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    found = find_pythons(variables, of_qgis=[])
    assert len(found) == 1
    assert found[0].problem == ""
    version = subprocess.run([BASE_PYTHON, "--version"], capture_output=True, text=True).stdout
    assert found[0].version == version.split()[1]


def test_a_python_of_an_environment_that_was_activated_stands_for_its_base(tmp_path):
    subprocess.run([BASE_PYTHON, "-m", "venv", "--without-pip", tmp_path / "my env"], check=True)
    path = os.pathsep.join([str(tmp_path / "my env" / "bin"), os.path.dirname(BASE_PYTHON)])
    found = find_pythons({"PATH": path}, of_qgis=[])
    assert [python.base for python in found].count(os.path.realpath("/usr")) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"version": "3.8.10"}, "3.10 or newer"),
        ({"version": "3.9.18"}, "3.10 or newer"),
        ({"bits": 32}, "32-bit"),
        ({"venv": False}, "python3-venv"),
        ({"free_threaded": True}, "free-threaded"),
        ({"base": "C:\\Program Files\\WindowsApps\\Python"}, "Microsoft Store"),
    ],
)
def test_says_why_a_python_is_unsuitable(tmp_path, changes, words):
    python = ask(answering(tmp_path / "python3", **changes))
    assert words in python.problem


@pytest.mark.parametrize(
    "text",
    [
        "echo 3.8",
        "exit 9009",
        "echo 'Python was not found; run without arguments to install from the Microsoft Store'",
        "kill -9 $$",
        "echo '[1, 2]'",
        "echo '{}'",
        "",
    ],
)
def test_what_does_not_answer_as_a_python_is_passed_over(tmp_path, text):
    script(tmp_path / "python3.12", text)
    assert search(tmp_path) == []


def test_a_program_that_hangs_is_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr(base_python, "ANSWER_SECONDS", 0.3)
    assert ask(script(tmp_path / "python3", "exec sleep 20")) is None


def test_a_debian_python_without_venv_is_recognised(tmp_path):
    """A real Python whose ensurepip is missing, as Debian ships it without python3-venv."""
    (tmp_path / "ensurepip.py").write_text("")
    wrapper = script(
        tmp_path / "python3",
        'code=$(printf "%s" "$2" | sed "s/ensurepip/ensurepip_of_debian/")\n'
        f'exec {BASE_PYTHON} -c "$code"\n',
    )
    assert "apt install python3-venv" in ask(wrapper).problem


def test_the_tried_versions_come_first_and_problems_last(tmp_path):
    answering(tmp_path / "a" / "python3.13", version="3.13.1")
    answering(tmp_path / "b" / "python3.11", version="3.11.9")
    answering(tmp_path / "c" / "python3", version="3.14.0")
    answering(tmp_path / "d" / "python", version="3.8.1")
    own = answering(tmp_path / "e" / "python3.12", version="3.12.3")
    (tmp_path / "f" / "conda-meta").mkdir(parents=True)
    answering(tmp_path / "f" / "python3.11", version="3.11.5")
    folders = [tmp_path / name for name in "abcdf"]
    found = [python.version for python in search(*folders, of_qgis=[own])]
    assert found == ["3.11.9", "3.13.1", "3.14.0", "3.11.5", "3.12.3", "3.8.1"]


def test_pythons_of_qgis_are_found_without_trusting_sys_executable(monkeypatch):
    monkeypatch.setattr("sys.executable", "/usr/bin/qgis")
    found = base_python.qgis_pythons()
    assert "/usr/bin/qgis" not in found
    assert BASE_PYTHON in found
    assert all(Path(path).is_file() for path in found)


def test_what_redirects_python_does_not_reach_the_candidates(monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert ask(BASE_PYTHON) is not None


def test_reads_the_listing_of_the_windows_launcher():
    listing = (
        " -V:3.13 *        C:\\Users\\Jörg Müller\\AppData\\Python313\\python.exe\r\n"
        " -V:3.11          C:\\Program Files\\Python311\\python.exe\r\n"
        " -3.9-64          C:\\Python39\\python.exe\r\n"
        "Installed Pythons found by py.exe\r\n"
    )
    assert launcher_paths(listing) == [
        "C:\\Users\\Jörg Müller\\AppData\\Python313\\python.exe",
        "C:\\Program Files\\Python311\\python.exe",
        "C:\\Python39\\python.exe",
    ]
