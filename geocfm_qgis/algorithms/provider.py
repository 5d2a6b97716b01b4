"""The provider "GeoCFM" in the Processing toolbox."""

from qgis.core import QgsProcessingProvider

from ..bundle import icon, plugin_version
from . import algorithm_classes


class GeoCFMProvider(QgsProcessingProvider):
    """Gives QGIS the algorithms; works without a desktop too."""

    def id(self):
        """Give the first part of every algorithm's id."""
        return "geocfm"

    def name(self):
        """Give the name people see."""
        return "GeoCFM"

    def icon(self):
        """Give GeoCFM's icon."""
        return icon()

    def versionInfo(self):
        """Give the plugin's version."""
        return plugin_version()

    def loadAlgorithms(self):
        """Add the algorithms."""
        for kind in algorithm_classes():
            self.addAlgorithm(kind())

    def defaultRasterFileExtension(self):
        """Give the engine's own format, whatever QGIS is set to."""
        return "tif"

    def supportedOutputRasterLayerExtensions(self):
        """Give the formats of maps."""
        return ["tif", "tiff"]

    def defaultVectorFileExtension(self, hasGeometry=True):
        """Give the engine's own format, whatever QGIS is set to."""
        return "gpkg"

    def supportedOutputVectorLayerExtensions(self):
        """Give the formats that QGIS opens with their geometry; of a CSV it makes a table."""
        return ["gpkg", "geojson"]

    def supportsNonFileBasedOutput(self):
        """Tell that the engine writes files, not layers in QGIS's memory."""
        return False
