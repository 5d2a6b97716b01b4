"""A raster written as a GeoTIFF by QGIS, for what the engine cannot open by itself."""

from __future__ import annotations

import math
import os
import uuid

from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsProcessingException,
    QgsRasterBlockFeedback,
    QgsRasterFileWriter,
    QgsRasterLayer,
    QgsRasterNuller,
    QgsRasterPipe,
    QgsRectangle,
)
from qgis.PyQt.QtCore import Qt

from ..compat import RASTER_WRITING_CANCELLED, RASTER_WRITTEN
from ..translation import tr
from .layer_file import file_state, layer_path
from .temporary import path_by_content, temporary_path

MOST_CELLS = 400_000_000
MARGIN_CELLS = 256  # windows at the edge of the area look beyond it
CREATE_OPTIONS = ["COMPRESS=DEFLATE", "TILED=YES", "BIGTIFF=IF_SAFER"]


class RasterExport:
    """A layer's source and settings, noted where the layer lives; opened and read anywhere."""

    def __init__(self, layer, name, context, area=None):
        """Plan to write the layer, or of it what lies around an Area, to a file of this name."""
        provider = layer.dataProvider()
        self.layer_name = layer.name()
        self._crs = QgsCoordinateReferenceSystem(layer.crs())
        self._transform_context = context.transformContext()
        self._extent, self._width, self._height = _cells_around(layer, area, context)
        self._no_data = {
            band: provider.userNoDataValues(band) for band in range(1, provider.bandCount() + 1)
        }
        self._source, self._provider_type = layer.source(), layer.providerType()
        self.path = self._path(name, layer_path(layer))

    def run(self, feedback=None):
        """Write the file, unless it is there; what was cancelled or failed leaves none."""
        if os.path.isfile(self.path) or (feedback is not None and feedback.isCanceled()):
            return
        folder = os.path.dirname(self.path)
        part = os.path.join(folder, f"{uuid.uuid4().hex}.tif")
        try:
            os.makedirs(folder, exist_ok=True)
            if self._write(part, feedback):
                os.replace(part, self.path)
        except OSError:
            raise self._failure() from None
        finally:
            if os.path.exists(part):
                os.remove(part)

    def _path(self, name, source):
        """The same raster is written once, so that a job can go on; what is no file may change."""
        state = file_state(source) if source else None
        if state is None:
            return temporary_path(name)
        limits = {
            band: [(each.min(), each.max(), str(each.bounds())) for each in ranges]
            for band, ranges in self._no_data.items()
        }
        place = self._extent.toString(17), self._width, self._height, self._crs.toWkt()
        return path_by_content(name, repr((self._source, state, place, limits)))

    def _write(self, path, feedback):
        """Tell whether it was written; if not, it was cancelled."""
        block_feedback = QgsRasterBlockFeedback()
        if feedback is not None:
            feedback.pushInfo(
                tr("Exporting the layer '{layer}' to {path}.").format(
                    layer=self.layer_name, path=self.path
                )
            )
            block_feedback.progressChanged.connect(feedback.setProgress)
            # at once: this thread has no event loop while it writes
            feedback.canceled.connect(block_feedback.cancel, Qt.ConnectionType.DirectConnection)
        writer = QgsRasterFileWriter(path)
        writer.setOutputFormat("GTiff")
        writer.setCreateOptions(CREATE_OPTIONS)
        # a layer of our own: the user may remove the other one meanwhile
        layer = QgsRasterLayer(self._source, self.layer_name, self._provider_type)
        if not layer.isValid():
            raise self._failure()
        result = writer.writeRaster(
            self._pipe(layer.dataProvider()),
            self._width,
            self._height,
            self._extent,
            self._crs,
            self._transform_context,
            block_feedback,
        )
        if result not in (RASTER_WRITTEN, RASTER_WRITING_CANCELLED):
            raise self._failure()
        return result == RASTER_WRITTEN

    def _failure(self):
        return QgsProcessingException(
            tr(
                "The layer '{layer}' could not be exported to {path}. Export it as a GeoTIFF in "
                "QGIS (Export > Save As), and choose that file."
            ).format(layer=self.layer_name, path=self.path)
        )

    def _pipe(self, provider):
        """The writer heeds no-data values that the user has set only in a filter of their own."""
        nuller = QgsRasterNuller()
        for band, ranges in self._no_data.items():
            nuller.setNoData(band, ranges)
        pipe = QgsRasterPipe()
        pipe.set(provider.clone())
        if any(self._no_data.values()):
            pipe.insert(1, nuller)
        return pipe


def _cells_around(layer, area, context):
    """Give the part of the layer's own cells that is needed: extent, columns, rows."""
    provider, whole = layer.dataProvider(), layer.extent()
    columns, rows = provider.xSize(), provider.ySize()
    if not columns or not rows:
        raise QgsProcessingException(
            tr(
                "The layer '{layer}' does not say how large its cells are. Export it as a GeoTIFF "
                "in QGIS (Export > Save As), and choose that file."
            ).format(layer=layer.name())
        )
    width, height = whole.width() / columns, whole.height() / rows
    left, top, right, bottom = 0, 0, columns, rows
    wanted = area.rectangle_in(layer.crs(), context) if area is not None else None
    if wanted is not None:
        left = max(0, math.floor((wanted.xMinimum() - whole.xMinimum()) / width) - MARGIN_CELLS)
        right = min(
            columns, math.ceil((wanted.xMaximum() - whole.xMinimum()) / width) + MARGIN_CELLS
        )
        top = max(0, math.floor((whole.yMaximum() - wanted.yMaximum()) / height) - MARGIN_CELLS)
        bottom = min(
            rows, math.ceil((whole.yMaximum() - wanted.yMinimum()) / height) + MARGIN_CELLS
        )
    if left >= right or top >= bottom:
        raise QgsProcessingException(
            tr("The layer '{layer}' does not overlap the area of interest.").format(
                layer=layer.name()
            )
        )
    cells = (right - left) * (bottom - top)
    if cells > MOST_CELLS:
        raise QgsProcessingException(
            tr(
                "The layer '{layer}' is no file, and {cells} million cells are too many to export. "
                "Choose a smaller area of interest."
            ).format(layer=layer.name(), cells=round(cells / 1e6))
        )
    extent = QgsRectangle(
        whole.xMinimum() + left * width,
        whole.yMaximum() - bottom * height,
        whole.xMinimum() + right * width,
        whole.yMaximum() - top * height,
    )
    return extent, right - left, bottom - top
