"""The points of a layer with the values of one field, read once and counted often."""

import math
import time
from collections import Counter
from dataclasses import dataclass, field

from qgis.core import QgsApplication, QgsFeatureRequest, QgsTask, QgsVectorLayerFeatureSource
from qgis.PyQt.QtCore import QObject, pyqtSignal

from ..translation import tr
from .commodity_filter import folded, single_values

MOST_FEATURES = 200_000
MOST_SECONDS = 20.0
AT_ONCE = 4_000  # features that are read in less time than a click takes
LOCAL_PROVIDERS = ("memory", "ogr", "delimitedtext", "spatialite", "gpx")


@dataclass
class PointTable:
    """Features and their points; a multipoint has several, a feature without a location none."""

    crs: object
    ids: list = field(default_factory=list)  # of the features
    values: list = field(default_factory=list)  # of each feature: its folded values
    owners: list = field(default_factory=list)  # of each point: the number of its feature
    x: list = field(default_factory=list)
    y: list = field(default_factory=list)
    frequencies: Counter = field(default_factory=Counter)  # features by folded value
    spellings: dict = field(default_factory=dict)  # a folded value as it is first written
    is_complete: bool = True

    def points_of_features(self):
        """Give the number of points of each feature."""
        counts = [0] * len(self.ids)
        for owner in self.owners:
            counts[owner] += 1
        return counts

    def listed_values(self):
        """Give (value, features that have it), the most frequent first."""
        ordered = sorted(self.frequencies.items(), key=lambda item: (-item[1], item[0]))
        return [(self.spellings[key], count) for key, count in ordered]


def read_points(features, crs, column, is_cancelled=None):
    """Read features into a PointTable, as many as time and memory allow; None if cancelled."""
    table = PointTable(crs)
    end = time.monotonic() + MOST_SECONDS
    for number, feature in enumerate(features):
        if number >= MOST_FEATURES or time.monotonic() > end:
            table.is_complete = False
            break
        if is_cancelled is not None and is_cancelled():
            return None
        values = single_values(feature[column]) if column >= 0 else []
        own = folded(values)
        for value in values:
            table.spellings.setdefault(value.casefold(), value)
        table.frequencies.update(own)
        table.ids.append(feature.id())
        table.values.append(own)
        for x, y in _points(feature.geometry()):
            if math.isfinite(x) and math.isfinite(y):
                table.owners.append(number)
                table.x.append(x)
                table.y.append(y)
    return table


class PointReader(QObject):
    """Reads small local layers at once, and all others in the background."""

    done = pyqtSignal(object)  # a PointTable

    def __init__(self, parent=None):
        super().__init__(parent)
        self._task = None

    def is_reading(self):
        """Tell whether a layer is being read in the background."""
        return self._task is not None

    def read(self, layer, field_name):
        """Read a layer anew; what is being read for an earlier call is dropped."""
        self.stop()
        source = QgsVectorLayerFeatureSource(layer)
        column = layer.fields().indexFromName(field_name) if field_name else -1
        request = QgsFeatureRequest()
        request.setSubsetOfAttributes([column] if column >= 0 else [])
        if layer.providerType() in LOCAL_PROVIDERS and 0 <= layer.featureCount() <= AT_ONCE:
            self.done.emit(read_points(source.getFeatures(request), layer.crs(), column))
            return
        self._task = _ReadingTask(source, request, layer.crs(), column)
        self._task.ended.connect(self._ended)
        QgsApplication.taskManager().addTask(self._task)

    def stop(self):
        """Drop what is being read."""
        if self._task is not None:
            task, self._task = self._task, None
            task.ended.disconnect(self._ended)
            task.cancel()

    def _ended(self, table):
        self._task = None
        if table is not None:
            self.done.emit(table)


class _ReadingTask(QgsTask):
    ended = pyqtSignal(object)

    def __init__(self, source, request, crs, column):
        super().__init__(tr("Counting occurrences"), QgsTask.Flag.CanCancel)
        self._read = source, request, crs, column
        self._table = None

    def run(self):
        source, request, crs, column = self._read
        features = source.getFeatures(request)
        self._table = read_points(features, crs, column, self.isCanceled)
        return self._table is not None

    def finished(self, _result):
        self.ended.emit(self._table)


def _points(geometry):
    if geometry.isNull() or geometry.isEmpty():
        return []
    if geometry.isMultipart():
        return [(vertex.x(), vertex.y()) for vertex in geometry.vertices()]
    point = geometry.asPoint()
    return [(point.x(), point.y())]
