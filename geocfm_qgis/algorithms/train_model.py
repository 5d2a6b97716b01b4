"""Train model: learn where occurrences lie."""

import os

from qgis.core import QgsProcessingException

from ..labels import label
from ..translation import tr
from . import destinations
from . import parameters as p
from . import training_parameters as t
from .report_algorithm import ReportAlgorithm


class TrainModel(ReportAlgorithm):
    """Rasters and known occurrences become a model."""

    command = "train"
    algorithm_id = "train"
    output_suffixes = (".safetensors",)

    def title(self):
        """Give the name people see."""
        return tr("Train model")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Learns where mineral occurrences lie, given raster layers, from known occurrences: "
            "no barren points are needed. The cells of occurrences are compared with all cells, as "
            "Maxent does (but not by the paper's presets), so ground where nobody has looked "
            "counts as poor; where it should not, tick “{positive_only}”.</p>"
            "<p>The rasters are brought onto one grid. Some tiles of the region are kept apart to "
            "choose and to judge the model. The result is one file that knows its layers, its grid "
            "and its figures; 'Prospectivity map', 'Sample occurrences' and 'Evaluate' apply "
            "it.</p>"
            "<p>Cancel keeps the best model so far, as NAME.unfinished.safetensors; the same "
            "training, started again, goes on from there.</p>"
            "<p>It ends with a report beside the model, NAME.report.html: what was used, how well "
            "held-out occurrences are found, and what to beware of.</p>"
        ).format(positive_only=label("positive_only"))

    def parameters(self):
        """Give the definitions of the parameters."""
        return [
            *learning_parameters(),
            t.minutes(),
            t.ensemble(),
            t.iterations(),
            t.folds(),
            t.ground(),
            t.positive_only(),
            p.seed(),
            p.device(),
            p.baselines(),
            t.skip_report(),
            p.overwrite(default=False),  # a model is hours of work
            destinations.model_output(),
        ]

    def refuse_existing(self, out, job):
        """Raise a sentence if a model would be lost; an interrupted training goes on."""
        if os.path.exists(out) and not job.values.get("overwrite"):
            raise QgsProcessingException(
                tr(
                    "There is a model {path} already. Choose another name, or tick “{replace}”."
                ).format(path=out, replace=label("overwrite"))
            )


def learning_parameters():
    """Give what training and its rehearsal have in common."""
    return [
        p.rasters(),
        p.channels(),
        p.classes(),
        p.occurrences(),
        p.where(),
        p.deduplicate(),
        p.reference(),
        p.extent(),
        p.area(),
        p.resolution(),
        p.crs(),
        t.preset(),
        t.window(),
        t.tile(),
        t.settings(),
        t.effort(),
    ]
