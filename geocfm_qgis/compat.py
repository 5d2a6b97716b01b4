"""The few names that differ between QGIS 3.22 and 4; nothing else asks for a version."""

from qgis.core import (
    Qgis,
    QgsCoordinateReferenceSystem,
    QgsEditFormConfig,
    QgsMapLayerProxyModel,
    QgsProcessing,
    QgsProcessingParameterDefinition,
    QgsProcessingParameterNumber,
    QgsRaster,
    QgsRasterFileWriter,
)
from qgis.PyQt.QtGui import QTextDocument

if hasattr(Qgis, "LayerFilter"):  # 3.34
    RASTER_LAYERS = Qgis.LayerFilter.RasterLayer
    POINT_LAYERS = Qgis.LayerFilter.PointLayer
    POLYGON_LAYERS = Qgis.LayerFilter.PolygonLayer
else:
    RASTER_LAYERS = QgsMapLayerProxyModel.Filter.RasterLayer
    POINT_LAYERS = QgsMapLayerProxyModel.Filter.PointLayer
    POLYGON_LAYERS = QgsMapLayerProxyModel.Filter.PolygonLayer

if hasattr(Qgis, "ProcessingSourceType"):  # 3.36
    SOURCE_RASTER = Qgis.ProcessingSourceType.Raster
    SOURCE_POINT = Qgis.ProcessingSourceType.VectorPoint
    SOURCE_POLYGON = Qgis.ProcessingSourceType.VectorPolygon
else:
    SOURCE_RASTER = QgsProcessing.SourceType.TypeRaster
    SOURCE_POINT = QgsProcessing.SourceType.TypeVectorPoint
    SOURCE_POLYGON = QgsProcessing.SourceType.TypeVectorPolygon

if hasattr(Qgis, "RasterColorInterpretation"):  # 3.30
    ALPHA_BAND = Qgis.RasterColorInterpretation.AlphaBand
    PALETTE_BAND = Qgis.RasterColorInterpretation.PaletteIndex
    COLOUR_BANDS = (
        Qgis.RasterColorInterpretation.RedBand,
        Qgis.RasterColorInterpretation.GreenBand,
        Qgis.RasterColorInterpretation.BlueBand,
    )
else:
    ALPHA_BAND = QgsRaster.ColorInterpretation.AlphaBand
    PALETTE_BAND = QgsRaster.ColorInterpretation.PaletteIndex
    COLOUR_BANDS = (
        QgsRaster.ColorInterpretation.RedBand,
        QgsRaster.ColorInterpretation.GreenBand,
        QgsRaster.ColorInterpretation.BlueBand,
    )


def drop_position(event):
    """Give where something was dropped, in pixels of the widget; Qt 6 calls it otherwise."""
    return event.position().toPoint() if hasattr(event, "position") else event.pos()


if hasattr(Qgis, "ProcessingParameterFlag"):  # 3.36
    ADVANCED = Qgis.ProcessingParameterFlag.Advanced
    OPTIONAL = Qgis.ProcessingParameterFlag.Optional
    WHOLE_NUMBER = Qgis.ProcessingNumberParameterType.Integer
    REAL_NUMBER = Qgis.ProcessingNumberParameterType.Double
else:
    ADVANCED = QgsProcessingParameterDefinition.Flag.FlagAdvanced
    OPTIONAL = QgsProcessingParameterDefinition.Flag.FlagOptional
    WHOLE_NUMBER = QgsProcessingParameterNumber.Type.Integer
    REAL_NUMBER = QgsProcessingParameterNumber.Type.Double

if hasattr(Qgis, "RasterFileWriterResult"):  # 3.32
    RASTER_WRITTEN = Qgis.RasterFileWriterResult.Success
    RASTER_WRITING_CANCELLED = Qgis.RasterFileWriterResult.Canceled
else:
    RASTER_WRITTEN = QgsRasterFileWriter.WriterError.NoError
    RASTER_WRITING_CANCELLED = QgsRasterFileWriter.WriterError.WriteCanceled

FORM_BY_GROUPS = (
    Qgis.AttributeFormLayout.DragAndDrop
    if hasattr(Qgis, "AttributeFormLayout")  # 3.32
    else QgsEditFormConfig.EditorLayout.TabLayout
)


def make_group_box(container):
    """Let a QgsAttributeEditorContainer be a box with a title, not a tab."""
    if hasattr(Qgis, "AttributeEditorContainerType"):  # 3.32
        container.setType(Qgis.AttributeEditorContainerType.GroupBox)
    else:
        container.setIsGroupBox(True)


def set_band(renderer, band):
    """Let a raster renderer of one band show this one."""
    if hasattr(renderer, "setInputBand"):  # 3.38
        renderer.setInputBand(band)
    else:
        renderer.setBand(band)


PREFERRED_WKT = (
    Qgis.CrsWktVariant.Preferred
    if hasattr(Qgis, "CrsWktVariant")  # 3.34
    else QgsCoordinateReferenceSystem.WktVariant.WKT_PREFERRED
)

_image = QTextDocument.ResourceType.ImageResource
IMAGE_RESOURCE = getattr(_image, "value", _image)  # Qt hands it over as a number
