"""Layers of files that a run has replaced: they show what is there now, in that run's group."""

from __future__ import annotations

import os
import shutil

from qgis.core import QgsDataProvider, QgsLayerTree, QgsProviderRegistry

from ..jobs.job_paths import output_paths
from ..jobs.temporary import temporary_path
from .finished import OCCURRENCES
from .styling import KIND

RUN = "geocfm/run"  # custom property of a layer and of a group: the name of the run it came from


def file_of(layer):
    """Give the path of the file that a layer shows, or an empty text."""
    parts = QgsProviderRegistry.instance().decodeUri(layer.providerType(), layer.source())
    return _same_for_same(parts.get("path") or "")


def layers_of(project, path):
    """Give the layers of the project that show a file."""
    wanted = _same_for_same(path)
    return [layer for layer in project.mapLayers().values() if file_of(layer) == wanted]


def _same_for_same(path):
    return os.path.normcase(os.path.realpath(path)) if path else ""


def reopen_layers(project, path):
    """Let all layers of a file read it anew; give those that runs of ours had added."""
    found = layers_of(project, path)
    for layer in found:
        _show(layer, layer.source(), project)
    return [layer for layer in found if layer.customProperty(RUN) is not None]


def release(project, jobs):
    """Let layers show copies of the files that these jobs replace; nobody has those open then.

    Windows replaces no file that a layer has open. Give the result to `take_back` once the run has
    ended, however it did.
    """
    replacing = [job for job in jobs if job.values.get("overwrite")]
    outputs = [_same_for_same(path) for job in replacing for path in output_paths(job)]
    released, copies = [], {}
    for layer in project.mapLayers().values():
        path = file_of(layer)
        if not os.path.isfile(path) or not any(_is_result(path, out) for out in outputs):
            continue
        copy = copies[path] = copies.get(path) or _temporary_copy(path)
        if copy:
            released.append((layer.id(), layer.source()))
            if layer.isValid():
                layer.dataProvider().reloadData()  # else QGIS keeps what it read with for a minute
            _show(layer, _elsewhere(layer, copy), project)
    return released


def take_back(project, released):
    """Let the layers that were released, and are still there, show their own files again."""
    for layer_id, source in released:
        layer = project.mapLayer(layer_id)
        if layer is not None:
            _show(layer, source, project)
            project.setDirty(True)  # saved meanwhile, it would name the copy


def _is_result(path, out):
    """Whether a file is the result of a job, lies in its folder or beside it under its name."""
    return path == out or path.startswith((f"{out}{os.sep}", f"{os.path.splitext(out)[0]}."))


def _show(layer, source, project):
    options = QgsDataProvider.ProviderOptions()
    options.transformContext = project.transformContext()
    layer.setDataSource(source, layer.name(), layer.providerType(), options)
    layer.triggerRepaint()


def _elsewhere(layer, path):
    registry, provider = QgsProviderRegistry.instance(), layer.providerType()
    return registry.encodeUri(
        provider, {**registry.decodeUri(provider, layer.source()), "path": path}
    )


def _temporary_copy(path):
    """Give the path of a copy; an empty text if there is no room for one."""
    copy = temporary_path(os.path.basename(path))
    try:
        return shutil.copyfile(path, copy)
    except OSError:
        return ""


def move_to(group, layer, project):
    """Put a layer of the project into a group and out of the one it was in; give its node."""
    before = project.layerTreeRoot().findLayer(layer.id())
    node = group.addLayer(layer)
    if before is not None:
        parent = before.parent()
        parent.removeChildNode(before)  # the project keeps the layer: it has another node now
        remove_if_bare(parent, project)
    return node


def discard(layer, project):
    """Take a layer out of the project, and its group if no result is left in it."""
    node = project.layerTreeRoot().findLayer(layer.id())
    parent = node.parent() if node is not None else None
    project.removeMapLayer(layer.id())
    remove_if_bare(parent, project)


def remove_if_bare(group, project):
    """Remove a run's group that has lost its last result; one with a layer of the user's stays."""
    while group is not None and group.customProperty(RUN) is not None:
        if not all(_is_addition(node) for node in group.children()):
            return
        project.removeMapLayers(group.findLayerIds())
        emptied, group = group, group.parent()
        group.removeChildNode(emptied)


def _is_addition(node):
    """Whether a node shows the occurrences of a run, there only for the sake of its results."""
    layer = node.layer() if QgsLayerTree.isLayer(node) else None
    if layer is None:
        return False
    return layer.customProperty(RUN) is not None and layer.customProperty(KIND) == OCCURRENCES
