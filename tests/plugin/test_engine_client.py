"""The engine client against an engine that behaves well, badly, or not at all."""

import json
import os
import stat
import threading
import time
from pathlib import Path

import pytest
from fake_engine_fixture import fake_python, is_gone, noted_pids

from geocfm_qgis import child_process, engine_process, engine_troubles
from geocfm_qgis.engine_client import (
    Artifact,
    EngineUnusable,
    Finished,
    JobEnded,
    Note,
    Outcome,
    Progress,
    Started,
    Warning,
    as_text,
    handshake,
    parse_event,
    run_engine,
)

ROOT = Path(__file__).resolve().parents[2]
QUICKLY = 5.0  # seconds; what would hang takes minutes


@pytest.fixture
def job_file(tmp_path):
    """A file of three jobs: a model, its map, and points."""
    model = str(tmp_path / "results" / "gold.safetensors")
    jobs = [
        {"name": "model", "command": "train", "out": model},
        {"name": "map", "command": "map", "checkpoint": model, "out": f"{tmp_path}/results/m.tif"},
        {
            "name": "points",
            "command": "sample",
            "checkpoint": model,
            "out": f"{tmp_path}/results/p.gpkg",
        },
    ]
    path = tmp_path / "jobs.json"
    path.write_text(json.dumps({"jobs": jobs}), encoding="utf-8")
    return str(path)


@pytest.fixture
def run(tmp_path, job_file):
    """Run the job file with an engine of a certain behaviour."""

    def run(behaviour, *more, on_event=None, is_cancelled=None, grace=None, **variables):
        python = fake_python(tmp_path / "fake ünïcode", behaviour, **variables)
        return run_engine(
            python, ["run", job_file, *more], on_event, is_cancelled, grace and (lambda: grace)
        )

    return run


def after(seconds):
    """An is_cancelled that becomes true a while after it is first asked."""
    begun = []

    def is_cancelled():
        begun.append(time.monotonic())
        return time.monotonic() - begun[0] > seconds

    return is_cancelled


# Events


def test_events_are_parsed_with_what_a_later_version_may_add():
    line = '{"event": "progress", "stage": "Training", "done": 5, "total": 20, "mood": "good"}'
    assert parse_event(line) == Progress("Training", 5, 20)
    assert parse_event(line).share == 0.25
    assert parse_event('{"event": "applause"}') is None


def test_a_loss_that_is_no_number_is_left_out():
    line = (
        '{"event": "progress", "stage": "Training", "done": 1, "total": 2, '
        '"values": {"loss": null, "validation": 0.5}}'
    )
    assert parse_event(line).values == {"validation": 0.5}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Traceback",
        "[1]",
        "3",
        '{"text": "no event"}',
        '{"event": ["note"]}',
        '{"event": "note"}',
        '{"event": "note", "text": 3}',
        "[" * 100_000,
    ],
)
def test_garbage_is_no_event(line):
    with pytest.raises(ValueError):  # noqa: PT011
        parse_event(line)


def test_every_event_of_the_engines_schema_is_known():
    schema = json.loads((ROOT / "docs" / "events.schema.json").read_text(encoding="utf-8"))
    samples = {"string": "x", "integer": 1, "number": 1.5, "object": {}, "array": []}
    for definition in schema["$defs"].values():
        properties = definition["properties"]
        content = {
            name: about.get("const", samples.get(about.get("type")))
            for name, about in properties.items()
        }
        event = parse_event(json.dumps(content))
        assert event is not None, content
        assert set(vars(event)) == set(properties) - {"event"}


# An engine that works


def test_a_chain_of_jobs_gives_its_files_and_events(run, tmp_path):
    heard = []
    outcome = run("succeed", on_event=heard.append)
    assert outcome.status == "done", outcome.transcript
    assert isinstance(heard[0], Started)
    assert isinstance(heard[-1], Finished)
    losses = [each.values["loss"] for each in heard if isinstance(each, Progress) and each.values]
    assert len(losses) == 10
    assert losses[-1] < losses[0]
    assert [job.status for job in outcome.jobs] == ["done", "done", "done"]
    assert [each.kind for each in outcome.artifacts] == [
        *("checkpoint", "checkpoint", "log", "occurrences", "report", "prospectivity", "samples"),
    ]
    assert outcome.finished_artifacts == outcome.artifacts
    assert all(os.path.getsize(each.path) for each in outcome.artifacts)
    assert outcome.reports("map") == [{"area_km2": 132660.0, "windows": 2000}]
    assert not any(isinstance(event, Progress) for event in outcome.events)
    assert "Job 2 of 3: map" in outcome.transcript


def test_callbacks_come_in_the_calling_thread(run):
    threads = []
    run("succeed", on_event=lambda event: threads.append(threading.get_ident()))
    assert set(threads) == {threading.get_ident()}


def test_an_error_in_a_callback_leaves_no_process(run, tmp_path):
    pids = tmp_path / "pids"

    def fail(event):
        raise KeyError("of the test")

    with pytest.raises(KeyError):
        run("dawdle", on_event=fail, GEOCFM_FAKE_PIDS=pids)
    assert is_gone(noted_pids(pids)[0])


# Failures that the engine tells


def test_the_sentence_is_that_of_the_job_that_failed(run):
    outcome = run("fail")
    assert outcome.status == "failed"
    assert outcome.message == "The map would need about 90 GB of memory; 8 GB are free."
    assert outcome.hint == "Use a model trained with a smaller “Window”."
    assert [job.status for job in outcome.jobs] == ["done", "done", "failed"]
    assert {each.kind for each in outcome.finished_artifacts} == {
        *("checkpoint", "log", "occurrences", "report", "prospectivity")
    }


def test_an_error_of_ours_comes_with_its_log(run):
    outcome = run("broken")
    assert outcome.status == "broken"
    assert "KeyError: 'ñ'" in outcome.message
    with open(outcome.log, encoding="utf-8") as log:
        assert "KeyError: 'ñ'" in log.read()


def test_a_rehearsal_tells_the_first_problem(run, tmp_path):
    assert run("succeed", "--dry-run").status == "done"
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "m.tif").touch()
    outcome = run("succeed", "--dry-run")
    assert outcome.status == "failed"
    assert "m.tif: already there" in outcome.message
    assert "“Replace results that are there”" in outcome.message
    assert [row["status"] for row in outcome.reports("batch")[0]["jobs"]] == [
        *("ready", "problem", "ready")
    ]


# An engine out of order


def test_garbage_among_the_events_goes_to_the_transcript(run):
    outcome = run("garbage")
    assert outcome.status == "done"
    assert "Intel MKL WARNING" in outcome.transcript
    assert "says goodbye" in outcome.transcript


@pytest.mark.parametrize("behaviour", ["old_protocol", "new_protocol", "no_introduction"])
def test_an_engine_of_another_version_is_refused_at_once(run, behaviour, tmp_path):
    pids = tmp_path / "pids"
    start = time.monotonic()
    outcome = run(behaviour, GEOCFM_FAKE_PIDS=pids)
    assert outcome.status == "failed"
    assert "different versions" in outcome.message
    assert "Install the plugin anew" in outcome.hint
    assert time.monotonic() - start < QUICKLY
    assert is_gone(noted_pids(pids)[0])


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        ("crash", "(code 3): RuntimeError: no luck"),
        ("killed", "memory was not enough"),
        ("segfault", "crashed (code -11)"),
        ("import_error", "could not load a library of rasterio"),
    ],
)
def test_a_crash_is_explained(run, behaviour, said):
    outcome = run(behaviour)
    assert outcome.status == "broken"
    assert said in outcome.message
    assert outcome.hint


def test_a_program_of_which_no_event_is_heard_is_no_engine(run, tmp_path):
    outcome = run("only_garbage")
    assert outcome.status == "failed"
    assert "is not a Python that can run GeoCFM's engine" in outcome.message
    assert "GeoCFM page" in outcome.hint
    assert "Welcome!" in outcome.transcript
    program = tmp_path / "--window" / "python"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'unknown option -m' >&2\nexit 2\n")
    program.chmod(0o755)
    outcome = run_engine(str(program), ["doctor"])
    assert outcome.status == "failed"
    assert outcome.message.startswith(f"{program} is not")  # a path is no option of the engine's
    assert outcome.message.endswith("unknown option -m")


def test_the_names_of_files_are_left_as_they_are(run, job_file):
    odd = job_file.replace("jobs.json", "--window")
    text = Path(job_file).read_text(encoding="utf-8").replace("/results/m.tif", "/--window/m.tif")
    Path(job_file).write_text(text, encoding="utf-8")
    assert f"Wrote {odd}/m.tif" in run("succeed").transcript


def test_a_warning_is_told_from_a_note():
    assert as_text(Note("All is well.")) == "All is well."
    assert as_text(Warning("Few points.")) == "Worth a look: Few points."


def test_the_transcript_holds_the_last_words(run):
    assert "RuntimeError: no luck" in run("crash").transcript


def test_a_flood_on_standard_error_does_not_block(run):
    outcome = run("flood")
    assert outcome.status == "done"
    assert sum(isinstance(event, Note) for event in outcome.events) > 5000
    assert "warning 199" in outcome.transcript
    assert len(outcome.transcript) < 3 * 1024 * 1024


def test_a_very_long_line_survives(run):
    outcome = run("long_line")
    assert outcome.status == "done"
    assert max(len(event.text) for event in outcome.events if isinstance(event, Note)) == 10485760
    assert len(outcome.transcript) < 100_000


def test_a_last_line_without_an_end_counts(run):
    assert run("partial").status == "done"


def test_an_engine_that_falls_silent_is_ended(run, monkeypatch, tmp_path):
    monkeypatch.setattr(child_process, "SILENT_SECONDS", 0.3)
    outcome = run("close_stdout", GEOCFM_FAKE_PIDS=tmp_path / "pids")
    assert outcome.status == "broken"
    assert "stopped answering" in outcome.message
    assert is_gone(noted_pids(tmp_path / "pids")[0])


def test_what_the_engine_leaves_behind_is_ended(run, tmp_path):
    start = time.monotonic()
    outcome = run("grandchild", GEOCFM_FAKE_PIDS=tmp_path / "pids")
    assert outcome.status == "done"
    assert time.monotonic() - start < QUICKLY
    engine, left_behind = noted_pids(tmp_path / "pids", 2)
    assert is_gone(engine)
    assert is_gone(left_behind)


# Cancel


def test_cancel_lets_the_engine_keep_its_model(run, tmp_path):
    start = time.monotonic()
    outcome = run("dawdle", is_cancelled=after(0.3), GEOCFM_FAKE_PIDS=tmp_path / "pids")
    assert outcome.status == "cancelled"
    assert outcome.message == "Stopped as asked; run it again, and it goes on from here."
    assert [job.status for job in outcome.jobs] == ["cancelled", "skipped", "skipped"]
    assert outcome.artifacts == ()  # stopped while reading layers: nothing to keep yet
    assert time.monotonic() - start < QUICKLY
    assert is_gone(noted_pids(tmp_path / "pids")[0])


def test_a_model_kept_on_cancel_is_no_finished_file(run):
    training = threading.Event()

    def listen(event):
        if isinstance(event, Progress) and event.stage == "Training":
            training.set()

    outcome = run(
        "succeed", on_event=listen, is_cancelled=training.is_set, GEOCFM_FAKE_SECONDS=0.05
    )
    assert outcome.status == "cancelled"
    (kept,) = outcome.artifacts
    assert kept.path.endswith("gold.unfinished.safetensors")
    assert outcome.finished_artifacts == ()


def test_an_engine_that_ignores_cancel_is_ended_by_force(run, monkeypatch, tmp_path):
    monkeypatch.setattr(child_process, "TERMINATE_SECONDS", 0.3)
    start = time.monotonic()
    pids = tmp_path / "pids"
    outcome = run("ignore_cancel", is_cancelled=after(0.2), grace=0.3, GEOCFM_FAKE_PIDS=pids)
    assert outcome.status == "cancelled"
    assert "was ended" in outcome.message
    assert time.monotonic() - start < QUICKLY
    assert is_gone(noted_pids(pids)[0])


def test_waiting_costs_little_processor_time(run):
    before = time.process_time()
    run("dawdle", is_cancelled=after(1.0))
    assert time.process_time() - before < 0.5


def training_in_a_thread(run, behaviour, pids):
    """Run an engine as Processing does, until it trains: only QGIS's end will stop it."""
    outcomes, trains = [], threading.Event()

    def listen(event):
        if isinstance(event, Progress) and event.stage == "Training":
            trains.set()

    def work():
        variables = {"GEOCFM_FAKE_PIDS": pids, "GEOCFM_FAKE_SECONDS": 0.05}
        outcomes.append(run(behaviour, on_event=listen, **variables))

    worker = threading.Thread(target=work)
    worker.start()
    assert trains.wait(10)
    return worker, outcomes, noted_pids(pids)[0]


def test_at_the_end_of_qgis_engines_keep_their_models(run, tmp_path):
    worker, outcomes, pid = training_in_a_thread(run, "succeed", tmp_path / "pids")
    engine_process.end_all_engines()
    assert is_gone(pid, within=0)
    worker.join(5)
    assert outcomes[0].status == "cancelled"
    (kept,) = outcomes[0].artifacts
    assert kept.path.endswith("gold.unfinished.safetensors")


def test_at_the_end_of_qgis_a_stubborn_engine_is_ended_and_not_said_to_lack_memory(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(engine_process, "HURRIED_GRACE_SECONDS", 0.2)
    monkeypatch.setattr(child_process, "TERMINATE_SECONDS", 0.2)
    worker, outcomes, pid = training_in_a_thread(run, "ignore_cancel", tmp_path / "pids")
    start = time.monotonic()
    engine_process.end_all_engines()
    assert time.monotonic() - start < QUICKLY
    assert is_gone(pid, within=0)
    worker.join(5)
    assert outcomes[0].status == "cancelled"
    assert "was ended" in outcomes[0].message


# An engine that does not start


def test_nothing_chosen():
    outcome = run_engine("", ["doctor"])
    assert outcome.status == "failed"
    assert "No Python is chosen" in outcome.message
    assert "GeoCFM page" in outcome.hint


def test_a_python_that_is_gone(tmp_path):
    gone = str(tmp_path / "python")
    outcome = run_engine(gone, ["doctor"])
    assert outcome.status == "failed"
    assert f"is gone: {gone}" in outcome.message
    os.symlink("/nowhere/python3", gone)  # an environment whose base was removed
    assert "is gone" in run_engine(gone, ["doctor"]).message


def test_a_python_that_must_not_be_started(tmp_path):
    plain = tmp_path / "python"
    plain.write_text("#!/bin/sh\n")
    plain.chmod(stat.S_IRUSR)
    outcome = run_engine(str(plain), ["doctor"])
    assert outcome.status == "failed"
    assert "does not allow" in outcome.message


def test_a_file_that_is_no_program(tmp_path):
    text = tmp_path / "python"
    text.write_bytes(b"\x00\x01 no program")
    text.chmod(0o755)
    assert "is not a Python that works" in run_engine(str(text), ["doctor"]).message
    assert "is a folder" in run_engine(str(tmp_path), ["doctor"]).message
    assert run_engine("py\0thon", ["doctor"]).status == "failed"


# The handshake


def shaken(tmp_path, behaviour, **more):
    return handshake(fake_python(tmp_path / "fake", behaviour), **more)


def test_a_handshake_tells_versions_and_devices(tmp_path):
    told = shaken(tmp_path, "succeed")
    assert told.versions["torch"] == "2.9.9"
    assert [device.name for device in told.devices] == ["cpu", "cuda:0"]
    assert told.devices[1].memory_bytes == 4_000_000_000
    assert told.executable


@pytest.mark.parametrize(
    ("behaviour", "said", "remedy"),
    [
        ("missing", "lacks packages that the engine needs: torch, rasterio", "Create one for me"),
        ("lacks_everything", "lacks packages that the engine needs: pydantic", "Create one"),
        ("unloadable", "Windows could not load a library of torch", "Visual C++"),
        ("import_error", "Windows could not load a library of rasterio", "Visual C++"),
        ("old_protocol", "different versions", "Install the plugin anew"),
        ("crash", "no luck", "diagnostics"),
    ],
)
def test_a_handshake_that_fails_says_why(tmp_path, behaviour, said, remedy):
    with pytest.raises(EngineUnusable) as error:
        shaken(tmp_path, behaviour)
    assert said in error.value.message
    assert remedy in error.value.hint
    assert error.value.details


def test_the_handshake_looks_at_no_jobs(tmp_path):
    assert shaken(tmp_path, "fail").devices
    assert shaken(tmp_path, "broken").devices


def test_a_handshake_without_an_answer_ends(tmp_path):
    start = time.monotonic()
    with pytest.raises(EngineUnusable, match="did not answer within 1 seconds"):
        shaken(tmp_path, "silent", timeout=0.6)
    assert time.monotonic() - start < QUICKLY


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo Python 3.9.2", "This Python is 3.9.2; GeoCFM's engine needs 3.10 or newer"),
        ("echo 'Python 3.13rc1'", "is not a Python that works"),
        ("echo hello", "is not a Python that works. hello"),
        ("echo 'install from the Microsoft Store' >&2; exit 49", "link to the Microsoft Store"),
        ("echo \"No Python at 'C:\\python.exe'\" >&2; exit 103", "was made from is gone"),
    ],
)
def test_a_handshake_with_what_is_no_fitting_python(tmp_path, script, said):
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    with pytest.raises(EngineUnusable) as error:
        handshake(str(program))
    assert said in error.value.message
    assert "GeoCFM page" in error.value.hint


def test_a_second_qgis_is_never_started(tmp_path):
    started = tmp_path / "started"
    qgis = tmp_path / "qgis-bin"
    qgis.write_text(f"#!/bin/sh\ntouch '{started}'\n")
    qgis.chmod(0o755)
    with pytest.raises(EngineUnusable, match="is QGIS itself"):
        handshake(str(qgis))
    outcome = run_engine(str(qgis), ["run", "jobs.json"])
    assert outcome.status == "failed"
    assert "is QGIS itself" in outcome.message
    assert not started.exists()


def test_a_handshake_with_nothing():
    with pytest.raises(EngineUnusable, match="No Python is chosen"):
        handshake("")
    with pytest.raises(EngineUnusable, match="is gone"):
        handshake("/nowhere/python3")


# Sentences for the codes of systems that are not here


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (0xC0000135, "Windows could not load a library"),
        (-1073741515, "Windows could not load a library"),  # the same, signed
        (0xC0000142, "Windows could not load a library"),
        (3221225477, "crashed (code 0xC0000005)"),
        (0xC000001D, "processor"),
        (0xC0000017, "memory"),
        (0xC000013A, "from outside"),
        (137, "memory"),
        (-15, "from outside"),
        (9009, "does not work"),
    ],
)
def test_exit_codes_are_explained(code, said):
    assert said in engine_troubles.ended_without_word(code).message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("ModuleNotFoundError: No module named 'geocfm'", "missing from the folder of the plugin"),
        (
            "ModuleNotFoundError: No module named 'torch.nn'",
            "lacks packages that the engine needs: torch.",
        ),
        ("OSError: libcudart.so.12: cannot open shared object file", "could not load a library"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "memory"),
        ("OSError: [WinError 1455] The paging file is too small", "memory"),
        ("RuntimeError: module compiled against ABI version 0x1", "do not fit each other"),
        ("AttributeError: _ARRAY_API not found", "do not fit each other"),
        ("ValueError: numpy.dtype size changed, may indicate", "do not fit each other"),
    ],
)
def test_last_words_are_understood(words, said):
    assert said in engine_troubles.ended_without_word(1, words).message


def test_finished_files_of_a_single_command():
    made = Artifact("prospectivity", "/a.tif")
    assert Outcome("done", events=(made,)).finished_artifacts == (made,)
    assert Outcome("cancelled", events=(made,)).finished_artifacts == ()
    assert Outcome("done", events=(JobEnded(1, "a", "map", "done"),)).jobs[0].name == "a"
