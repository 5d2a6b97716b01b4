"""Where a result comes from: the job, its inputs as they were, the seed and the software.

Every result carries this; it also tells whether a result, or unfinished work, is that of a job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyogrio
import rasterio
from pydantic import BaseModel, ConfigDict, ValidationError
from pyogrio.errors import DataSourceError
from rasterio.errors import RasterioError

from geocfm.errors import UserError
from geocfm.file_names import refuse_endless
from geocfm.geo.files_behind import raster_files, vector_files
from geocfm.geo.layers import find_effort, find_layers
from geocfm.geo.vectors import missing_file
from geocfm.job import ApplyingJob, Job, LearningJob, TargetsJob
from geocfm.layer_spec import is_dataset_name
from geocfm.model.checkpoint import load_card
from geocfm.results import sidecar
from geocfm.run.input_files import InputFile, full_path, input_files
from geocfm.versions import software_versions

TAG = "GEOCFM_PROVENANCE"
INPUT_FILES = ("checkpoint", "occurrences", "like", "aoi")
MAPS = ("map", "uncertainty")  # inputs of targets; elsewhere they may be results
BEHIND = {
    **dict.fromkeys(("occurrences", "aoi"), vector_files),
    **dict.fromkeys(("like", *MAPS), raster_files),
}
# rasters are compared as the layers they mean
NOT_THE_WORK = {"out", "overwrite", "raster", "effort"}


class Provenance(BaseModel):
    """All that is needed to make the result again."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    job: dict[str, Any]
    seed: int | None
    inputs: tuple[InputFile, ...]
    versions: dict[str, str]

    def differences(self, other: Provenance) -> list[str]:
        """What makes another work of it than ``other``; empty for the same job and inputs."""
        mine, others = self._work(), other._work()
        found = [
            f"{key} was {json.dumps(others.get(key))} and is {json.dumps(mine.get(key))}"
            for key in mine
            if mine[key] != others.get(key)
        ]
        now, then = ({(i.use, i.path): i for i in p.inputs} for p in (self, other))
        if list(now) != list(then) and now.keys() == then.keys():
            found.append("the layers are in another order")
        found += [f"{path} is new" for use, path in now if (use, path) not in then]
        given = {use for use, _ in now}
        found += [
            f"{path} is {'gone' if use in given else 'no longer given'}"
            for use, path in then
            if (use, path) not in now
        ]
        changed = [now[key].path for key in now if key in then and not now[key].same_as(then[key])]
        return found + [f"{path} has changed" for path in dict.fromkeys(changed)]

    def same_job(self, other: Provenance) -> bool:
        """Whether it is the same job, whatever has become of its inputs."""
        return self._work() == other._work()

    def _work(self) -> dict[str, Any]:
        return {key: value for key, value in self.job.items() if key not in NOT_THE_WORK}


def trace(job: Job) -> Provenance:
    """The provenance of what the job is going to make."""
    paths = {name: full_path(value) for name, value in job if _is_plain(value)}
    return Provenance(
        job={"command": command_of(job), **job.model_dump(mode="json"), **paths},
        seed=getattr(job, "seed", None),
        inputs=tuple(_inputs(job)),
        versions=software_versions(),
    )


def _is_plain(value: object) -> bool:
    return isinstance(value, Path) and not is_dataset_name(value.as_posix())


def command_of(job: Job) -> str:
    """The command that the job is called by: TrainJob is train."""
    return type(job).__name__.removesuffix("Job").lower()


def _inputs(job: Job) -> Iterator[InputFile]:
    rasters: list[str] = []
    if isinstance(job, LearningJob | ApplyingJob) or (
        isinstance(job, TargetsJob) and job.checkpoint is not None
    ):
        rasters = job.raster
    seen: set[str] = set()
    for layer in find_layers(rasters) if rasters else ():
        files = None if layer.path in seen else raster_files
        seen.add(layer.path)
        yield from _inputs_of(f"layer {layer.name}, band {layer.band}", layer.path, files)
    if isinstance(job, LearningJob) and job.effort:
        effort = find_effort(job.effort)
        yield from _inputs_of(f"effort, band {effort.band}", effort.path, raster_files)
    for name in (*MAPS, *INPUT_FILES) if isinstance(job, TargetsJob) else INPUT_FILES:
        path: Path | None = getattr(job, name, None)
        if path is not None:
            yield from _inputs_of(name, path.as_posix(), BEHIND.get(name))


def _inputs_of(
    use: str, name: str, files: Callable[[str], list[str]] | None = None
) -> Iterator[InputFile]:
    """An input, and what lies behind it."""
    try:
        yield from input_files(use, name, files(name) if files else ())
    except OSError as error:
        raise _missing(use, Path(name)) from error


def _missing(use: str, path: Path) -> UserError:
    """Said before anything else is made of it: a drive that is gone changes no input."""
    if use == "checkpoint":
        return UserError(f"There is no checkpoint at {path}.", "Check the path.")
    if use in ("occurrences", "aoi"):
        return missing_file(str(path), "Polygon" if use == "aoi" else "Point")
    return UserError(f"The raster '{path}' does not exist.", "Check its folder and its spelling.")


def read_provenance(path: Path) -> Provenance | None:
    """What a result says of itself; None for what is not ours or cannot be read."""
    try:
        refuse_endless(str(path))
        return Provenance.model_validate_json(_read(path))
    except (UserError, RasterioError, DataSourceError, ValidationError, OSError):
        return None
    except (KeyError, TypeError, ValueError, RecursionError):
        return None


def _read(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix == ".safetensors":
        return json.dumps(load_card(path).provenance)
    if suffix in (".tif", ".tiff"):
        with rasterio.open(path) as raster:
            return str(raster.tags()[TAG])
    if suffix == ".gpkg":
        return str(pyogrio.read_info(path)["layer_metadata"][TAG])
    if path.name in ("evaluation.json", "memory.json"):
        return json.dumps(json.loads(path.read_text(encoding="utf-8"))["provenance"])
    beside = sidecar(path)
    return beside.read_text(encoding="utf-8") if beside else ""
