"""``geocfm doctor``, and how the program begins in a Python that lacks something."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from geocfm.doctor import unloadable
from geocfm.packages import PACKAGES
from small_data import ENGINE, json_lines, run_geocfm


def test_the_doctor_tells_versions_and_devices() -> None:
    done = run_geocfm("doctor", "--json")
    events = json_lines(done.stdout)
    assert done.returncode == 0
    (content,) = (event["content"] for event in events if event["event"] == "report")
    assert content["missing"] == []
    assert content["versions"]["torch"].startswith("2.")
    assert content["executable"] == sys.executable
    assert content["devices"][0]["name"] == "cpu"
    assert content["devices"][0]["memory_bytes"] > 10**8


def test_the_doctor_knows_every_package_the_engine_needs() -> None:
    text = (ENGINE / "pyproject.toml").read_text(encoding="utf-8")
    named = text.split("dependencies = [")[1].split("]")[0].count(">=")
    assert len(PACKAGES) == named - 1  # tomli is for Python 3.10 alone


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with no package at all."""
    folder = tmp_path_factory.mktemp("bäre python")
    venv.create(folder / "venv", with_pip=False)
    return folder / "venv" / "bin" / "python"


@pytest.mark.parametrize("command", ["doctor", "train", "run"])
def test_a_python_that_lacks_all_packages_says_so(bare_python: Path, command: str) -> None:
    done = subprocess.run(
        [bare_python, "-m", "geocfm", command, "--json"],
        env={"PYTHONPATH": str(ENGINE)},
        capture_output=True,
        text=True,
        check=False,
    )
    event = json.loads(done.stdout)
    assert done.returncode == 2
    assert event["event"] == "failed"
    assert event["message"] == f"This Python lacks {', '.join(PACKAGES)}."
    assert "Settings > Options > GeoCFM" in event["hint"]
    assert done.stderr == ""


def test_a_missing_torch_is_a_sentence(tmp_path: Path) -> None:
    # a torch that cannot be loaded, as with a missing DLL, before the real one on the path
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('DLL load failed: c10')")
    for arguments in (["doctor"], ["info", "nothing.safetensors"]):
        done = subprocess.run(
            [sys.executable, "-m", "geocfm", *arguments, "--json"],
            env={"PYTHONPATH": f"{tmp_path}:{ENGINE}"},
            capture_output=True,
            text=True,
            check=False,
        )
        last = json_lines(done.stdout)[-1]
        assert done.returncode == 2, done.stdout
        assert "cannot be loaded: DLL load failed: c10" in last["message"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("raise RuntimeError('module compiled against ABI 1')", "module compiled against ABI 1"),
        ("raise AttributeError('_ARRAY_API not found')", "_ARRAY_API not found"),
        ("import package_of_a_package", "This Python lacks package_of_a_package."),
    ],
)
def test_a_package_that_does_not_fit_is_a_sentence(tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "torch.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-m", "geocfm", "doctor", "--json"],
        env={"PYTHONPATH": f"{tmp_path}:{ENGINE}"},
        capture_output=True,
        text=True,
        check=False,
    )
    last = json_lines(done.stdout)[-1]
    assert done.returncode == 2, done.stdout
    assert last["event"] == "failed"
    assert said in last["message"]


def test_windows_gets_its_own_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert "Visual C++" in unloadable(ImportError("DLL load failed"), "torch").hint
    assert "Visual C++" not in unloadable(ModuleNotFoundError("x", name="torch")).hint


def test_a_package_without_a_name_is_still_a_sentence() -> None:
    message = unloadable(ImportError("libc10.so is missing")).message
    assert message == "A package is there but cannot be loaded: libc10.so is missing"
