"""Algorithms whose result is a layer: it is styled, also where no layer is loaded."""

from __future__ import annotations

from ..results import LayerPostProcessor, save_style_beside
from .engine_algorithm import OUTPUT, EngineAlgorithm


class LayerAlgorithm(EngineAlgorithm):
    """The result gets its style as a .qml beside it, and on the layer that QGIS loads."""

    kind = ""  # of the result, as in results/finished.py
    further_kinds = ()  # (parameter, kind) of what else is written; an empty kind has no style

    def output_path(self, parameters, context):
        """Give the file to write; QGIS will load it if the user asked for that."""
        return self.parameterAsOutputLayer(parameters, OUTPUT, context)

    def results(self, outcome, job, context, feedback):
        """Give the result, styled."""
        results = super().results(outcome, job, context, feedback)
        _style(results[OUTPUT], job.values["out"], self.kind, context)
        for name, kind in self.further_kinds:
            path = job.values.get(name.lower())
            if path:
                results[name] = self._beside[name]
                _style(results[name], path, kind, context)
        return results


def _style(known_as, path, kind, context):
    """Style a result; QGIS knows it by another spelling of its path."""
    if not kind:
        return
    save_style_beside(path, kind)
    if context.willLoadLayerOnCompletion(known_as):
        details = context.layerToLoadOnCompletionDetails(known_as)
        details.setPostProcessor(LayerPostProcessor.create(kind, path))
