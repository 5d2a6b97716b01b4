"""What this installation can do: its packages, versions and devices. Asked before it is trusted."""

from __future__ import annotations

import importlib
import platform
import sys

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.packages import INSTALL, PACKAGES, lacking, missing_packages
from geocfm.versions import software_versions


def examine(reporter: Reporter) -> None:
    """Load every package, and tell versions and devices; what is missing or broken is an error."""
    missing = missing_packages()
    if missing:
        _report(reporter, [], missing)
        raise UserError(lacking(missing), INSTALL)
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except Exception as error:  # packages that do not fit each other raise anything
            _report(reporter, [], [name])
            raise unloadable(error, name) from error
    devices = _devices()
    _report(reporter, devices, [])
    reporter.note(f"Python {platform.python_version()} at {sys.executable}.")
    versions = software_versions()
    reporter.note(", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    for device in devices:
        reporter.note(f"Device {device['name']}: {device['description']}.")


def unloadable(error: Exception, package: str | None = None) -> UserError:
    """The sentence for a package that is missing, or there and cannot be loaded."""
    unfound = isinstance(error, ImportError) and (error.name or "").split(".")[0]
    if isinstance(error, ModuleNotFoundError) and (unfound or package):
        return UserError(lacking([str(unfound or package)]), INSTALL)
    name = package or unfound
    what = f"The package {name}" if name else "A package"
    hint = INSTALL
    if sys.platform == "win32" and "DLL" in str(error):
        hint = (
            "Install the Microsoft Visual C++ Redistributable (x64), or set the engine up anew in "
            "a Python that is not QGIS's or Conda's."
        )
    said = " ".join(str(error).split())[:200]
    return UserError(f"{what} is there but cannot be loaded: {said}", hint)


def _devices() -> list[dict[str, object]]:
    import psutil
    import torch

    from geocfm.model.device import choose_device, describe_device

    names = ["cpu", *(f"cuda:{number}" for number in range(torch.cuda.device_count()))]
    if choose_device("auto").type == "mps":
        names.append("mps")
    found: list[dict[str, object]] = []
    for name in names:
        device = torch.device(name)
        if device.type == "cuda":
            memory = int(torch.cuda.get_device_properties(device).total_memory)
        else:
            memory = int(psutil.virtual_memory().total)
        described = describe_device(device)
        found.append({"name": name, "description": described, "memory_bytes": memory})
    return found


def _report(reporter: Reporter, devices: list[dict[str, object]], missing: list[str]) -> None:
    reporter.report(
        "engine",
        {
            "versions": software_versions(),
            "python": platform.python_version(),
            "executable": sys.executable,
            "devices": devices,
            "missing": missing,
        },
    )
