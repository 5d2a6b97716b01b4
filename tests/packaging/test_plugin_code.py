"""The plugin's code runs in every QGIS from 3.22 to 4: old Pythons, Qt 5 and Qt 6."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "geocfm_qgis").rglob("*.py"))
LONGEST_FILE = 400
OLDEST_PYTHON = (3, 9)  # of QGIS 3.22 to 3.34 on Windows and macOS
NEWER_ARGUMENTS = {  # a function: its arguments that Python 3.9 does not know
    "zip": {"strict"},
    "dataclass": {"slots", "kw_only", "match_args"},
    "TemporaryDirectory": {"ignore_cleanup_errors"},
    "write_text": {"newline"},
    "read_text": {"newline"},
}
NOT_IN_QT6 = {"exec_", "QRegExp", "QDesktopWidget", "loadUiType"}


def problems(code):
    """Everything in a file that an old Python or one of the two Qts cannot do."""
    try:
        tree = ast.parse(code, feature_version=OLDEST_PYTHON)
    except SyntaxError as error:
        return [f"line {error.lineno}: {error.msg}"]
    deferred = "from __future__ import annotations" in code
    from_qgis, parents = _from_qgis(tree), _parents(tree)
    return [
        f"line {node.lineno}: {problem}"
        for node in ast.walk(tree)
        for problem in [
            *_old_python(node, deferred),
            *_unscoped(node, from_qgis, parents),
            *_gone_in_qt6(node),
        ]
    ]


def _old_python(node, deferred):
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        for keyword in node.keywords:
            if keyword.arg in NEWER_ARGUMENTS.get(name, ()):
                yield f"{name}({keyword.arg}=) is not in Python 3.9"
        if name in ("isinstance", "issubclass") and isinstance(node.args[-1], ast.BinOp):
            yield "X | Y is no type in Python 3.9"
    annotations = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    for annotation in filter(None, annotations):
        if not deferred and any(isinstance(part, ast.BitOr) for part in ast.walk(annotation)):
            yield "X | Y is no type in Python 3.9"


def _unscoped(node, from_qgis, parents):
    """Class.Member where Qt 6 wants Class.Enum.Member; CONSTANTS and calls are none of these."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return
    parent = parents[node]
    name = f"{node.value.id}.{node.attr}"
    deeper = isinstance(parent, ast.Attribute)
    called = isinstance(parent, ast.Call) and parent.func is node
    if node.value.id not in from_qgis or deeper or called:
        return
    if node.value.id == "Qt" or (node.attr[0].isupper() and not node.attr.isupper()):
        yield f"{name} has no scope"


def _gone_in_qt6(node):
    names = [getattr(node, "attr", None), getattr(node, "id", None)]
    if isinstance(node, ast.alias):
        names.append(node.name)
    yield from (f"{name} is not in Qt 6" for name in names if name in NOT_IN_QT6)


def _from_qgis(tree):
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("qgis")
        for alias in node.names
    }


def _parents(tree):
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_qgis_can_run_it(path):
    code = path.read_text(encoding="utf-8")
    assert problems(code) == []
    assert len(code.splitlines()) < LONGEST_FILE


@pytest.mark.parametrize(
    "code",
    [
        "match a:\n    case 1:\n        pass",
        "def f(a: int | None): pass",
        "isinstance(a, int | str)",
        "zip(a, b, strict=True)",
        "from qgis.PyQt.QtCore import Qt\na = Qt.Checked",
        "from qgis.PyQt.QtCore import Qt\na = Qt.transparent",
        "from qgis.PyQt.QtWidgets import QMessageBox\nask(QMessageBox.Yes | QMessageBox.No)",
        "from qgis.core import Qgis\na = Qgis.Info",
        "dialog.exec_()",
    ],
)
def test_what_some_qgis_cannot_run_is_found(code):
    assert problems(code)


def test_what_all_can_run_is_left_alone():
    code = (
        "from __future__ import annotations\n"
        "from qgis.core import Qgis, QgsProcessing, QgsProject\n"
        "from qgis.PyQt.QtCore import Qt\n"
        "def f(a: int | None): pass\n"
        "a = [Qt.CheckState.Checked, Qgis.MessageLevel.Info, QgsProcessing.TEMPORARY_OUTPUT]\n"
        "a += [QgsProject.instance(), Qgis.QGIS_VERSION_INT, zip(a, a)]\n"
    )
    assert problems(code) == []
