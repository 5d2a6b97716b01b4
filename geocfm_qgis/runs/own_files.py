"""What a record says of files may be a stranger's: a project comes by mail, with its history.

Only files in the run's own folder are the run's, and no other computer is asked for them but one
that keeps the project, or the results, anyway.
"""

from __future__ import annotations

import os

from .. import settings

BUNDLES = (".app", ".bundle", ".workflow", ".pkg", ".mpkg", ".prefpane")  # macOS starts these


def is_far(path, project):
    """Whether a path leads to another computer: just to look there tells it who the user is."""
    share = _share(path)
    near = (project.homePath(), settings.results_folder())
    return bool(share) and share not in (_share(each) for each in near)


def own_file(path, folder):
    """Give where a path of the run's folder leads to, or an empty text if that is outside of it."""
    if not folder or not os.path.isabs(path) or not os.path.isabs(folder):
        return ""
    place, real = os.path.realpath(folder), os.path.realpath(path)
    is_inside = os.path.normcase(real).startswith(os.path.normcase(os.path.join(place, "")))
    return real if is_inside and os.path.exists(real) else ""


def is_plain_folder(path):
    """Whether a path is that of a folder, and not of a program that looks like one."""
    if not os.path.isabs(path) or not os.path.isdir(path):
        return False
    real = os.path.realpath(path)
    looks = (each.lower().endswith(BUNDLES) for each in (path.rstrip("\\/"), real))
    return not any(looks) and not os.path.isdir(os.path.join(real, "Contents"))


def _share(path):
    """Give the computer and the share of a path of Windows's network, or an empty text."""
    parts = path.replace("\\", "/").split("/")
    return "/".join(parts[2:4]).casefold() if parts[:2] == ["", ""] else ""
