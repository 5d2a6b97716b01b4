"""The Pythons on this computer from which an environment can be made."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from ..bundle import engine_folder
from ..child_environment import installer_environment, popen_options
from ..translation import tr
from .python_places import ANSWER_SECONDS, TRIED, likely_pythons, qgis_pythons

OLDEST = (3, 10)
QUESTION = """
import importlib.util, json, os, platform, sys, sysconfig
has = lambda name: importlib.util.find_spec(name) is not None
print(json.dumps({
    "version": platform.python_version(),
    "executable": sys.executable,
    "base": os.path.realpath(sys.base_prefix),
    "bits": 64 if sys.maxsize > 2**32 else 32,
    "venv": has("venv") and has("ensurepip"),
    "pip": has("pip"),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


@dataclass(frozen=True)
class FoundPython:
    """A Python that answered; `problem` is the sentence why no environment can be made from it."""

    path: str
    version: str
    base: str  # the folder it is installed in; one Python is often found under several names
    has_pip: bool
    of_qgis: bool = False
    problem: str = ""

    @property
    def minor(self):
        """Give the version that wheels are made for, as (3, 12)."""
        major, minor = self.version.split(".")[:2]
        return int(major), int(minor)

    @property
    def label(self):
        """Give its version and place, as the user is shown it."""
        owner = tr("Python {version}, of QGIS") if self.of_qgis else tr("Python {version}")
        return f"{owner.format(version=self.version)}  ({self.path})"


def find_pythons(is_cancelled=None, variables=None, of_qgis=None):
    """Give every Python found, the most suitable first; those with a problem come last."""
    variables = installer_environment(proxy="") if variables is None else variables
    own = qgis_pythons() if of_qgis is None else of_qgis
    candidates = [(path, False) for path in likely_pythons(variables)]
    candidates += [(path, True) for path in own]
    found, asked = {}, set()
    for path, is_own in candidates:
        if is_cancelled is not None and is_cancelled():
            break
        place = os.path.normcase(os.path.abspath(path))
        if place in asked:
            continue
        asked.add(place)
        python = ask(path, variables, of_qgis=is_own)
        if python is not None:
            found.setdefault((python.base, python.version), python)
    return sorted(found.values(), key=_rank)


def ask(path, variables=None, of_qgis=False):
    """Run a Python to learn what it is; None if it does not answer as a Python does."""
    variables = installer_environment(proxy="") if variables is None else variables
    try:
        answer = subprocess.run(
            [path, "-I", "-c", QUESTION],  # -I: no module of the current folder
            env=variables,
            cwd=str(engine_folder()),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ANSWER_SECONDS,
            check=False,
            **popen_options(),
        )
        content = json.loads(answer.stdout.decode("utf-8").strip().splitlines()[-1])
        return FoundPython(
            path=content["executable"]
            or str(path),  # not a shim, which may lead elsewhere tomorrow
            version=content["version"],
            base=content["base"],
            has_pip=content["pip"],
            of_qgis=of_qgis,
            problem=_problem(content),
        )
    except (OSError, subprocess.TimeoutExpired, ValueError, LookupError, TypeError):
        return None


def _problem(content):
    version = tuple(int(part) for part in content["version"].split(".")[:2])
    if version < OLDEST:
        return tr("It is too old: the engine needs Python 3.10 or newer.")
    if content["bits"] != 64:
        return tr("It is a 32-bit Python, and PyTorch comes for 64 bits only.")
    if content["free_threaded"]:
        return tr("It is a free-threaded build, for which some packages do not come yet.")
    if "windowsapps" in content["base"].lower():
        return tr(
            "It comes from the Microsoft Store, which moves the files that it writes to another "
            "place."
        )
    if not content["venv"]:
        return tr(
            "It cannot make environments because its modules venv and ensurepip are missing. On "
            "Debian and Ubuntu the command sudo apt install python3-venv brings them."
        )
    return ""


def _rank(python):
    tried = TRIED.index(python.minor) if python.minor in TRIED else len(TRIED)
    # conda's keeps libraries where only an activated conda finds them; QGIS's goes with its update
    is_conda = Path(python.base, "conda-meta").is_dir()
    return bool(python.problem), is_conda or python.of_qgis, tried
