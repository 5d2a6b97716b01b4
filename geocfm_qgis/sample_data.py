"""The Murchison sample as layers of the project."""

from qgis.core import QgsColorRampShader, QgsMapLayer, QgsRasterLayer, QgsVectorLayer

from .bundle import resources_folder
from .translation import tr

GREENSTONE = "greenstone"  # which of the rasters is understood at a glance


def add_sample_layers(project):
    """Add the deposits and the rasters as one group on top; give the names of unreadable ones.

    Of the rasters, which would hide each other, only the greenstone is shown.
    """
    sample = resources_folder() / "sample"
    deposits = f"{sample / 'occurrences.gpkg'}|layername=occurrences"
    layers = [QgsVectorLayer(deposits, tr("gold deposits"), "ogr")]
    for raster in sorted(sample.glob("rasters/*.tif")):
        layers.append(QgsRasterLayer(str(raster), raster.stem))
    group = project.layerTreeRoot().insertGroup(0, tr("GeoCFM sample: Murchison gold"))
    for layer in layers:
        if not layer.isValid():
            continue
        is_raster = isinstance(layer, QgsRasterLayer)
        if not is_raster:
            _load_style(layer, "occurrences")
        elif layer.name() == GREENSTONE:
            _load_style(layer, "greenstone")
            _label_greenstone(layer)
        project.addMapLayer(layer, False)  # False: into our group, not on top of the tree
        node = group.addLayer(layer)
        node.setItemVisibilityChecked(not is_raster or layer.name() == GREENSTONE)
        node.setExpanded(not is_raster)
    return [layer.name() for layer in layers if not layer.isValid()]


def _load_style(layer, name):
    style = resources_folder() / "styles" / f"{name}.qml"
    layer.loadNamedStyle(str(style), categories=QgsMapLayer.StyleCategory.Symbology)


def _label_greenstone(layer):
    shader = layer.renderer().shader().rasterShaderFunction()
    texts = (tr("other rocks"), tr("greenstone"))
    shader.setColorRampItemList(
        [
            QgsColorRampShader.ColorRampItem(stop.value, stop.color, text)
            for stop, text in zip(shader.colorRampItemList(), texts)
        ]
    )
