"""From the parameters of an algorithm to the values of a job; works where the layers live."""

from __future__ import annotations

import os
import re

from qgis.core import (
    NULL,
    QgsCoordinateReferenceSystem,
    QgsMapLayer,
    QgsProcessingException,
    QgsProcessingUtils,
    QgsRasterLayer,
)

from ..compat import OPTIONAL
from ..jobs.area import area_of_interest
from ..jobs.channels import NamedBand, check_channels, default_channels, parse_channels
from ..jobs.checkpoint_card import CheckpointError, layer_names, read_card
from ..jobs.crs_text import crs_text
from ..jobs.engine_job import EngineJob
from ..jobs.layer_matching import match
from ..jobs.occurrences import occurrence_input, parse_where
from ..jobs.rasters import raster_input, reference_path, refuse_broken
from ..redaction import without_credentials
from ..settings import default_device
from ..translation import tr
from .parameters import BASELINES, USUAL_BASELINES

DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?|mps")
WHOLE_NUMBERS = (
    *("ITERATIONS", "ENSEMBLE", "FOLDS", "SEED", "WINDOW", "TILE", "POINTS", "DRAWS", "STEPS"),
    "NUMBER",
)
REAL_NUMBERS = ("RESOLUTION", "MINUTES", "TEMPERATURE", "MINIMUM_AREA", "SMOOTH")
ABOVE_ZERO = ("THRESHOLD", "EXCLUDE")  # 0 is as good as nothing
CHOICES = ("PRESET", "GROUND", "SOLVER")
FLAGS = ("DEDUPLICATE", "POSITIVE_ONLY", "OVERWRITE", "SKIP_REPORT", "SKIP_IMPORTANCE")


class JobInputs:
    """Reads those parameters that an algorithm declares; each has the name of the job's key."""

    def __init__(self, algorithm, parameters, context):
        self._algorithm = algorithm
        self._parameters = parameters
        self._context = context
        self._values = {}
        self._exports = []
        self._temporary = []
        self._aliases = {}

    def job(self, out="", name="", beside=None):
        """Give the job; raises QgsProcessingException with a sentence.

        beside: what else it writes, paths by their keys.
        """
        if self._is_wanted("RASTERS"):
            self._take_rasters()
        for key in ("MAP", "UNCERTAINTY"):
            if self._reads(key):
                self._values[key.lower()] = self._raster(key)
        if self._is_wanted("OCCURRENCES"):
            found = occurrence_input(self._parameters.get("OCCURRENCES"), self._context)
            self._add(found)
        if self._given("WHERE"):
            self._values["where"] = parse_where(self._text("WHERE"))
        if self._given("CHECKPOINT"):
            self._values["checkpoint"] = self._checkpoint()
        self._take_plain_values()
        if self._reads("EFFORT"):  # last: its files are those of no other job
            self._values["effort"] = f"{self._raster('EFFORT')}:1"
        self._values.update({key: os.path.abspath(path) for key, path in (beside or {}).items()})
        if out:
            self._values["out"] = os.path.abspath(out)
        return EngineJob(
            self._algorithm.command,
            self._values,
            name,
            tuple(self._exports),
            tuple(dict.fromkeys(self._temporary)),
            self._aliases,
        )

    def applies_model(self):
        """Whether a model is needed, or given where it need not be."""
        return self._is_wanted("CHECKPOINT")

    def missing_layers(self):
        """Give the names of the model's layers that none of the rasters has."""
        if not self._given("CHECKPOINT"):
            raise QgsProcessingException(tr("No model is chosen. Choose a .safetensors file."))
        bands = self._bands(self._layers())
        return [name for name in layer_names(read_card(self._checkpoint())) if name not in bands]

    def _take_rasters(self):
        layers = self._layers()
        bands = self._bands(layers)
        reference = self._reference()
        area = self._area(reference or layers[0])
        used = {}
        for each in bands.values():
            used.setdefault(each.number, []).append(each.band)
        inputs = {
            number: raster_input(layers[number - 1], self._context, area, tuple(numbers))
            for number, numbers in used.items()
        }
        specs, systems, no_data = [], [], []
        for name, each in bands.items():
            given = inputs[each.number]
            specs.append(given.spec(name, each.band))
            if given.crs:
                systems.append(f"{name}={given.crs}")
            if each.band in given.no_data:
                no_data.append(f"{name}={given.no_data[each.band]:.17g}")
        self._values["raster"] = specs
        if systems:
            self._values["raster_crs"] = systems
        if no_data:
            self._values["nodata"] = no_data
        for number, given in inputs.items():
            self._exports += given.exports
            self._name_temporary(given.temporary, layers[number - 1])
        self._take_classes(list(bands))
        if reference is not None:
            known = [(layers[number - 1], given) for number, given in inputs.items()]
            path, temporary, exports = reference_path(reference, self._context, known)
            self._values["like"] = path
            self._name_temporary(temporary, reference)
            self._exports += exports
        if area is not None:
            self._add(area.input)

    def _layers(self):
        value = self._parameters.get("RASTERS")
        values = list(value) if isinstance(value, (list, tuple)) else [value] if value else []
        if not values:
            raise QgsProcessingException(tr("No raster is chosen. Choose at least one."))
        algorithm = self._algorithm
        found = algorithm.parameterAsLayerList(self._parameters, "RASTERS", self._context) or []
        layers = [layer for layer in found if isinstance(layer, QgsRasterLayer)]
        if len(layers) < len(values):
            self._refuse_unopened(values)
        for layer in layers:
            refuse_broken(layer)
        return layers

    def _refuse_unopened(self, values):
        """Name those of the rasters that are none, or that QGIS passed over as broken."""
        project, names = self._context.project(), []
        for value in values:
            layer = value if isinstance(value, QgsMapLayer) else None
            if layer is None and project is not None:
                layer = project.mapLayer(str(value))
            if layer is not None:
                refuse_broken(layer)
            else:
                layer = QgsProcessingUtils.mapLayerFromString(str(value), self._context)
            if not isinstance(layer, QgsRasterLayer):
                text = without_credentials(str(value))
                names.append(layer.name() if layer is not None else text)
        raise QgsProcessingException(
            tr("These rasters cannot be opened: {names}. Check that their files are there.").format(
                names=", ".join(names)
            )
        )

    def _bands(self, layers):
        """The bands by the names the engine gets.

        Names written out by the user are the user's. Names of layers are matched with those the
        model asks for, if there is a model yet: in a chain it is made by the job before.
        """
        text = self._text("CHANNELS") if self._given("CHANNELS") else ""
        bands = parse_channels(text) if text.strip() else default_channels(layers)
        check_channels(bands, layers)
        if text.strip() or not self._given("CHECKPOINT"):
            return {each.name: each for each in bands}
        try:
            wanted = layer_names(read_card(self._checkpoint()))
        except CheckpointError:
            return {each.name: each for each in bands}
        matched = {name: each for name, each in match(wanted, bands).items() if each is not None}
        return matched or {each.name: each for each in bands}

    def _take_classes(self, names):
        if not self._given("CLASSES"):
            return
        asked = [part.strip() for part in self._text("CLASSES").split(",") if part.strip()]
        found = match(asked, [NamedBand(name, 0, 0) for name in names])
        unknown = [name for name, each in found.items() if each is None]
        if unknown:
            raise QgsProcessingException(
                tr(
                    "There is no layer '{name}' that could hold classes; there are: {names}."
                ).format(name=unknown[0], names=", ".join(names))
            )
        if asked:
            self._values["classes"] = [each.name for each in found.values()]

    def _raster(self, name):
        """The file behind a raster; one that is yet to be made by a job before is no mistake."""
        value = self._parameters.get(name)
        layer = self._algorithm.parameterAsRasterLayer(self._parameters, name, self._context)
        if layer is None:
            if isinstance(value, str) and os.path.isabs(value) and not os.path.exists(value):
                return value
            raise QgsProcessingException(
                tr("{name}: the raster cannot be opened. Choose another one.").format(
                    name=self._algorithm.parameterDefinition(name).description()
                )
            )
        path, temporary, exports = reference_path(layer, self._context, ())
        self._name_temporary(temporary, layer)
        self._exports += exports
        return path

    def _reference(self):
        if not self._given("REFERENCE"):
            return None
        layer = self._algorithm.parameterAsRasterLayer(self._parameters, "REFERENCE", self._context)
        if layer is None:
            raise QgsProcessingException(
                tr("The raster of the reference grid cannot be opened. Choose another one.")
            )
        refuse_broken(layer)
        return layer

    def _area(self, grid_layer):
        extent = self._algorithm.parameterAsExtent(self._parameters, "EXTENT", self._context)
        crs = QgsCoordinateReferenceSystem()
        if self._given("EXTENT"):
            crs = self._algorithm.parameterAsExtentCrs(self._parameters, "EXTENT", self._context)
        if not crs.isValid():  # numbers alone, and no project to say in which CRS
            crs = grid_layer.crs()
        polygons = self._parameters.get("AREA") if self._given("AREA") else None
        return area_of_interest(extent, crs, polygons, self._context)

    def _checkpoint(self):
        path = self._algorithm.parameterAsFile(self._parameters, "CHECKPOINT", self._context)
        return os.path.abspath(path)

    def _take_plain_values(self):
        algorithm, parameters, context = self._algorithm, self._parameters, self._context
        readers = (
            (WHOLE_NUMBERS, algorithm.parameterAsInt),
            (REAL_NUMBERS, algorithm.parameterAsDouble),
            (CHOICES, algorithm.parameterAsEnumString),
        )
        for names, read in readers:
            for name in filter(self._given, names):
                self._values[name.lower()] = read(parameters, name, context)
        for name in filter(self._given, ABOVE_ZERO):
            if algorithm.parameterAsDouble(parameters, name, context) > 0:
                self._values[name.lower()] = algorithm.parameterAsDouble(parameters, name, context)
        if self._given("AREA_SHARE") and "threshold" not in self._values:
            percent = algorithm.parameterAsDouble(parameters, "AREA_SHARE", context)
            self._values["area_share"] = percent / 100
        for name in filter(self._given, FLAGS):
            if algorithm.parameterAsBool(parameters, name, context):
                self._values[name.lower()] = True
        if self._given("BASELINES"):
            self._values["baselines"] = self._baselines()
        if self._given("CRS"):
            crs = algorithm.parameterAsCrs(parameters, "CRS", context)
            if not crs.isValid():
                raise QgsProcessingException(tr("The CRS of the grid is none that QGIS knows."))
            self._values["crs"] = crs_text(crs)
        if self._given("SETTINGS"):
            parts = re.split(r"[,\n]", self._text("SETTINGS"))
            self._values["settings"] = [part.strip() for part in parts if part.strip()]
        if self._declares("DEVICE"):
            self._values["device"] = self._device()

    def _baselines(self):
        """Give the names, or the word for the usual ones, which the engine may leave out."""
        if self._parameters.get("BASELINES") in ([], ()):  # QGIS would take it for the default
            return "none"
        read = self._algorithm.parameterAsEnums
        chosen = read(self._parameters, "BASELINES", self._context)
        names = [list(BASELINES)[number] for number in sorted(set(chosen))]
        return "auto" if tuple(names) == USUAL_BASELINES else ",".join(names)

    def _device(self):
        device = (self._text("DEVICE").strip() if self._given("DEVICE") else "") or default_device()
        if not DEVICE.fullmatch(device):
            raise QgsProcessingException(
                tr("There is no device '{device}'. Write auto, cpu, cuda, cuda:1 or mps.").format(
                    device=device
                )
            )
        return device

    def _declares(self, name):
        return self._algorithm.parameterDefinition(name) is not None

    def _is_wanted(self, name):
        """Whether an input is given, or must be: then its absence is said in a sentence."""
        definition = self._algorithm.parameterDefinition(name)
        return definition is not None and (
            not definition.flags() & OPTIONAL or bool(self._parameters.get(name))
        )

    def _reads(self, name):
        """Whether it is an input, and given."""
        definition = self._algorithm.parameterDefinition(name)
        return self._given(name) and not definition.isDestination()

    def _given(self, name):
        definition = self._algorithm.parameterDefinition(name)
        if definition is None:
            return False
        value = self._parameters.get(name, definition.defaultValue())
        return value is not None and value != NULL and value != ""

    def _text(self, name):
        return self._algorithm.parameterAsString(self._parameters, name, self._context)

    def _add(self, found):
        self._values.update(found.values)
        self._exports += found.exports
        self._temporary += found.temporary
        self._aliases.update({export.path: export.layer_name for export in found.exports})

    def _name_temporary(self, paths, layer):
        self._temporary += paths
        self._aliases.update(dict.fromkeys(paths, layer.name()))
