import contextlib
import os
import subprocess
from pathlib import Path

import pytest
from environment_support import BASE_PYTHON

from geocfm_qgis.environment import base_python, python_places
from geocfm_qgis.environment.base_python import ask, find_pythons
from geocfm_qgis.environment.python_places import launcher_paths, likely_pythons


@pytest.fixture(autouse=True)
def no_other_places(monkeypatch):
    """Only the folders that a test names are looked into."""
    monkeypatch.setattr(python_places, "FOLDERS", ())


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
    variables = {"PATH": path, "HOME": os.environ["HOME"]}
    found = find_pythons(variables=variables, of_qgis=list(of_qgis))
    return [python for python in found if not python.base.startswith("/usr")]


def test_finds_a_real_python_behind_links_once(tmp_path):
    for name in ("python3.11", "python3", "python"):
        (tmp_path / name).symlink_to(BASE_PYTHON)
    variables = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    found = find_pythons(variables=variables, of_qgis=[])
    assert len(found) == 1
    assert found[0].problem == ""
    version = subprocess.run([BASE_PYTHON, "--version"], capture_output=True, text=True).stdout
    assert found[0].version == version.split()[1]


def test_a_python_of_an_environment_that_was_activated_stands_for_its_base(tmp_path):
    subprocess.run([BASE_PYTHON, "-m", "venv", "--without-pip", tmp_path / "my env"], check=True)
    path = os.pathsep.join([str(tmp_path / "my env" / "bin"), os.path.dirname(BASE_PYTHON)])
    found = find_pythons(variables={"PATH": path}, of_qgis=[])
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
        'code=$(printf "%s" "$3" | sed "s/ensurepip/ensurepip_of_debian/")\n'
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
    found = python_places.qgis_pythons()
    assert "/usr/bin/qgis" not in found
    assert BASE_PYTHON in found
    assert all(Path(path).is_file() for path in found)


def test_what_redirects_python_does_not_reach_the_candidates(monkeypatch):
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    assert ask(BASE_PYTHON) is not None


def test_modules_in_the_current_folder_do_not_speak_for_a_python(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')")
    (tmp_path / "platform.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    assert ask(BASE_PYTHON) is not None
    assert not (tmp_path / "ran").exists()


def test_a_search_can_be_stopped(tmp_path):
    answering(tmp_path / "python3.12")
    variables = {"PATH": f"{tmp_path}:/bin"}
    assert find_pythons(lambda: True, variables, of_qgis=[]) == []
    assert find_pythons(lambda: False, variables, of_qgis=[])


def test_the_folders_of_installers_are_looked_into_though_not_on_the_path(tmp_path, monkeypatch):
    brewed = script(tmp_path / "homebrew" / "bin" / "python3", "")
    official = script(tmp_path / "Versions" / "3.12" / "bin" / "python3.12", "")
    monkeypatch.setattr(python_places, "FOLDERS", (str(tmp_path / "homebrew" / "bin"),))
    monkeypatch.setattr(python_places, "FRAMEWORK", str(tmp_path / "Versions"))
    assert set(likely_pythons({})) == {brewed, official}


@pytest.mark.parametrize("has_tools", [True, False])
def test_the_stub_of_apple_is_started_only_with_its_tools(tmp_path, monkeypatch, has_tools):
    stub = script(tmp_path / "python3", "")
    monkeypatch.setattr(python_places, "IS_MACOS", True)
    monkeypatch.setattr(python_places, "APPLE_STUB", stub)
    code = 0 if has_tools else 2
    answer = subprocess.CompletedProcess([], code, b"")
    monkeypatch.setattr(python_places, "_answer", lambda command: answer)
    assert likely_pythons({"PATH": str(tmp_path)}) == ([stub] if has_tools else [])


class Registry:
    """Stands for winreg: nested dictionaries; a text is a key's default value."""

    HKEY_CURRENT_USER, HKEY_LOCAL_MACHINE = "user", "machine"

    def __init__(self, content):
        self._content = content

    @contextlib.contextmanager
    def OpenKey(self, root, path):
        key = self._content.get(root, {})
        for name in path.split("\\"):
            if name not in key:
                raise FileNotFoundError(path)
            key = key[name]
        yield key

    def EnumKey(self, key, number):
        names = [name for name, value in key.items() if isinstance(value, dict)]
        if number >= len(names):
            raise OSError("no more")
        return names[number]

    def QueryValueEx(self, key, name):
        if name not in key:
            raise FileNotFoundError(name)
        return key[name], 1

    def QueryValue(self, key, name):
        return key[""]


def test_finds_what_is_registered_with_windows_and_in_the_users_folder(tmp_path, monkeypatch):
    official = tmp_path / "Python312" / "python.exe"
    conda = tmp_path / "conda" / "python.exe"
    own = tmp_path / "Programs" / "Python" / "Python311" / "python.exe"
    for path in (official, conda, own):
        script(path, "")
    registry = {
        "user": {
            "Software": {
                "Python": {
                    "PythonCore": {"3.12": {"InstallPath": {"ExecutablePath": str(official)}}},
                    "Gone": {
                        "3.9": {"InstallPath": {"ExecutablePath": str(tmp_path / "gone.exe")}},
                        "3.8": {},
                    },
                }
            }
        },
        "machine": {
            "Software": {
                "Python": {"ContinuumAnalytics": {"A": {"InstallPath": {"": str(conda.parent)}}}}
            }
        },
    }
    monkeypatch.setattr(python_places, "IS_WINDOWS", True)
    monkeypatch.setattr(python_places, "winreg", Registry(registry))
    found = likely_pythons({"PATH": "", "LOCALAPPDATA": str(tmp_path)})
    assert found == [str(official), str(conda), str(own)]


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
