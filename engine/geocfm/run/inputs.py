"""What several jobs open in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from geocfm.geo.grid import Floats, Grid
from geocfm.geo.occurrences import Occurrences, read_occurrences
from geocfm.geo.rasters import Layer, find_layers
from geocfm.geo.writing import write_points
from geocfm.job import ApplyingJob, KnownOccurrences, LearningJob, TargetsJob
from geocfm.run.provenance import TAG
from geocfm.run.workplace import Workplace


def given_layers(job: LearningJob | ApplyingJob | TargetsJob) -> list[Layer]:
    """The layers that the job names, with what it says of them."""
    classes = job.classes if isinstance(job, LearningJob) else ()
    return find_layers(job.raster, classes, job.raster_crs, job.nodata)


def write_occurrences(
    place: Workplace, path: Path, grid: Grid, points: Floats, ids: NDArray[np.int64]
) -> None:
    """Write the occurrences that were used, with the number of each in its source."""
    write_points(
        place.folder / "occurrences.gpkg",
        grid,
        points,
        {"source_id": ids},
        layer="occurrences",
        description="The known occurrences that were used. source_id: number of the feature in "
        "the file they come from.",
        metadata={TAG: place.provenance.model_dump_json()},
    )
    place.deliver("occurrences.gpkg", path)


def open_occurrences(job: KnownOccurrences, grid: Grid, where: Sequence[str]) -> Occurrences:
    """The job's occurrences, which must be given, on the grid, filtered."""
    assert job.occurrences is not None
    return read_occurrences(
        job.occurrences,
        grid,
        where=where,
        layer=job.layer,
        x_column=job.x_column,
        y_column=job.y_column,
        crs=job.occurrences_crs,
        deduplicate=job.deduplicate,
    )
