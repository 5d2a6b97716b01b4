"""Sample occurrences: plausible points."""

from ..results import SAMPLES
from ..translation import tr
from . import destinations
from . import parameters as p
from .layer_algorithm import LayerAlgorithm
from .prospectivity_map import applying_parameters


class SampleOccurrences(LayerAlgorithm):
    """A model and its layers become points."""

    command = "sample"
    algorithm_id = "sample"
    output_suffixes = (".gpkg", ".geojson")
    kind = SAMPLES

    def title(self):
        """Give the name people see."""
        return tr("Sample occurrences")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Draws plausible occurrences from a model: points where, by what it learned, "
            "occurrences may lie. Draws are independent of each other and follow the density; how "
            "sure the model is they do not tell, the uncertainty of 'Prospectivity map' does.</p>"
            "<p>Each point has the number of its draw and log_relative_density, the natural "
            "logarithm of the density there relative to the regional mean.</p>"
        )

    def parameters(self):
        """Give the definitions of the parameters."""
        return [*applying_parameters(), p.draws(), p.points(), destinations.points_output()]
