"""What this installation can do: its packages, versions and devices. Asked before it is trusted."""

from __future__ import annotations

import importlib
import platform
import sys
from importlib.util import find_spec

from geocfm.errors import UserError
from geocfm.events import Reporter
from geocfm.versions import software_versions

# as they are imported, the heaviest first; engine/pyproject.toml has the names for pip
PACKAGES = (
    *("torch", "numpy", "scipy", "sklearn", "rasterio", "shapely", "pyogrio", "ot", "psutil"),
    *("filelock", "safetensors", "pydantic", "typer", "rich", "matplotlib"),
)
INSTALL = (
    "Install the engine's packages (in QGIS: Settings > Options > GeoCFM; on the command line: "
    "pip install ./engine)."
)


def examine(reporter: Reporter) -> None:
    """Load every package, and tell versions and devices; what is missing or broken is an error."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        _report(reporter, [], missing)
        raise UserError(f"This Python lacks {', '.join(missing)}.", INSTALL)
    for name in PACKAGES:
        try:
            importlib.import_module(name)
        except ImportError as error:
            _report(reporter, [], [name])
            raise unloadable(error, name) from error
    devices = _devices()
    _report(reporter, devices, [])
    reporter.note(f"Python {platform.python_version()} at {sys.executable}.")
    versions = software_versions()
    reporter.note(", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    for device in devices:
        reporter.note(f"Device {device['name']}: {device['description']}.")


def unloadable(error: ImportError, package: str | None = None) -> UserError:
    """The sentence for a package that is missing, or there and cannot be loaded."""
    name = package or (error.name or "").split(".")[0] or "of a package"
    if isinstance(error, ModuleNotFoundError):
        return UserError(f"This Python lacks {name}.", INSTALL)
    hint = INSTALL
    if sys.platform == "win32" and "DLL" in str(error):
        hint = (
            "Install the Microsoft Visual C++ Redistributable (x64), or set the engine up anew in "
            "a Python that is not QGIS's or Conda's."
        )
    said = " ".join(str(error).split())[:200]
    return UserError(f"The package {name} is there but cannot be loaded: {said}", hint)


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
