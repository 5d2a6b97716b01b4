"""Check by hand that every name of Qt that the plugin uses is also in Qt 6, the Qt of QGIS 4.

Not among the tests, since PyQt6 takes 260 MB:

    python3 -m venv /tmp/pyqt6 && /tmp/pyqt6/bin/pip install PyQt6
    /tmp/pyqt6/bin/python tests/packaging/qt6_names.py
"""

import ast
import importlib
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from PyQt6.QtCore import PYQT_VERSION_STR
from PyQt6.uic.enum_map import EnumMap

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "qgis.PyQt"
SHIMS = {("QtWidgets", "QAction"): "QtGui"}  # qgis.PyQt gives it from both


def main():
    """Say how many names were looked up, and which are not there."""
    looked_up, missing = set(), []
    for path in sorted((ROOT / "geocfm_qgis").rglob("*.py")):
        for line, name, found in names_of_code(path):
            looked_up.add(name)
            if not found:
                missing.append(f"{path.relative_to(ROOT)}, line {line}: {name}")
    for path in sorted((ROOT / "resources" / "forms").glob("*.ui")):
        for name, found in names_of_form(path):
            looked_up.add(name)
            if not found:
                missing.append(f"{path.relative_to(ROOT)}: {name}")
    print(f"{len(looked_up)} names of Qt, PyQt6 {PYQT_VERSION_STR}: {len(missing)} missing")
    print("\n".join(missing))
    return 1 if missing else 0


def names_of_code(path):
    """Give every imported name and every Class.Enum.Member, and whether PyQt6 has it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(PREFIX):
            module = node.module[len(PREFIX) + 1 :]
            for alias in node.names:
                home = SHIMS.get((module, alias.name), module)
                found = _imported(home, alias.name)
                imported[alias.asname or alias.name] = found
                yield node.lineno, f"{module}.{alias.name}", found is not None
    for node in ast.walk(tree):
        names = _chain(node)
        if names and imported.get(names[0]) is not None:
            value = imported[names[0]]
            for name in names[1:]:
                value = getattr(value, name, None)
            yield node.lineno, ".".join(names), value is not None


def names_of_form(path):
    """Give every value of an enumeration in a form, and whether PyQt6's reader knows it."""
    for element in ET.parse(path).getroot().iter():
        if element.tag in ("enum", "set"):
            for name in (element.text or "").split("|"):
                known = name in EnumMap
                if not known and "::" in name:
                    kind, member = name.rsplit("::", 1)
                    widget = _imported("QtWidgets", kind.split("::")[0])
                    known = any(
                        member in getattr(value, "__members__", {})
                        for value in vars(widget or object).values()
                    )
                    # a QGIS widget's own enumeration cannot be asked for without QGIS 4
                    known = known or kind.startswith("Qgs")
                yield name, known


def _imported(module, name):
    try:
        if not module:  # from qgis.PyQt import uic
            return importlib.import_module(f"PyQt6.{name}")
        return getattr(importlib.import_module(f"PyQt6.{module}"), name, None)
    except ImportError:
        return None


def _chain(node):
    names = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) and names else []


if __name__ == "__main__":
    sys.exit(main())
