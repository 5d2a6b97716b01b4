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
from .finished import PROSPECTIVITY, SAMPLES, finished_results, used_occurrences
from .provenance import describe
from .reopening import RUN, discard, move_to, reopen_layers
from .styling import apply_style, open_result

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
        """Add the layers from the top down: occurrences, samples, maps."""
        if occurrences is not None:
            self._add_occurrences(occurrences)
        for result in results:
            if result.kind == SAMPLES:
                self._add_samples(result)
        for result in results:
            if result.kind == PROSPECTIVITY:
                self._add_map(result)
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
        earlier = reopen_layers(self._project, result.path)
        layer = self._layer(result, earlier)
        if layer is None:
            return
        node = self._place(layer, result, tr("Prospectivity"), self._group)
        # the first entry of the legend would be the name of the band
        title = tr("relative density (1 = regional mean)")
        QgsMapLayerLegendUtils.setLegendNodeUserLabel(node, 0, title)

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
