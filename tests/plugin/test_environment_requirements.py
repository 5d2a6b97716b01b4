import pytest

from geocfm_qgis.bundle import constraints_file, engine_folder
from geocfm_qgis.environment.requirements import (
    RequirementsUnreadable,
    engine_requirements,
    fingerprint,
    pinned,
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


def test_the_fingerprint_follows_requirements_and_constraints(monkeypatch, tmp_path):
    from geocfm_qgis.environment import requirements

    before = fingerprint()
    assert before == fingerprint()
    other = tmp_path / "constraints.txt"
    other.write_text(constraints_file().read_text(encoding="utf-8") + "gold==1\n", encoding="utf-8")
    monkeypatch.setattr(requirements, "constraints_file", lambda: other)
    assert fingerprint() != before
