"""Where a result comes from: read from the file itself, told in its layer's metadata."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from osgeo import gdal
from qgis.core import QgsAbstractMetadataBase, QgsLayerMetadata
from qgis.PyQt.QtCore import QUrl

from ..plain_text import without_tags
from ..redaction import without_credentials_within
from ..translation import tr

PROVENANCE = "geocfm/provenance"  # custom property of a layer: the JSON, as in the file
VOCABULARY = "GeoCFM"
ENCODED = QUrl.ComponentFormattingOption.FullyEncoded

TAG, MODEL_TAG, MEANING_TAG = "GEOCFM_PROVENANCE", "GEOCFM_MODEL", "GEOCFM_MEANING"
SIDECAR = "{}.provenance.json"  # beside formats that cannot carry it: GeoJSON and CSV


@dataclass(frozen=True)
class Provenance:
    """The engine's account of a result: the job, what it read, and by which software."""

    job: dict = field(default_factory=dict)
    inputs: tuple = ()  # {"use", "path", "size", "modified"}
    versions: dict = field(default_factory=dict)
    model: dict = field(default_factory=dict)
    meaning: str = ""
    text: str = ""  # all of it as JSON, as it stands in the file

    @property
    def checkpoint(self):
        """The path of the model that made the result; empty if it is not known."""
        return str(self.job.get("checkpoint") or "")


def read_provenance(path):
    """Give what a file says of itself, or None if it is not a result of GeoCFM's."""
    tags = _tags(path)
    told = _object(tags.get(TAG, ""))
    content = without_credentials_within(told)  # an engine elsewhere may have been given some
    if not isinstance(content.get("job"), dict):
        return None
    inputs, versions = content.get("inputs"), content.get("versions")
    return Provenance(
        job=content["job"],
        inputs=tuple(inputs) if _are_objects(inputs) else (),
        versions=versions if isinstance(versions, dict) else {},
        model=without_credentials_within(_object(tags.get(MODEL_TAG, ""))),
        meaning=tags.get(MEANING_TAG, ""),
        text=tags[TAG] if content == told else json.dumps(content, ensure_ascii=False),
    )


def fingerprint(path):
    """Give a short text that another result in the same file would not have."""
    told = _tags(path).get(TAG, "")
    return hashlib.sha256(told.encode("utf-8")).hexdigest()[:16]


def describe(layer, path):
    """Fill a layer's metadata with what its file says of itself; tell whether it says anything.

    QGIS shows metadata as HTML in one window and as text in another.
    """
    provenance = read_provenance(path)
    if provenance is None:
        return False
    metadata = QgsLayerMetadata()
    metadata.setIdentifier(Path(path).absolute().as_uri())
    metadata.setTitle(without_tags(layer.name()))
    metadata.setType("dataset")
    metadata.setAbstract(without_tags(provenance.meaning))
    metadata.setKeywords({VOCABULARY: list(map(without_tags, _keywords(provenance)))})
    metadata.setHistory(list(map(without_tags, _history(provenance, path))))
    metadata.setLinks(_links(provenance, path))
    metadata.setCrs(layer.crs())
    layer.setMetadata(metadata)
    layer.setCustomProperty(PROVENANCE, provenance.text)
    return True


def _tags(path):
    sidecar = SIDECAR.format(path)
    try:
        if os.path.exists(sidecar):
            return {TAG: Path(sidecar).read_text(encoding="utf-8")}
        dataset = gdal.OpenEx(path)
    except (OSError, UnicodeDecodeError, RuntimeError):  # GDAL raises only where it is told to
        return {}
    if dataset is None:
        return {}
    tags = dict(dataset.GetMetadata() or {})
    for number in range(dataset.GetLayerCount()):
        tags.update(dataset.GetLayer(number).GetMetadata() or {})
    return tags


def _object(text):
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _are_objects(entries):
    return isinstance(entries, list) and all(isinstance(each, dict) for each in entries)


def _keywords(provenance):
    command = str(provenance.job.get("command", ""))
    layers = [str(name) for name in provenance.model.get("layers") or ()]
    return [*filter(None, [command]), *layers]


def _history(provenance, path):
    """One line for each thing a reader may ask; the last is for programs."""
    made = datetime.fromtimestamp(os.path.getmtime(path), timezone.utc)
    software = ", ".join(f"{name} {number}" for name, number in provenance.versions.items())
    lines = [
        tr("Made: {time}").format(time=made.isoformat(timespec="seconds")),
        tr("Software: {versions}").format(versions=software),
    ]
    if provenance.checkpoint:
        trained = provenance.model.get("created", "")
        lines.append(
            tr("Model: {path}, trained {time}").format(path=provenance.checkpoint, time=trained)
            if trained
            else tr("Model: {path}").format(path=provenance.checkpoint)
        )
    used = provenance.model.get("occurrences")
    if isinstance(used, dict) and isinstance(used.get("counts"), dict):
        filtered = "; ".join(str(each) for each in used.get("where") or ())
        lines.append(
            tr("Trained on: {count} occurrences of {source} {filter}")
            .format(
                count=used["counts"].get("used", "?"),
                source=used.get("source", "?"),
                filter=f"({filtered})" if filtered else "",
            )
            .strip()
        )
    for each in provenance.inputs:
        lines.append(
            tr("Input: {use}: {path}, {size} bytes, changed {time}").format(
                use=each.get("use", ""),
                path=each.get("path", ""),
                size=each.get("size") or "?",
                time=each.get("modified") or "?",
            )
        )
    lines.append(tr("Job: {json}").format(json=json.dumps(provenance.job, ensure_ascii=False)))
    return lines


def _links(provenance, path):
    named = [(tr("This file"), path), (tr("Model"), provenance.checkpoint)]
    return [
        QgsAbstractMetadataBase.Link(name, "File", QUrl.fromLocalFile(where).toString(ENCODED))
        for name, where in named
        if where
    ]
