"""Rasters from files into the project."""

from pathlib import Path

from qgis.core import QgsProviderRegistry, QgsProviderSublayerDetails, QgsRasterLayer

from ..translation import tr


def add_rasters(project, paths):
    """Add the rasters of files to the project; give the layers, and the files that hold none."""
    added, unreadable = [], []
    for path in paths:
        layers = [layer for layer in _rasters_of(project, str(path)) if layer.isValid()]
        if layers:
            added += layers
        else:
            unreadable.append(str(path))
    return project.addMapLayers(added), unreadable  # all at once: each time the lists are renewed


def unreadable_sentence(paths):
    """Say that files hold no raster, and what may help."""
    names = ", ".join(Path(path).name for path in paths)
    return tr(
        "No raster could be read from: {names}. Check that the files are complete; if another "
        "program opens them, export them from there as GeoTIFF."
    ).format(names=names)


def _rasters_of(project, path):
    """Open a file; one that holds several data sets, as NetCDF does, gives several layers."""
    plain = QgsRasterLayer(path, Path(path).stem)
    if plain.isValid():
        return [plain]
    options = QgsProviderSublayerDetails.LayerOptions(project.transformContext())
    found = QgsProviderRegistry.instance().querySublayers(path)
    layers = [details.toLayer(options) for details in found]
    return [layer for layer in layers if isinstance(layer, QgsRasterLayer)]
