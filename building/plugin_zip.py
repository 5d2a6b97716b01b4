"""The plugin zip: what goes into it, and what the QGIS plugin repository refuses in one.

The rules follow the validator and the security scan of plugins.qgis.org, so that a zip that is
written here is not turned away there.
"""

from __future__ import annotations

import ast
import configparser
import os
import re
import time
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from building.translations import compile_ts

PLUGIN = "geocfm_qgis"
SOURCES = {  # in the repository: in the plugin's folder
    "geocfm_qgis": "",
    "metadata.txt": "metadata.txt",
    "LICENSE": "LICENSE",
    "README.md": "README.md",
    "constraints.txt": "constraints.txt",
    "engine/pyproject.toml": "engine/pyproject.toml",
    "engine/geocfm": "engine/geocfm",
    "resources": "resources",
    "docs/tutorial.md": "docs/tutorial.md",
    "docs/images": "docs/images",
}
SHIPPED = (
    *(".py", ".typed", ".toml", ".txt", ".md", ".html", ".css", ".json"),
    *(".ui", ".qml", ".ts", ".svg", ".png", ".jpg"),
    *(".tif", ".gpkg", ".geojson", ".csv", ".safetensors", ".jsonl"),
)
LEFT_BEHIND = re.compile(  # by Python, QGIS and file managers: left out without a word
    r"(^|/)(\.|__pycache__/|__MACOSX/|Thumbs\.db$)|\.(pyc|egg-info/.*|aux\.xml|gpkg-(wal|shm)|qmd)$"
)

LARGEST_ZIP_BYTES = 25 * 1024 * 1024
FORBIDDEN_SUFFIXES = (".exe", ".dll", ".so", ".dylib", ".bat", ".sh", ".ps1", ".cmd", ".pyc")
FORBIDDEN_FOLDERS = {"__pycache__", ".git", "__MACOSX"}
REQUIRED_FILES = ("__init__.py", "metadata.txt", "LICENSE", "README.md")
REQUIRED_KEYS = ("name", "description", "about", "version", "qgisMinimumVersion", "author")
PUBLISHER_KEYS = ("email", "homepage", "tracker", "repository")

SECRET_NAMES = re.compile(r"(?i)(password|passwd|pwd|secret|api_?key|token)")
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal"}
UNSAFE_CALLS = {
    "exec": "runs text as code",
    "eval": "runs text as code",
    "os.system": "runs a shell",
    "os.popen": "runs a shell",
    "tempfile.mktemp": "makes a temporary name that others can take",
    "yaml.load": "can run code from the file it reads",
    "ssl._create_unverified_context": "does not check who answers",
}


class PackagingError(Exception):
    """Everything that keeps the zip from being made, one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(f"- {problem}" for problem in problems))
        self.problems = problems


def build_plugin_zip(root: Path, out: Path, release: bool = False) -> tuple[Path, list[str]]:
    """Write the zip into `out`; give its path and the publisher's details that are unset."""
    files, problems = plugin_files(root)
    contents = {name: path.read_bytes() for name, path in files.items()}
    for name, path in files.items():
        if path.suffix == ".ts":
            contents[name[: -len("ts")] + "qm"] = compile_ts(path)
    unset = _unset_publisher_keys(contents)
    if release and unset:
        problems.append(f"metadata.txt: {', '.join(unset)} must be set before a release.")
    out.mkdir(parents=True, exist_ok=True)
    unchecked = out / f".{PLUGIN}.{os.getpid()}.zip"
    try:
        _write_archive(unchecked, contents)
        problems += archive_problems(unchecked)
        if problems:
            raise PackagingError(problems)
        version = _metadata(contents[f"{PLUGIN}/metadata.txt"])["version"]
        return unchecked.replace(out / f"{PLUGIN}-{version}.zip"), unset
    finally:
        unchecked.unlink(missing_ok=True)


def plugin_files(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Give the files of the plugin by their name in the zip, and what does not belong there."""
    files: dict[str, Path] = {}
    problems: list[str] = []
    for source, place in SOURCES.items():
        for path in _files_below(root / source):
            here = path.relative_to(root).as_posix()
            inside = PurePosixPath(PLUGIN, place, path.relative_to(root / source).as_posix())
            if LEFT_BEHIND.search(here):
                continue
            if path.suffix.lower() in SHIPPED or path.name == "LICENSE":
                files[str(inside)] = path
            elif path.suffix.lower() in FORBIDDEN_SUFFIXES:
                problems.append(f"{here}: the QGIS repository takes no {path.suffix} files.")
            else:
                problems.append(
                    f"{here}: the plugin ships no such files; move it away, or name its kind in "
                    "SHIPPED of building/plugin_zip.py."
                )
    return dict(sorted(files.items())), problems


def archive_problems(archive: Path) -> list[str]:
    """Give all that the QGIS repository refuses in a zip, one sentence each; [] is a good zip."""
    problems: list[str] = []
    if archive.stat().st_size > LARGEST_ZIP_BYTES:
        problems.append(
            f"The zip has {archive.stat().st_size / 2**20:.1f} MB; the QGIS repository takes 25."
        )
    with zipfile.ZipFile(archive) as opened:
        # orig_filename, since zipfile itself turns backslashes into slashes on Windows
        names = [entry.orig_filename for entry in opened.infolist() if not entry.is_dir()]
        contents = {entry.orig_filename: opened.read(entry) for entry in opened.infolist()}
    problems += _name_problems(names)
    folder = names[0].split("/")[0] if names else PLUGIN
    for required in REQUIRED_FILES:
        if f"{folder}/{required}" not in contents:
            problems.append(f"{required} is missing.")
    problems += _metadata_problems(contents, folder)
    for name in names:
        if name.endswith(".py"):
            problems += unsafe_code(name, contents[name])
    return problems


def unsafe_code(name: str, source: bytes) -> Iterator[str]:
    """Give the code in a Python file that blocks a plugin in the repository's security scan."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        yield f"{name}: this is not Python."
        return
    imported: dict[str, str] = {}  # a name in this file: what it stands for
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = ""
            if isinstance(node, ast.ImportFrom):
                origin = "." * node.level + f"{node.module or ''}."
            for alias in node.names:
                if f"{origin}{alias.name}".split(".")[0] in UNSAFE_MODULES:
                    yield f"{name}, line {node.lineno}: {origin}{alias.name} can run hidden code."
                if alias.asname or origin:
                    imported[alias.asname or alias.name] = f"{origin}{alias.name}"
    for node in ast.walk(tree):
        if secret := _hard_coded_secret(node):
            yield f"{name}, line {node.lineno}: {secret} looks like a password in the code."  # type: ignore[attr-defined]
        if isinstance(node, ast.Call):
            reason = _unsafe_call(node, imported)
            if reason:
                yield f"{name}, line {node.lineno}: {reason}."


def _hard_coded_secret(node: ast.AST) -> str | None:
    """Give the name of a variable or argument that holds a password as plain text."""
    pairs: list[tuple[str, ast.expr | None]] = []
    if isinstance(node, ast.Assign):
        pairs = [(ast.unparse(target), node.value) for target in node.targets]
    elif isinstance(node, ast.keyword) and node.arg:
        pairs = [(node.arg, node.value)]
    for name, value in pairs:
        text = value.value if isinstance(value, ast.Constant) else None
        if isinstance(text, str) and text and SECRET_NAMES.search(name):
            return name
    return None


def _unsafe_call(call: ast.Call, imported: Mapping[str, str]) -> str | None:
    first, _, rest = ast.unparse(call.func).partition(".")
    function = ".".join(filter(None, [imported.get(first, first), rest]))
    literal = {
        keyword.arg: keyword.value.value
        for keyword in call.keywords
        if isinstance(keyword.value, ast.Constant)
    }
    if function in UNSAFE_CALLS:
        return f"{function} {UNSAFE_CALLS[function]}"
    if function.endswith(".extractall"):
        return "extractall can write outside its folder"
    if function == "torch.load" and literal.get("weights_only") is not True:
        return "torch.load without weights_only=True can run code from the file it reads"
    if any(keyword.arg == "shell" for keyword in call.keywords) and literal.get("shell", True):
        return "shell=True hands the command to a shell"
    if function == "os.chmod" or function.endswith(".chmod"):
        return "chmod changes what others may do with a file"
    if function.endswith((".from_pretrained", "snapshot_download", "hf_hub_download")):
        return "it fetches code or weights from a hub"
    if literal.get("verify", True) is False:
        return "verify=False does not check who answers"
    return None


def _name_problems(names: list[str]) -> Iterator[str]:
    for name in names:
        parts = name.split("/")
        if "\\" in name:
            yield f"{name}: the name has a backslash."
        for folder in sorted(FORBIDDEN_FOLDERS.intersection(parts)):
            yield f"{name}: the QGIS repository takes no {folder}."
        if PurePosixPath(name).suffix.lower() in FORBIDDEN_SUFFIXES:
            yield f"{name}: the QGIS repository takes no {PurePosixPath(name).suffix} files."
    folders = sorted({name.split("/")[0] for name in names})
    if len(folders) != 1:
        yield f"The zip must hold one folder, and holds {', '.join(folders) or 'nothing'}."
    for folder in folders:
        if not (folder.isidentifier() and folder.isascii()):
            yield f"{folder}: the plugin's folder must be a name that Python can import."


def _metadata_problems(contents: Mapping[str, bytes], folder: str) -> Iterator[str]:
    text = contents.get(f"{folder}/metadata.txt")
    if text is None:
        return
    try:
        metadata = _metadata(text)
    except UnicodeDecodeError:
        yield "metadata.txt is not written in UTF-8."
        return
    except (configparser.Error, KeyError):
        yield "metadata.txt cannot be read: it needs a [general] section of key=value lines."
        return
    for key in REQUIRED_KEYS:
        if not metadata.get(key, "").strip():
            yield f"metadata.txt: {key} is missing."
    if "plugin" in metadata.get("name", "").lower():
        yield 'metadata.txt: the name must not contain "plugin".'
    for key in PUBLISHER_KEYS:
        value = metadata.get(key, "")
        if value and key == "email" and "@" not in value:
            yield f"metadata.txt: email={value} is no e-mail address."
        if value and key != "email" and not value.startswith(("https://", "http://")):
            yield f"metadata.txt: {key}={value} is no web address."
    icon = metadata.get("icon", "")
    if icon and f"{folder}/{icon}" not in contents:
        yield f"metadata.txt: the icon {icon} is missing."
    engine = contents.get(f"{folder}/engine/geocfm/__init__.py", b"").decode("utf-8", "replace")
    if f'__version__ = "{metadata.get("version")}"' not in engine:
        yield "The version in metadata.txt is not the engine's (engine/geocfm/__init__.py)."


def _unset_publisher_keys(contents: Mapping[str, bytes]) -> list[str]:
    try:
        metadata = _metadata(contents[f"{PLUGIN}/metadata.txt"])
    except (KeyError, UnicodeDecodeError, configparser.Error):
        return list(PUBLISHER_KEYS)
    return [key for key in PUBLISHER_KEYS if not metadata.get(key, "").strip()]


def _metadata(text: bytes) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text.decode("utf-8"))
    return parser["general"]


def _write_archive(archive: Path, contents: Mapping[str, bytes]) -> None:
    """Write a zip that depends on its contents only: the same files give the same bytes."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    moment = max(time.gmtime(epoch)[:6], (1980, 1, 1, 0, 0, 0))  # a zip knows no earlier time
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as opened:
        for name in sorted(contents):
            entry = zipfile.ZipInfo(name, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = 0o100644 << 16
            opened.writestr(entry, contents[name])


def _files_below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    yield from sorted(found for found in path.rglob("*") if found.is_file())
