"""Bandit, as the QGIS plugin repository runs it, finds nothing in the zip that blocks a plugin."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from building.plugin_zip import build_plugin_zip

ROOT = Path(__file__).resolve().parents[2]
CRITICAL = (  # the rules of the repository's scan that block an upload
    *("B102", "B103", "B105", "B106", "B107"),  # exec, chmod, passwords in the code
    *(
        "B202",
        "B301",
        "B302",
        "B306",
        "B307",
        "B506",
    ),  # tarfile, pickle, marshal, mktemp, eval, YAML
    *("B323", "B501", "B502", "B504"),  # TLS that is not checked
    *("B602", "B604", "B605"),  # shells
    "B615",  # downloads from a model hub
)


def findings(folder):
    command = [sys.executable, "-m", "bandit", "-q", "-r", "-f", "json", "-t", ",".join(CRITICAL)]
    # no configuration and no "# nosec": what is hidden from bandit here is not hidden there
    done = subprocess.run(
        [*command, "--ignore-nosec", str(folder)], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert report["errors"] == []
    assert report["metrics"]["_totals"]["loc"] > 0
    return [
        f"{Path(found['filename']).relative_to(folder)}:{found['line_number']}: {found['test_id']}"
        for found in report["results"]
    ]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    archive, _ = build_plugin_zip(ROOT, tmp_path_factory.mktemp("dist"))
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


def test_nothing_in_the_zip_blocks_the_plugin(unpacked):
    assert findings(unpacked) == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("exec('1')", "B102"),
        ("import subprocess\nsubprocess.run('ls', shell=True)  # nosec", "B602"),
        ("password = 'abc'", "B105"),
        ("import tarfile\ntarfile.open('a').extractall()", "B202"),
    ],
)
def test_the_scan_finds_what_blocks(tmp_path, code, rule):
    (tmp_path / "unsafe.py").write_text(f"{code}\n")
    assert [found.split()[-1] for found in findings(tmp_path)] == [rule]
