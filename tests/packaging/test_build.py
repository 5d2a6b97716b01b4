"""build.py: the steps of the demo, where torch comes from, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import build

ROOT = Path(__file__).resolve().parents[2]


def test_help_without_a_command(capsys):
    assert build.main([]) == 0
    assert "demo" in capsys.readouterr().out


def test_old_python_gets_a_sentence_before_anything_else_can_fail():
    source = (ROOT / "build.py").read_text(encoding="utf-8")
    assert "from __future__ import annotations" in source
    assert "needs Python 3.10 or newer" in source.split('if __name__ == "__main__"')[1]


def test_demo_gives_each_raster_its_own_option(tmp_path):
    steps = [arguments for _, arguments in build.demo_commands(tmp_path, 0.5)]
    assert [step[0] for step in steps] == ["train", "map", "sample", "evaluate"]
    for step in steps:
        rasters = [step[i + 1] for i, word in enumerate(step) if word == "--raster"]
        assert len(rasters) == 4
        assert all(Path(raster).is_file() for raster in rasters)
    assert steps[0][steps[0].index("--minutes") + 1] == "0.5"


def test_demo_stops_with_the_exit_code_of_the_command_that_failed(tmp_path, monkeypatch, capsys):
    exit_codes = iter([0, 7])
    monkeypatch.setattr(build, "make_environment", lambda *_: None)
    monkeypatch.setattr(build, "run", lambda _: next(exit_codes))
    assert build.main(["demo", "--out", str(tmp_path)]) == 7
    assert "`geocfm map` did not finish" in capsys.readouterr().out


def test_demo_lists_what_it_wrote(tmp_path, monkeypatch, capsys):
    def write_something(command):
        Path(command[command.index("--out") + 1]).write_bytes(b"0" * 20_000)
        return 0

    monkeypatch.setattr(build, "make_environment", lambda *_: None)
    monkeypatch.setattr(build, "run", write_something)
    stale = tmp_path / "older.txt"
    stale.write_text("from an earlier run")
    os.utime(stale, (0, 0))
    assert build.main(["demo", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "0.02 MB" in said
    assert "prospectivity.tif in QGIS first" in said
    assert "older.txt" not in said


def test_other_arguments_of_test_go_to_pytest(monkeypatch):
    commands = []
    monkeypatch.setattr(build, "make_environment", lambda *_, **__: None)
    monkeypatch.setattr(build, "run", lambda command, folder: commands.append(command) or 1)
    assert build.main(["test", "-k", "split", "-x"]) == 1
    assert commands[-1][-5:] == ["pytest", "-q", "-k", "split", "-x"]
    assert [command[2] for command in commands] == ["ruff", "ruff", "mypy", "pytest"]


def test_unknown_options_are_refused_elsewhere():
    with pytest.raises(SystemExit):
        build.main(["zip", "--relaese"])


@pytest.mark.parametrize(
    ("platform", "driver", "reachable", "expected"),
    [
        ("linux", None, True, build.TORCH_CPU_INDEX),
        ("linux", None, False, None),
        ("linux", "/usr/bin/nvidia-smi", True, None),
        ("darwin", None, True, None),
        ("win32", None, True, None),
    ],
)
def test_torch_comes_without_cuda_where_cuda_is_of_no_use(
    monkeypatch, platform, driver, reachable, expected
):
    if Path("/proc/driver/nvidia").exists():
        pytest.skip("this machine has an NVIDIA driver")
    monkeypatch.setattr(build.sys, "platform", platform)
    monkeypatch.setattr(build.shutil, "which", lambda _: driver)
    monkeypatch.setattr(build, "_answers", lambda _: reachable)
    assert build.chosen_torch_index(None) == expected
    assert build.chosen_torch_index("none") is None
    assert build.chosen_torch_index("https://mirror.example/cpu") == "https://mirror.example/cpu"


def test_a_torch_index_must_be_https():
    with pytest.raises(SystemExit):
        build.main(["demo", "--torch-index", "http://mirror.example"])


@pytest.mark.skipif(os.name == "nt", reason="sends POSIX signals")
@pytest.mark.parametrize("to_whom", ["the terminal's group", "build.py alone"])
def test_a_command_told_to_stop_may_finish_what_it_does(tmp_path, to_whom):
    saved, ready = tmp_path / "saved", tmp_path / "ready"
    command = tmp_path / "command.py"
    command.write_text(
        "import pathlib, signal, sys, time\n"
        "def save(*_):\n"
        "    time.sleep(1)\n"
        f"    pathlib.Path({str(saved)!r}).touch()\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGINT, save)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "time.sleep(60)\n"
    )
    program = f"import build, sys; sys.exit(build.run([sys.executable, {str(command)!r}]))"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, start_new_session=True)
    while not ready.exists():
        assert process.poll() is None
        time.sleep(0.05)
    if to_whom == "build.py alone":
        process.terminate()
        expected = 3
    else:
        os.killpg(process.pid, signal.SIGINT)
        expected = build.INTERRUPTED
    assert process.wait(timeout=20) == expected
    assert saved.exists()
