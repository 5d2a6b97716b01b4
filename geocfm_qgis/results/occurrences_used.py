"""The occurrences a run learned from, as a layer that shows just these and lasts as the results do.

A file of the user's is shown as it is. Where only some of its points were used, or they came from a
temporary file (a selection, a memory layer), the points used are written beside the results.
"""

from __future__ import annotations

import os

from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsProcessingContext,
    QgsProcessingException,
    QgsVectorLayer,
)

from ..jobs.vector_export import VectorExport
from ..jobs.vector_source import VectorSource
from .engine_filter import matches
from .finished import OCCURRENCES
from .styling import apply_style, has_own_style, open_result, style_result


def occurrences_layer(run, results):
    """Give the layer of the occurrences that the run used, styled; None if it used none."""
    if not run.occurrences:
        return None
    path = run.occurrences.partition("|")[0]
    jobs = [job for job in run.jobs if job.values.get("occurrences") == path]
    values = jobs[0].values if jobs else {}
    where, crs = values.get("where") or [], values.get("occurrences_crs") or ""
    layer = QgsVectorLayer(run.occurrences, OCCURRENCES)
    if not layer.isValid():
        return layer
    if crs:
        layer.setCrs(QgsCoordinateReferenceSystem(crs))
    if where or any(path in job.temporary for job in jobs):
        return _written(layer, where, results[0])
    style_result(layer, OCCURRENCES)
    return layer


def _written(source, where, result):
    path, is_there = _place(result)
    if not is_there:
        keep = [feature.id() for feature in source.getFeatures() if matches(feature, where)]
        source.selectByIds(keep)
        try:
            VectorExport(VectorSource(source, True), path, QgsProcessingContext()).run()
        except (QgsProcessingException, OSError):
            source.removeSelection()
            style_result(source, OCCURRENCES)
            return source  # better all of them, and for as long as they are there
    layer = open_result(path, OCCURRENCES)
    if layer.isValid():
        apply_style(layer, OCCURRENCES, path)
    return layer


def _place(result):
    """Give where the points go, and whether they are there; only what is ours is replaced."""
    stem = f"{os.path.splitext(result.path)[0]}_{OCCURRENCES}"
    path, number = f"{stem}.gpkg", 2
    while os.path.exists(path):
        if has_own_style(path) and not result.is_new:
            return path, True
        if has_own_style(path) and _removed(path):
            break
        path, number = f"{stem}_{number}.gpkg", number + 1
    return path, False


def _removed(path):
    try:
        os.remove(path)
    except OSError:  # Windows keeps what another layer has open
        return False
    return True
