"""The folder of an environment that the plugin made: how far it is, and how it goes away again."""

import json
import os
import shutil
from pathlib import Path

from qgis.PyQt.QtCore import QStandardPaths

from ..bundle import plugin_version
from ..child_environment import IS_WINDOWS
from ..translation import tr
from .problem import EnvironmentProblem
from .requirements import fingerprint

ABSENT, FOREIGN, HALF_MADE, BROKEN, OUTDATED, FINISHED = (
    *("absent", "foreign", "half made", "broken", "outdated", "finished"),
)
SIGN = "made-by-geocfm.json"  # written first: this folder may be removed
RECORD = "finished.json"  # written last: this environment is complete
SIGN_TEXT = (
    "The GeoCFM plugin made this folder for its engine. Remove it in QGIS: Settings > Options > "
    "GeoCFM."
)


class Place:
    """The folder of one environment. Only what lies under the names below is ever touched."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.venv = self.folder / "venv"
        self.downloads = self.folder / "downloads"  # pip's temporary files: /tmp is often too small
        self.standalone = self.folder / "python"  # a Python that uv fetched
        self.uv = self.folder / "uv"  # uv itself, and what it keeps
        self.record = self.folder / RECORD
        self.sign = self.folder / SIGN

    @property
    def python(self):
        """Give the path of the environment's Python."""
        return self.venv / ("Scripts/python.exe" if IS_WINDOWS else "bin/python")

    def state(self):
        """Tell how far the environment is, by its files alone."""
        if not self.sign.is_file():
            return FOREIGN if _holds_something(self.folder) else ABSENT
        record = _read(self.record)
        if not record:
            return HALF_MADE
        if not self.python.is_file() or not os.path.isdir(self.base()):
            return BROKEN  # its base Python was updated or removed
        return FINISHED if record.get("fingerprint") == fingerprint() else OUTDATED

    def build(self):
        """Give the build of PyTorch that the environment was begun with."""
        return _read(self.sign).get("build", "")

    def base(self):
        """Give the folder of the Python that the environment was made from."""
        try:
            lines = (self.venv / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError):
            return ""
        values = dict(line.split(" = ", 1) for line in lines if " = " in line)
        return values.get("home", "")

    def claim(self, build):
        """Make the folder and sign it as ours; refuse one with other files in it."""
        if self.state() == FOREIGN:
            raise EnvironmentProblem(
                tr("The folder {folder} holds other files.").format(folder=self.folder),
                tr("Choose a new or an empty folder for the engine."),
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            sign = {"note": SIGN_TEXT, "build": build}
            self.sign.write_text(json.dumps(sign), encoding="utf-8")
        except OSError as error:
            raise EnvironmentProblem(
                tr("The folder {folder} cannot be written.").format(folder=self.folder),
                tr("Choose a folder in which you may make files."),
                str(error),
            ) from error

    def finish(self):
        """Record that the environment is complete, and for which requirements."""
        unfinished = self.record.with_suffix(".unfinished")
        record = {"plugin": plugin_version(), "fingerprint": fingerprint()}
        unfinished.write_text(json.dumps(record), encoding="utf-8")
        unfinished.replace(self.record)

    def unfinish(self):
        """From here on, until finish(), the environment counts as half made."""
        if self.record.is_file():
            self.record.unlink()

    def clear_downloads(self):
        """Throw temporary files away; what resists is taken the next time."""
        shutil.rmtree(self.downloads, ignore_errors=True)

    def remove(self):
        """Delete what the plugin made, and the folder if nothing else is in it."""
        if not self.sign.is_file():
            raise EnvironmentProblem(
                tr("The folder {folder} was not made by GeoCFM and stays as it is.").format(
                    folder=self.folder
                ),
                tr("If it is no longer needed, delete it yourself."),
            )
        try:
            # the sign goes last, so that a removal that was interrupted can go on
            ours = [self.record, self.downloads, self.uv, self.venv, self.standalone, self.sign]
            for path in ours:
                _delete(path)
            if not any(self.folder.iterdir()):
                self.folder.rmdir()
        except OSError as error:
            raise EnvironmentProblem(
                tr("Some files in {folder} could not be deleted.").format(folder=self.folder),
                tr("End the running jobs of GeoCFM in all QGIS windows and try again."),
                str(error),
            ) from error

    def free_bytes(self):
        """Give the free space on the disk of the folder, or None if it cannot be told."""
        for folder in (self.folder, *self.folder.parents):
            if folder.is_dir():
                try:
                    return shutil.disk_usage(folder).free
                except OSError:
                    return None
        return None


def default_folder():
    """Give the folder offered for the environment: local to this computer, not roaming."""
    location = QStandardPaths.StandardLocation.GenericDataLocation
    return str(Path(QStandardPaths.writableLocation(location), "geocfm", "engine"))


def is_inside(path, folder):
    """Tell whether a path lies in a folder, by their names: links are not followed."""
    inside = os.path.normcase(os.path.abspath(path)) if path else ""
    return inside.startswith(os.path.normcase(os.path.abspath(folder)).rstrip(os.sep) + os.sep)


def _holds_something(folder):
    if not folder.exists() and not folder.is_symlink():
        return False
    try:
        return any(folder.iterdir())
    except OSError:  # a file, or a folder that is not ours to read
        return True


def _delete(path):
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.is_dir():
        shutil.rmtree(path)


def _read(path):
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
