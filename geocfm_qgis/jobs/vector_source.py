"""What a user chose as a vector input: a layer, perhaps only its selected or filtered features."""

from __future__ import annotations

import codecs
import hashlib
import os
from dataclasses import dataclass

from osgeo import gdal
from qgis.core import (
    QgsDataProvider,
    QgsFeatureRequest,
    QgsProcessingException,
    QgsProcessingFeatureSourceDefinition,
    QgsProcessingUtils,
    QgsProperty,
    QgsProviderRegistry,
    QgsVectorLayer,
)

from ..redaction import without_credentials
from ..translation import tr
from .layer_file import refuse_gone
from .layers_at_rest import found_once
from .temporary import path_by_content, temporary_path

MOST_COMPARED = 20_000  # features; more would make the user wait
# what the engine opens as QGIS does; tables of text it reads by rules of its own
SHARED_FORMATS = (".shp", ".gpkg", ".geojson", ".json", ".fgb", ".gml", ".kml", ".tab", ".mif")
OF_ANY_ENCODING = (".shp", ".tab", ".mif")


@dataclass(frozen=True)
class VectorSource:
    """Features of a layer; to be made and used where the layer lives."""

    layer: object
    selected_only: bool = False
    expression: str = ""
    limit: int = -1

    def request(self):
        """Give the request for the features that are meant."""
        request = QgsFeatureRequest()
        if self.selected_only:
            request.setFilterFids(self.layer.selectedFeatureIds())
        if self.expression:
            request.setFilterExpression(self.expression)
        if self.limit >= 0:
            request.setLimit(self.limit)
        return request

    def extent(self):
        """Give the rectangle around the features, in the layer's CRS."""
        if self.selected_only:
            return self.layer.boundingBoxOfSelected()
        return self.layer.extent()

    def path_for_copy(self, name, more=""):
        """Give where a copy of the features is written: for the same features the same path.

        `more` is what else the copy depends on. Very many features are not compared.
        """
        picked = self.layer.selectedFeatureIds() if self.selected_only else ()
        key = (self.layer.id(), tuple(picked), self.expression, self.limit, name, more)
        return found_once(key, lambda: self._path_for_copy(name, more))

    def _path_for_copy(self, name, more):
        digest = hashlib.sha256(f"{self.layer.crs().toWkt()}{more}".encode())
        digest.update(repr([str(field.name()) for field in self.layer.fields()]).encode())
        for number, feature in enumerate(self.layer.getFeatures(self.request())):
            if number >= MOST_COMPARED:
                return temporary_path(name)
            digest.update(bytes(feature.geometry().asWkb()))
            digest.update(repr(feature.attributes()).encode())
        return path_by_content(name, digest.digest())

    def file(self):
        """Give (path, layer in it) if the file holds just these features, else None."""
        layer = self.layer
        if self.selected_only or self.expression or self.limit >= 0:
            return None
        if layer.providerType() != "ogr" or layer.subsetString() or layer.isModified():
            return None
        if len(layer.fields()) != len(layer.dataProvider().fields()):  # joined, computed
            return None
        parts = QgsProviderRegistry.instance().decodeUri("ogr", layer.source())
        allowed = ("path", "layerName", "layerId", "databaseName")
        if any(value for key, value in parts.items() if key not in allowed):
            return None
        path = os.path.abspath(parts.get("path") or "")
        if not path.lower().endswith(SHARED_FORMATS) or not os.path.isfile(path):
            return None
        if not _reads_text_alike(layer, path):
            return None
        name = str(parts.get("layerName") or "")
        if not name:
            parts_of_file = layer.dataProvider().subLayers()
            if len(parts_of_file) > 1:
                return None  # known by a number only
            # the layer's own source leaves out the number if it is 0
            if "|layerid=" in layer.dataProvider().dataSourceUri() and parts_of_file:
                name = parts_of_file[0].split(QgsDataProvider.sublayerSeparator())[1]
        return path, name


def vector_source(value, context, what):
    """Give the VectorSource that a parameter's value means; `what` names it in a sentence."""
    chosen = {}
    if isinstance(value, QgsProcessingFeatureSourceDefinition):
        chosen = {
            "selected_only": value.selectedFeaturesOnly,
            "limit": value.featureLimit,
            "expression": getattr(value, "filterExpression", "") or "",  # QGIS 3.32
        }
        value = value.source
    if isinstance(value, QgsProperty):
        value = value.valueAsString(context.expressionContext())[0]
    if not value:
        raise QgsProcessingException(tr("{what}: no layer is chosen.").format(what=what))
    layer = _layer(value, context)
    if isinstance(layer, QgsVectorLayer):
        refuse_gone(layer)
    if not isinstance(layer, QgsVectorLayer) or not layer.isValid():
        raise QgsProcessingException(
            tr("{what}: '{value}' is no vector layer. Choose another one.").format(
                what=what, value=without_credentials(str(value))
            )
        )
    if not layer.isSpatial():
        raise QgsProcessingException(
            tr(
                "The layer '{layer}' is a table without locations. If it has columns of "
                "coordinates, add it with Layer > Add Layer > Add Delimited Text Layer, and choose "
                "that layer."
            ).format(layer=layer.name())
        )
    source = VectorSource(layer, **chosen)
    if source.selected_only and not layer.selectedFeatureCount():
        raise QgsProcessingException(
            tr(
                "No feature of '{layer}' is selected. Select some, or leave out 'Selected features "
                "only'."
            ).format(layer=layer.name())
        )
    if layer.featureCount() == 0:
        raise QgsProcessingException(
            tr("The layer '{layer}' has no features. Choose another one.").format(
                layer=layer.name()
            )
        )
    return source


def _layer(value, context):
    """Give the layer that is meant; QGIS itself passes over broken ones of the project."""
    if isinstance(value, QgsVectorLayer):
        return value
    found = QgsProcessingUtils.mapLayerFromString(str(value), context)
    if found is None and context.project() is not None:
        found = context.project().mapLayer(str(value))
    return found


def _reads_text_alike(layer, path):
    """Whether the engine will read the same letters from the file as QGIS, where it may be told."""
    if not path.lower().endswith(OF_ANY_ENCODING):
        return True
    read = "UTF-8"  # what GDAL makes of the text of most formats
    if path.lower().endswith(".shp"):
        dataset = gdal.OpenEx(path, gdal.OF_VECTOR)
        said = {} if dataset is None else dataset.GetLayer(0).GetMetadata("SHAPEFILE") or {}
        read = said.get("ENCODING_FROM_CPG") or said.get("ENCODING_FROM_LDID") or "ISO-8859-1"
    return _codec(layer.dataProvider().encoding()) == _codec(read)


def _codec(name):
    try:
        return codecs.lookup(name).name
    except LookupError:  # such as "System"
        return name
