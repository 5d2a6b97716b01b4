import pytest

from geocfm_qgis.bundle import constraints_file, engine_folder
from geocfm_qgis.environment import offline
from geocfm_qgis.environment.offline import wheels_command
from geocfm_qgis.environment.plan import Plan
from geocfm_qgis.environment.requirements import (
    RequirementsUnreadable,
    engine_requirements,
    fingerprint,
    pinned,
    pinned_for,
)


def test_reads_the_engines_own_file_as_a_toml_reader_does():
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((engine_folder() / "pyproject.toml").read_text(encoding="utf-8"))
    assert list(engine_requirements()) == project["project"]["dependencies"]


def test_reads_brackets_comments_and_markers():
    text = """
[build-system]
dependencies = [
    "not this",
]
[project]
name = "x"
dependencies = [
    # a comment
    "a[extra]>=1",  # why "a" [is] needed
    'b>=2; python_version < "3.11"',

    "c"
]
[project.optional-dependencies]
test = ["pytest"]
"""
    assert engine_requirements(text) == ("a[extra]>=1", 'b>=2; python_version < "3.11"', "c")


@pytest.mark.parametrize("text", ["", "[project]\n", "[project]\ndependencies = [\n  oops\n]\n"])
def test_what_cannot_be_read_is_not_taken_for_nothing(text):
    with pytest.raises(RequirementsUnreadable):
        engine_requirements(text)


def test_torch_is_pinned_by_the_constraints():
    assert pinned("torch") in constraints_file().read_text(encoding="utf-8").splitlines()
    assert pinned("numpy", 'numpy==2.4.6; python_version >= "3.11"') == "numpy==2.4.6"
    with pytest.raises(RequirementsUnreadable):
        pinned("gold")


def test_a_requirement_is_pinned_as_the_version_of_python_asks():
    text = (
        "# numpy==1\nPOT==0.9 # why\n"
        'numpy==2.4; python_version >= "3.11"\ntomli==2.5; python_version < "3.11"\n'
        "pytest-qgis==5.0\nscikit_learn==1.9\n"
    )
    assert pinned_for("numpy>=1.24", (3, 12), text) == "numpy==2.4"
    assert pinned_for("numpy>=1.24", (3, 10), text) == "numpy>=1.24"
    assert pinned_for("pot>=0.9", (3, 10), text) == "POT==0.9"
    assert pinned_for("scikit-learn>=1.3", (3, 10), text) == "scikit_learn==1.9"
    assert pinned_for('tomli>=2; python_version < "3.11"', (3, 10), text) == "tomli==2.5"
    assert pinned_for('tomli>=2; python_version < "3.11"', (3, 11), text) == ""


def test_the_recipe_for_wheels_serves_another_computer():
    command = wheels_command(Plan("/x", build="cpu"), "3.11.7")
    assert f" {pinned('torch')} " in command
    assert " --python-version 3.11 " in command
    assert " --platform manylinux2014_x86_64 " in command
    assert " --only-binary :all: " in command
    assert "tomli" not in command
    assert " -c " not in command  # a file of this computer's
    assert "/x" not in command
    assert '"numpy>=' in wheels_command(Plan("/x"), "3.10")


@pytest.mark.parametrize(
    ("system", "machine", "tags"),
    [
        ("win32", "AMD64", ["win_amd64"]),
        ("darwin", "arm64", ["macosx_14_0_arm64"]),
        (
            "linux",
            "aarch64",
            ["manylinux_2_28_aarch64", "manylinux_2_24_aarch64", "manylinux_2_17_aarch64"],
        ),
    ],
)
def test_wheels_are_for_the_system_of_this_computer(monkeypatch, system, machine, tags):
    monkeypatch.setattr(offline, "IS_WINDOWS", system == "win32")
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("platform.mac_ver", lambda: ("14.5", ("", "", ""), machine))
    monkeypatch.setattr("platform.libc_ver", lambda: ("glibc", "2.28"))
    assert offline.platform_tags()[: len(tags)] == tags


def test_a_folder_of_wheels_decides_on_the_versions(tmp_path):
    command = Plan("/x", base_python="/p", wheels_folder=str(tmp_path)).steps()[-1].command
    assert "-c" not in command
    assert "-c" in Plan("/x", base_python="/p").steps()[-1].command


def test_the_fingerprint_follows_requirements_and_constraints(monkeypatch, tmp_path):
    from geocfm_qgis.environment import requirements

    before = fingerprint()
    assert before == fingerprint()
    other = tmp_path / "constraints.txt"
    other.write_text(constraints_file().read_text(encoding="utf-8") + "gold==1\n", encoding="utf-8")
    monkeypatch.setattr(requirements, "constraints_file", lambda: other)
    assert fingerprint() != before
