"""What the engine needs installed: read from its pyproject.toml and the plugin's constraints."""

import hashlib
import re

from ..bundle import constraints_file, engine_folder

# QGIS's Python may have no TOML reader. The list holds one quoted requirement per line, and a
# comment after it; a bracket can stand inside the quotes ("package[extra]").
DEPENDENCIES = re.compile(r"^dependencies\s*=\s*\[\s*$(.*?)^\]", re.MULTILINE | re.DOTALL)
REQUIREMENT = re.compile(r"""^\s*(?P<mark>["'])(?P<text>.+?)(?P=mark)\s*,?\s*(\#.*)?$""")

NAME = re.compile(r"\s*[\w.-]+")
PYTHON_MARKER = re.compile(r"""python_version\s*(?P<sign>>=|<)\s*["'](?P<bound>[\d.]+)["']""")


class RequirementsUnreadable(Exception):
    """The plugin's folder lacks what says which packages the engine needs."""


def engine_requirements(text=None):
    """Give the requirements of the engine as pip takes them."""
    if text is None:
        text = (engine_folder() / "pyproject.toml").read_text(encoding="utf-8")
    project = re.search(r"^\[project\]\s*$(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL)
    listed = DEPENDENCIES.search(project.group(1) if project else "")
    if not listed:
        raise RequirementsUnreadable("pyproject.toml")
    requirements = []
    for line in listed.group(1).splitlines():
        if not line.strip() or line.strip().startswith("#"):
            continue
        found = REQUIREMENT.match(line)
        if not found:
            raise RequirementsUnreadable(line.strip())
        requirements.append(found.group("text"))
    return tuple(requirements)


def pinned_for(requirement, version, text=None):
    """Give a requirement as the constraints pin it for a Python such as (3, 11).

    An empty text is one that is not needed there; what is not pinned stays as it is.
    """
    if text is None:
        text = constraints_file().read_text(encoding="utf-8")
    bare, _, marker = requirement.partition(";")
    if not _applies(marker, version):
        return ""
    name = NAME.match(bare)[0]
    for line in text.splitlines():
        pin, _, marker = line.split("#")[0].partition(";")
        if _plain(pin.split("==")[0]) == _plain(name) and _applies(marker, version):
            return pin.strip()
    return bare.strip()


def _applies(marker, version):
    """Tell whether a marker such as `python_version >= "3.11"` holds; none always does."""
    found = PYTHON_MARKER.search(marker)
    if not found:
        return True
    bound = tuple(int(part) for part in found["bound"].split("."))
    return version >= bound if found["sign"] == ">=" else version < bound


def _plain(name):
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def pinned(package, text=None):
    """Give the line of the constraints that pins a package, as `torch==2.13.0`."""
    if text is None:
        text = constraints_file().read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.lower().startswith(f"{package.lower()}=="):
            return line.split(";")[0].split("#")[0].strip()
    raise RequirementsUnreadable(package)


def fingerprint():
    """Give a short text that changes when a new version of the plugin needs other packages."""
    content = hashlib.sha256("\n".join(engine_requirements()).encode("utf-8"))
    content.update(constraints_file().read_bytes())
    return content.hexdigest()[:16]
