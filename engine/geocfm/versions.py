"""What made a file or speaks on a channel: versions, told without importing anything heavy."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import geocfm

PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "rasterio", "shapely", "pyogrio")
"""What numbers depend on, by their names for pip."""


def software_versions() -> dict[str, str]:
    """For provenance, and for the first event of a job."""
    versions = {"geocfm": geocfm.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "missing"
    return versions
