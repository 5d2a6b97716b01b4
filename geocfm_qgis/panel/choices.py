"""All that the panel's steps choose, as plain data: it goes into the project's history as JSON."""

from __future__ import annotations

import dataclasses
from dataclasses import asdict, dataclass

STANDARD_FOLDER = "."  # what a project file says for the folder that goes without saying


@dataclass(frozen=True)
class Channel:
    """One band of a raster under the name the model knows it by."""

    layer: str  # the id of a layer of the project
    band: int
    name: str
    categorical: bool = False  # its values are codes of classes


@dataclass(frozen=True)
class LayerChoices:
    """Which bands are used, in which order, on which grid and where."""

    channels: tuple[Channel, ...] = ()
    reference: str = ""  # id of the layer whose grid is used; the first one's if empty
    extent: str = ""  # "xmin,xmax,ymin,ymax [EPSG:28350]", as Processing writes it
    area_layer: str = ""  # id of a polygon layer; at most one of extent and area_layer is set
    origins: dict = dataclasses.field(default_factory=dict, compare=False)  # see layer_origins


@dataclass(frozen=True)
class OccurrenceChoices:
    """Which points are learned from."""

    layer: str = ""
    selected_only: bool = False
    field: str = ""  # keep only features whose `field` has one of `values`; empty: all
    values: tuple[str, ...] = ()
    deduplicate: bool = False
    selected: tuple[int, ...] = ()  # ids of the selected features, unless there are too many
    selected_count: int = 0
    origins: dict = dataclasses.field(default_factory=dict, compare=False)  # see layer_origins


@dataclass(frozen=True)
class ModelChoices:
    """A new model to train, or a checkpoint to apply."""

    train: bool = True
    preset: str = "auto"
    minutes: float = 5.0
    device: str = "auto"
    seed: int = 1
    ensemble: int = 3  # networks; a single one is a matter of chance
    folds: int | None = None  # of a cross-validation
    effort: str = ""  # id of a raster layer of survey effort
    ground: str = "auto"  # that counts as evenly searched: auto, window or region
    positive_only: bool = False  # learn from known occurrences alone: the ground is window
    iterations: int | None = None
    window: int | None = None
    tile: int | None = None
    resolution: float | None = None
    settings: tuple[str, ...] = ()  # any other, "network.width=32"
    checkpoint: str = ""
    matches: tuple[Channel, ...] = ()  # for a checkpoint: which band is which of its layers
    origins: dict = dataclasses.field(default_factory=dict, compare=False)  # see layer_origins


@dataclass(frozen=True)
class ProductChoice:
    """One thing to make: a key of products.py, the name of its file, and its own options."""

    key: str
    file_name: str
    options: dict = dataclasses.field(default_factory=dict)  # e.g. {"draws": 4, "points": 500}


@dataclass(frozen=True)
class ResultChoices:
    """What is made, and where."""

    name: str = ""  # of the run: its group of layers, its entry in the history
    folder: str = ""  # empty: temporary, gone when QGIS closes
    model_file: str = "model.safetensors"
    products: tuple[ProductChoice, ...] = ()
    overwrite: bool = False


@dataclass(frozen=True)
class Choices:
    """Everything."""

    layers: LayerChoices = LayerChoices()
    occurrences: OccurrenceChoices = OccurrenceChoices()
    model: ModelChoices = ModelChoices()
    results: ResultChoices = ResultChoices()

    def to_dict(self):
        """Give it as what JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content):
        """Read it back; keys of another version of the plugin are passed over."""
        layers = _known(LayerChoices, content.get("layers", {}))
        model = _known(ModelChoices, content.get("model", {}))
        results = _known(ResultChoices, content.get("results", {}))
        occurrences = _known(OccurrenceChoices, content.get("occurrences", {}))
        for values, key, kind in (
            (layers, "channels", Channel),
            (model, "matches", Channel),
            (results, "products", ProductChoice),
        ):
            values[key] = tuple(kind(**_known(kind, each)) for each in values.get(key, ()))
        texts = ((occurrences, "values"), (occurrences, "selected"), (model, "settings"))
        for values, key in texts:
            values[key] = tuple(values.get(key, ()))
        return cls(
            LayerChoices(**layers),
            OccurrenceChoices(**occurrences),
            ModelChoices(**model),
            ResultChoices(**results),
        )


def _known(kind, content):
    return {key: value for key, value in content.items() if key in kind.__dataclass_fields__}
