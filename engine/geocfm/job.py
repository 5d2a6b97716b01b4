"""What a job is: one validated schema for the command line, batch files and the plugin.

Every field is an option of the command of the same name; the command line is made from here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    field_validator,
)

from geocfm.errors import UserError
from geocfm.file_names import file_name, refuse_virtual, text_only
from geocfm.mistakes import explain, nearest_name

Extent = tuple[float, float, float, float]
Preset = Literal["auto", "quick", "full", "paper-synthetic", "paper-earthmri"]
DEVICE = r"^(auto|cpu|cuda(:\d+)?|mps)$"
# beyond these a number is a slip of the keyboard
MOST_CELLS = 1_000_000  # along a side
MOST_STEPS = 100_000_000
BASELINE_NAMES = (
    *("uniform", "global-kde", "poisson-lr", "rf", "rf-paper", "gbdt", "gbdt-paper", "unet-seg"),
    *("ocsvm", "retrieval-kde", "unet-density", "ipp"),
)
USUAL_BASELINES = ("rf", "ipp")  # what other tools offer: a random forest, and Maxent's equal
AUTO, ALL, NONE = "auto", "all", "none"  # words that stand for baselines
CORNERS = "four numbers are needed, xmin,ymin,xmax,ymax"


def _ending_in(*suffixes: str) -> AfterValidator:
    """A check of a file's name: programs go by its ending."""

    def check(path: Path | None) -> Path | None:
        if path is not None and path.suffix.lower() not in suffixes:
            raise ValueError(f"its name must end in {' or '.join(suffixes)}")
        return path

    return AfterValidator(check)


def baseline_names(text: str) -> list[str]:
    """The baselines that a text names, separated by commas; ``all`` is all of them."""
    names = _separated(text)
    if ALL in names:
        return list(BASELINE_NAMES)
    words: dict[str, tuple[str, ...]] = {AUTO: USUAL_BASELINES, NONE: ()}
    return list(dict.fromkeys(known for name in names for known in words.get(name, (name,))))


def baselines_asked(text: str) -> bool:
    """Whether somebody named baselines; else they are left out where they would be a burden."""
    return AUTO not in _separated(text)


def _separated(text: str) -> list[str]:
    return [name for part in text.split(",") if (name := part.strip().lower())]


def _refuse_unknown_baselines(text: str) -> str:
    every = f"The baselines are: {AUTO}, {ALL}, {NONE}, {', '.join(BASELINE_NAMES)}"
    names = _separated(text)
    if not names:
        raise ValueError(f"it names none. {every}")
    for word in {AUTO, NONE}.intersection(names):
        if len(names) > 1:
            raise ValueError(f"'{word}' stands alone. {every}")
    for name in baseline_names(text):
        if name not in BASELINE_NAMES:
            near = nearest_name(name, BASELINE_NAMES)
            raise ValueError(f"there is no baseline '{name}'. {near}{every}")
    return text


def _parse_extent(value: Any) -> Any:
    if isinstance(value, str):
        try:
            value = [float(part) for part in value.split(",")]
        except ValueError:
            raise ValueError(CORNERS) from None
    if isinstance(value, list | tuple) and len(value) != 4:
        raise ValueError(CORNERS)
    return value


def _refuse_empty_extent(extent: Extent | None) -> Extent | None:
    if extent is not None and not (extent[0] < extent[2] and extent[1] < extent[3]):
        raise ValueError("xmin must be less than xmax, and ymin less than ymax")
    return extent


# strict as jobs are, a Path could not be given as text
FileName = Annotated[Path, Strict(False), BeforeValidator(file_name)]
OptionalFileName = Annotated[Path | None, Strict(False), BeforeValidator(file_name)]
OptionalExtent = Annotated[
    Extent | None,
    Strict(False),
    BeforeValidator(_parse_extent),
    AfterValidator(_refuse_empty_extent),
]


LayerSpec = Annotated[str, BeforeValidator(file_name)]
BaselineNames = Annotated[str, AfterValidator(_refuse_unknown_baselines)]
ModelName = Annotated[FileName, _ending_in(".safetensors")]
MapName = Annotated[FileName, _ending_in(".tif", ".tiff")]
OptionalMapName = Annotated[OptionalFileName, _ending_in(".tif", ".tiff")]
PointsName = Annotated[FileName, _ending_in(".gpkg", ".geojson", ".json", ".csv")]
PolygonsName = Annotated[FileName, _ending_in(".gpkg")]


class Job(BaseModel):
    """What all jobs share: frozen, no unknown keys, and true is not 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    _text = field_validator("*")(text_only)


class _Rasters(Job):
    raster: list[LayerSpec] = Field(
        min_length=1,
        description="A layer: [name=]path[:band]. Repeat it, or give a pattern: 'data/*.tif'.",
    )
    raster_crs: list[str] = Field(
        [],
        description="CRS of a layer, name=EPSG:28350; outweighs what its file says. Repeat it.",
    )
    nodata: list[str] = Field(
        [],
        description="A value of a layer that means no data, name=-9999, besides what its file "
        "says; as it is stored, before any scale of the file. Repeat it.",
    )


class WritingJob(Job):
    """A job that writes results."""

    out: FileName = Field(description="Where the result is written.")
    overwrite: bool = Field(False, description="Replace results that are already there.")

    _real_out = field_validator("out")(refuse_virtual)


class KnownOccurrences(Job):
    """A job that may read known occurrences."""

    occurrences: OptionalFileName = Field(
        None, description="Known occurrences: Shapefile, GeoPackage, GeoJSON or CSV."
    )
    where: list[str] = Field(
        [], description='Keep only these, e.g. "commod1|commod2 ~ gold, copper". Repeat to narrow.'
    )
    layer: str | None = Field(None, description="The layer of a GeoPackage.")
    x_column: str | None = Field(None, description="CSV: the column with x or longitude.")
    y_column: str | None = Field(None, description="CSV: the column with y or latitude.")
    occurrences_crs: str | None = Field(
        None, description="CRS of the occurrences, e.g. EPSG:28350; outweighs what their file says."
    )
    deduplicate: bool = Field(False, description="Keep one occurrence per grid cell.")


class OccurrenceInput(KnownOccurrences):
    """A job that reads known occurrences."""

    occurrences: FileName = Field(
        description="Known occurrences: Shapefile, GeoPackage, GeoJSON or CSV."
    )


class _GridChoice(Job):
    like: OptionalFileName = Field(None, description="A raster whose grid is used.")
    crs: str | None = Field(None, description="CRS of the grid, e.g. EPSG:3577.")
    resolution: float | None = Field(
        None, gt=0, le=10_000_000, description="Cell size of the grid, in its CRS."
    )
    extent: OptionalExtent = Field(
        None, description="Extent of the grid in its CRS: xmin,ymin,xmax,ymax."
    )


class _AreaChoice(Job):
    aoi: OptionalFileName = Field(None, description="Only inside these polygons.")
    aoi_layer: str | None = Field(None, description="The layer of a GeoPackage with the polygons.")


class LearningJob(_Rasters, OccurrenceInput, _GridChoice, _AreaChoice):
    """A job that prepares a region to learn from."""

    classes: list[str] = Field(
        [], description="A layer that holds classes (geology codes); read as one channel per class."
    )
    effort: LayerSpec | None = Field(
        None,
        description="Survey effort, path[:band]: occurrences count for 1 / effort, so that places "
        "where much was looked do not seem the richer for it.",
    )
    preset: Preset = Field(
        "auto", description="auto, quick, full, paper-synthetic or paper-earthmri."
    )
    window: int | None = Field(
        None, ge=16, le=4096, description="Window size in cells; chosen by default."
    )
    tile: int | None = Field(
        None, ge=16, le=MOST_CELLS, description="Size of held-out tiles in cells."
    )
    settings: list[str] = Field(
        [],
        description="Any other setting by name, e.g. network.width=32.",
        json_schema_extra={"option": "--set"},
    )


class CheckJob(LearningJob):
    """Look at layers and occurrences: what fits, what will be done, what stands in the way."""


class ReportingJob(Job):
    """A job that ends with a report on a model."""

    baselines: BaselineNames = Field(
        AUTO,
        description="Other methods in the report, fitted on the model's own training tiles and "
        f"measured beside it: all, none, or some of {', '.join(BASELINE_NAMES)}, separated by "
        f"commas; auto is {','.join(USUAL_BASELINES)} unless the region is too large for them.",
    )


class TrainJob(ReportingJob, LearningJob, WritingJob):
    """Learn where occurrences lie, and write a model."""

    ground: Literal["auto", "window", "region"] = Field(
        "auto",
        description="The ground that counts as evenly searched: window (the surroundings of known "
        "occurrences; districts without any say nothing) or region (all training tiles); auto is "
        "the preset's choice.",
    )
    positive_only: bool = Field(
        False,
        description="Learn from the surroundings of known occurrences alone: --ground window, and "
        "no process of single cells as a start.",
    )
    minutes: float | None = Field(None, gt=0, le=100_000, description="Train for so long.")
    iterations: int | None = Field(
        None, ge=1, le=MOST_STEPS, description="Train for so many steps."
    )
    ensemble: int = Field(
        1,
        ge=1,
        le=20,
        description="Train so many networks, each from its own seed and its own choice of blocks "
        "of occurrences; they share the minutes. Their disagreement is the map's uncertainty.",
    )
    folds: int | None = Field(
        None,
        ge=2,
        le=20,
        description="Cross-validate by so many groups of tiles, which share the minutes with a "
        "last training on all tiles.",
    )
    seed: int = Field(1, ge=0, lt=2**63, description="Same seed, same result.")
    device: str = Field("auto", pattern=DEVICE, description="auto, cpu, cuda, cuda:1 or mps.")
    skip_report: bool = Field(
        False, description="Do not map the region at the end, and write no report."
    )
    out: ModelName = Field(description="The model to write, a .safetensors file.")


class ApplyingJob(_Rasters, WritingJob):
    """A job that applies a model to layers."""

    checkpoint: FileName = Field(description="A model made by 'geocfm train'.")
    seed: int = Field(1, ge=0, lt=2**63, description="Same seed, same result.")
    device: str = Field("auto", pattern=DEVICE, description="auto, cpu, cuda, cuda:1 or mps.")
    solver: Literal["euler", "midpoint", "heun"] | None = Field(
        None, description="euler, midpoint or heun; the model's own by default."
    )
    steps: int | None = Field(None, ge=1, le=1000, description="Steps of the solver.")


class RegionJob(ApplyingJob, _AreaChoice):
    """A job that may choose where a model is applied."""

    like: OptionalFileName = Field(
        None, description="A raster whose grid is used instead of the model's CRS and cell size."
    )


class MappingJob(ApplyingJob):
    """A job that maps the density of a model."""

    temperature: float = Field(
        1.0, gt=0, le=10, description="Exponent of the density; below 1 the map is flatter."
    )


class MapJob(MappingJob, RegionJob):
    """Make the prospectivity map: relative density as a Cloud Optimized GeoTIFF."""

    uncertainty: OptionalMapName = Field(
        None,
        description="Also write how the members of an ensemble disagree, and where the layers lie "
        "outside what the model has seen, .tif.",
    )
    monte_carlo_error: OptionalMapName = Field(
        None,
        description="Also write the error of a map from draws that comes of their number alone, "
        ".tif; only models of the presets paper-* are mapped by draws.",
    )
    out: MapName = Field(description="The GeoTIFF to write, .tif.")

    _real_beside = field_validator("uncertainty", "monte_carlo_error")(refuse_virtual)


class SampleJob(RegionJob):
    """Draw plausible occurrences, as points."""

    points: int | None = Field(
        None, ge=1, le=1_000_000, description="Points of each draw; the model's own by default."
    )
    draws: int = Field(4, ge=1, le=10_000, description="How many independent draws.")
    out: PointsName = Field(description="The points to write: .gpkg, .geojson or .csv.")


class TargetsJob(WritingJob, KnownOccurrences):
    """Outline and rank the targets of a map: connected areas of high density, as polygons."""

    map: FileName = Field(description="A map made by 'geocfm map', or another raster of density.")
    uncertainty: OptionalFileName = Field(
        None, description="A raster made by 'geocfm map --uncertainty', averaged in each target."
    )
    checkpoint: OptionalFileName = Field(
        None, description="The map's model: then each target tells the layers that matter there."
    )
    raster: list[LayerSpec] = Field(
        [], description="The model's layers, as for 'geocfm map'; with --checkpoint."
    )
    raster_crs: list[str] = Field([], description="CRS of a layer, name=EPSG:28350. Repeat it.")
    nodata: list[str] = Field(
        [], description="A value of a layer that means no data, name=-9999. Repeat it."
    )
    number: int = Field(20, ge=1, le=100_000, description="At most so many targets.")
    area_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Targets lie in the best part of the map, this share of its area; 0.05 by "
        "default.",
    )
    threshold: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="Instead of a share: the least relative density, 1 = regional mean.",
    )
    minimum_area: float | None = Field(
        None, ge=0, le=1e9, description="Least area of a target in km2; 4 cells by default."
    )
    exclude: float | None = Field(
        None,
        gt=0,
        le=20_000,
        description="Leave out what lies within so many km of known occurrences (greenfield).",
    )
    smooth: float = Field(
        1.0,
        ge=0,
        le=100,
        description="Smooth the map by a Gaussian of so many cells before it is cut; 0: not at "
        "all.",
    )
    out: PolygonsName = Field(description="The polygons to write, .gpkg.")


class EvaluateJob(ReportingJob, MappingJob, OccurrenceInput):
    """Measure the model on the tiles it never saw: a report, and its figures as JSON and plots."""

    skip_importance: bool = Field(False, description="Do not measure which layers matter.")
    out: FileName = Field(description="The folder to write into.")


class InfoJob(Job):
    """Print a model's card: what it learned from, and how well."""

    checkpoint: FileName = Field(
        description="A .safetensors model.", json_schema_extra={"argument": True}
    )


class SynthJob(WritingJob):
    """Make a synthetic region whose true density is known: layers, occurrences and the truth."""

    size: int = Field(1024, ge=32, le=2048, description="Cells along each side.")
    bodies: int = Field(60, ge=1, le=500, description="How many intrusive bodies.")
    deposits: int | None = Field(
        None, ge=1, le=1_000_000, description="How many occurrences; 100 for each body by default."
    )
    seed: int = Field(1, ge=0, lt=2**63, description="Same seed, same result.")
    out: FileName = Field(description="The folder to write into.")


COMMANDS: dict[str, type[Job]] = {
    "check": CheckJob,
    "train": TrainJob,
    "map": MapJob,
    "sample": SampleJob,
    "targets": TargetsJob,
    "evaluate": EvaluateJob,
    "info": InfoJob,
    "synth": SynthJob,
}


def make_job(kind: type[Job], values: dict[str, Any]) -> Job:
    """Validate values into a job; what is wrong is said by its option's name."""
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        names = [str(found["loc"][0]) for found in error.errors()]
        said = [
            f"{option_name(kind, name)}: {explain(found, kind, name)}"
            for found, name in zip(error.errors(), names, strict=True)
        ]
        if len(said) > 1:
            raise UserError(f"{len(said)} options cannot be used.", "\n".join(said)) from None
        field = kind.model_fields.get(names[0])
        raise UserError(said[0], (field and field.description) or "") from None


def option_name(kind: type[Job], name: str) -> str:
    """How a field is called on the command line."""
    field = kind.model_fields.get(name)
    extra = field.json_schema_extra if field else None
    if isinstance(extra, dict) and "option" in extra:
        return str(extra["option"])
    if isinstance(extra, dict) and extra.get("argument"):
        return name
    return "--" + name.replace("_", "-")
