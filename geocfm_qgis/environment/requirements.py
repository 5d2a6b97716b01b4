"""What the engine needs installed: read from its pyproject.toml and the plugin's constraints."""

import hashlib
import re

from ..bundle import constraints_file, engine_folder

# QGIS's Python may have no TOML reader. The list holds one quoted requirement per line, and a
# comment after it; a bracket can stand inside the quotes ("package[extra]").
DEPENDENCIES = re.compile(r"^dependencies\s*=\s*\[\s*$(.*?)^\]", re.MULTILINE | re.DOTALL)
REQUIREMENT = re.compile(r"""^\s*(?P<mark>["'])(?P<text>.+?)(?P=mark)\s*,?\s*(\#.*)?$""")


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
