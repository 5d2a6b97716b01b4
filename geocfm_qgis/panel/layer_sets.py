"""Named sets of layers: kept for all projects in QGIS's settings, and in the project itself."""

import json
import os
from dataclasses import asdict, dataclass

from qgis.core import QgsRasterLayer, QgsSettings

from ..runs.own_files import is_far
from .choices import Channel
from .layer_origins import comparable_source, layer_source

SETTING = "geocfm/layer_sets"
SCOPE, ENTRY = "GeoCFM", "/layer_sets"


@dataclass(frozen=True)
class SetEntry:
    """A channel by where its raster comes from, so that it can be found in another project."""

    source: str
    layer_name: str
    band: int
    name: str
    categorical: bool = False


@dataclass(frozen=True)
class FoundSet:
    """What a project has of a set: channels, files that can be added, names of what is nowhere."""

    channels: tuple  # of Channel
    files: tuple  # of paths
    missing: tuple  # of names


def saved_sets(project):
    """Give all sets as a dict of tuples of SetEntry; the project's own outweigh the settings'."""
    resolver = project.pathResolver()
    own = _parsed(project.readEntry(SCOPE, ENTRY, "{}")[0])
    for entries in own.values():
        for entry in entries:
            entry["source"] = resolver.readPath(entry["source"])
    sets = {**_parsed(QgsSettings().value(SETTING, "{}", type=str)), **own}
    return {name: tuple(SetEntry(**entry) for entry in sets[name]) for name in sorted(sets)}


def save_set(project, name, channels):
    """Keep channels of a project under a name; a set of that name is replaced."""
    entries = []
    for channel in channels:
        layer = project.mapLayer(channel.layer)
        if layer is not None:
            entries.append(
                SetEntry(
                    layer_source(layer),
                    layer.name(),
                    channel.band,
                    channel.name,
                    channel.categorical,
                )
            )
    _write(project, name, [asdict(entry) for entry in entries])


def delete_set(project, name):
    """Forget a set, in the project and in the settings."""
    _write(project, name, None)


def find_set(project, entries):
    """Find the rasters of a set in the project, else on disk, else by their names."""
    rasters = [layer for layer in project.mapLayers().values() if isinstance(layer, QgsRasterLayer)]
    by_source = {comparable_source(layer_source(layer)): layer for layer in rasters}
    by_name = {layer.name(): layer for layer in rasters}
    channels, files, missing = [], [], []
    for entry in entries:
        layer = by_source.get(comparable_source(entry.source))
        if layer is None and not is_far(entry.source, project) and os.path.exists(entry.source):
            files.append(entry.source)
            continue
        layer = layer or by_name.get(entry.layer_name)
        if layer is None or (layer.isValid() and entry.band > layer.bandCount()):
            missing.append(entry.name)
            continue
        channels.append(Channel(layer.id(), entry.band, entry.name, entry.categorical))
    return FoundSet(tuple(channels), tuple(dict.fromkeys(files)), tuple(missing))


def _write(project, name, entries):
    """Replace one set in both places; None removes it."""
    everywhere = _parsed(QgsSettings().value(SETTING, "{}", type=str))
    own = _parsed(project.readEntry(SCOPE, ENTRY, "{}")[0])
    everywhere.pop(name, None)
    own.pop(name, None)
    if entries is not None:
        resolver = project.pathResolver()
        everywhere[name] = entries
        own[name] = [{**entry, "source": resolver.writePath(entry["source"])} for entry in entries]
    QgsSettings().setValue(SETTING, json.dumps(everywhere))
    project.writeEntry(SCOPE, ENTRY, json.dumps(own))


def _parsed(text):
    """Read sets from text; one that another program or a mistake left there is passed over."""
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(content, dict):
        return {}
    return {
        str(name): entries
        for name, entries in content.items()
        if isinstance(entries, list) and all(map(_is_entry, entries))
    }


def _is_entry(entry):
    types = {"source": str, "layer_name": str, "band": int, "name": str, "categorical": bool}
    return (
        isinstance(entry, dict)
        and set(entry) == set(types)
        and all(isinstance(entry[key], kind) for key, kind in types.items())
    )
