"""Where Pythons lie on this computer: on the path, where installers put them, and inside QGIS."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from qgis.core import QgsApplication

from ..child_environment import IS_WINDOWS, popen_options

try:
    import winreg
except ImportError:  # not on Windows
    winreg = None

TRIED = ((3, 11), (3, 12), (3, 13), (3, 10))  # best first; the engine's packages come for all four
ANSWER_SECONDS = 20  # a first start from a network drive, under a virus scanner
IS_MACOS = sys.platform == "darwin"
FOLDERS = ("/opt/homebrew/bin", "/usr/local/bin")  # a program started by a click may not have them
FRAMEWORK = "/Library/Frameworks/Python.framework/Versions"  # python.org's on macOS
APPLE_STUB = "/usr/bin/python3"


def likely_pythons(variables):
    """Give the paths of all that may be Pythons; none of them is started."""
    folders = [each for each in variables.get("PATH", "").split(os.pathsep) if each]
    if not IS_WINDOWS:
        folders += [*FOLDERS, *map(str, sorted(Path(FRAMEWORK).glob("*/bin")))]
    paths = _in_folders(folders)
    if IS_WINDOWS:
        paths += [*_of_launcher(variables), *_of_registry(), *_of_user(variables)]
    if IS_MACOS and APPLE_STUB in paths and not _has_developer_tools():
        paths.remove(APPLE_STUB)  # started, it would offer to install Apple's tools
    return paths


def qgis_pythons():
    """Give where the Python inside QGIS may lie; sys.executable is often QGIS itself."""
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    roots = [sys.base_prefix, sys.prefix, QgsApplication.prefixPath()]
    if IS_WINDOWS:
        places = [Path(root, "python.exe") for root in roots]
        places += [Path(root, "bin", "python3.exe") for root in roots]
    else:
        places = [Path(root, "bin", each) for root in roots for each in (name, "python3")]
    return [str(place) for place in dict.fromkeys(places) if place.is_file()]


def launcher_paths(listing):
    """Give the paths in what `py -0p` prints: ` -V:3.12 *  C:\\Python312\\python.exe`."""
    paths = []
    for line in listing.splitlines():
        mark, _, rest = line.strip().partition(" ")
        path = rest.strip().lstrip("*").strip()
        if mark.startswith("-") and path.lower().endswith(".exe"):
            paths.append(path)
    return paths


def _in_folders(folders):
    names = [f"python{major}.{minor}" for major, minor in TRIED] + ["python3", "python"]
    if IS_WINDOWS:
        names = [f"{name}.exe" for name in names]
    places = [Path(folder, name) for name in names for folder in dict.fromkeys(folders)]
    return [str(place) for place in places if place.is_file() and os.access(place, os.X_OK)]


def _has_developer_tools():
    answer = _answer(["/usr/bin/xcode-select", "-p"])
    return answer is not None and answer.returncode == 0


def _of_launcher(variables):
    """Give the Pythons that Windows's `py` launcher knows."""
    listed = _answer(["py", "-0p"], env=variables)
    return launcher_paths(listed.stdout.decode("utf-8", "replace")) if listed else []


def _of_user(variables):
    """Give the Pythons that python.org's installer put into the user's own folder on Windows."""
    root = Path(variables.get("LOCALAPPDATA", ""), "Programs", "Python")
    return [str(path) for path in sorted(root.glob("Python3*/python.exe"), reverse=True)]


def _of_registry():
    """Give the Pythons that are registered with Windows as PEP 514 says."""
    if winreg is None:
        return []
    paths = []
    for root in (winreg.HKEY_CURRENT_USER, winreg.HKEY_LOCAL_MACHINE):
        for company in _keys_below(root, r"Software\Python"):
            for tag in _keys_below(root, rf"Software\Python\{company}"):
                key = rf"Software\Python\{company}\{tag}\InstallPath"
                paths += _registered_in(root, key)
    return [path for path in paths if os.path.isfile(path)]


def _keys_below(root, path):
    names = []
    with suppress(OSError), winreg.OpenKey(root, path) as key:
        while True:  # until an OSError says that there are no more
            names.append(winreg.EnumKey(key, len(names)))
    return names


def _registered_in(root, path):
    with suppress(OSError), winreg.OpenKey(root, path) as key:
        with suppress(OSError):
            return [winreg.QueryValueEx(key, "ExecutablePath")[0]]
        return [os.path.join(winreg.QueryValue(key, None), "python.exe")]
    return []


def _answer(command, **options):
    """Run a program of the system's; None if it is not there or does not answer."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_SECONDS,
            check=False,
            **options,
            **popen_options(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
