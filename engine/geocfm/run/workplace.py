"""A folder beside the result where a job works: its lock, and what it has done so far.

It outlives an interruption, so the same command goes on from there, and is removed in the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout

from geocfm.errors import FULL, Interrupted, UserError, disk_full
from geocfm.geo.writing import atomic_path, cannot_write, replace_file
from geocfm.job import EvaluateJob, MemoryJob, SampleJob, TrainJob, WritingJob
from geocfm.run.provenance import Provenance, read_provenance, sidecar

LOCK, OWNER, JOB = "lock", "owner.json", "job.json"
LONGEST_NAME = 200  # bytes; file systems allow 255, and the folder's name is a little longer
LEAST_ROOM = 2**16  # bytes free; below, GDAL's vague errors mean a full disk
LOCK_SECONDS = 1.0  # a process that just ends may hold the lock a moment longer


def results_of(job: WritingJob) -> list[Path]:
    """The files a job writes. The first is moved into place last, so it means all are there."""
    out: Path = job.out
    if isinstance(job, TrainJob):
        ends = (f"last{out.suffix}", "log.jsonl", "preview.png")
        return [out, *(beside(out, end) for end in ends)]
    if isinstance(job, EvaluateJob):
        return [out / name for name in ("evaluation.json", "capture.png", "map.png")]
    if isinstance(job, MemoryJob):
        return [out / "memory.json"]
    described = sidecar(out) if isinstance(job, SampleJob) else None
    return [out, described] if described else [out]


def beside(out: Path, end: str) -> Path:
    """A file named after a result: model.safetensors and 'log.jsonl' give model.log.jsonl."""
    return out.with_name(f"{out.stem}.{end}")


def made_before(job: WritingJob, provenance: Provenance) -> bool:
    """Whether the very result is there already: the same job, from the same inputs."""
    earlier = read_provenance(results_of(job)[0])
    return earlier is not None and not provenance.differences(earlier)


def refuse_existing(job: WritingJob, *, continued: bool = False) -> None:
    """Never replace what the user did not say to replace."""
    results = results_of(job)
    for path in results:
        if path.is_dir():
            raise UserError(f"'{path}' is a folder.", "Give the name of a file.")
        if path.parent.is_file():
            raise UserError(f"'{path.parent}' is a file.", "Give the name of a folder.")
    # of continued work all but the first may be in place already
    there = [path for path in (results[:1] if continued else results) if path.exists()]
    if there and not job.overwrite:
        raise UserError(
            f"{', '.join(map(str, there))} is already there, and not from this very job.",
            "Choose another name, or replace it with --overwrite.",
        )


@dataclass(frozen=True)
class Workplace:
    """Where a job works; ``continued`` if an earlier run left something to go on from."""

    folder: Path
    provenance: Provenance
    continued: bool

    def deliver(self, name: str, final: Path) -> None:
        """Move a complete file to its place among the results."""
        final.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / name, final)


@contextmanager
def workplace(job: WritingJob, provenance: Provenance) -> Iterator[Workplace]:
    """Claim the job's results for this process, and go on from what an earlier run left."""
    _refuse_inputs(job, provenance)
    folder = _folder(job.out)
    made = _make_folders(folder)
    try:
        with _locked(folder, job.out):
            continued = _continues(folder, provenance, job)
            refuse_existing(job, continued=continued)
            with atomic_path(folder / JOB) as temporary:
                temporary.write_text(provenance.model_dump_json(indent=1), encoding="utf-8")
            try:
                yield Workplace(folder, provenance, continued)
            except Exception as error:
                explained = _explained(error, folder)
                if isinstance(explained, UserError) and not isinstance(explained, Interrupted):
                    _clear(folder)  # the work so far was on inputs that are not good
                raise explained from error
            _clear(folder)
    finally:
        for path in (folder, *reversed(made)):
            with suppress(OSError):  # what is not empty stays
                path.rmdir()


def _refuse_inputs(job: WritingJob, provenance: Provenance) -> None:
    """A result must not replace what it is made from, --overwrite or not."""
    inputs = {os.path.realpath(entry.path) for entry in provenance.inputs}
    for path in results_of(job):
        if os.path.realpath(path) in inputs:
            raise UserError(f"{path} is an input of this very job.", "Choose another --out.")


def _explained(error: Exception, folder: Path) -> Exception:
    """What went wrong with the place itself, which may show as any error of GDAL's or ours."""
    if isinstance(error, UserError):
        return error
    if not folder.exists():
        return Interrupted(
            f"The folder {folder.parent} vanished while the job was at work.",
            "Is the disk or the network drive still connected? Then run the command again.",
        )
    if getattr(error, "errno", None) in FULL or shutil.disk_usage(folder).free < LEAST_ROOM:
        return disk_full(folder.parent)
    if isinstance(error, PermissionError):
        return cannot_write(folder.parent, error)
    return error


def _folder(out: Path) -> Path:
    name = out.name
    if len(name.encode()) > LONGEST_NAME:
        name = hashlib.sha256(name.encode()).hexdigest()[:32]
    return out.with_name(f".{name}.work")


def _make_folders(folder: Path) -> list[Path]:
    """Make the folder; gives the parents that were missing, outermost first."""
    missing = [parent for parent in reversed(folder.parents) if not parent.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder.parent, error) from error
    return missing


@contextmanager
def _locked(folder: Path, out: Path) -> Iterator[None]:
    path = folder / LOCK
    lock = FileLock(path, timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise UserError(
            f"Another GeoCFM is at work on {out}{_owner(folder)}.",
            "Wait until it has finished, stop it, or choose another name.",
        ) from None
    except OSError as error:
        raise cannot_write(folder.parent, error) from error
    try:
        owner = {
            "process": os.getpid(),
            "machine": socket.gethostname(),
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        }
        with suppress(OSError):  # on a full disk the work itself will say so
            (folder / OWNER).write_text(json.dumps(owner), encoding="utf-8")
        yield
    finally:
        with suppress(OSError):
            if not _worth_keeping(folder):
                _clear(folder)
            (folder / OWNER).unlink()
        with suppress(OSError):  # while it is locked, so that nobody locks a file without a name
            path.unlink()
        lock.release()
        if os.name == "nt":  # where an open file cannot be removed
            with suppress(OSError):
                path.unlink()


def _owner(folder: Path) -> str:
    try:
        owner = json.loads((folder / OWNER).read_text(encoding="utf-8"))
        return f" (process {owner['process']} on {owner['machine']}, since {owner['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _continues(folder: Path, provenance: Provenance, job: WritingJob) -> bool:
    """Whether an earlier run left work of this very job; work of another is not thrown away."""
    if not _worth_keeping(folder):
        _clear(folder)
        return False
    try:
        text = (folder / JOB).read_text(encoding="utf-8")
        earlier = Provenance.model_validate_json(text)
    except (OSError, ValueError):
        if job.overwrite:
            _clear(folder)
            return False
        raise UserError(
            f"Unfinished work of an unknown job waits in {folder}.",
            "Begin anew with --overwrite, or choose another name.",
        ) from None
    differences = provenance.differences(earlier)
    if not differences:
        return True
    # parts of a map are worth nothing once an input has changed; a model in the making may be
    outdated = provenance.same_job(earlier) and not isinstance(job, TrainJob)
    if not (job.overwrite or outdated):
        touched = time.strftime("%Y-%m-%d %H:%M", time.localtime(folder.stat().st_mtime))
        raise UserError(
            f"Unfinished work of another job, last touched {touched}, waits in {folder}: "
            f"{'; '.join(differences)}.",
            "Run the job as it was to finish it, or begin anew with --overwrite.",
        )
    _clear(folder)
    return False


def _worth_keeping(folder: Path) -> bool:
    return any(path.name not in (LOCK, OWNER, JOB) for path in folder.iterdir())


def _clear(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name in (LOCK, OWNER):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
