"""Files and folders in the programs that the computer has for them."""

from __future__ import annotations

from qgis.PyQt.QtCore import QUrl
from qgis.PyQt.QtGui import QDesktopServices


def open_on_desktop(path):
    """Open a file or folder in the program that the computer has for it."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(path))
