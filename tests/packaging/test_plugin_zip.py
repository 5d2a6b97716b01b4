"""The plugin zip: its contents, its bytes, and each thing the QGIS repository refuses."""

import hashlib
import os
import re
import shutil
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import build
from building import plugin_zip
from building.plugin_zip import PackagingError, archive_problems, build_plugin_zip
from building.translations import compile_ts

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def repository(tmp_path):
    """A small tree of the repository's shape, with the real metadata, that packs cleanly."""
    tree = tmp_path / "repository"
    for folder in ("geocfm_qgis", "engine/geocfm", "resources/icons"):
        (tree / folder).mkdir(parents=True)
    for real in ("metadata.txt", "LICENSE", "engine/pyproject.toml", "engine/geocfm/__init__.py"):
        shutil.copy(ROOT / real, tree / real)
    shutil.copy(ROOT / "resources/icons/geocfm.svg", tree / "resources/icons")
    (tree / "geocfm_qgis/__init__.py").write_text("def classFactory(iface):\n    return None\n")
    (tree / "README.md").write_text("GeoCFM\n")
    return tree


def set_metadata(tree, key, value):
    lines = (tree / "metadata.txt").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith(f"{key}=")]
    (tree / "metadata.txt").write_text("\n".join([*kept, f"{key}={value}"]), encoding="utf-8")


def problems_of(tree, tmp_path, **options):
    with pytest.raises(PackagingError) as refusal:
        build_plugin_zip(tree, tmp_path / "dist", **options)
    assert list((tmp_path / "dist").iterdir()) == []  # nothing is left of a refused zip
    return refusal.value.problems


def test_the_real_plugin_packs_into_one_folder(tmp_path):
    tree = tmp_path / "clone"
    for source in plugin_zip.SOURCES:
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", ".*")
            shutil.copytree(ROOT / source, tree / source, ignore=ignored)
        elif (ROOT / source).exists():
            (tree / source).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, tree / source)
    (tree / "README.md").touch()
    archive, _ = build_plugin_zip(tree, tmp_path / "dist")
    assert archive_problems(archive) == []
    names = zipfile.ZipFile(archive).namelist()
    assert {name.split("/")[0] for name in names} == {"geocfm_qgis"}
    for expected in (
        *("__init__.py", "plugin.py", "metadata.txt", "LICENSE", "README.md"),
        *("engine/pyproject.toml", "engine/geocfm/__init__.py"),
        *("resources/sample/occurrences.gpkg", "resources/sample/rasters/greenstone.tif"),
        *("resources/sample/PROVENANCE.md", "resources/icons/geocfm.svg"),
        *("constraints.txt", "resources/i18n/geocfm_de.ts", "resources/i18n/geocfm_de.qm"),
    ):
        assert f"geocfm_qgis/{expected}" in names
    for folder in ("geocfm_qgis", "engine/geocfm", "resources/forms", "resources/styles"):
        place = plugin_zip.SOURCES.get(folder, folder)
        for path in (ROOT / folder).rglob("*.*"):
            inside = PurePosixPath("geocfm_qgis", place, path.relative_to(ROOT / folder).as_posix())
            assert str(inside) in names or "__pycache__" in path.parts


def test_the_tutorial_comes_with_its_pictures(tmp_path):
    archive, _ = build_plugin_zip(ROOT, tmp_path)
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
        tutorial = opened.read("geocfm_qgis/docs/tutorial.md").decode()
    pictures = re.findall(r"\]\((images/\w+\.png)\)", tutorial)
    assert len(pictures) > 5
    assert [picture for picture in pictures if f"geocfm_qgis/docs/{picture}" not in names] == []


def test_translations_are_compiled_into_the_zip(repository, tmp_path):
    catalogue = repository / "resources/i18n/geocfm_de.ts"
    catalogue.parent.mkdir()
    catalogue.write_text("<TS><context><name>GeoCFM</name></context></TS>")
    archive, _ = build_plugin_zip(repository, tmp_path / "dist")
    compiled = zipfile.ZipFile(archive).read("geocfm_qgis/resources/i18n/geocfm_de.qm")
    assert compiled == compile_ts(catalogue)
    (catalogue.with_suffix(".qm")).write_bytes(b"made by another tool, perhaps long ago")
    assert "ships no such files" in problems_of(repository, tmp_path / "again")[0]


def test_the_same_files_give_the_same_bytes(repository, tmp_path, monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    first, _ = build_plugin_zip(repository, tmp_path / "one")
    for path in repository.rglob("*"):
        os.utime(path, (10**9, 10**9))
        path.chmod(0o755)
    second, _ = build_plugin_zip(repository, tmp_path / "two")
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)}
    assert len(digests) == 1
    assert zipfile.ZipFile(first).infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)


def test_source_date_epoch_dates_the_files(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    archive, _ = build_plugin_zip(repository, tmp_path)
    assert zipfile.ZipFile(archive).infolist()[0].date_time == (2001, 9, 9, 1, 46, 40)


def test_what_tools_leave_behind_stays_out(repository, tmp_path):
    for left in (
        *("geocfm_qgis/__pycache__/a.pyc", "engine/geocfm/.DS_Store", "resources/.git/config"),
        *("resources/a.tif.aux.xml", "resources/a.gpkg-wal", "geocfm_qgis/old.pyc"),
    ):
        (repository / left).parent.mkdir(exist_ok=True)
        (repository / left).write_bytes(b"")
    archive, _ = build_plugin_zip(repository, tmp_path / "dist")
    expected = {f"geocfm_qgis/{name}" for name in plugin_zip.REQUIRED_FILES}
    expected |= {"geocfm_qgis/engine/pyproject.toml", "geocfm_qgis/engine/geocfm/__init__.py"}
    assert set(zipfile.ZipFile(archive).namelist()) == expected | {
        "geocfm_qgis/resources/icons/geocfm.svg"
    }


@pytest.mark.parametrize("suffix", [".exe", ".dll", ".so", ".dylib", ".bat", ".sh", ".ps1", ".cmd"])
def test_programs_are_refused(repository, tmp_path, suffix):
    (repository / f"resources/tool{suffix}").write_bytes(b"")
    problems = problems_of(repository, tmp_path)
    assert problems == [f"resources/tool{suffix}: the QGIS repository takes no {suffix} files."]


def test_files_of_an_unknown_kind_are_refused(repository, tmp_path):
    (repository / "resources/model.pt").write_bytes(b"")
    assert "ships no such files" in problems_of(repository, tmp_path)[0]


@pytest.mark.parametrize(
    ("missing", "source"),
    [
        ("__init__.py", "geocfm_qgis/__init__.py"),
        ("metadata.txt", "metadata.txt"),
        ("LICENSE", "LICENSE"),
        ("README.md", "README.md"),
    ],
)
def test_missing_files_are_refused(repository, tmp_path, missing, source):
    (repository / source).unlink()
    assert f"{missing} is missing." in problems_of(repository, tmp_path)


def test_a_large_zip_is_refused(repository, tmp_path):
    (repository / "resources/noise.tif").write_bytes(os.urandom(26 * 2**20))
    assert "the QGIS repository takes 25." in problems_of(repository, tmp_path)[0]


@pytest.mark.parametrize("key", plugin_zip.REQUIRED_KEYS)
def test_missing_metadata_is_refused(repository, tmp_path, key):
    set_metadata(repository, key, "")
    if key == "about":  # its value runs over several lines
        text = "[general]\nname=GeoCFM\ndescription=d\nversion=0.1.0\nauthor=a\n"
        (repository / "metadata.txt").write_text(text + "qgisMinimumVersion=3.22\n")
    assert f"metadata.txt: {key} is missing." in problems_of(repository, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("name", "GeoCFM Plugin", 'the name must not contain "plugin"'),
        ("icon", "resources/none.svg", "the icon resources/none.svg is missing"),
        ("version", "9.9.9", "version in metadata.txt is not the engine's"),
        ("email", "nobody", "is no e-mail address"),
        ("tracker", "somewhere", "is no web address"),
    ],
)
def test_wrong_metadata_is_refused(repository, tmp_path, key, value, expected):
    set_metadata(repository, key, value)
    assert expected in " ".join(problems_of(repository, tmp_path))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("[general]\nname=Bodenschätze\n".encode("latin-1"), "is not written in UTF-8"),
        (b"name=GeoCFM\n", "cannot be read"),
        (b"[other]\nname=GeoCFM\n", "cannot be read"),
    ],
)
def test_unreadable_metadata_is_refused(repository, tmp_path, content, expected):
    (repository / "metadata.txt").write_bytes(content)
    assert expected in " ".join(problems_of(repository, tmp_path))


@pytest.mark.parametrize(
    "code",
    [
        "exec('1')",
        "eval('1')",
        "import pickle",
        "from pickle import loads",
        "import tarfile\ntarfile.open('a').extractall()",
        "import yaml\nyaml.load(open('a'))",
        "from yaml import load as read\nread('a')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import os\nos.chmod('a', 0o777)",
        "api_key = 'abc'",
        "connect(password='abc')",
        "model = Model.from_pretrained('somebody/something')",
        "import os\nos.system('ls')",
        "import tempfile\ntempfile.mktemp()",
        "from tempfile import mktemp\nmktemp()",
        "import torch\ntorch.load('a')",
        "import torch as t\nt.load('a', weights_only=False)",
        "def broken(:",
    ],
)
def test_unsafe_code_is_refused(repository, tmp_path, code):
    (repository / "engine/geocfm/unsafe.py").write_text(code)
    problems = problems_of(repository, tmp_path)
    assert len(problems) == 1
    assert problems[0].startswith("geocfm_qgis/engine/geocfm/unsafe.py")


def test_harmless_code_is_not_refused(repository, tmp_path):
    (repository / "engine/geocfm/harmless.py").write_text(
        "import subprocess\nimport torch\nfrom . import pickle_jar\n"
        "model = torch.nn.Linear(1, 1)\nmodel.eval()\n"
        "torch.load('a', weights_only=True)\nsubprocess.run(['ls'], shell=False)\n"
    )
    build_plugin_zip(repository, tmp_path)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("geocfm_qgis/__pycache__/a.pyc", "takes no __pycache__"),
        ("geocfm_qgis/a.pyc", "takes no .pyc files"),
        ("geocfm_qgis/.git/config", "takes no .git"),
        ("__MACOSX/a", "takes no __MACOSX"),
        ("geocfm_qgis\\a.py", "has a backslash"),
        ("other/a.py", "must hold one folder"),
        ("geo-cfm/a.py", "a name that Python can import"),
    ],
)
def test_a_foreign_zip_is_refused(repository, tmp_path, name, expected):
    archive, _ = build_plugin_zip(repository, tmp_path / "dist")
    with zipfile.ZipFile(archive, "a") as opened:
        opened.writestr(name, "")
    assert expected in " ".join(archive_problems(archive))


def test_all_problems_are_said_at_once(repository, tmp_path):
    (repository / "LICENSE").unlink()
    (repository / "resources/tool.exe").write_bytes(b"")
    set_metadata(repository, "author", "")
    assert len(problems_of(repository, tmp_path)) == 3


def test_a_release_needs_the_publisher(repository, tmp_path):
    for key in plugin_zip.PUBLISHER_KEYS:
        set_metadata(repository, key, "")
    _, unset = build_plugin_zip(repository, tmp_path / "test")
    assert unset == ["email", "homepage", "tracker", "repository"]
    assert problems_of(repository, tmp_path, release=True) == [
        "metadata.txt: email, homepage, tracker, repository must be set before a release."
    ]
    set_metadata(repository, "email", "someone@survey.example")
    for key in ("homepage", "tracker", "repository"):
        set_metadata(repository, key, f"https://survey.example/{key}")
    archive, unset = build_plugin_zip(repository, tmp_path / "release", release=True)
    assert unset == []
    assert archive.name.startswith("geocfm_qgis-")


def test_the_command_says_what_is_unset(repository, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build, "ROOT", repository)
    for key in plugin_zip.PUBLISHER_KEYS:
        set_metadata(repository, key, "")
    assert build.main(["zip", "--out", str(tmp_path / "dist")]) == 0
    assert "email, homepage, tracker, repository" in capsys.readouterr().out
    assert build.main(["zip", "--release", "--out", str(tmp_path / "dist")]) == 1
    assert "must be set before a release" in capsys.readouterr().err
