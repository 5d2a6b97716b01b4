#!/usr/bin/env python3
"""The one door for a newcomer: run the demo, run the tests, or make the plugin zip.

Needs only Python 3.10 or newer; everything else is installed into .venv beside this file.
"""

from __future__ import annotations  # lets an older Python come as far as the sentence at the end

import argparse
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from plugin_zip import PackagingError, build_plugin_zip

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "geocfm.stamp"  # what .venv holds; written last, so a half-made .venv has none
INSTALL_LOG = VENV / "install.log"
CONSTRAINTS = ROOT / "constraints.txt"
SAMPLE = ROOT / "resources" / "sample"

OLDEST_PYTHON = (3, 10)
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PROBE_TIMEOUT_S = 3
LOG_LINES_SHOWN = 20
INTERRUPTED = 130  # the exit code of a command ended with Ctrl-C


class BuildError(Exception):
    """Why the build cannot go on, in words for the person who started it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of demo, test and zip; without any of them, say what there is."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and options.command != "test":
        parser.error(f"unknown option: {' '.join(others)}")
    try:
        if options.command == "demo":
            return demo(options.out, options.minutes, options.torch_index)
        if options.command == "test":
            return test(others, options.torch_index)
        if options.command == "zip":
            return make_zip(options.out, options.release)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    parser.print_help()
    return 0


def demo(out: Path, minutes: float, torch_index: str | None) -> int:
    """Train, map, sample and evaluate on the sample data of the Murchison."""
    make_environment(torch_index)
    started = time.time()
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    for title, command in demo_commands(out, minutes):
        print(f"\n{title}\n  geocfm {' '.join(command)}", flush=True)
        exit_code = run([str(environment_program("geocfm")), *command])
        if exit_code != 0:
            print(f"\nThe demo stopped here: `geocfm {command[0]}` did not finish.")
            return exit_code
    print(f"\nThe demo took {_duration(time.time() - started)}. It wrote:")
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        if path.stat().st_mtime >= started - 1:  # not what an earlier run left
            print(f"  {_shown(path):<44} {path.stat().st_size / 1e6:8.2f} MB")
    print(
        f"Open {_shown(out / 'prospectivity.tif')} in QGIS first, with the known deposits "
        f"({_shown(SAMPLE / 'occurrences.gpkg')}) on top.\n"
        f"How well the map finds deposits it has not seen stands in {_shown(out / 'evaluation')}."
    )
    return 0


def demo_commands(out: Path, minutes: float) -> list[tuple[str, list[str]]]:
    """Give the steps of the demo: a title and the arguments of `geocfm` for each."""
    rasters: list[str] = []
    for raster in sorted(SAMPLE.glob("rasters/*.tif")):
        rasters += ["--raster", _shown(raster)]
    occurrences = ["--occurrences", _shown(SAMPLE / "occurrences.gpkg")]
    model = _shown(out / "model.safetensors")
    trained = ["--checkpoint", model, *rasters]
    budget = ["--minutes", f"{minutes:g}", "--seed", "1"]
    draws = ["--points", "500", "--draws", "4", "--seed", "1"]
    again = "--overwrite"  # an earlier demo's results are in the way
    return [
        (
            f"1 of 4: training on the sample data for {minutes:g} minutes",
            ["train", *rasters, *occurrences, *budget, again, "--out", model],
        ),
        (
            "2 of 4: mapping the region",
            ["map", *trained, again, "--out", _shown(out / "prospectivity.tif")],
        ),
        (
            "3 of 4: drawing points",
            ["sample", *trained, *draws, again, "--out", _shown(out / "samples.gpkg")],
        ),
        (
            "4 of 4: evaluating on tiles kept apart from training",
            ["evaluate", *trained, *occurrences, again, "--out", _shown(out / "evaluation")],
        ),
    ]


def test(pytest_arguments: Sequence[str], torch_index: str | None) -> int:
    """Run the linter, the formatter's check, the type checker and every test."""
    make_environment(torch_index, with_tests=True)
    steps = {
        "ruff check": ["ruff", "check"],
        "ruff format": ["ruff", "format", "--check"],
        "mypy": ["mypy"],
        "pytest": ["pytest", "-q", *(pytest_arguments or ["tests"])],
    }
    failed: list[str] = []
    for title, step in steps.items():
        if title == "pytest" and failed:
            print(f"\nFailed so far: {', '.join(failed)} (see above).")
        print(f"\n{title}", flush=True)
        exit_code = run([str(environment_program("python")), "-m", *step], folder=ROOT)
        if exit_code == INTERRUPTED:
            return INTERRUPTED
        if exit_code != 0:
            failed.append(title)
    return 1 if failed else 0


def make_zip(out: Path, release: bool) -> int:
    """Write the plugin zip, or say everything the QGIS repository would refuse in it."""
    try:
        archive, unset = build_plugin_zip(ROOT, out, release=release)
    except PackagingError as error:
        raise BuildError(f"The plugin zip was not made:\n{error}") from error
    print(f"Wrote {_shown(archive)} ({archive.stat().st_size / 1e6:.1f} MB).")
    if unset:
        print(
            f"It is for testing: {', '.join(unset)} in metadata.txt are the publisher's to set "
            "before a release."
        )
    return 0


# --- the environment -----------------------------------------------------------------------------


def make_environment(torch_index: str | None = None, with_tests: bool = False) -> None:
    """Make .venv with the engine in it; at once if it is already there, mended if half made."""
    wanted = f"{_installation_key()} {'with tests' if with_tests else ''}".strip()
    if _environment_version() == platform.python_version():
        if STAMP.is_file() and STAMP.read_text().startswith(wanted):
            return
        create = ["-m", "venv"]
    else:
        create = ["-m", "venv", "--clear"]
    started = time.time()
    print("Installing the engine into .venv (once, a few minutes) ...", flush=True)
    STAMP.unlink(missing_ok=True)
    made = subprocess.run(
        [sys.executable, *create, str(VENV)], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        raise BuildError(
            f"This Python could not make the environment {VENV}:\n{made.stdout}{made.stderr}\n"
            "On Debian and Ubuntu, `sudo apt install python3-venv` brings what is missing."
        )
    INSTALL_LOG.write_text("")
    index = chosen_torch_index(torch_index)
    if index:
        print("  PyTorch, the build for this machine ...", flush=True)
        _pip_install("--no-deps", "--index-url", index, _pinned("torch"))
    print("  the engine and the packages it needs ...", flush=True)
    _pip_install("-e", f"{ROOT / 'engine'}{'[test]' if with_tests else ''}")
    STAMP.write_text(wanted)
    print(f"Installed in {_duration(time.time() - started)}.", flush=True)


def environment_program(name: str) -> Path:
    """Give the path of a program inside .venv."""
    return VENV / "Scripts" / f"{name}.exe" if os.name == "nt" else VENV / "bin" / name


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


def run(command: Sequence[str], folder: Path | None = None) -> int:
    """Run a command in this terminal and wait for it, also when it is told to stop."""
    process = subprocess.Popen(command, cwd=folder)
    before = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    interrupted = False
    while process.returncode is None:
        try:
            process.wait()
        except KeyboardInterrupt:
            # Ctrl-C reached the command too; it keeps its best result, then ends by itself.
            interrupted = True
    signal.signal(signal.SIGTERM, before)
    if interrupted:
        return INTERRUPTED
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _environment_version() -> str | None:
    """Give the version of the Python in .venv, or None if there is none that runs with pip."""
    question = "import pip, platform; print(platform.python_version())"
    try:
        answer = subprocess.run(
            [environment_program("python"), "-c", question],
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def _installation_key() -> str:
    """Give a hash of all that decides what an installation holds and where it stands."""
    key = hashlib.sha256(f"{platform.python_version()} {ROOT}".encode())
    for path in (CONSTRAINTS, ROOT / "engine" / "pyproject.toml"):
        key.update(path.read_bytes())
    return key.hexdigest()


def _pip_install(*arguments: str) -> None:
    command = [str(environment_program("python")), "-m", "pip", "install"]
    command += ["--disable-pip-version-check", "-c", str(CONSTRAINTS), *arguments]
    with INSTALL_LOG.open("a") as log:
        exit_code = subprocess.call(command, stdout=log, stderr=subprocess.STDOUT)
    if exit_code != 0:
        lines = INSTALL_LOG.read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:]
        raise BuildError(
            "\n".join(lines)
            + f"\nThe installation did not succeed; all that pip said stands in {INSTALL_LOG}."
        )


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


# --- the command line ----------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py", description="GeoCFM: run the demo, run the tests, make the plugin zip."
    )
    commands = parser.add_subparsers(dest="command", metavar="demo | test | zip")
    torch = argparse.ArgumentParser(add_help=False)
    torch.add_argument(
        "--torch-index",
        type=_https_or_none,
        metavar="URL",
        help="package index to take PyTorch from when it is first installed; "
        "`none` for the ordinary one (default: chosen for this machine)",
    )
    demonstrate = commands.add_parser(
        "demo",
        parents=[torch],
        help="install the engine, then train, map, sample and evaluate on the sample data",
    )
    demonstrate.add_argument(
        "--out", type=Path, default=ROOT / "demo_output", help="folder of the results"
    )
    demonstrate.add_argument(
        "--minutes", type=float, default=3.0, help="time for training (default: 3)"
    )
    commands.add_parser(
        "test",
        parents=[torch],
        help="install what the tests need and run all of them",
        epilog="All other arguments go to pytest, e.g. `build.py test -k split`.",
    )
    package = commands.add_parser("zip", help="make the plugin zip for the QGIS repository")
    package.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder of the zip (default: dist)"
    )
    package.add_argument(
        "--release",
        action="store_true",
        help="refuse while the publisher's details in metadata.txt are unset",
    )
    return parser


def _https_or_none(index: str) -> str:
    if index == "none" or index.startswith("https://"):
        return index
    raise argparse.ArgumentTypeError("give an address that starts with https://, or `none`")


def _shown(path: Path) -> str:
    """Give a path as short as it can be said from the current folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        sys.exit("GeoCFM needs Python 3.10 or newer; please run build.py with that one.")
    sys.exit(main())
