"""Where the chosen layers come from, so that one removed and added again is known by its source."""

from __future__ import annotations

import os

from ..redaction import without_credentials

NOT_BY_SOURCE = ("memory",)  # what such a layer holds is not in its source


def origins(project, ids):
    """Give {id: {"source", "name"}} of those layers that the project has."""
    layers = {key: project.mapLayer(key) for key in dict.fromkeys(ids) if key}
    return {
        key: {"source": layer_source(layer), "name": layer.name()}
        for key, layer in layers.items()
        if layer is not None
    }


def current_id(project, layer_id, known):
    """Give the id by which the project has a layer now, or the old one if it has it no more.

    known: what origins() gave when the layer was chosen. Of several layers of the same source that
    of the same name is taken, else the first.
    """
    if not layer_id or project.mapLayer(layer_id) is not None:
        return layer_id
    origin = known.get(layer_id) or {}
    wanted = origin.get("source")
    if not wanted:
        return layer_id
    found = [
        layer
        for layer in project.mapLayers().values()
        if layer.providerType() not in NOT_BY_SOURCE
        and comparable_source(layer_source(layer)) == comparable_source(wanted)
    ]
    found.sort(key=lambda layer: layer.name() != origin.get("name"))
    return found[0].id() if found else layer_id


def layer_source(layer):
    """Give the source of a layer without what opens a database or a service."""
    return without_credentials(layer.source())


def comparable_source(source):
    """Give a source such that two ways to write the same path are the same."""
    return os.path.normcase(os.path.normpath(source)) if os.path.isabs(source) else source
