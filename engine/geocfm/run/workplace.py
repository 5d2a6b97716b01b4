"""A folder beside the results where a job works: its lock, and what it has done so far.

It outlives an interruption, so the same command goes on from there, and is removed in the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from geocfm.errors import FULL, Interrupted, UserError, disk_full
from geocfm.geo.writing import atomic_path, cannot_write, replace_file
from geocfm.job import TrainJob, WritingJob
from geocfm.job_file import place
from geocfm.results import results_of, unfinished_model, work_folder
from geocfm.run.claim import LOCK, OWNER, claim
from geocfm.run.provenance import Provenance, read_provenance
from geocfm.training.resume import STATE

JOB = "job.json"
LEAST_ROOM = 2**16  # bytes free; below, GDAL's vague errors mean a full disk


@dataclass(frozen=True)
class Workplace:
    """Where a job works; ``continued`` if an earlier run left something to go on from."""

    folder: Path
    provenance: Provenance
    continued: bool

    def deliver(self, name: str, final: Path) -> None:
        """Move a complete file to its place among the results; a link stays a link."""
        final = final.resolve() if final.is_symlink() else final
        replace_file(self.folder / name, final)

    def discard(self) -> None:
        """Throw away what has been done so far: going on from it would lead nowhere."""
        _clear(self.folder)


@contextmanager
def working(job: WritingJob, provenance: Provenance) -> Iterator[Workplace]:
    """Claim the job's results for this process, and go on from what an earlier run left."""
    _refuse_inputs(job, provenance)
    _refuse_wrong_kind(results_of(job))
    folder = work_folder(job)
    with claim(folder, job.out):
        continued = True  # what was here before is kept, whatever goes wrong
        try:
            continued = _ready(job, provenance, folder)
            if not continued:
                _clear(folder)
                with atomic_path(folder / JOB) as temporary:
                    temporary.write_text(provenance.model_dump_json(indent=1), encoding="utf-8")
            yield Workplace(folder, provenance, continued)
            _clear(folder)
        except Exception as error:
            said = explained(error, folder)
            mistaken = isinstance(said, UserError) and not isinstance(said, Interrupted)
            if mistaken and not continued:
                _clear(folder)
            raise said from error
        finally:
            with suppress(OSError):
                if not _worth_keeping(folder):
                    _clear(folder)


def made_before(job: WritingJob, provenance: Provenance) -> bool:
    """Whether the very result is there already: the same job, from the same inputs."""
    earlier = read_provenance(results_of(job)[0])
    return earlier is not None and not provenance.differences(earlier)


def tidy(job: WritingJob) -> None:
    """Remove what a run left that was killed when all but this was done."""
    folder = work_folder(job)
    if folder.exists():
        with suppress(UserError), claim(folder, job.out):  # else somebody is at work there
            _clear(folder)
    if isinstance(job, TrainJob):
        remove_unfinished(job)


def ensure_place(job: WritingJob, provenance: Provenance | None) -> None:
    """Refuse, without writing, what `working` would; without provenance, inputs are yet to come."""
    folder = work_folder(job)
    _refuse_wrong_kind(results_of(job))
    if provenance is None:
        refuse_existing(job)
    else:
        _refuse_inputs(job, provenance)
        _ready(job, provenance, folder)
    there = next(parent for parent in folder.parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise cannot_write(there, error) from error


def refuse_existing(job: WritingJob, *, continued: bool = False) -> None:
    """Never replace what the user did not say to replace."""
    results = results_of(job)
    # of continued work all but the first may be in place already
    there = [path for path in (results[:1] if continued else results) if path.exists()]
    if isinstance(job, TrainJob) and not continued:
        unfinished = unfinished_model(job.out)
        if unfinished.exists() and read_provenance(unfinished) is None:
            there.append(unfinished)
    if there and not job.overwrite:
        raise UserError(
            f"{', '.join(map(str, there))}: already there, and not from this very job.",
            "Choose another name, or replace what is there with --overwrite.",
        )


def _refuse_wrong_kind(results: list[Path]) -> None:
    for path in results:
        try:
            if path.parent.is_file():
                raise UserError(f"'{path.parent}' is a file.", "Give the name of a folder.")
            if path.exists() and path.is_dir():
                raise UserError(f"'{path}' is a folder.", "Give the name of a file.")
            os.lstat(path)
        except FileNotFoundError:
            continue
        except OSError as error:  # a name too long, or a file among the folders
            raise UserError(
                f"'{path}' cannot be written ({error.strerror}).", "Choose another name."
            ) from error


def remove_unfinished(job: TrainJob) -> None:
    """Remove the model that an earlier, stopped run left; nobody else's file of that name."""
    path = unfinished_model(job.out)
    if path.exists() and read_provenance(path) is not None:
        path.unlink()


def _refuse_inputs(job: WritingJob, provenance: Provenance) -> None:
    """A result must not replace what it is made from, --overwrite or not."""
    inputs = {place(entry.path) for entry in provenance.inputs}
    for path in results_of(job):
        if place(path) in inputs:
            raise UserError(f"{path} is an input of this very job.", "Choose another --out.")


def _ready(job: WritingJob, provenance: Provenance, folder: Path) -> bool:
    """Whether there is work to go on from; refuses results and work that are not this job's."""
    continued = _continues(folder, provenance, job)
    refuse_existing(job, continued=continued)
    return continued


def _continues(folder: Path, provenance: Provenance, job: WritingJob) -> bool:
    """Whether an earlier run left work of this very job; work of another is not thrown away."""
    if not _worth_keeping(folder):
        return False
    try:
        text = (folder / JOB).read_text(encoding="utf-8")
        earlier = Provenance.model_validate_json(text)
    except (OSError, ValueError):
        differences, outdated = ["it cannot be told which"], False
    else:
        differences = provenance.differences(earlier)
        # parts of a map are worth nothing once an input has changed; a model in the making may be
        outdated = provenance.same_job(earlier) and not isinstance(job, TrainJob)
    if differences and not (job.overwrite or outdated):
        touched = time.strftime("%Y-%m-%d %H:%M", time.localtime(folder.stat().st_mtime))
        raise UserError(
            f"Unfinished work of another job, last touched {touched}, waits in {folder}: "
            f"{'; '.join(differences)}.",
            "Run the job as it was to finish it, or begin anew with --overwrite.",
        )
    return not differences


def explained(error: Exception, folder: Path) -> Exception:
    """What went wrong with a work folder's place, which may show as any error of GDAL's or ours."""
    if not folder.exists():  # first: a file that could not be put there is only what it shows as
        return Interrupted(
            f"The folder {folder.parent} vanished while the job was at work.",
            "Is the disk or the network drive still connected? Then run the command again.",
        )
    if isinstance(error, UserError):
        return error
    if getattr(error, "errno", None) in FULL or shutil.disk_usage(folder).free < LEAST_ROOM:
        return disk_full(folder.parent)
    if isinstance(error, PermissionError):
        return cannot_write(folder.parent, error)
    return error


def _worth_keeping(folder: Path) -> bool:
    return any(folder.rglob(STATE)) or any(folder.rglob("*.npz"))


def _clear(folder: Path) -> None:
    with suppress(OSError):  # the folder may have vanished
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name not in (LOCK, OWNER):
                path.unlink()
