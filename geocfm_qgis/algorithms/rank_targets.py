"""Rank targets: the parts of a map that are worth a look first."""

import os

from qgis.core import QgsProcessingException

from ..results import TARGETS
from ..translation import tr
from . import destinations
from . import parameters as p
from . import target_parameters as t
from .layer_algorithm import LayerAlgorithm


class RankTargets(LayerAlgorithm):
    """A map becomes ranked polygons."""

    command = "targets"
    algorithm_id = "targets"
    output_suffixes = (".gpkg",)
    kind = TARGETS

    def title(self):
        """Give the name people see."""
        return tr("Rank targets")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Outlines the connected areas of highest density on a prospectivity map and ranks "
            "them by the share of all expected occurrences that they hold.</p>"
            "<p>Each target tells its area, how much denser it is than the region, how uncertain "
            "the map is there if its uncertainty is given, and, if known occurrences are given, "
            "how many it holds and how far the nearest one is. Ground near known ones can be left "
            "out, for greenfield exploration. With the map's model and its layers each target also "
            "tells which layers matter there.</p>"
            "<p>A target is where to look first, no probability of a deposit.</p>"
        )

    def parameters(self):
        """Give the definitions of the parameters."""
        return [
            t.density_map(),
            t.uncertainty(),
            t.known_occurrences(),
            p.where(),
            t.number(),
            t.area_share(),
            t.exclude(),
            t.threshold(),
            t.minimum_area(),
            t.smooth(),
            t.model(),
            t.rasters(),
            p.channels(),
            p.overwrite(),
            destinations.targets_output(),
        ]

    def check(self, parameters, context):
        """Raise a sentence on the first thing that is wrong."""
        if bool(parameters.get("CHECKPOINT")) != bool(parameters.get("RASTERS")):
            raise QgsProcessingException(
                tr(
                    "The layers that matter are told from the map's model and its layers together. "
                    "Choose both, or neither."
                )
            )
        super().check(parameters, context)
        job = self.engine_job(parameters, context)
        if not job.values.get("map"):
            raise QgsProcessingException(tr("No map is chosen. Choose a prospectivity raster."))
        for key in ("map", "uncertainty"):
            path = job.values.get(key, "")
            if path and os.path.isabs(path) and not _is_there(path, job):
                raise QgsProcessingException(
                    tr("There is no raster {path}. Choose another one.").format(path=path)
                )
        if job.values.get("exclude") and "occurrences" not in job.values:
            raise QgsProcessingException(
                tr(
                    "Targets away from known occurrences need to know where these are. Choose the "
                    "layer of occurrences, or leave the distance empty."
                )
            )


def _is_there(path, job):
    """Whether a file exists, or will as soon as its layer is exported."""
    return os.path.exists(path) or path.startswith("/vsi") or path in job.temporary
