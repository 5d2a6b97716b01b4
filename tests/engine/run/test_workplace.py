"""Where a job works: nothing of somebody else's is removed, nothing old is mixed with new."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from geocfm.errors import Interrupted, UserError
from geocfm.geo.writing import replace_file
from geocfm.job import EvaluateJob, MapJob, SampleJob, SynthJob, TrainJob, WritingJob
from geocfm.results import results_of, work_folder
from geocfm.run.claim import LOCKS, claim
from geocfm.run.provenance import TAG, trace
from geocfm.run.work_files import FILES, JOB
from geocfm.run.workplace import (
    InputsChanged,
    Workplace,
    ensure_place,
    explained,
    remove_unfinished,
    tidy,
    working,
)
from small_data import UTM, write_raster

VALUES = np.ones((120, 100), dtype=np.float32)
OLD = 1_000_000_000  # seconds
links = pytest.mark.skipif(os.name == "nt", reason="Windows lets few make links")


def noticed_by_the_rename(folder: Path) -> Exception:
    with pytest.raises(Interrupted, match="cannot be written") as found:
        replace_file(folder / "unfinished.tmp", folder / "part.npz")
    return found.value


@pytest.mark.parametrize(
    "notice",
    [noticed_by_the_rename, lambda folder: FileNotFoundError(), lambda folder: UserError("?", "")],
)
def test_a_vanished_folder_is_named_whatever_noticed_it(notice, tmp_path: Path) -> None:
    folder = tmp_path / "stick" / ".map.tif.work"
    said = explained(notice(folder), folder)
    assert isinstance(said, Interrupted)
    assert f"{folder.parent} vanished" in said.message


def test_while_the_folder_is_there_a_sentence_stays_as_it_is(tmp_path: Path) -> None:
    error = noticed_by_the_rename(tmp_path)
    assert explained(error, tmp_path) is error


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody here is about to end: a lock that is held stays held."""
    monkeypatch.setattr("geocfm.run.claim.LOCK_SECONDS", 0.05)


# --- the folder ----------------------------------------------------------------------------------


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with a raster, occurrences and what stands for a model."""
    folder = tmp_path / "inputs"
    folder.mkdir()
    write_raster(folder / "r.tif", VALUES, UTM)
    (folder / "m.safetensors").write_bytes(b"a model")
    (folder / "p.csv").write_text("x,y\n1,2\n")
    for path in folder.iterdir():
        os.utime(path, (OLD, OLD))
    return folder


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A folder for results."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


def mapping(inputs: Path, out: Path, **more: Path | bool) -> MapJob:
    given = {"raster": [str(inputs / "r.tif")], "checkpoint": inputs / "m.safetensors", "out": out}
    return MapJob.model_validate({**given, **more})


def training(inputs: Path, out: Path, **more: object) -> TrainJob:
    given = {"raster": [str(inputs / "r.tif")], "occurrences": inputs / "p.csv", "out": out}
    return TrainJob.model_validate({**given, **more})


def make(job: WritingJob, during: Callable[[Workplace], object] = lambda place: None) -> None:
    """Do as jobs do: work a little, be interfered with, deliver."""
    with working(job, trace(job)) as place:
        (place.folder / "strips").mkdir(exist_ok=True)
        (place.folder / "strips" / "row-1.npz").write_bytes(b"part")
        during(place)
        main, *others = results_of(job)
        for path in (*others, main):
            (place.folder / "map.tif").write_bytes(b"result")
            place.deliver("map.tif", path)


def left_by_a_killed_run(job: WritingJob) -> Path:
    """The work folder of a run that got as far as its first part."""
    folder = work_folder(job)
    (folder / "strips").mkdir(parents=True)
    (folder / "strips" / "row-1.npz").write_bytes(b"part")
    (folder / JOB).write_text(trace(job).model_dump_json())
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


JOBS = {
    "a map": lambda inputs, out: mapping(inputs, out / "x.tif"),
    "an evaluation": lambda inputs, out: EvaluateJob(
        raster=[str(inputs / "r.tif")],
        checkpoint=inputs / "m.safetensors",
        occurrences=inputs / "p.csv",
        out=out,
    ),
    "a training": lambda inputs, out: training(inputs, out / "x.safetensors"),
}
ATTEMPTS = {
    "run": lambda job: make(job),
    "dry run": lambda job: ensure_place(job, trace(job)),
    "dry run before its inputs are there": lambda job: ensure_place(job, None),
}


@links
@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("kind", JOBS)
def test_a_link_for_a_work_folder_is_refused_and_what_it_leads_to_stays(
    kind: str, attempt: str, inputs: Path, results: Path, tmp_path: Path
) -> None:
    job = JOBS[kind](inputs, results)
    victim = tmp_path / "victim"
    (victim / "strips").mkdir(parents=True)
    (victim / "strips" / "row-1.npz").write_bytes(b"somebody's")
    (victim / JOB).write_text(trace(job).model_dump_json())  # the worst that could be there
    (victim / "lock").write_text("somebody's")
    before = set(victim.rglob("*"))
    work_folder(job).symlink_to(victim)
    with pytest.raises(UserError, match="is a link") as said:
        ATTEMPTS[attempt](job)
    assert not isinstance(said.value, Interrupted)
    tidy(job)
    assert set(victim.rglob("*")) == before
    assert (victim / "strips" / "row-1.npz").read_bytes() == b"somebody's"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("kind", JOBS)
def test_somebodys_folder_of_that_name_stays_as_it_is(
    kind: str, attempt: str, overwrite: bool, inputs: Path, results: Path
) -> None:
    job = JOBS[kind](inputs, results).model_copy(update={"overwrite": overwrite})
    folder = work_folder(job)
    (folder / "strips").mkdir(parents=True)
    (folder / "strips" / "a.npz").write_bytes(b"my arrays")
    (folder / "lock").write_text("mine")
    (folder / "owner.json").write_text("mine")
    (folder / JOB).write_text(json.dumps({"job": "mine"}))
    before = {path: path.is_dir() or path.read_bytes() for path in folder.rglob("*")}
    with pytest.raises(UserError, match="holds what is not GeoCFM's") as said:
        ATTEMPTS[attempt](job)
    assert str(folder) in said.value.message
    assert said.value.hint
    tidy(job)
    assert {path: path.is_dir() or path.read_bytes() for path in folder.rglob("*")} == before


def test_a_file_where_the_work_folder_should_be_stays(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif")
    work_folder(job).write_text("mine")
    with pytest.raises(UserError, match="is a file"):
        make(job)
    assert work_folder(job).read_text() == "mine"


def test_of_our_work_folder_only_what_is_ours_is_removed(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif")
    folder = left_by_a_killed_run(job)
    notes, deeper = folder / "notes.txt", folder / "strips" / "letters" / "1.npz"
    deeper.parent.mkdir()
    for mine in (notes, deeper):
        mine.write_text("mine")
    make(job)
    assert {path for path in folder.rglob("*") if path.is_file()} == {notes, deeper}
    with pytest.raises(UserError, match="holds what is not GeoCFM's"):
        make(job.model_copy(update={"overwrite": True}))


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("state.safetensors", True),
        ("averaged-12.tmp", True),
        ("uncertainty_raw.tif", True),
        ("folds/fold-2/member-0/best-7.safetensors", True),
        ("folds/fold-2/strips-raw/row-3.npz", True),
        ("folds/folds-raw-head-kde.tif", True),
        ("unet-density/fold-1/network/log.jsonl", True),
        ("maps/count-kde/4.npz", True),
        ("baselines/unfinished.tmp", True),
        (".geocfm-0123abcd.tif.aux.xml", True),
        ("letters.txt", False),
        ("thesis.tif", False),
        ("best-of.safetensors", False),
        ("strips/notes.txt", False),
        ("thesis/row-3.npz", False),
        ("strips/thesis/row-3.npz", False),
        ("member-x/log.jsonl", False),
    ],
)
def test_what_a_job_may_leave_in_its_work_folder(name: str, ours: bool) -> None:
    assert bool(FILES.fullmatch(name)) == ours


@links
@pytest.mark.parametrize("name", ["strips", "map.tif", "log.jsonl", JOB, ".geocfm-00000000.json"])
def test_a_link_within_our_work_folder_is_refused(
    name: str, inputs: Path, results: Path, tmp_path: Path
) -> None:
    job = mapping(inputs, results / "x.tif")
    folder = left_by_a_killed_run(job)
    victim = tmp_path / "victim"
    if name == "strips":
        (folder / "strips").rename(victim)
    else:
        victim.write_text(trace(job).model_dump_json())
        (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(victim)
    before = victim.read_bytes() if victim.is_file() else names(victim)
    for overwrite in (False, True):
        with pytest.raises(UserError, match="is a link"):
            make(job.model_copy(update={"overwrite": overwrite}))
    assert (victim.read_bytes() if victim.is_file() else names(victim)) == before


@pytest.mark.parametrize(
    "left", [(), (".geocfm-0123abcd",), (".geocfm-0123abcd.json", ".DS_Store")]
)
def test_a_run_killed_before_it_said_whose_work_it_is_may_be_run_again(
    left: tuple[str, ...], inputs: Path, results: Path
) -> None:
    job = mapping(inputs, results / "x.tif")
    work_folder(job).mkdir()
    for name in left:
        (work_folder(job) / name).write_text("half")
    make(job)
    stays = {work_folder(job).name} if ".DS_Store" in left else set()
    assert names(results) == {"x.tif"} | stays


def test_work_of_the_same_job_goes_on_and_is_gone_in_the_end(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif")
    left_by_a_killed_run(job)
    found: list[bool] = []
    make(job, lambda place: found.append(place.continued))
    assert found == [True]
    assert names(results) == {"x.tif"}


# --- results -------------------------------------------------------------------------------------


def at_work_on(job: WritingJob, other: WritingJob) -> str:
    """What is said to a job that begins while another is at work."""
    with working(other, trace(other)), pytest.raises(UserError, match="at work") as said:
        make(job)
    return said.value.message


def test_every_result_is_claimed_not_only_the_main_one(inputs: Path, results: Path) -> None:
    shared = results / "sub" / "u.tif"
    first = mapping(inputs, results / "1.tif", uncertainty=shared)
    second = mapping(inputs, results / "2.tif", uncertainty=shared)
    third = mapping(inputs, results / "3.tif", monte_carlo_error=shared)
    fourth = mapping(inputs, shared)
    for other in (second, third, fourth):
        said = at_work_on(other, first)
        assert str(shared) in said
        assert f"process {os.getpid()}" in said
    assert names(results) == set()


@pytest.mark.parametrize(
    "name",
    ["m.occurrences.gpkg", "m.last.safetensors", "m.unfinished.safetensors", "m.folds.tif"],
)
def test_what_a_training_writes_beside_its_model_is_claimed(
    name: str, inputs: Path, results: Path
) -> None:
    path = results / name
    other: WritingJob
    if path.suffix == ".gpkg":
        other = SampleJob(
            raster=[str(inputs / "r.tif")], checkpoint=inputs / "m.safetensors", out=path
        )
    elif path.suffix == ".tif":
        other = mapping(inputs, path)
    else:
        other = training(inputs, path)
    assert str(path) in at_work_on(other, training(inputs, results / "m.safetensors", folds=2))


def test_jobs_that_share_a_work_folder_exclude_each_other(inputs: Path, results: Path) -> None:
    said = at_work_on(SynthJob(out=results), JOBS["an evaluation"](inputs, results))
    assert str(results) in said


@links
def test_a_result_is_claimed_by_whatever_path(inputs: Path, results: Path) -> None:
    (results.parent / "link").symlink_to(results)
    other = mapping(inputs, results.parent / "link" / "x.tif")
    assert "x.tif" in at_work_on(other, mapping(inputs, results / "x.tif"))


def test_jobs_that_each_want_a_result_of_the_other_do_not_wait_for_ever(
    inputs: Path, results: Path
) -> None:
    one = mapping(inputs, results / "a.tif", uncertainty=results / "b.tif")
    other = mapping(inputs, results / "b.tif", uncertainty=results / "a.tif")
    ended: list[object] = []
    both = threading.Barrier(2)

    def run(job: MapJob) -> None:
        both.wait()
        try:
            make(job)
            ended.append("done")
        except UserError as error:
            ended.append(error.message)

    threads = [threading.Thread(target=run, args=(job,)) for job in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert "done" in ended
    assert len(ended) == 2
    assert names(results) == {"a.tif", "b.tif"}


def test_locks_are_gone_afterwards_also_those_of_a_killed_run(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "new" / "x.tif", uncertainty=results / "deep" / "er" / "u.tif")
    for path in results_of(job):  # nobody holds what a killed process held
        (path.parent / LOCKS).mkdir(parents=True)
        (path.parent / LOCKS / f"{path.name}.lock").write_text("")
        (path.parent / LOCKS / f"{path.name}.json").write_text("{}")
    make(job)
    there = {path.relative_to(results).as_posix() for path in results.rglob("*")}
    assert there == {"new", "new/x.tif", "deep", "deep/er", "deep/er/u.tif"}


def test_of_folders_made_for_a_result_none_stays_if_there_is_none(
    inputs: Path, results: Path
) -> None:
    job = mapping(inputs, results / "new" / "x.tif", uncertainty=results / "deep" / "er" / "u.tif")

    def stumble(place: Workplace) -> None:
        raise UserError("No.", "")

    with pytest.raises(UserError, match=r"No\."):
        make(job, stumble)
    assert names(results) == set()


@links
@pytest.mark.parametrize("name", [LOCKS, f"{LOCKS}/x.tif.lock", f"{LOCKS}/x.tif.json"])
def test_a_link_for_a_lock_is_refused(name: str, inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif")
    victim = results.parent / "victim"
    if name == LOCKS:
        victim.mkdir()
        (victim / "x.tif.json").write_text("somebody's")
    else:
        (results / LOCKS).mkdir()
        victim.write_text("somebody's")
    (results / name).symlink_to(victim)
    with pytest.raises(UserError, match="is a link"):
        make(job)
    kept = victim / "x.tif.json" if name == LOCKS else victim
    assert kept.read_text() == "somebody's"


def test_a_lock_has_a_name_that_file_systems_take(tmp_path: Path) -> None:
    long = tmp_path / f"{'m' * 251}.tif"
    with claim({long: long}), pytest.raises(UserError, match="at work"), claim({long: long}):
        pass
    assert names(tmp_path) == set()


@pytest.mark.parametrize("twice", ["uncertainty", "monte_carlo_error"])
def test_two_results_of_a_job_are_two_files(twice: str, inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif", **{twice: results / "sub" / ".." / "x.tif"})
    for attempt in ATTEMPTS.values():
        with pytest.raises(UserError, match="Two results of this job") as said:
            attempt(job)
        assert "x.tif" in said.value.message
    both = {"uncertainty": results / "u.tif", "monte_carlo_error": results / "u.tif"}
    with pytest.raises(UserError, match="Two results of this job"):
        make(mapping(inputs, results / "x.tif", **both))


def test_a_result_does_not_lie_in_the_folder_of_the_work(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif", uncertainty=results / ".x.tif.work" / "map.tif")
    with pytest.raises(UserError, match="where the job works"):
        make(job)


def test_a_continued_job_does_not_replace_a_result_of_another(inputs: Path, results: Path) -> None:
    side = results / "u.tif"
    job = mapping(inputs, results / "x.tif", uncertainty=side)
    folder = left_by_a_killed_run(job)
    write_raster(side, VALUES, UTM)  # somebody's, or of a job that ended meanwhile
    with pytest.raises(UserError, match=r"u\.tif: already there"):
        make(job)
    assert (folder / "strips" / "row-1.npz").exists()
    with rasterio.open(side, "r+") as raster:  # its own, from before it was killed
        raster.update_tags(**{TAG: trace(job).model_dump_json()})
    make(job)
    assert side.read_bytes() == b"result"


def test_an_unfinished_model_of_another_training_stays(
    inputs: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from geocfm.run import workplace

    job, other = (training(inputs, results / f"{name}.safetensors") for name in "mn")
    path = results / "m.unfinished.safetensors"
    path.write_bytes(b"a model")
    for wrote, stays in ((other, True), (job, False)):
        said = trace(wrote)
        monkeypatch.setattr(
            workplace, "read_provenance", lambda p, said=said: said if p == path else None
        )
        if stays:
            with pytest.raises(UserError, match=r"m\.unfinished\.safetensors: already there"):
                make(job)
        remove_unfinished(job)
        assert path.exists() == stays


# --- inputs that change meanwhile ----------------------------------------------------------------


def test_work_is_not_gone_on_with_when_the_source_of_a_virtual_raster_was_replaced(
    inputs: Path, results: Path
) -> None:
    with rasterio.open(inputs / "r.tif") as raster:
        rasterio.shutil.copy(raster, inputs / "r.vrt", driver="VRT")
    given = [f"r={inputs / 'r.vrt'}"]
    job = mapping(inputs, results / "x.tif").model_copy(update={"raster": given})
    left_by_a_killed_run(job)
    replaced(inputs / "r.tif")
    found: list[bool] = []
    make(job, lambda place: found.append(place.continued))
    assert found == [False]
    slow = training(inputs, results / "x.safetensors").model_copy(update={"raster": given})
    left_by_a_killed_run(slow)
    replaced(inputs / "r.tif")
    with pytest.raises(UserError, match=r"Unfinished work of another job.*r\.tif has changed"):
        make(slow)


def replaced(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\n")


@pytest.mark.parametrize("name", ["r.tif", "p.csv"])
def test_an_input_that_is_replaced_during_the_work_ends_it(
    name: str, inputs: Path, results: Path
) -> None:
    job = training(inputs, results / "x.safetensors", skip_report=True)
    left_by_a_killed_run(job)  # else work is thrown away after any mistake
    with pytest.raises(InputsChanged, match=f"{name} has changed") as said:
        make(job, lambda place: replaced(inputs / name))
    assert "mix old and new" in said.value.hint
    assert not isinstance(said.value, Interrupted)
    assert names(results) == set()


def test_an_input_that_cannot_be_read_for_being_replaced_ends_the_work_with_that_sentence(
    inputs: Path, results: Path
) -> None:
    job = mapping(inputs, results / "x.tif")

    def stumble(place: Workplace) -> None:
        (inputs / "r.tif").write_bytes(b"half written")
        raise Interrupted("The raster cannot be read to its end.", "")

    with pytest.raises(InputsChanged, match=r"r\.tif has changed"):
        make(job, stumble)
    assert names(results) == set()


def test_a_mask_that_comes_during_the_work_ends_it(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif")

    def masked(place: Workplace) -> None:
        (inputs / "r.tif.msk").write_bytes((inputs / "r.tif").read_bytes())

    with pytest.raises(InputsChanged, match=r"r\.tif\.msk is new"):
        make(job, masked)
    assert names(results) == set()


def test_to_look_at_an_input_during_the_work_is_no_harm(inputs: Path, results: Path) -> None:
    def looked_at(place: Workplace) -> None:
        with rasterio.open(inputs / "r.tif") as raster:
            raster.stats(indexes=1)
        assert (inputs / "r.tif.aux.xml").exists()

    make(mapping(inputs, results / "x.tif"), looked_at)
    assert names(results) == {"x.tif"}


def test_an_input_that_is_gone_keeps_the_work_until_it_is_back(inputs: Path, results: Path) -> None:
    job = mapping(inputs, results / "x.tif")
    elsewhere = inputs.parent / "elsewhere.tif"
    with pytest.raises(Interrupted, match="does not exist") as said:
        make(job, lambda place: (inputs / "r.tif").rename(elsewhere))
    assert "same command" in said.value.hint
    assert names(results) == {".x.tif.work"}
    elsewhere.rename(inputs / "r.tif")
    found: list[bool] = []
    make(job, lambda place: found.append(place.continued))
    assert found == [True]
    assert names(results) == {"x.tif"}
