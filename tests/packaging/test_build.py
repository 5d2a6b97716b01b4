"""build.py: the steps of demo, tests and QGIS, where torch comes from, and Ctrl-C."""

import configparser
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import build
from building import environments, qgis_desktop

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
    assert [step[0] for step in steps] == ["train", "map", "sample", "targets", "evaluate"]
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


def test_without_qgis_and_without_apt_it_is_said_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(build, "make_environment", lambda *_, **__: None)
    monkeypatch.setattr(qgis_desktop, "missing_for_tests", lambda: ["QGIS", "Xvfb"])
    monkeypatch.setattr(qgis_desktop, "apt_command", lambda: None)
    monkeypatch.setattr(build, "run", lambda *_, **__: pytest.fail("nothing may run"))
    assert build.main(["test"]) == 1
    said = capsys.readouterr().err
    assert "need what is not here: QGIS, Xvfb" in said
    assert "apt-get install --no-install-recommends qgis python3-qgis" in said
    assert "--without-qgis" in said


def test_apt_brings_what_is_missing(monkeypatch, tmp_path):
    commands = []
    answers = iter([["QGIS"], []])
    monkeypatch.setattr(qgis_desktop, "missing_for_tests", lambda: next(answers))
    monkeypatch.setattr(qgis_desktop, "apt_command", lambda: ["sudo", "-n", "apt-get"])
    monkeypatch.setattr(environments, "INSTALL_LOG", tmp_path / "install.log")
    monkeypatch.setattr(
        environments.subprocess, "call", lambda command, **_: commands.append(command) or 0
    )
    environments.install_qgis()
    assert commands[0] == ["sudo", "-n", "apt-get", "update"]
    assert commands[1][:6] == ["sudo", "-n", "apt-get", "install", "-y", "--no-install-recommends"]
    assert {"qgis", "python3-qgis", "xvfb"} <= set(commands[1])


def test_apt_that_brings_nothing_fails_with_its_log(monkeypatch, tmp_path):
    monkeypatch.setattr(qgis_desktop, "missing_for_tests", lambda: ["QGIS"])
    monkeypatch.setattr(qgis_desktop, "apt_command", lambda: ["apt-get"])
    monkeypatch.setattr(environments, "INSTALL_LOG", tmp_path / "install.log")

    def refuse(_, stdout, **__):
        stdout.write("E: Unable to locate package qgis\n")
        return 100

    monkeypatch.setattr(environments.subprocess, "call", refuse)
    with pytest.raises(environments.BuildError, match="Unable to locate package qgis"):
        environments.install_qgis()


def test_qgis_needs_a_screen(monkeypatch, capsys):
    monkeypatch.setattr(build.sys, "platform", "linux")
    monkeypatch.setattr(qgis_desktop, "qgis_program", lambda: "/usr/bin/qgis")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert build.main(["qgis"]) == 1
    assert "QGIS needs a screen" in capsys.readouterr().err


def test_the_profile_of_qgis_is_thrown_away(monkeypatch, tmp_path):
    seen = {}

    def look(command, folder, variables):
        assert variables["PATH"].startswith("/opt/qgis/bin")
        profile = folder / "profiles" / "default"
        seen["command"], seen["folder"] = command, folder
        seen["ini"] = configparser.ConfigParser()
        seen["ini"].read(profile / "QGIS" / "QGIS3.ini", encoding="utf-8")
        assert (profile / "python" / "plugins" / "geocfm_qgis" / "metadata.txt").is_file()
        return 0

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(qgis_desktop, "qgis_program", lambda: "/opt/qgis/bin/qgis")
    monkeypatch.setattr(build, "make_environment", lambda *_, **__: None)
    monkeypatch.setattr(build, "run", look)
    assert build.main(["qgis", "--language", "de"]) == 0
    assert seen["ini"]["PythonPlugins"]["geocfm_qgis"] == "true"
    assert seen["ini"]["geocfm"]["python"] == build.environment_program("python").as_posix()
    assert seen["ini"]["locale"]["userLocale"] == "de"
    assert str(seen["folder"]) == seen["command"][seen["command"].index("--profiles-path") + 1]
    assert not seen["folder"].exists()


def test_unknown_options_are_refused_elsewhere():
    with pytest.raises(SystemExit):
        build.main(["zip", "--relaese"])


@pytest.mark.parametrize(
    ("platform", "driver", "reachable", "expected"),
    [
        ("linux", None, True, environments.TORCH_CPU_INDEX),
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
    monkeypatch.setattr(environments.sys, "platform", platform)
    monkeypatch.setattr(environments.shutil, "which", lambda _: driver)
    monkeypatch.setattr(environments, "_answers", lambda _: reachable)
    assert environments.chosen_torch_index(None) == expected
    assert environments.chosen_torch_index("none") is None
    assert (
        environments.chosen_torch_index("https://mirror.example/cpu")
        == "https://mirror.example/cpu"
    )


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
    program = (
        "import build, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's & ignores it
        f"sys.exit(build.run([sys.executable, {str(command)!r}]))"
    )
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


def test_translate_says_what_waits_for_a_translator(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(build, "ROOT", tmp_path)
    (tmp_path / "geocfm_qgis").mkdir()
    module = tmp_path / "geocfm_qgis" / "panel.py"
    module.write_text('tr("Run")\ntr("{count} points")\n')
    assert build.main(["translate", "--language", "es"]) == 0
    assert "geocfm_es.ts: 2 new texts, 0 removed, 2 to translate" in capsys.readouterr().out
    catalogue = tmp_path / "resources" / "i18n" / "geocfm_es.ts"
    text = catalogue.read_text(encoding="utf-8")
    catalogue.write_text(text.replace(' type="unfinished">', ">puntos"), encoding="utf-8")
    assert build.main(["translate"]) == 1
    assert "do not have the same placeholders" in capsys.readouterr().out
    module.write_text('tr(f"{count} points")\n')
    assert build.main(["translate"]) == 1
    assert "geocfm_qgis/panel.py, line 1" in capsys.readouterr().err
