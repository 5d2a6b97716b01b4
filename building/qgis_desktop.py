"""QGIS itself: where it is, how it is installed, and how it starts with the plugin in it.

The profile is one of its own in a folder given, so that the user's QGIS is left as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

QGIS_VARIABLE = "GEOCFM_QGIS"  # the program QGIS, where it is not found by itself
PYTHON_VARIABLE = "GEOCFM_QGIS_PYTHON"  # the Python that can import qgis.core
PROBE_TIMEOUT_S = 60

APT_PACKAGES = (
    *("qgis", "python3-qgis", "qgis-providers"),  # the desktop, qgis_process and PyQGIS
    *("xvfb", "xauth", "openbox"),  # a screen and windows for tests on a server
    *("xdotool", "scrot"),  # presses keys there, takes pictures of it
    "python3-venv",
)
SCREEN_PROGRAMS = ("Xvfb", "openbox", "scrot")

PLUGIN = "geocfm_qgis"
SETTINGS: dict[str, dict[str, str]] = {  # no network, no welcome, nothing that asks
    "PythonPlugins": {
        PLUGIN: "true",
        "processing": "true",
        "MetaSearch": "false",
        "db_manager": "false",
    },
    "app": {
        "plugin_installer\\checkOnStart": "false",
        "firstRunVersionFlag": "9900000",
        "projections\\unknownCrsBehavior": "NoAction",
    },
    "core": {"NewsFeed\\httpsfeedqgisorg\\disabled": "true"},
    "migration": {"fileVersion": "2", "settings": "true", "firstRunVersionFlag": "9900000"},
    "qgis": {"checkVersion": "false", "showTips": "false", "askToSaveProjectChanges": "false"},
}

OPEN_SAMPLE = """
from geocfm_qgis.sample_data import add_sample_layers
from qgis.core import QgsProject
from qgis.PyQt.QtWidgets import QAction
from qgis.utils import iface

project = QgsProject.instance()
add_sample_layers(project)
project.setCrs(project.mapLayersByName("greenstone")[0].crs())
iface.mapCanvas().zoomToFullExtent()
project.setDirty(False)
iface.mainWindow().findChild(QAction, "geocfmPanelAction").trigger()
"""


def qgis_python() -> str | None:
    """Give a Python that can import QGIS, or None."""
    candidates = [os.environ.get(PYTHON_VARIABLE), "/usr/bin/python3", shutil.which("python3")]
    return next((python for python in candidates if python and _imports_qgis(python)), None)


def qgis_program() -> str | None:
    """Give the program that starts the desktop, or None."""
    if QGIS_VARIABLE in os.environ:
        return shutil.which(os.environ[QGIS_VARIABLE])
    found = shutil.which("qgis") or shutil.which("qgis-ltr")
    return found or next(map(str, _installed_programs()), None)


def missing_for_tests() -> list[str]:
    """Name what the tests in QGIS need and is not there."""
    missing = [] if qgis_python() else ["PyQGIS (a Python that can `import qgis.core`)"]
    missing += [] if qgis_program() else ["QGIS"]
    return missing + [name for name in SCREEN_PROGRAMS if not shutil.which(name)]


def apt_command() -> list[str] | None:
    """Give how apt is called without a question asked, or None where it may not be."""
    if not shutil.which("apt-get"):
        return None
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        return ["apt-get"]
    asks_nothing = shutil.which("sudo") and _succeeds(["sudo", "-n", "true"])
    return ["sudo", "-n", "apt-get"] if asks_nothing else None


def make_profile(
    folder: Path, archive: Path, settings: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Make a profile in a folder for --profiles-path, with the plugin from its zip switched on."""
    profile = folder / "profiles" / "default"
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            opened.extract(entry, profile / "python" / "plugins")
    sections = {name: dict(values) for name, values in SETTINGS.items()}
    for name, values in (settings or {}).items():
        sections.setdefault(name, {}).update(values)
    lines: list[str] = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key}={value}" for key, value in values.items()), ""]
    ini = profile / "QGIS" / "QGIS3.ini"
    ini.parent.mkdir(parents=True)
    ini.write_text("\n".join(lines), encoding="utf-8")


def profile_settings(engine_python: Path | None, language: str | None) -> dict[str, dict[str, str]]:
    """Give the settings that name the engine's Python and the language, if any."""
    settings: dict[str, dict[str, str]] = {}
    if engine_python:
        settings["geocfm"] = {"python": engine_python.as_posix()}
    if language:
        settings["locale"] = {"overrideFlag": "true", "userLocale": language}
    return settings


def start_command(program: str, folder: Path, script: Path) -> list[str]:
    """Give the command that starts QGIS with the profile in a folder and runs a script in it."""
    return [
        *(program, "--nologo", "--noversioncheck"),
        *("--profiles-path", str(folder), "--profile", "default"),
        *("--code", script.as_posix()),
    ]


def own_path(program: str) -> str:
    """Give a PATH with QGIS's folder first: QGIS takes its Python's place from the PATH.

    A virtual environment or pyenv puts another Python first, in which there is no qgis.
    """
    return os.pathsep.join([str(Path(program).parent), os.environ.get("PATH", os.defpath)])


def session_variables(program: str, folder: Path) -> dict[str, str]:
    """Give the environment of a session in a folder that is thrown away.

    Temporary files get a folder in it: QGIS takes all that lies beside them for temporary, too,
    and would ask about every layer of the profile when it ends.
    """
    temporary = folder / "temporary"
    temporary.mkdir()
    return {"PATH": own_path(program), **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))}


def _installed_programs() -> Iterator[Path]:
    if sys.platform == "darwin":
        yield from sorted(Path("/Applications").glob("QGIS*.app/Contents/MacOS/QGIS"))
    elif os.name == "nt":
        programs = Path(os.environ.get("PROGRAMFILES", "C:/Program Files"))
        yield from sorted(programs.glob("QGIS*/bin/qgis*-bin.exe"))


def _imports_qgis(python: str) -> bool:
    question = "import qgis.core, qgis.gui, qgis.PyQt.QtTest"
    return _succeeds([python, "-c", question], QT_QPA_PLATFORM="offscreen")


def _succeeds(command: list[str], **variables: str) -> bool:
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **variables},
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
