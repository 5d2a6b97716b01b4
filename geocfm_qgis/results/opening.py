"""Files and folders in the programs that the computer has for them.

A path may come from a project that somebody else has made. So no program is started by it: what is
opened is a page or a picture of a run's own folder, or that folder.
"""

from __future__ import annotations

import os

from qgis.PyQt.QtCore import QUrl
from qgis.PyQt.QtGui import QDesktopServices

from ..runs.own_files import is_plain_folder, own_file

PAGE, PICTURE = ".html", ".png"


def can_open(path, folder, suffix=PAGE):
    """Whether a path is that of a page, or of a picture, in the folder of its run."""
    real = own_file(path, folder)
    return os.path.isfile(real) and all(
        each.lower().endswith(suffix) and ":" not in os.path.splitdrive(each)[1]  # a hidden stream
        for each in (path, real)
    )


def open_report(path, folder):
    """Show the report of a run, which lies in its folder, in the browser."""
    _open(path, folder, PAGE)


def open_picture(path, folder):
    """Show a picture of a run, which lies in its folder."""
    _open(path, folder, PICTURE)


def open_folder(folder):
    """Show the files of a folder."""
    if is_plain_folder(folder):
        QDesktopServices.openUrl(QUrl.fromLocalFile(folder))


def _open(path, folder, suffix):
    if can_open(path, folder, suffix):
        QDesktopServices.openUrl(QUrl.fromLocalFile(own_file(path, folder)))
