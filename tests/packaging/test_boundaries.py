"""What may import what, by reading the code; and that what is declared agrees with itself."""

import ast
import configparser
import re
from pathlib import Path

import pytest

from building.plugin_zip import unsafe_code

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "engine" / "geocfm"
PLUGIN = ROOT / "geocfm_qgis"

FOREIGN = {  # a folder: the top-level packages that must not be imported in it
    ENGINE: {"qgis", "PyQt5", "PyQt6", "PySide2", "PySide6", "osgeo", "processing", "geocfm_qgis"},
    PLUGIN: {
        *("torch", "rasterio", "numpy", "scipy", "sklearn", "pyogrio", "shapely", "geocfm"),
        *("PyQt5", "PyQt6", "PySide2", "PySide6", "sip"),  # qgis.PyQt is the one that is there
    },
    ENGINE / "model": {"rasterio", "pyogrio", "shapely", "affine"},
    ENGINE / "geo": {"torch"},
}
DOOR = {"job", "benchmark_job", "job_file", "job_writing", "batch", "outcome", "cli"}
LATER = {  # a room: the rooms that come after it, which it must not know
    "geo": {"model", "data", "training", "inference", "evaluation"} | DOOR,
    "model": {"geo", "data", "training", "inference", "evaluation"} | DOOR,
    "data": {"training", "inference", "evaluation"} | DOOR,
    "training": {"evaluation"} | DOOR,
    "inference": {"training", "evaluation"} | DOOR,
    "evaluation": DOOR,
}


def python_files(folder):
    return sorted(folder.rglob("*.py"))


def imports(path, folder_of_package):
    """Every module a file imports, wherever the import stands, with relative ones spelled out."""
    package = path.relative_to(folder_of_package).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", FOREIGN, ids=lambda folder: folder.name)
def test_foreign_packages_stay_out(folder):
    package_root = ROOT if folder == PLUGIN else ENGINE.parent
    found = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in python_files(folder)
        for module in imports(path, package_root)
        if module.split(".")[0] in FOREIGN[folder]
    ]
    assert found == []


@pytest.mark.parametrize("room", LATER)
def test_rooms_know_only_what_comes_before_them(room):
    found = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in python_files(ENGINE / room)
        for module in imports(path, ENGINE.parent)
        if module.startswith("geocfm.") and module.split(".")[1] in LATER[room]
    ]
    assert found == []


def test_relative_imports_are_spelled_out(tmp_path):
    path = tmp_path / "geocfm" / "geo" / "grid.py"
    path.parent.mkdir(parents=True)
    path.write_text("from ..model import flow\nfrom . import rasters\nfrom .. import job\n")
    expected = {"geocfm.model.flow", "geocfm.geo.rasters", "geocfm.job"}
    assert set(imports(path, tmp_path)) == expected


def test_no_code_is_run_from_files_or_text():
    found = []
    for path in [*python_files(ENGINE), *python_files(PLUGIN)]:
        found += unsafe_code(str(path.relative_to(ROOT)), path.read_bytes())
    assert found == []


def test_plugin_and_engine_have_one_version():
    metadata = configparser.ConfigParser(interpolation=None)
    metadata.read(ROOT / "metadata.txt", encoding="utf-8")
    engine = (ENGINE / "__init__.py").read_text(encoding="utf-8")
    assert f'__version__ = "{metadata["general"]["version"]}"' in engine


def test_each_dependency_has_a_minimum_a_reason_and_a_pin():
    text = (ROOT / "engine" / "pyproject.toml").read_text(encoding="utf-8")
    lists = re.findall(r"^(?:dependencies|test) = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in lists for line in block.splitlines()]
    assert len(lines) > 15
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    pinned = set(re.findall(r"^([\w-]+)==[\w.]+", pins, re.MULTILINE))
    assert "torch==2.13.0\n" in pins
    for line in lines:
        dependency = re.fullmatch(r'    "([\w-]+)>=[\d.]+(?:; [^"]+)?",  # \w.+', line)
        assert dependency, f"no minimum or no reason: {line}"
        assert dependency[1] in pinned


POSIX_ONLY = {  # the files that have a twin, or a sentence, for Windows
    "fcntl": set(),
    "pwd": set(),
    "grp": set(),
    "resource": set(),
    "termios": set(),
    "multiprocessing": set(),  # its default, fork, breaks with threads; threads do here
    "select": {"stopping.py"},
    "os.wait4": {"memory.py"},
    "os.waitstatus_to_exitcode": {"memory.py"},
    "os.fork": set(),
    "os.getuid": set(),
    "os.killpg": {"child_process.py"},
    "os.sched_getaffinity": set(),
    "signal.SIGKILL": {"child_process.py"},
    "signal.SIGHUP": {"stopping.py"},
}


def test_posix_only_calls_have_their_twin():
    found = {}
    for path in [*python_files(ENGINE), *python_files(PLUGIN)]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                used = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                used = {str(node.module).split(".")[0]}
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used = {f"{node.value.id}.{node.attr}"}
            else:
                continue
            for name in used & POSIX_ONLY.keys():
                found.setdefault(name, set()).add(path.name)
    assert all(files <= POSIX_ONLY[name] for name, files in found.items()), found
    assert found["select"] == {"stopping.py"}  # the search sees what is there
