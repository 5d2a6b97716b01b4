"""Algorithms whose result is a layer: it is styled, also where no layer is loaded."""

from __future__ import annotations

from ..results import LayerPostProcessor, save_style_beside
from .engine_algorithm import OUTPUT, EngineAlgorithm


class LayerAlgorithm(EngineAlgorithm):
    """The result gets its style as a .qml beside it, and on the layer that QGIS loads."""

    kind = ""  # of the result: "prospectivity" or "samples"

    def output_path(self, parameters, context):
        """Give the file to write; QGIS will load it if the user asked for that."""
        return self.parameterAsOutputLayer(parameters, OUTPUT, context)

    def results(self, outcome, job, context, feedback):
        """Give the result, styled."""
        path = job.values["out"]
        save_style_beside(path, self.kind)
        results = super().results(outcome, job, context, feedback)
        if context.willLoadLayerOnCompletion(results[OUTPUT]):
            details = context.layerToLoadOnCompletionDetails(results[OUTPUT])
            details.setPostProcessor(LayerPostProcessor.create(self.kind, path))
        return results
