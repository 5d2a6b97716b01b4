"""The Murchison sample as layers of the project."""

from qgis.core import QgsRasterLayer, QgsVectorLayer

from .bundle import resources_folder
from .translation import tr


def add_sample_layers(project):
    """Add the deposits and the rasters as one group on top; give the names of unreadable ones."""
    sample = resources_folder() / "sample"
    deposits = f"{sample / 'occurrences.gpkg'}|layername=occurrences"
    layers = [QgsVectorLayer(deposits, tr("gold deposits"), "ogr")]
    for raster in sorted(sample.glob("rasters/*.tif")):
        layers.append(QgsRasterLayer(str(raster), raster.stem))
    group = project.layerTreeRoot().insertGroup(0, tr("GeoCFM sample: Murchison gold"))
    for layer in layers:
        if layer.isValid():
            project.addMapLayer(layer, False)  # False: into our group, not on top of the tree
            group.addLayer(layer)
    return [layer.name() for layer in layers if not layer.isValid()]
