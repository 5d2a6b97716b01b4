"""Evaluate: a model judged on tiles it never saw."""

import json
import os

from qgis.core import QgsProcessingOutputNumber

from ..translation import tr
from . import destinations
from . import parameters as p
from .engine_algorithm import OUTPUT
from .report_algorithm import ReportAlgorithm


class EvaluateModel(ReportAlgorithm):
    """A model, its layers and known occurrences become figures and pictures."""

    command = "evaluate"
    algorithm_id = "evaluate"

    def title(self):
        """Give the name people see."""
        return tr("Evaluate")

    def help_text(self):
        """Say what it does."""
        return tr(
            "<p>Measures a model on the tiles that training kept apart: which share of the known "
            "occurrences lies in the most prospective 1, 5, 10 and 20 % of the area, and the area "
            "under the capture curve (chance: 0.5).</p>"
            "<p>Writes a report to read in a browser, report.html, the figures in it and its "
            "pictures into a folder. It also tells which layers matter. Occurrences are "
            "filtered as in training unless a filter is given. Other methods are measured "
            "beside the model, a random forest and a Poisson process unless others are chosen, "
            "which tells whether it earned its keep.</p>"
        )

    def parameters(self):
        """Give the definitions of the parameters."""
        return [
            p.checkpoint(),
            p.rasters(),
            p.channels(),
            p.occurrences(),
            p.where(),
            p.deduplicate(),
            p.seed(),
            p.device(),
            p.solver(),
            p.steps(),
            p.temperature(),
            p.baselines(),
            p.skip_importance(),
            p.overwrite(),
            destinations.folder_output(),
        ]

    def initAlgorithm(self, configuration=None):
        """Declare the parameters and the figures."""
        super().initAlgorithm(configuration)
        self.addOutput(
            QgsProcessingOutputNumber("AUC", tr("Area under the capture curve, held-out tiles"))
        )
        self.addOutput(
            QgsProcessingOutputNumber(
                "CAPTURED_10", tr("Share of occurrences in the best 10 % of the held-out tiles")
            )
        )

    def results(self, outcome, job, context, feedback):
        """Give the folder, and the figures if any occurrence lies on held-out tiles."""
        folder = job.values["out"]
        found = {OUTPUT: folder, **self.report(outcome)}
        # from the file, which is there also when the engine found all done before
        with open(os.path.join(folder, "evaluation.json"), encoding="utf-8") as file:
            held_out = json.load(file).get("test", {})
        if held_out.get("occurrences"):
            found["AUC"] = held_out["area_under_curve"]
            found["CAPTURED_10"] = held_out["captured"]["0.1"]
        return found
