"""What the plugin remembers on this computer, in QGIS's settings."""

import json
import os

from qgis.core import QgsSettings

PREFIX = "geocfm"
PYTHON_VARIABLE = "GEOCFM_PYTHON"  # for qgis_process on servers: outweighs the setting


def _get(key, default=""):
    return QgsSettings().value(f"{PREFIX}/{key}", default, type=str)


def _set(key, value):
    QgsSettings().setValue(f"{PREFIX}/{key}", value)


def engine_python():
    """Give the path of the Python that runs the engine, or an empty text."""
    return os.environ.get(PYTHON_VARIABLE) or _get("python")


def set_engine_python(path):
    """Remember the Python that runs the engine."""
    _set("python", str(path))


def default_device():
    """Give the device that new jobs use: auto, cpu, cuda, cuda:1 or mps."""
    return _get("device", "auto")


def set_default_device(device):
    """Remember the device for new jobs."""
    _set("device", device)


def results_folder():
    """Give the folder for results, or an empty text for one beside the project."""
    return _get("results_folder")


def set_results_folder(folder):
    """Remember the folder for results."""
    _set("results_folder", str(folder))


def environment_folder():
    """Give the folder of the environment that the plugin made or would make; empty: the default."""
    return _get("environment_folder")


def set_environment_folder(folder):
    """Remember where the plugin made an environment."""
    _set("environment_folder", str(folder))


def package_index():
    """Give the address of the user's own package index, or an empty text."""
    return _get("package_index")


def set_package_index(address):
    """Remember a package index; not one with a password in it, as settings are plain text."""
    _set("package_index", "" if "@" in address else address)


def wheels_folder():
    """Give the folder of wheels to install from without a network, or an empty text."""
    return _get("wheels_folder")


def set_wheels_folder(folder):
    """Remember the folder of wheels."""
    _set("wheels_folder", str(folder))


def known_engine():
    """Give what the engine's Python last said of itself: {"python", "versions", "devices"}."""
    try:
        known = json.loads(_get("known_engine"))
    except ValueError:
        return {}
    return known if isinstance(known, dict) else {}


def set_known_engine(python, versions, devices):
    """Remember versions, and devices as pairs of name and description."""
    devices = [list(device) for device in devices]
    known = {"python": str(python), "versions": dict(versions), "devices": devices}
    _set("known_engine", json.dumps(known))


def known_devices():
    """Give (name, description) of each device of the engine that is in use, if it was asked."""
    known = known_engine()
    if known.get("python") != engine_python():
        return []
    return [tuple(device) for device in known.get("devices", []) if len(device) == 2]
