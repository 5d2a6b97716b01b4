import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from environment_support import BASE_PYTHON, quick_python, write_wheel

from geocfm_qgis import child_process
from geocfm_qgis.child_environment import installer_environment
from geocfm_qgis.environment import place, requirements
from geocfm_qgis.environment import plan as plans
from geocfm_qgis.environment.commands import Cancelled, run_command
from geocfm_qgis.environment.failures import without_passwords
from geocfm_qgis.environment.installation import Installation, remove_environment
from geocfm_qgis.environment.lock import locked
from geocfm_qgis.environment.place import Place
from geocfm_qgis.environment.plan import ORDINARY, Plan
from geocfm_qgis.environment.problem import EnvironmentProblem


def make_plan(folder, base_python):
    """Two tiny packages from a folder of wheels, with spaces and umlauts in all paths."""
    wheels = folder / "Räder für QGIS"
    write_wheel(wheels, "erz", needs=["gestein"])
    write_wheel(wheels, "gestein")
    constraints = folder / "Grenzen für pip.txt"
    constraints.write_text("gestein==1.0\n", encoding="utf-8")
    return Plan(
        folder=str(folder / "Geologie Köln" / "engine"),
        base_python=base_python,
        build=ORDINARY,
        wheels_folder=str(wheels),
        requirements=("erz>=1",),
        constraints=str(constraints),
    )


@dataclass
class Watched:
    """An installation with all that it said."""

    outcome: object
    stages: list
    log: list


def install(plan, check=None, is_cancelled=None):
    stages, log = [], []
    work = Installation(plan, check or importable, stages.append, log.append, is_cancelled)
    return Watched(work.run(), stages, log)


def importable(python, is_cancelled=None):
    """Stand for the handshake: the packages can be imported."""
    answer = subprocess.run(
        [python, "-c", "import erz, gestein; print(erz.VERSION)"],
        env=installer_environment(proxy=""),
        capture_output=True,
        text=True,
    )
    if answer.returncode != 0:
        raise EnvironmentProblem("The packages are missing.", "Repair.", answer.stderr)
    return answer.stdout.strip()


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The one environment that is really made from nothing; the others start as its copies."""
    plan = make_plan(tmp_path_factory.mktemp("first"), BASE_PYTHON)
    return plan, install(plan)


@pytest.fixture
def plan(tmp_path):
    return make_plan(tmp_path, quick_python())


@pytest.fixture
def finished(first, plan):
    """The plan of an environment that is there and works."""
    shutil.copytree(first[0].folder, plan.folder, symlinks=True)
    return plan


@pytest.fixture
def half_made(finished):
    """The plan of an environment whose packages are not installed yet."""
    for path in list(Path(finished.folder).rglob("site-packages/*")):
        if path.name.startswith(("erz", "gestein")):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    Place(finished.folder).unfinish()
    return finished


def test_creates_an_environment_offline_and_finishes_it_last(first):
    plan, made = first
    assert made.outcome.status == "done", (made.outcome, made.log)
    assert made.outcome.handshake == "1.0"
    assert made.outcome.python == str(Place(plan.folder).python)
    assert Place(plan.folder).state() == place.FINISHED
    assert [stage.number for stage in made.stages] == sorted(s.number for s in made.stages)
    assert made.stages[-1].number == made.stages[-1].total == 3
    assert any("gestein" in stage.line for stage in made.stages)
    assert any("pip install" in line for line in made.log)
    left = {path.name for path in Path(plan.folder).iterdir()}
    assert left == {"venv", place.SIGN, place.RECORD}
    assert not Path(f"{plan.folder}.lock").exists()


def test_nothing_of_qgis_reaches_the_installation(half_made, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("PIP_TARGET", str(elsewhere))
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "qgis"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PIP_REQUIRE_VIRTUALENV", "1")
    assert install(half_made).outcome.status == "done"
    assert not elsewhere.exists()


def test_cancel_in_the_middle_leaves_nothing_and_no_process(plan):
    folder = Path(plan.folder)
    real = replace(plan, base_python=BASE_PYTHON)
    watched = install(real, is_cancelled=lambda: (folder / "venv").exists())
    assert watched.outcome.status == "cancelled"
    assert len(watched.stages) >= 1
    assert list(folder.parent.iterdir()) == []
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert plan.folder not in processes


def test_cancel_ends_what_the_command_has_started(plan, tmp_path):
    """A child of the child dies too: the whole group is ended."""
    witness = tmp_path / "child"
    slow = tmp_path / "python"
    slow.write_text(f"#!/bin/sh\nsleep 60 &\necho $! > '{witness}'\necho waiting\nwait\n")
    slow.chmod(0o755)
    watched = install(replace(plan, base_python=str(slow)), is_cancelled=witness.exists)
    assert watched.outcome.status == "cancelled"
    number = int(witness.read_text())
    deadline = time.monotonic() + 5
    while runs(number) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(number)


def test_cancel_does_not_wait_for_a_process_out_of_reach(tmp_path, monkeypatch):
    """One that left the group holds the output open; it is not waited for."""
    monkeypatch.setattr(child_process, "PIPE_SECONDS", 0.2)
    witness = tmp_path / "child"
    slow = tmp_path / "slow"
    slow.write_text(f"#!/bin/sh\nsetsid sleep 20 &\necho $! > '{witness}'\nwait\n")
    slow.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(Cancelled):
        run_command([str(slow)], dict(os.environ), tmp_path, print, witness.exists)
    assert time.monotonic() - start < 8
    subprocess.run(["kill", witness.read_text().strip()], check=True)


def test_a_command_that_is_done_does_not_wait_for_what_it_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(child_process, "PIPE_SECONDS", 0.2)
    slow = tmp_path / "quick"
    slow.write_text("#!/bin/sh\nsleep 20 &\necho done\nexit 7\n")
    slow.chmod(0o755)
    said, start = [], time.monotonic()
    code = run_command([str(slow)], dict(os.environ), tmp_path, said.append, lambda: False)
    assert (code, said) == (7, ["done"])
    assert time.monotonic() - start < 8


def runs(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_a_failure_is_a_sentence_and_half_made_is_not_finished(half_made):
    failed = install(replace(half_made, requirements=("erz>=1", "platin")))
    assert failed.outcome.status == "failed"
    assert "fitting version" in failed.outcome.message
    assert "wheels" in failed.outcome.remedy
    assert any("platin" in line for line in failed.log)
    assert Place(half_made.folder).state() == place.HALF_MADE


def test_trying_again_goes_on_where_it_failed(half_made):
    again = install(half_made)
    assert again.outcome.status == "done"
    assert again.stages[-1].total == 2  # the empty environment was there already
    assert Place(half_made.folder).state() == place.FINISHED


def test_another_build_or_base_python_is_made_anew(half_made):
    assert Installation(half_made, importable)._can_go_on(place.HALF_MADE)
    other_build = replace(half_made, build="cpu")
    assert not Installation(other_build, importable)._can_go_on(place.HALF_MADE)
    other_base = replace(half_made, base_python="")  # a standalone one
    assert not Installation(other_base, importable)._can_go_on(place.HALF_MADE)


def test_says_when_the_graphics_card_is_not_found(half_made):
    own = replace(half_made, build="cuda")
    own.place.claim("cuda")
    assert "driver" in install(own).outcome.message
    assert "driver" not in install(replace(own, build=ORDINARY)).outcome.message


def test_an_engine_that_does_not_start_is_not_finished(half_made):
    def refuse(python, is_cancelled):
        raise EnvironmentProblem("It does not start.", details="OSError: [WinError 1114] c10.dll")

    outcome = install(half_made, refuse).outcome
    assert outcome.status == "failed"
    assert "Visual C++" in outcome.remedy
    assert Place(half_made.folder).state() == place.HALF_MADE


def test_repair_brings_back_what_was_deleted(finished):
    inside = next(Path(finished.folder).rglob("site-packages/gestein.py"))
    inside.unlink()  # pip itself takes the package for installed
    repaired = install(finished)
    assert repaired.outcome.status == "done"
    assert importable(str(Place(finished.folder).python)) == "1.0"
    assert repaired.stages[-1].total == 3  # it was made anew


def test_repair_makes_anew_when_the_base_python_is_gone(finished):
    python = Place(finished.folder).python
    python.unlink()
    python.symlink_to("/nowhere/python3")
    assert Place(finished.folder).state() == place.BROKEN
    assert install(finished).outcome.status == "done"
    assert Place(finished.folder).state() == place.FINISHED


def test_a_cancelled_repair_keeps_the_environment_as_not_complete(finished):
    assert install(finished, is_cancelled=lambda: True).outcome.status == "cancelled"
    assert Place(finished.folder).state() == place.HALF_MADE


def test_new_requirements_ask_for_an_update(finished, monkeypatch):
    assert Place(finished.folder).state() == place.FINISHED
    monkeypatch.setattr(place, "fingerprint", lambda: "of another version")
    assert Place(finished.folder).state() == place.OUTDATED


def test_the_lock_refuses_a_second_window_and_says_who_holds_it(plan):
    holder = (
        "import sys; from PyQt5.QtCore import QLockFile; lock = QLockFile(sys.argv[1]);"
        "assert lock.tryLock(0); print('held', flush=True); sys.stdin.read()"
    )
    Path(plan.folder).parent.mkdir(parents=True)
    other = subprocess.Popen(
        [sys.executable, "-c", holder, f"{plan.folder}.lock"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert other.stdout.readline().strip() == b"held"
        outcome = install(plan).outcome
        assert outcome.status == "failed"
        assert str(other.pid) in outcome.message
        assert not Path(plan.folder).exists()
        other.kill()  # it dies without unlocking
        other.wait()
        with locked(plan.folder):
            pass
    finally:
        other.kill()
        other.wait()
        other.stdin.close()
        other.stdout.close()


def test_a_folder_with_other_files_is_neither_used_nor_removed(plan):
    folder = Path(plan.folder)
    folder.mkdir(parents=True)
    (folder / "thesis.docx").write_text("years of work")
    outcome = install(plan).outcome
    assert outcome.status == "failed"
    assert "other files" in outcome.message
    with pytest.raises(EnvironmentProblem, match="not made by GeoCFM"):
        remove_environment(Place(folder))
    assert (folder / "thesis.docx").read_text() == "years of work"


def test_removal_takes_only_what_the_plugin_made(finished):
    folder = Path(finished.folder)
    (folder / "notes.txt").write_text("mine")
    remove_environment(Place(folder))
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert Path(BASE_PYTHON).exists()
    assert Path(finished.wheels_folder).is_dir()


def test_removal_does_not_follow_links(finished, tmp_path):
    treasure = tmp_path / "treasure"
    treasure.mkdir()
    (treasure / "gold").write_text("1 oz")
    Place(finished.folder).standalone.symlink_to(treasure)
    remove_environment(Place(finished.folder))
    assert not Path(finished.folder).exists()
    assert (treasure / "gold").exists()


def test_without_a_python_uv_brings_one(plan, tmp_path):
    """A stand-in for uv puts a Python where the real one would, told by the same variables."""
    uv = tmp_path / "uv"
    uv.write_text(
        "#!/bin/sh\n"
        '[ "$1 $2 $3" = "python install 3.12" ] || exit 9\n'
        '[ "$UV_PYTHON_INSTALL_BIN$UV_PYTHON_INSTALL_REGISTRY" = 00 ] || exit 8\n'
        'mkdir -p "$UV_PYTHON_INSTALL_DIR/cpython-3.12.9-linux-x86_64-gnu/bin"\n'
        f"ln -s {quick_python()} "
        '"$UV_PYTHON_INSTALL_DIR/cpython-3.12.9-linux-x86_64-gnu/bin/python3"\n'
    )
    uv.chmod(0o755)
    standalone = replace(plan, base_python="", uv=str(uv))
    assert standalone.problems() == []
    watched = install(standalone)
    assert watched.outcome.status == "done", watched.log
    assert "standalone Python 3.12" in watched.stages[0].title
    remove_environment(Place(plan.folder))
    assert Path(BASE_PYTHON).exists()


def test_uv_itself_goes_into_our_folder_only(plan, tmp_path):
    """uv is a package: pip of any Python puts it below our folder and nowhere else."""
    wheels = Path(plan.wheels_folder)
    write_wheel(wheels, "uv", "0.9")
    fetched = replace(plan, base_python="", helper_python=BASE_PYTHON)
    watched = install(fetched)
    assert watched.outcome.status == "failed"  # the stand-in holds no program
    assert (Place(plan.folder).uv / "program" / "uv.py").is_file(), watched.log


def test_only_what_lies_in_a_folder_is_inside():
    assert place.is_inside("/usr/local/bin", "/usr/local")
    assert not place.is_inside("/usr/local2/bin", "/usr/local")
    assert not place.is_inside("/usr", "/usr")
    assert not place.is_inside("", "/usr")


def test_problems_are_said_before_anything_happens(plan, monkeypatch):
    assert plan.problems() == []
    assert "python.org" in replace(plan, base_python="").problems()[0]
    assert "does not exist" in replace(plan, wheels_folder="/nowhere").problems()[0]
    monkeypatch.setattr(Place, "free_bytes", lambda self: 10_000_000)
    assert "10 MB are free" in plan.problems()[0]


def test_the_password_of_an_index_stays_out_of_commands_and_log(half_made):
    index = "http://anna:geheim@127.0.0.1:9/simple"
    own = replace(half_made, wheels_folder="", package_index=index)
    step = own.steps()[-1]
    assert step.variables["PIP_INDEX_URL"] == index
    assert all("geheim" not in part for part in step.command)
    assert without_passwords(f"Looking in indexes: {index}") == (
        "Looking in indexes: http://***@127.0.0.1:9/simple"
    )


def test_an_unreachable_index_of_pytorch_is_made_up_for(half_made, monkeypatch):
    """PyTorch's own index is tried first; when it gives nothing, the ordinary one serves."""
    torch = requirements.pinned("torch")
    write_wheel(Path(half_made.wheels_folder), "torch", torch.split("==")[1])
    monkeypatch.setattr(plans, "TORCH_CPU_INDEX", "http://127.0.0.1:9/whl/cpu")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)  # pip as most people have it
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    ordinary = half_made.wheels_folder
    own = replace(half_made, wheels_folder="", build="cpu", requirements=("torch", "erz"))
    own.place.claim("cpu")
    command = own.steps(keep=True)[0].command
    assert command[-1] == torch
    assert "--no-deps" in command
    real = plans.Plan._packages_step

    def from_the_folder(self):  # stands for the ordinary index, as there may be no network
        return real(replace(self, wheels_folder=ordinary))

    monkeypatch.setattr(plans.Plan, "_packages_step", from_the_folder)
    watched = install(own)
    assert watched.outcome.status == "done", watched.log
    assert "The ordinary index is used" in watched.outcome.message
