"""The Pythons that GeoCFM is built and tested with: .venv for the engine, .venv-qgis for QGIS."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from building import qgis_desktop

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
QGIS_VENV = ROOT / ".venv-qgis"
STAMP = VENV / "geocfm.stamp"  # what .venv holds; written last, so a half-made .venv has none
INSTALL_LOG = VENV / "install.log"
CONSTRAINTS = ROOT / "constraints.txt"

TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
QGIS_TEST_PACKAGES = (
    "pytest",  # runs the tests
    "pytest-qgis",  # QGIS without its window, made new for each test
)
PROBE_TIMEOUT_S = 3
LOG_LINES_SHOWN = 20


class BuildError(Exception):
    """Why the build cannot go on, in words for the person who started it."""


def make_environment(torch_index: str | None = None, with_tests: bool = False) -> None:
    """Make .venv with the engine in it; at once if it is already there, mended if half made."""
    wanted = f"{_installation_key()} {'with tests' if with_tests else ''}".strip()
    runs = _version_of(environment_program("python")) == platform.python_version()
    if runs and STAMP.is_file() and STAMP.read_text().startswith(wanted):
        return
    started = time.time()
    print("Installing the engine into .venv (once, a few minutes) ...", flush=True)
    STAMP.unlink(missing_ok=True)
    _make_venv(sys.executable, VENV, *([] if runs else ["--clear"]))
    index = chosen_torch_index(torch_index)
    if index:
        print("  PyTorch, the build for this machine ...", flush=True)
        _pip_install(VENV, "--no-deps", "--index-url", index, _pinned("torch"))
    print("  the engine and the packages it needs ...", flush=True)
    _pip_install(VENV, "-e", f"{ROOT / 'engine'}{'[test]' if with_tests else ''}")
    STAMP.write_text(wanted)
    print(f"Installed in {duration(time.time() - started)}.", flush=True)


def make_qgis_environment() -> Path:
    """Make .venv-qgis, which sees QGIS and holds what its tests need; give its Python."""
    install_qgis()
    base = qgis_desktop.qgis_python()
    if base is None:
        raise BuildError(_what_to_install(qgis_desktop.missing_for_tests()))
    python = _program(QGIS_VENV, "python")
    version = _version_of(Path(base), with_pip=False)  # Debian's comes without
    pins = [_pinned(package) for package in QGIS_TEST_PACKAGES]
    wanted, stamp = " ".join([base, str(version), str(ROOT), *pins]), QGIS_VENV / "geocfm.stamp"
    if _version_of(python) == version and stamp.is_file() and stamp.read_text() == wanted:
        return python
    print("Installing what the tests in QGIS need into .venv-qgis (once) ...", flush=True)
    stamp.unlink(missing_ok=True)
    _make_venv(base, QGIS_VENV, "--system-site-packages", "--clear")
    (QGIS_VENV / ".gitignore").write_text("*\n")
    _pip_install(QGIS_VENV, *pins)
    stamp.write_text(wanted)
    return python


def install_qgis() -> None:
    """Install QGIS and a screen for its tests if no question is asked for it; else say how."""
    missing = qgis_desktop.missing_for_tests()
    if not missing:
        return
    apt = qgis_desktop.apt_command()
    if apt is None:
        raise BuildError(_what_to_install(missing))
    packages = qgis_desktop.APT_PACKAGES
    print(f"Missing: {', '.join(missing)}. Installing with apt-get (once, a few minutes):")
    print(f"  {' '.join(packages)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with INSTALL_LOG.open("a") as log:
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            subprocess.call([*apt, *words], stdout=log, stderr=subprocess.STDOUT, env=environment)
    missing = qgis_desktop.missing_for_tests()
    if missing:
        raise BuildError(f"{_log_end()}\n{_what_to_install(missing)}")


def environment_program(name: str) -> Path:
    """Give the path of a program inside .venv."""
    return _program(VENV, name)


def chosen_torch_index(torch_index: str | None) -> str | None:
    """Give the index to take torch from: the one asked for, or None for pip's ordinary one.

    On Linux the ordinary index brings gigabytes of CUDA packages; a machine without an NVIDIA
    driver has no use for them and takes the CPU build, if its index can be reached.
    """
    if torch_index == "none":
        return None
    if torch_index:
        return torch_index
    has_nvidia = Path("/proc/driver/nvidia").exists() or shutil.which("nvidia-smi")
    if sys.platform != "linux" or has_nvidia:
        return None
    return TORCH_CPU_INDEX if _answers(f"{TORCH_CPU_INDEX}/torch/") else None


def _what_to_install(missing: list[str]) -> str:
    return (
        f"The tests in QGIS need what is not here: {', '.join(missing)}.\n"
        "On Debian and Ubuntu this brings it all:\n"
        f"  sudo apt-get install --no-install-recommends {' '.join(qgis_desktop.APT_PACKAGES)}\n"
        f"A QGIS elsewhere is found by {qgis_desktop.QGIS_VARIABLE} (the program) and "
        f"{qgis_desktop.PYTHON_VARIABLE} (a Python that can import qgis.core).\n"
        "`python3 build.py test --without-qgis` runs the other tests."
    )


def _program(venv: Path, name: str) -> Path:
    return venv / "Scripts" / f"{name}.exe" if os.name == "nt" else venv / "bin" / name


def _version_of(python: Path, with_pip: bool = True) -> str | None:
    """Give the version of a Python, or None if there is none that runs (with pip)."""
    question = f"import platform{', pip' if with_pip else ''}; print(platform.python_version())"
    try:
        answer = subprocess.run(
            [python, "-c", question], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _make_venv(python: str, folder: Path, *options: str) -> None:
    made = subprocess.run(
        [python, "-m", "venv", *options, str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise BuildError(
            f"{python} could not make the environment {folder}:\n{made.stdout}{made.stderr}\n"
            "On Debian and Ubuntu, `sudo apt install python3-venv` brings what is missing."
        )
    INSTALL_LOG.write_text("")


def _installation_key() -> str:
    """Give a hash of all that decides what an installation holds and where it stands."""
    key = hashlib.sha256(f"{platform.python_version()} {ROOT}".encode())
    for path in (CONSTRAINTS, ROOT / "engine" / "pyproject.toml"):
        key.update(path.read_bytes())
    return key.hexdigest()


def _pip_install(venv: Path, *arguments: str) -> None:
    command = [str(_program(venv, "python")), "-m", "pip", "install"]
    command += ["--disable-pip-version-check", "-c", str(CONSTRAINTS), *arguments]
    with INSTALL_LOG.open("a") as log:
        exit_code = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT)
    if exit_code != 0:
        raise BuildError(f"{_log_end()}\nThe installation did not succeed.")


def _log_end() -> str:
    lines = INSTALL_LOG.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
    return "\n".join([*lines, f"All that was said stands in {INSTALL_LOG}."])


def _pinned(package: str) -> str:
    for line in CONSTRAINTS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{package}=="):
            return line
    raise BuildError(f"{CONSTRAINTS.name} pins no version of {package}.")


def _answers(address: str) -> bool:
    """Tell whether an https address answers within a few seconds."""
    try:
        with urllib.request.urlopen(address, timeout=PROBE_TIMEOUT_S):  # noqa: S310 (our https)
            return True
    except (OSError, urllib.error.URLError):
        return False


def duration(seconds: float) -> str:
    """Say a time in minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
