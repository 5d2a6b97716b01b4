"""What several jobs open in the same way."""

from __future__ import annotations

from collections.abc import Sequence

from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import Occurrences, read_occurrences
from geocfm.geo.rasters import Layer, find_layers
from geocfm.job import ApplyingJob, LearningJob, OccurrenceInput


def given_layers(job: LearningJob | ApplyingJob) -> list[Layer]:
    """The layers that the job names, with what it says of them."""
    classes = job.classes if isinstance(job, LearningJob) else ()
    return find_layers(job.raster, classes, job.raster_crs, job.nodata)


def open_occurrences(job: OccurrenceInput, grid: Grid, where: Sequence[str]) -> Occurrences:
    """The job's occurrences on the grid, filtered."""
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
