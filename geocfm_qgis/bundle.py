"""What comes with the plugin: its version, the engine's source, icons, forms, styles, sample data.

Installed, all of it lies in the plugin's folder; in the repository, beside it.
"""

import configparser
from pathlib import Path

from qgis.PyQt import uic
from qgis.PyQt.QtCore import Qt
from qgis.PyQt.QtGui import QIcon
from qgis.PyQt.QtWidgets import QLabel

PLUGIN_FOLDER = Path(__file__).resolve().parent


def _shipped(name):
    installed = PLUGIN_FOLDER / name
    return installed if installed.exists() else PLUGIN_FOLDER.parent / name


def resources_folder():
    """Give the folder of icons, forms, styles, translations, sample data and checkpoints."""
    return _shipped("resources")


def engine_folder():
    """Give the folder to put on the engine's path: the package `geocfm` lies in it."""
    return _shipped("engine")


def constraints_file():
    """Give the list of versions known to work together, for pip."""
    return _shipped("constraints.txt")


def tutorial_file():
    """Give the tutorial, with its pictures beside it."""
    return _shipped("docs") / "tutorial.md"


def plugin_version():
    """Give the version that metadata.txt states; the engine has the same."""
    metadata = configparser.ConfigParser(interpolation=None)
    metadata.read(str(_shipped("metadata.txt")), encoding="utf-8")
    return metadata["general"]["version"]


def icon(name="geocfm"):
    """Give an icon of ours by its name."""
    return QIcon(str(resources_folder() / "icons" / f"{name}.svg"))


def load_form(name, widget):
    """Fill a widget with the form `resources/forms/<name>.ui`; its parts become attributes.

    Its labels show text, and HTML only where the form says so: names may look like it.
    """
    uic.loadUi(str(resources_folder() / "forms" / f"{name}.ui"), widget)
    for label in widget.findChildren(QLabel):
        is_ours = getattr(widget, label.objectName(), None) is label
        if is_ours and label.textFormat() == Qt.TextFormat.AutoText:
            label.setTextFormat(Qt.TextFormat.PlainText)
