"""The layers of a run: one group on top, with what finished, styled and described."""

from __future__ import annotations

import re

from qgis.core import (
    QgsLayerNotesUtils,
    QgsLayerTreeGroup,
    QgsMapLayerLegendUtils,
    QgsVectorLayer,
)

from ..translation import tr
from .finished import (
    OUT_OF_FOLD,
    PROSPECTIVITY,
    SAMPLES,
    TARGETS,
    UNCERTAINTY,
    finished_results,
    used_occurrences,
)
from .provenance import describe
from .reopening import RUN, discard, move_to, reopen_layers
from .styling import KIND, OUTSIDE, apply_style, open_result, style_result
from .uncertainty_style import OUTSIDE_BAND, VARIATION, band_called

DRAW = "draw"  # the field that numbers the draws, from 1
PART = re.compile(rf'("{DRAW}" [=>] \d+)?')  # a filter as _parts makes it
MOST_DRAW_LAYERS = 8  # further draws share one layer: a longer list is no help to anyone


class AddedLayers(list):
    """The layers that were added; `problems` has a sentence for each that could not be."""

    def __init__(self):
        super().__init__()
        self.problems = []


def add_run_layers(project, run, outcome):
    """Add what a run has finished as a group on top of the layer tree; give the AddedLayers.

    Layers of earlier runs whose files this run has replaced move into its group: nothing is shown
    twice, and nothing under the name of a run that did not make it.
    """
    added = AddedLayers()
    results = finished_results(outcome)
    if results:
        _RunGroup(project, run, added).fill(results, used_occurrences(outcome))
    return added


class _RunGroup:
    """The group of one run in the layer tree."""

    def __init__(self, project, run, added):
        self._project = project
        self._run = run
        self._added = added
        self._group = QgsLayerTreeGroup()
        self._group.setCustomProperty(RUN, run.name)

    def fill(self, results, occurrences):
        """Add the layers from the top down: what is known, targets, samples, maps.

        Maps that would hide the main one are there to be ticked.
        """
        if occurrences is not None:
            self._add_occurrences(occurrences)
        adding = {
            TARGETS: self._add_targets,
            SAMPLES: self._add_samples,
            UNCERTAINTY: self._add_uncertainty,
            PROSPECTIVITY: self._add_map,
            OUT_OF_FOLD: self._add_out_of_fold,
        }
        for kind, add in adding.items():
            for result in results:
                if result.kind == kind:
                    add(result)
        if self._added:
            self._group.setName(self._free_name())
            self._project.layerTreeRoot().insertChildNode(0, self._group)
            self._group.setExpanded(False)  # QGIS's tree unfolds it only if that is a change
            self._group.setExpanded(True)

    def _free_name(self):
        name = self._run.name or tr("GeoCFM run")
        if self._run.temporary:
            name = tr("{name} (temporary)").format(name=name)
        taken = {group.name() for group in self._project.layerTreeRoot().findGroups()}
        free, number = name, 2
        while free in taken:
            free, number = f"{name} ({number})", number + 1
        return free

    def _add_map(self, result):
        self._add_raster(result, tr("Prospectivity"), tr("relative density (1 = regional mean)"))

    def _add_out_of_fold(self, result):
        name = tr("Cross-validated map")
        self._add_raster(result, name, tr("relative density (1 = regional mean)"), shown=False)

    def _add_raster(self, result, name, legend, shown=True):
        layer = self._layer(result, reopen_layers(self._project, result.path))
        if layer is not None:
            self._place_raster(layer, result, name, legend, shown)

    def _place_raster(self, layer, result, name, legend, shown=True):
        node = self._place(layer, result, name, self._group)
        # the first entry of the legend would be the name of the band
        QgsMapLayerLegendUtils.setLegendNodeUserLabel(node, 0, legend)
        node.setItemVisibilityChecked(shown)
        node.setExpanded(shown)

    def _add_uncertainty(self, result):
        """A layer for how networks disagree, if there are several, and one for new ground."""
        earlier = reopen_layers(self._project, result.path)
        veils = [layer for layer in earlier if layer.customProperty(KIND) == OUTSIDE]
        shades = [layer for layer in earlier if layer not in veils]
        first = self._layer(result, shades)
        if first is None:
            return
        new_ground = tr("Outside what the model has seen")
        if not band_called(first, VARIATION):
            self._place_raster(first, result, new_ground, "")
            return
        if band_called(first, OUTSIDE_BAND):
            veil = veils[0] if veils else open_result(result.path, result.kind)
            style_result(veil, OUTSIDE)  # beside the file lies the style of the other one
            self._place_raster(veil, result, new_ground, "")
        legend = tr("how much the networks differ, in % of the density")
        self._place_raster(first, result, tr("Uncertainty"), legend, shown=False)

    def _add_targets(self, result):
        layer = self._layer(result, reopen_layers(self._project, result.path))
        if layer is not None:
            self._place(layer, result, tr("Targets"), self._group)

    def _add_samples(self, result):
        earlier = reopen_layers(self._project, result.path)
        draws = _count_draws(result.path)
        layers = {}
        for name, subset in _parts(draws):
            layers[name] = self._layer(result, earlier, subset)
            if layers[name] is None:
                return
        group = self._group
        if draws > 1:
            group = group.addGroup(tr("Sampled points: {count} draws").format(count=draws))
            group.setCustomProperty(RUN, self._run.name)
        for number, (name, layer) in enumerate(layers.items()):
            node = self._place(layer, result, name, group)
            node.setItemVisibilityChecked(number == 0)
            node.setExpanded(number == 0)
        for layer in earlier:
            if PART.fullmatch(layer.subsetString()):  # of draws that are no more
                discard(layer, self._project)

    def _add_occurrences(self, result):
        layer = self._layer(result, reopen_layers(self._project, result.path))
        if layer is not None:
            self._place(layer, result, tr("Occurrences used"), self._group)

    def _layer(self, result, earlier, subset=""):
        """Take the layer that showed this before, or open one; None if it cannot be shown."""
        layer = next((each for each in earlier if each.subsetString() == subset), None)
        if layer is not None:
            earlier.remove(layer)
        elif subset:
            # the filter from the start: set on an open layer, GDAL may lose the file for good
            layer = QgsVectorLayer(f"{result.path}|subset={subset}", result.kind)
        else:
            layer = open_result(result.path, result.kind)
        if not layer.isValid() or not layer.isSpatial():
            sentence = tr("The result {path} is there, but cannot be shown as a layer.")
            self._added.problems.append(sentence.format(path=result.path))
            return None
        apply_style(layer, result.kind, result.path)
        return layer

    def _place(self, layer, result, name, group):
        """Put a layer into a group, with its name and what is known of it; give its node."""
        layer.setName(name)
        layer.setCustomProperty(RUN, self._run.name)
        describe(layer, result.path)
        if self._run.temporary:
            note = tr("A temporary result: it is gone when QGIS closes. Export it to keep it.")
            QgsLayerNotesUtils.setLayerNotes(layer, note)
        else:
            QgsLayerNotesUtils.removeNotes(layer)
        if self._project.mapLayer(layer.id()) is None:
            self._project.addMapLayer(layer, False)  # False: into our group, not on top of the tree
        self._added.append(layer)
        return move_to(group, layer, self._project)


def _count_draws(path):
    layer = open_result(path, SAMPLES)
    field = layer.fields().indexOf(DRAW)
    return int(layer.maximumValue(field) or 1) if field >= 0 else 1


def _parts(draws):
    """Give the name and the filter of each layer that the draws are shown in."""
    if draws == 1:
        return [(tr("Sampled points"), "")]
    single = min(draws, MOST_DRAW_LAYERS)
    parts = [
        (tr("Draw {number}").format(number=number), f'"{DRAW}" = {number}')
        for number in range(1, single + 1)
    ]
    if draws > single:
        name = tr("Draws {first} to {last}").format(first=single + 1, last=draws)
        parts.append((name, f'"{DRAW}" > {single}'))
    return parts
