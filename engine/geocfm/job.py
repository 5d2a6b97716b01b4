"""What a job is: one validated schema for the command line, batch files and the plugin.

Every field is an option of the command of the same name; the command line is made from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from geocfm.errors import UserError

Extent = tuple[float, float, float, float]


def _parse_extent(value: Any) -> Any:
    parts = value.split(",") if isinstance(value, str) else value
    if parts is not None and len(parts) != 4:
        raise ValueError("four numbers are needed: xmin,ymin,xmax,ymax")
    return parts


class Job(BaseModel):
    """What all jobs share: frozen, and no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class _Rasters(Job):
    raster: list[str] = Field(
        min_length=1,
        description="A layer: [name=]path[:band]. Repeat it, or give a pattern: 'data/*.tif'.",
    )


class OccurrenceInput(Job):
    """A job that reads known occurrences."""

    occurrences: Path = Field(
        description="Known occurrences: Shapefile, GeoPackage, GeoJSON or CSV."
    )
    where: list[str] = Field(
        [], description='Keep only these, e.g. "commod1|commod2 ~ gold, copper". Repeat to narrow.'
    )
    layer: str | None = Field(None, description="The layer of a GeoPackage.")
    x_column: str | None = Field(None, description="CSV: the column with x or longitude.")
    y_column: str | None = Field(None, description="CSV: the column with y or latitude.")
    occurrences_crs: str | None = Field(
        None, description="CRS of the occurrences where the file does not say, e.g. EPSG:28350."
    )
    deduplicate: bool = Field(False, description="Keep one occurrence per grid cell.")


class _GridChoice(Job):
    like: Path | None = Field(None, description="A raster whose grid is used.")
    crs: str | None = Field(None, description="CRS of the grid, e.g. EPSG:3577.")
    resolution: float | None = Field(None, gt=0, description="Cell size of the grid, in its CRS.")
    extent: Annotated[Extent | None, BeforeValidator(_parse_extent)] = Field(
        None, description="Extent of the grid in its CRS: xmin,ymin,xmax,ymax."
    )


class LearningJob(_Rasters, OccurrenceInput, _GridChoice):
    """A job that prepares a region to learn from."""

    classes: list[str] = Field(
        [], description="A layer that holds classes (geology codes); read as one channel per class."
    )
    preset: str = Field("auto", description="auto, quick, full, paper-synthetic or paper-earthmri.")
    window: int | None = Field(None, ge=16, description="Window size in cells; chosen by default.")
    tile: int | None = Field(None, ge=16, description="Size of held-out tiles in cells.")
    settings: list[str] = Field(
        [],
        description="Any other setting by name, e.g. network.width=32.",
        json_schema_extra={"option": "--set"},
    )


class CheckJob(LearningJob):
    """Look at layers and occurrences: what fits, what will be done, what stands in the way."""


class TrainJob(LearningJob):
    """Learn where occurrences lie, and write a model."""

    minutes: float | None = Field(None, gt=0, description="Train for so long.")
    iterations: int | None = Field(None, ge=1, description="Train for so many steps.")
    seed: int = Field(1, ge=0, description="Same seed, same result.")
    device: str = Field("auto", description="auto, cpu, cuda or mps.")
    out: Path = Field(description="The model to write, a .safetensors file.")


class ApplyingJob(_Rasters):
    """A job that applies a model to layers."""

    checkpoint: Path = Field(description="A model made by 'geocfm train'.")
    seed: int = Field(1, ge=0, description="Same seed, same result.")
    device: str = Field("auto", description="auto, cpu, cuda or mps.")
    combine: Literal["average"] = Field(
        "average", description="How overlapping windows are combined: average."
    )
    solver: Literal["euler", "midpoint", "heun"] | None = Field(
        None, description="euler, midpoint or heun; the model's own by default."
    )
    steps: int | None = Field(None, ge=1, le=1000, description="Steps of the solver.")


class RegionJob(ApplyingJob):
    """A job that may choose where a model is applied."""

    like: Path | None = Field(
        None, description="A raster whose grid is used instead of the model's CRS and cell size."
    )
    aoi: Path | None = Field(None, description="Only inside these polygons.")
    aoi_layer: str | None = Field(None, description="The layer of a GeoPackage with the polygons.")


class MapJob(RegionJob):
    """Make the prospectivity map: relative density as a Cloud Optimized GeoTIFF."""

    out: Path = Field(description="The GeoTIFF to write.")


class SampleJob(RegionJob):
    """Draw plausible occurrences, as points in a GeoPackage."""

    points: int | None = Field(
        None, ge=1, le=1_000_000, description="Points of each draw; the model's own by default."
    )
    draws: int = Field(4, ge=1, le=10_000, description="How many independent draws.")
    out: Path = Field(description="The GeoPackage to write.")


class EvaluateJob(ApplyingJob, OccurrenceInput):
    """Measure the model on the tiles it never saw: capture curve as JSON and plots."""

    out: Path = Field(description="The folder to write into.")


class InfoJob(Job):
    """Print a model's card: what it learned from, and how well."""

    checkpoint: Path = Field(
        description="A .safetensors model.", json_schema_extra={"argument": True}
    )


class MemoryJob(Job):
    """Measure peak memory on a virtual stack: statistics, training, a map."""

    size: int = Field(20_000, ge=2000, multiple_of=1000, description="Cells along each side.")
    layers: int = Field(8, ge=1, description="How many layers.")
    iterations: int = Field(200, ge=1, description="Training iterations.")
    windows: int = Field(500, ge=4, description="About so many windows are mapped.")
    out: Path = Field(description="The folder for the stack and the results.")


def make_job(kind: type[Job], values: dict[str, Any]) -> Job:
    """Validate values into a job; what is wrong is said by its option's name."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "job"
        field = kind.model_fields.get(name)
        hint = (field.description if field else None) or first["msg"]
        said = first["msg"].removeprefix("Value error, ")
        raise UserError(f"{option_name(kind, name)}: {said[0].lower()}{said[1:]}.", hint) from None


def option_name(kind: type[Job], name: str) -> str:
    """How a field is called on the command line."""
    field = kind.model_fields.get(name)
    extra = field.json_schema_extra if field else None
    if isinstance(extra, dict) and "option" in extra:
        return str(extra["option"])
    return "--" + name.replace("_", "-")
