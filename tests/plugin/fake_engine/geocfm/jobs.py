"""The jobs of a job file, as if done: the engine's progress, and files that look right."""

import json
import os
import select
import shutil
import sys
import time
from pathlib import Path

from geocfm.speaking import say

RESOURCES = Path(__file__).resolve().parents[4] / "resources"
MODEL = RESOURCES / "checkpoints" / "murchison_gold.safetensors"
RASTER = RESOURCES / "sample" / "rasters" / "fault_density.tif"
POINTS = RESOURCES / "sample" / "occurrences.gpkg"
STEPS = 10
INPUTS = ("occurrences", "checkpoint", "like", "aoi", "map")
REPORT = "<!DOCTYPE html><html><body><h1>GeoCFM</h1></body></html>\n"
FAILURES = {
    "failed": {
        "message": "The map would need about 90 GB of memory; 8 GB are free.",
        "hint": "Use a model trained with a smaller --window.",
    },
    "broken": {
        "message": "Sorry, GeoCFM made a mistake and had to stop: KeyError: 'ñ'",
        "hint": "Please report it with this log.",
    },
}
EXIT_CODES = {"done": 0, "broken": 1, "failed": 2, "cancelled": 130}


class Stop(Exception):
    """Standard input was closed."""


class Refusal(Exception):
    """A job that cannot be done."""


def note_pid(pid):
    """Leave the number of a process where the test looks for it."""
    if os.environ.get("GEOCFM_FAKE_PIDS"):
        with open(os.environ["GEOCFM_FAKE_PIDS"], "a", encoding="utf-8") as pids:
            pids.write(f"{pid}\n")


def run(arguments, failing=None):
    """Do the jobs of a file, or only look at them; `failing` is how the last one ends."""
    start = time.monotonic()
    content = json.loads(Path(arguments[1]).read_text(encoding="utf-8"))
    jobs = [{**content.get("defaults", {}), **job} for job in content["jobs"]]
    for number, job in enumerate(jobs, 1):
        job.setdefault("name", f"{job['command']} {number}")
    if "--dry-run" in arguments:
        return rehearse(jobs)
    ended = []
    for number, job in enumerate(jobs, 1):
        identity = {"number": number, "name": job["name"], "command": job["command"]}
        if any(each["status"] == "cancelled" for each in ended):
            end = {"status": "skipped", "message": "Not begun: the batch was stopped."}
        elif any(key in job and not os.path.exists(job[key]) for key in ("checkpoint", "map")):
            end = {"status": "skipped", "message": "Not begun: it needs the result of another."}
        else:
            say("job_started", total=len(jobs), **identity)
            end = attempt(job, failing if number == len(jobs) else None)
        end = {**identity, "seconds": 0.5, "artifacts": [], **end}
        say("job_ended", **end)
        ended.append(end)
    say("report", kind="batch", content={"jobs": ended})
    return conclude(ended, time.monotonic() - start)


def conclude(ended, seconds):
    """Say the last event, and give the exit code."""
    unfinished = [each for each in ended if each["status"] != "done"]
    said = f"{len(unfinished)} of {len(ended)} jobs did not finish"
    names = ", ".join(each["name"] for each in unfinished)
    statuses = {each["status"] for each in ended}
    if not unfinished:
        say("finished", seconds=seconds)
    elif "cancelled" in statuses:
        say("cancelled", message=f"Stopped as asked; {said}: {names}.")
    else:
        say("failed", message=f"{said}.", hint=f"Not finished: {names}.")
    order = ("cancelled", "broken", "failed", "done")
    return EXIT_CODES[next(each for each in order if each in statuses)]


def rehearse(jobs):
    """Say of each job what stands in its way."""
    coming, rows = set(), []
    for number, job in enumerate(jobs, 1):
        problems = [
            f"{name}: '{job[name]}' does not exist."
            for name in INPUTS
            if job.get(name) and job[name] not in coming and not os.path.exists(job[name])
        ]
        if job.get("out"):
            coming.add(job["out"])
            if os.path.exists(job["out"]) and not job.get("overwrite"):
                problems.append(occupied(job["out"]))
            if is_of_another_seed(job):
                problems.append(
                    "Unfinished work of another job waits: seed was 99. Run it as it was."
                )
        row = {"number": number, "name": job["name"], "command": job["command"], "seconds": 0.0}
        status = "problem" if problems else "ready"
        rows.append({**row, "status": status, "message": "\n".join(problems), "artifacts": []})
    say("report", kind="batch", content={"jobs": rows})
    wrong = [row["name"] for row in rows if row["message"]]
    if not wrong:
        say("finished", seconds=0.1)
        return 0
    message = f"{len(wrong)} of {len(rows)} jobs cannot be run as they are."
    say("failed", message=message, hint=f"Look at: {', '.join(wrong)}.")
    return 2


def occupied(out):
    """The engine's sentence for a result that is there."""
    return (
        f"{out}: already there, and not from this very job. "
        "Choose another name, or replace what is there with --overwrite."
    )


def is_of_another_seed(job):
    """Whether a test has left a work folder with the seed of another job."""
    out = Path(job["out"])
    seed = out.with_name(f".{out.name}.work") / "seed"
    return seed.exists() and seed.read_text() != str(job.get("seed"))


def attempt(job, failing):
    """Do one job; give how it ended."""
    artifacts = []

    def wrote(kind, path, description):
        artifacts.append(str(path))
        say("artifact", kind=kind, path=str(path), description=description)

    try:
        if failing:
            progress("Mapping", until=5)
            log = Path(error_log(job)) if failing == "broken" else ""
            return {"status": failing, **FAILURES[failing], "log": str(log)}
        out = job.get("out")
        if out and os.path.exists(out) and not job.get("overwrite"):
            raise Refusal(occupied(out))
        if out:
            os.makedirs(os.path.dirname(out), exist_ok=True)
        WORK[job["command"]](job, wrote)
    except Stop:
        said = "Stopped as asked; the same command goes on from here."
        return {"status": "cancelled", "message": said, "artifacts": artifacts}
    except Refusal as refusal:
        return {"status": "failed", "message": str(refusal)}
    return {"status": "done", "artifacts": artifacts}


def error_log(job):
    """Write a log of an error of ours beside the result."""
    path = Path(job["out"]).with_name("geocfm-error-fake.log")
    path.write_text(f"{job}\nTraceback (most recent call last):\nKeyError: 'ñ'\n", encoding="utf-8")
    return path


def progress(stage, until=STEPS, **first_values):
    """Tell a stage's progress; values fall like a loss."""
    seconds = float(os.environ.get("GEOCFM_FAKE_SECONDS", "0.01"))
    for step in range(1, until + 1):
        values = {name: value / step**0.5 for name, value in first_values.items()}
        left = seconds * (STEPS - step)
        say(
            "progress",
            stage=stage,
            done=100.0 * step / STEPS,
            total=100.0,
            seconds_left=left,
            values=values,
        )
        wait(seconds)


def wait(seconds):
    """Wait, unless standard input is closed."""
    readable, _, _ = select.select([sys.stdin], [], [], seconds)
    if readable and not os.read(sys.stdin.fileno(), 1):
        raise Stop


def check(job, wrote):
    """Look at layers and occurrences."""
    progress("Reading layers")
    sentences = ["The grid has 804 rows x 660 columns of 500 m cells in EPSG:20350."]
    warnings = [
        "3 occurrences share a cell with another one and are kept; --deduplicate keeps one "
        "per cell."
    ]
    say("note", text=sentences[0])
    say("warning", text=warnings[0])
    content = {
        "grid": "804 rows x 660 columns of 500 m cells in EPSG:20350",
        "layers": [],
        "occurrences": {"read": 255, "used": 255},
        "by_role": {"train": 164, "validation": 38, "test": 53},
        "window": {"size": 96, "stride": 12, "tile": 144},
        "windows": {"train": 569, "validation": 31, "test": 79},
        "sentences": sentences,
        "warnings": warnings,
        "problems": [],
        "can_train": True,
    }
    say("report", kind="check", content=content)
    say("note", text="Training is possible.")


def train(job, wrote):
    """Write a model, the last one and a log."""
    out = Path(job["out"])
    progress("Reading layers")
    say("note", text="Training preset 'quick' (0.12 million weights) on CPU (2 threads).")
    try:
        progress("Training", loss=2.0, validation=2.2)
    except Stop:
        unfinished = out.with_name(f"{out.stem}.unfinished{out.suffix}")
        shutil.copyfile(MODEL, unfinished)
        wrote("checkpoint", unfinished, "the best model so far")
        raise
    last = out.with_name(f"{out.stem}.last{out.suffix}")
    log = out.with_name(f"{out.stem}.log.jsonl")
    shutil.copyfile(MODEL, last)
    log.write_text('{"iteration": 1, "loss": 2.0}\n', encoding="utf-8")
    shutil.copyfile(MODEL, out)
    say("note", text="100 iterations in 0.1 minutes; best at iteration 90.")
    wrote("checkpoint", out, "the best model on the validation tiles")
    wrote("checkpoint", last, "the model at the end of training")
    wrote("log", log, "every training value, one JSON object per line")
    used = out.with_name(f"{out.stem}.occurrences.gpkg")
    shutil.copyfile(POINTS, used)
    wrote("occurrences", used, "255 occurrences used")
    if job.get("folds"):
        out_of_fold = out.with_name(f"{out.stem}.folds.tif")
        shutil.copyfile(RASTER, out_of_fold)
        wrote("out-of-fold", out_of_fold, "map of tiles by models that never saw them")
    if not job.get("skip_report"):
        write_report(out.with_name(f"{out.stem}.report.html"), wrote)


def write_report(path, wrote):
    """Write a page."""
    path.write_text(REPORT, encoding="utf-8")
    wrote("report", path, "the report, to be read in a browser")


def draw_map(job, wrote):
    """Write a raster."""
    progress("Mapping")
    shutil.copyfile(os.environ.get("GEOCFM_FAKE_TIF", RASTER), job["out"])
    say("report", kind="map", content={"area_km2": 132660.0, "windows": 2000})
    wrote("prospectivity", job["out"], "prospectivity map (relative density)")
    if job.get("uncertainty"):
        shutil.copyfile(os.environ.get("GEOCFM_FAKE_UNCERTAINTY", RASTER), job["uncertainty"])
        wrote("uncertainty", job["uncertainty"], "how the members of the ensemble disagree")


def rank_targets(job, wrote):
    """Write polygons; where none are given, points that pass for them."""
    progress("Finding targets")
    shutil.copyfile(os.environ.get("GEOCFM_FAKE_TARGETS", POINTS), job["out"])
    wrote("targets", job["out"], "3 targets, best first")


def sample(job, wrote):
    """Write points."""
    progress("Drawing points")
    progress("Densities of the points")
    shutil.copyfile(os.environ.get("GEOCFM_FAKE_GPKG", POINTS), job["out"])
    wrote("samples", job["out"], f"{job.get('draws', 4)} draws of 500 points")


def evaluate(job, wrote):
    """Write figures and pictures."""
    progress("Mapping")
    folder = Path(job["out"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "evaluation.json").write_text("{}\n", encoding="utf-8")
    say("note", text="Held-out tiles: the most prospective 10 % of the area holds 60 %.")
    say("report", kind="evaluation", content={"test": {"count": 53}})
    wrote("evaluation", folder / "evaluation.json", "all figures")
    write_report(folder / "report.html", wrote)


WORK = {
    "check": check,
    "train": train,
    "map": draw_map,
    "sample": sample,
    "targets": rank_targets,
    "evaluate": evaluate,
}
