"""The packages that the engine needs. This module itself needs none: it says which are missing."""

from __future__ import annotations

from importlib.util import find_spec

# as they are imported, the heaviest first; engine/pyproject.toml has the names for pip
PACKAGES = (
    *("torch", "numpy", "scipy", "sklearn", "rasterio", "shapely", "pyogrio", "ot", "psutil"),
    *("filelock", "safetensors", "pydantic", "typer", "rich", "matplotlib"),
)
INSTALL = (
    "Install the engine's packages (in QGIS: Settings > Options > GeoCFM; on the command line: "
    "pip install ./engine)."
)


def missing_packages() -> list[str]:
    """The packages that are not there, without loading those that are."""
    return [name for name in PACKAGES if find_spec(name) is None]


def lacking(names: list[str]) -> str:
    """The sentence about packages that are not there."""
    return f"This Python lacks {', '.join(names)}."
