#!/usr/bin/env python3
"""The one door for a newcomer: run the demo, the tests or QGIS, or make the plugin zip.

Needs only Python 3.10 or newer; everything else is installed into .venv beside this file.
"""

from __future__ import annotations  # lets an older Python come as far as the sentence at the end

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from building import checks, qgis_desktop, translations
from building.checks import INTERRUPTED
from building.environments import (
    BuildError,
    duration,
    environment_program,
    install_qgis,
    make_environment,
)
from building.plugin_zip import PackagingError, build_plugin_zip

ROOT = Path(__file__).resolve().parent
SAMPLE = ROOT / "resources" / "sample"
OLDEST_PYTHON = (3, 10)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the commands; without any of them, say what there is."""
    parser = _parser()
    options, others = parser.parse_known_args(arguments)
    if others and options.command != "test":
        parser.error(f"unknown option: {' '.join(others)}")
    try:
        if options.command == "demo":
            return demo(options.out, options.minutes, options.torch_index)
        if options.command == "test":
            return test(others, options.torch_index, not options.without_qgis)
        if options.command == "zip":
            return make_zip(options.out, options.release)
        if options.command == "qgis":
            return open_qgis(options.language, options.torch_index)
        if options.command == "screenshots":
            return take_screenshots(options.out, options.torch_index)
        if options.command == "report":
            return picture_report(options.out, options.torch_index)
        if options.command == "translate":
            return translate(options.language)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped.", file=sys.stderr)
        return INTERRUPTED
    parser.print_help()
    return 0


def demo(out: Path, minutes: float, torch_index: str | None) -> int:
    """Train, map, sample, rank targets and evaluate on the sample data of the Murchison."""
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
    print(f"\nThe demo took {duration(time.time() - started)}. It wrote:")
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        if path.stat().st_mtime >= started - 1:  # not what an earlier run left
            print(f"  {_shown(path):<44} {path.stat().st_size / 1e6:8.2f} MB")
    print(
        f"Open {_shown(out / 'prospectivity.tif')} in QGIS first, with the known deposits "
        f"({_shown(SAMPLE / 'occurrences.gpkg')}) on top.\n"
        f"How well the map finds deposits it has not seen, and much else, stands in the report: "
        f"{_shown(out / 'evaluation' / 'report.html')}."
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
    budget = ["--minutes", f"{minutes:g}", "--ensemble", "3", "--seed", "1"]
    late = "--skip-report"  # evaluating writes one
    found, unsure = _shown(out / "prospectivity.tif"), _shown(out / "uncertainty.tif")
    draws = ["--points", "500", "--draws", "4", "--seed", "1"]
    again = "--overwrite"  # an earlier demo's results are in the way
    return [
        (
            f"1 of 5: training three networks on the sample data for {minutes:g} minutes",
            ["train", *rasters, *occurrences, *budget, late, again, "--out", model],
        ),
        (
            "2 of 5: mapping the region, and where the networks disagree",
            ["map", *trained, "--uncertainty", unsure, again, "--out", found],
        ),
        (
            "3 of 5: drawing points",
            ["sample", *trained, *draws, again, "--out", _shown(out / "samples.gpkg")],
        ),
        (
            "4 of 5: ranking targets",
            [
                *("targets", "--map", found, "--uncertainty", unsure, *occurrences, *trained),
                *(again, "--out", _shown(out / "targets.gpkg")),
            ],
        ),
        (
            "5 of 5: evaluating on tiles kept apart from training",
            ["evaluate", *trained, *occurrences, again, "--out", _shown(out / "evaluation")],
        ),
    ]


def test(pytest_arguments: Sequence[str], torch_index: str | None, with_qgis: bool) -> int:
    """Run the linter, the formatter's check, the type checker and every test."""
    make_environment(torch_index, with_tests=True)
    return checks.run_steps(
        checks.steps(pytest_arguments, with_qgis),
        lambda step: run(step.command, ROOT, step.variables),
        narrowed=bool(pytest_arguments),
    )


def make_zip(out: Path, release: bool) -> int:
    """Write the plugin zip, or say everything the QGIS repository would refuse in it."""
    archive, unset = _plugin_zip(out, release)
    print(f"Wrote {_shown(archive)} ({archive.stat().st_size / 1e6:.1f} MB).")
    if unset:
        print(
            f"It is for testing: {', '.join(unset)} in metadata.txt are the publisher's to set "
            "before a release."
        )
    return 0


def open_qgis(language: str | None, torch_index: str | None) -> int:
    """Start QGIS with the plugin and the sample data in a profile that is thrown away after."""
    program = qgis_desktop.qgis_program()
    if program is None:
        raise BuildError(
            "QGIS is not installed, or not found; install it, or name the program in the "
            f"environment variable {qgis_desktop.QGIS_VARIABLE}."
        )
    if sys.platform == "linux" and not {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        raise BuildError("QGIS needs a screen, and there is none here (DISPLAY is not set).")
    make_environment(torch_index)
    with tempfile.TemporaryDirectory(prefix="geocfm-qgis-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        archive, _ = _plugin_zip(folder)
        settings = qgis_desktop.profile_settings(environment_program("python"), language)
        qgis_desktop.make_profile(folder, archive, settings)
        script = folder / "open_sample.py"
        script.write_text(qgis_desktop.OPEN_SAMPLE, encoding="utf-8")
        print("QGIS starts with a profile of its own; it is removed when QGIS ends.", flush=True)
        command = qgis_desktop.start_command(program, folder, script)
        return run(command, folder, qgis_desktop.session_variables(program, folder))


def take_screenshots(out: Path, torch_index: str | None) -> int:
    """Take the pictures of the tutorial in a real QGIS on a screen that nobody sees."""
    make_environment(torch_index, with_tests=True)
    install_qgis()
    command = [str(environment_program("python")), str(ROOT / "tests/desktop/screenshots.py")]
    return run([*command, "--out", str(out.resolve())], folder=ROOT)


def picture_report(out: Path, torch_index: str | None) -> int:
    """Make the report of the sample with the shipped model, and pictures of it."""
    make_environment(torch_index)
    script = str(ROOT / "building" / "report_pictures.py")
    return run([str(environment_program("python")), script, str(out.resolve())], folder=ROOT)


def translate(language: str | None) -> int:
    """Bring the translations up to date with the texts, and say what waits for a translator."""
    folder = ROOT / translations.CATALOGUES
    paths = {*folder.glob("*.ts"), *([folder / f"geocfm_{language}.ts"] if language else [])}
    exit_code = 0
    try:
        for path in sorted(paths):
            changes = translations.update(ROOT, path)
            print(
                f"{_shown(path)}: {len(changes.new)} new texts, {len(changes.removed)} removed, "
                f"{changes.unfinished} to translate."
            )
            for problem in translations.disagreements(translations.read_catalogue(path)):
                print(f"- {problem}")
                exit_code = 1
    except translations.TranslationError as error:
        raise BuildError(f"The texts cannot be collected:\n{error}") from error
    return exit_code


def _plugin_zip(out: Path, release: bool = False) -> tuple[Path, list[str]]:
    try:
        return build_plugin_zip(ROOT, out, release)
    except PackagingError as error:
        raise BuildError(f"The plugin zip was not made:\n{error}") from error


# --- running --------------------------------------------------------------------------------------


def run(
    command: Sequence[str], folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> int:
    """Run a command in this terminal and wait for it, also when it is told to stop."""
    process = subprocess.Popen(command, cwd=folder, env={**os.environ, **(variables or {})})
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


# --- the command line ----------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="build.py",
        description="GeoCFM: run the demo, the tests or QGIS with the plugin; make the plugin zip.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
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
        help="install the engine, then train, map, sample, rank targets and evaluate on the sample",
    )
    demonstrate.add_argument(
        "--out", type=Path, default=ROOT / "demo_output", help="folder of the results"
    )
    demonstrate.add_argument(
        "--minutes", type=float, default=3.0, help="time for training (default: 3)"
    )
    check = commands.add_parser(
        "test",
        parents=[torch],
        help="install what the tests need (also QGIS, with apt) and run all of them",
        epilog="All other arguments go to pytest, e.g. `build.py test tests/plugin -k style`.",
    )
    check.add_argument(
        "--without-qgis", action="store_true", help="leave out the tests that need QGIS"
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
    session = commands.add_parser(
        "qgis",
        parents=[torch],
        help="start QGIS with the plugin and the sample data, in a profile thrown away after",
    )
    session.add_argument("--language", metavar="CODE", help="language of QGIS, e.g. de")
    for name, does in (
        ("screenshots", "take the pictures of the tutorial in a real QGIS"),
        ("report", "make pictures of the sample's report, as a browser shows it"),
    ):
        pictures = commands.add_parser(name, parents=[torch], help=does)
        pictures.add_argument(
            "--out",
            type=Path,
            default=ROOT / "docs" / "images",
            help="folder of the pictures (default: docs/images)",
        )
    speak = commands.add_parser(
        "translate", help="bring the translations up to date with the texts"
    )
    speak.add_argument("--language", metavar="CODE", help="begin one into this language too")
    return parser


def _https_or_none(index: str) -> str:
    if index == "none" or index.startswith("https://"):
        return index
    raise argparse.ArgumentTypeError("give an address that starts with https://, or `none`")


def _shown(path: Path) -> str:
    """Give a path as short as it can be said from the current folder."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


if __name__ == "__main__":
    if sys.version_info < OLDEST_PYTHON:
        sys.exit("GeoCFM needs Python 3.10 or newer; please run build.py with that one.")
    sys.exit(main())
