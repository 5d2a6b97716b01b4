"""Prospectivity map: relative density over a region."""

from ..results import PROSPECTIVITY, UNCERTAINTY
from ..translation import tr
from . import destinations
from . import parameters as p
from .layer_algorithm import LayerAlgorithm


class ProspectivityMap(LayerAlgorithm):
    """A model and its layers become a raster."""

    command = "map"
    algorithm_id = "map"
    output_suffixes = (".tif", ".tiff")
    kind = PROSPECTIVITY
    further_outputs = ("UNCERTAINTY", "MONTE_CARLO_ERROR")
    further_kinds = (("UNCERTAINTY", UNCERTAINTY), ("MONTE_CARLO_ERROR", ""))

    def title(self):
        """Give the name people see."""
        return tr("Prospectivity map")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Applies a model to raster layers and writes the relative density of occurrences as "
            "a Cloud Optimized GeoTIFF: 5 means five times as many occurrences per square "
            "kilometre as on average over the mapped area. It is no probability of a deposit.</p>"
            "<p>The layers are matched with the model's by their names; case, spaces and "
            "punctuation do not matter. The map has the model's cell size, or that of the "
            "reference grid.</p>"
            "<p>Its uncertainty, if wanted, tells where the networks of an ensemble disagree, and "
            "where the layers lie outside what the model has seen.</p>"
        )

    def parameters(self):
        """Give the definitions of the parameters."""
        return [
            *applying_parameters(),
            p.temperature(),
            destinations.map_output(),
            destinations.uncertainty_output(),
            destinations.monte_carlo_output(),
        ]


def applying_parameters():
    """Give what map and samples have in common."""
    return [
        p.checkpoint(),
        p.rasters(),
        p.channels(),
        p.reference(),
        p.extent(),
        p.area(),
        p.seed(),
        p.device(),
        p.solver(),
        p.steps(),
        p.overwrite(),
    ]
