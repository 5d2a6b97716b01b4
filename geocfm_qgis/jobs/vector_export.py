"""Features written to a temporary GeoPackage, for what the engine cannot read by itself."""

from __future__ import annotations

import os
import uuid

from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsField,
    QgsFields,
    QgsProcessingException,
    QgsVectorFileWriter,
    QgsVectorLayerFeatureSource,
    QgsWkbTypes,
)

from ..translation import tr

LAYER_NAME = "features"
# columns of their own for what a GeoPackage must have, so that `fid` and `geom` stay attributes
GEOPACKAGE_OPTIONS = ["FID=geocfm_fid", "GEOMETRY_NAME=geocfm_geometry"]


class VectorExport:
    """A snapshot of a layer's features, taken where the layer lives and written anywhere."""

    def __init__(self, source, path, context, clip=None):
        """Take the features of a VectorSource; `clip` is a geometry in the layer's CRS."""
        layer = source.layer
        self.path = path
        self.layer_name = layer.name()
        self._features = QgsVectorLayerFeatureSource(layer)
        self._request = source.request()
        self._fields = _distinct(layer.fields())
        # cut polygons may become multi-polygons, lines and points
        self._type = layer.wkbType() if clip is None else QgsWkbTypes.Type.Unknown
        self._crs = QgsCoordinateReferenceSystem(layer.crs())
        self._transform_context = context.transformContext()
        self._clip = clip

    def run(self, feedback=None):
        """Write the file, unless it is there; what was cancelled or failed leaves none."""
        if os.path.isfile(self.path):
            return
        part = os.path.join(os.path.dirname(self.path), f"{uuid.uuid4().hex}.gpkg")
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            count = self._write(part, feedback)
            if count:
                os.replace(part, self.path)
        except OSError as error:
            raise self._failure(error.strerror) from None
        finally:
            if os.path.isfile(part):
                os.remove(part)
        if not count and (feedback is None or not feedback.isCanceled()):
            raise QgsProcessingException(
                tr(
                    "No feature of '{layer}' is left: none lies inside the extent, or none "
                    "passes the filter. Widen the extent or change the filter."
                ).format(layer=self.layer_name)
            )

    def _write(self, path, feedback):
        options = QgsVectorFileWriter.SaveVectorOptions()
        options.driverName = "GPKG"
        options.layerName = LAYER_NAME
        options.layerOptions = GEOPACKAGE_OPTIONS
        writer = QgsVectorFileWriter.create(
            path, self._fields, self._type, self._crs, self._transform_context, options
        )
        self._refuse_error(writer)
        count = 0
        for feature in self._features.getFeatures(self._request):
            if feedback is not None and feedback.isCanceled():
                return 0
            geometry = feature.geometry()
            if self._clip is not None:
                geometry = geometry.makeValid().intersection(self._clip)
                if geometry.isEmpty():
                    continue
            written = QgsFeature(self._fields)
            written.setAttributes(feature.attributes())
            if not geometry.isNull():
                written.setGeometry(geometry)
            writer.addFeature(written)
            self._refuse_error(writer)
            count += 1
        return count  # the file is closed as the writer goes

    def _refuse_error(self, writer):
        if writer.hasError() != QgsVectorFileWriter.WriterError.NoError:
            raise self._failure(writer.errorMessage())

    def _failure(self, reason):
        return QgsProcessingException(
            tr("The layer '{layer}' cannot be written to {path}: {reason}").format(
                layer=self.layer_name, path=self.path, reason=reason
            )
        )


def _distinct(fields):
    """Give the fields with names that differ by more than the case of letters."""
    distinct = QgsFields()
    taken = set()
    for field in fields:
        name, number = field.name(), 2
        while name.casefold() in taken:
            name, number = f"{field.name()}_{number}", number + 1
        taken.add(name.casefold())
        renamed = QgsField(field)
        renamed.setName(name)
        distinct.append(renamed)
    return distinct
