"""A folder beside the results where a job works, with what it has done so far.

It outlives an interruption, so the same command goes on from there, and is removed in the end.
What is removed there, `work_files` knows; `claim` has the locks of all that a job writes.
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

from geocfm.errors import FULL, Cancelled, Interrupted, UserError, disk_full
from geocfm.file_names import refuse_endless
from geocfm.geo.writing import atomic_path, cannot_write, replace_file
from geocfm.job import TrainJob, WritingJob
from geocfm.job_file import place
from geocfm.results import results_of, unfinished_model, work_folder
from geocfm.run.claim import claim, lock_folder
from geocfm.run.input_files import full_path, untouched
from geocfm.run.provenance import Provenance, read_provenance, trace
from geocfm.run.work_files import JOB, clear, clear_part, job_of, refuse_foreign
from geocfm.training.resume import STATE

SAYING = (".tif", ".tiff", ".gpkg", ".safetensors")  # results that tell whose they are
LEAST_ROOM = 2**16  # bytes free; below, GDAL's vague errors mean a full disk


class InputsChanged(UserError):
    """An input was replaced while the job was at work: what it has done so far is of no use."""


@dataclass(frozen=True)
class Workplace:
    """Where a job works; ``continued`` if an earlier run left something to go on from."""

    folder: Path
    job: WritingJob
    provenance: Provenance
    continued: bool

    def deliver(self, name: str, final: Path) -> None:
        """Move a complete file to its place among the results; a link stays a link."""
        ensure_unchanged(self.job, self.provenance, last=final == results_of(self.job)[0])
        final = final.resolve() if final.is_symlink() else final
        replace_file(self.folder / name, final)

    def discard(self) -> None:
        """Throw away what has been done so far: going on from it would lead nowhere."""
        clear(self.folder)

    def discard_part(self, name: str) -> None:
        """Throw away what is in a folder of the work."""
        clear_part(self.folder, name)


@contextmanager
def working(job: WritingJob, provenance: Provenance) -> Iterator[Workplace]:
    """Claim the job's results for this process, and go on from what an earlier run left."""
    _refuse_places(job, provenance)
    folder = work_folder(job)
    with claim(_claimed(job)):
        continued = _ready(job, provenance, folder)  # refusing, it leaves all as it was
        try:
            if not continued:
                clear(folder)
                folder.mkdir(exist_ok=True)
                with atomic_path(folder / JOB) as temporary:
                    temporary.write_text(provenance.model_dump_json(indent=1), encoding="utf-8")
            yield Workplace(folder, job, provenance, continued)
            clear(folder)
        except Exception as error:
            said = _meant(error, job, provenance)
            mistaken = isinstance(said, UserError) and not isinstance(said, Interrupted)
            if isinstance(said, InputsChanged) or (mistaken and not continued):
                clear(folder)
            raise said from error
        finally:
            with suppress(OSError):
                if not _worth_keeping(folder):
                    clear(folder)
                folder.rmdir()  # if nothing is left


def _claimed(job: WritingJob) -> dict[Path, Path]:
    """All that a job writes, and its work folder, which different jobs may share."""
    results = results_of(job)
    more = [unfinished_model(job.out)] if isinstance(job, TrainJob) else []
    return {work_folder(job): job.out} | {path: path for path in (*results, *more)}


def ensure_unchanged(job: WritingJob, provenance: Provenance, *, last: bool = False) -> None:
    """Refuse to go on if an input is not what it was when the job began.

    last: look also for what came beside the inputs since.
    """
    if not last and all(map(untouched, provenance.inputs)):
        return
    try:
        differences = trace(job).differences(provenance)
    except UserError as error:
        if any(not Path(entry.path).exists() for entry in provenance.inputs if entry.modified):
            raise Interrupted(
                error.message, "Bring it back; the same command then goes on from here."
            ) from error
        changed = [entry.path for entry in provenance.inputs if not untouched(entry)]
        differences = [f"{path} has changed" for path in dict.fromkeys(changed)]
    if differences:
        raise InputsChanged(
            f"Inputs were changed while the job was at work: {'; '.join(differences)}.",
            "Its result would mix old and new data, so there is none: run the same command once "
            "more, which begins anew.",
        )


def _meant(error: Exception, job: WritingJob, provenance: Provenance) -> Exception:
    """What an error comes of: a raster that is replaced while it is read may show as any."""
    if not isinstance(error, InputsChanged | Cancelled):
        try:
            ensure_unchanged(job, provenance)
        except InputsChanged as changed:
            return changed
        except UserError:
            pass  # an input is gone, which the error says in its own way
    return explained(error, work_folder(job))


def made_before(job: WritingJob, provenance: Provenance) -> bool:
    """Whether the very result is there already: the same job, from the same inputs."""
    earlier = read_provenance(results_of(job)[0])
    return earlier is not None and not provenance.differences(earlier)


def tidy(job: WritingJob) -> None:
    """Remove what a run left that was killed when all but this was done."""
    folder = work_folder(job)
    if folder.exists() or lock_folder(folder).exists():
        with suppress(UserError), claim(_claimed(job)):  # else somebody is at work there
            refuse_foreign(folder)
            clear(folder)
            with suppress(OSError):
                folder.rmdir()
    if isinstance(job, TrainJob):
        remove_unfinished(job)


def ensure_place(job: WritingJob, provenance: Provenance | None) -> None:
    """Refuse, without writing, what `working` would; without provenance, inputs are yet to come."""
    _refuse_places(job, provenance)
    folder = work_folder(job)
    if provenance is None:
        refuse_foreign(folder)
        _refuse_existing(job)
    else:
        _ready(job, provenance, folder)
    there = next(parent for parent in folder.parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise cannot_write(there, error) from error


def _refuse_existing(job: WritingJob, continued: Provenance | None = None) -> None:
    """Never replace what the user did not say to replace. continued: the work that is gone on with.

    Of that all but the first result may be in place already.
    """
    there = [path for path in results_of(job) if path.exists()]
    if continued is not None:
        there = [p for p in there if p == results_of(job)[0] or _is_anothers(p, continued)]
    elif isinstance(job, TrainJob):
        unfinished = unfinished_model(job.out)
        if unfinished.exists() and not _left_by(job, unfinished):
            there.append(unfinished)
    if there and not job.overwrite:
        raise UserError(
            f"{', '.join(map(str, there))}: already there, and not from this very job.",
            "Choose another name, or replace what is there with --overwrite.",
        )


def _is_anothers(path: Path, provenance: Provenance) -> bool:
    """Whether a result that can tell its job is not of this one."""
    if path.suffix.lower() not in SAYING:
        return False
    said = read_provenance(path)
    return said is None or bool(provenance.differences(said))


def _left_by(job: TrainJob, path: Path) -> bool:
    """Whether a run with the same output wrote a model."""
    said = read_provenance(path)
    return said is not None and said.job.get("out") == full_path(job.out)


def _refuse_places(job: WritingJob, provenance: Provenance | None) -> None:
    """Refuse results where none can be, or where they would replace each other or an input."""
    results = results_of(job)
    _refuse_wrong_kind(results)
    work = place(work_folder(job))
    inputs = {place(entry.path) for entry in provenance.inputs} if provenance else set()
    seen: set[str] = set()
    for path in results:
        where = place(path)
        if where in inputs:
            raise UserError(f"{path} is an input of this very job.", "Choose another --out.")
        if where in seen:
            raise UserError(
                f"Two results of this job would be written to {path}.",
                "Give each a name of its own.",
            )
        if where.startswith(f"{work}{os.sep}"):
            raise UserError(
                f"{path} lies in the folder where the job works, which is removed in the end.",
                "Choose another folder.",
            )
        seen.add(where)


def _refuse_wrong_kind(results: list[Path]) -> None:
    for path in results:
        try:
            if path.parent.is_file():
                raise UserError(f"'{path.parent}' is a file.", "Give the name of a folder.")
            refuse_endless(str(path))
            if path.exists() and path.is_dir():
                raise UserError(f"'{path}' is a folder.", "Give the name of a file.")
            os.stat(path)
        except FileNotFoundError:
            continue
        except OSError as error:  # a name too long, a file among the folders, a loop of links
            raise UserError(
                f"'{path}' cannot be written ({error.strerror}).", "Choose another name."
            ) from error


def remove_unfinished(job: TrainJob) -> None:
    """Remove the model that an earlier, stopped run left; nobody else's file of that name."""
    path = unfinished_model(job.out)
    if path.exists() and _left_by(job, path):
        path.unlink()


def _ready(job: WritingJob, provenance: Provenance, folder: Path) -> bool:
    """Whether there is work to go on from; refuses results and work that are not this job's."""
    refuse_foreign(folder)
    continued = _continues(folder, provenance, job)
    _refuse_existing(job, provenance if continued else None)
    return continued


def _continues(folder: Path, provenance: Provenance, job: WritingJob) -> bool:
    """Whether an earlier run left work of this very job; work of another is not thrown away."""
    earlier = job_of(folder)
    if earlier is None or not _worth_keeping(folder):
        return False
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
    if (
        not folder.parent.exists()
    ):  # first: a file that could not be put there is only what it shows as
        return Interrupted(
            f"The folder {folder.parent} vanished while the job was at work.",
            "Is the disk or the network drive still connected? Then run the command again.",
        )
    if isinstance(error, UserError):
        return error
    if getattr(error, "errno", None) in FULL or shutil.disk_usage(folder.parent).free < LEAST_ROOM:
        return disk_full(folder.parent)
    if isinstance(error, PermissionError):
        return cannot_write(folder.parent, error)
    return error


def _worth_keeping(folder: Path) -> bool:
    return any(folder.rglob(STATE)) or any(folder.rglob("*.npz"))
