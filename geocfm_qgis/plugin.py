"""The GeoCFM entry in the Raster menu and on the toolbar: loads the sample data."""

from pathlib import Path

from qgis.core import Qgis, QgsProject, QgsRasterLayer, QgsVectorLayer
from qgis.PyQt.QtCore import QCoreApplication
from qgis.PyQt.QtGui import QIcon
from qgis.PyQt.QtWidgets import QAction

MENU = "GeoCFM"
MESSAGE_SECONDS = 15


class GeoCFMPlugin:
    """What QGIS starts and ends with the plugin: one action, in a menu and on a toolbar."""

    def __init__(self, iface):
        self.iface = iface
        self.action = None

    def initGui(self):
        """Add the action to the Raster menu and the toolbar."""
        icon = QIcon(str(resources_folder() / "icons" / "geocfm.svg"))
        title = _tr("GeoCFM: load the sample data")
        self.action = QAction(icon, title, self.iface.mainWindow())
        self.action.triggered.connect(self.load_sample)
        self.iface.addPluginToRasterMenu(MENU, self.action)
        self.iface.addToolBarIcon(self.action)

    def unload(self):
        """Take the action away again."""
        if self.action is None:
            return
        self.iface.removePluginRasterMenu(MENU, self.action)
        self.iface.removeToolBarIcon(self.action)
        self.action.deleteLater()
        self.action = None

    def load_sample(self):
        """Add the Murchison layers to the project and say how to go on from there."""
        unreadable = add_sample_layers(QgsProject.instance())
        if unreadable:
            level = Qgis.MessageLevel.Warning
            message = _tr("These sample layers could not be opened: {}. Install the plugin anew.")
            message = message.format(", ".join(unreadable))
        else:
            level = Qgis.MessageLevel.Info
            message = _tr(
                "The sample data are in the project. For now, training and mapping run with the "
                "geocfm command; README.md in the folder of the plugin says how: {}"
            ).format(Path(__file__).resolve().parent)
        self.iface.messageBar().pushMessage("GeoCFM", message, level, MESSAGE_SECONDS)


def add_sample_layers(project):
    """Add the deposits and the rasters as one group on top; give the names of unreadable ones."""
    sample = resources_folder() / "sample"
    deposits = f"{sample / 'occurrences.gpkg'}|layername=occurrences"
    layers = [QgsVectorLayer(deposits, _tr("gold deposits"), "ogr")]
    for raster in sorted(sample.glob("rasters/*.tif")):
        layers.append(QgsRasterLayer(str(raster), raster.stem))
    group = project.layerTreeRoot().insertGroup(0, _tr("GeoCFM sample: Murchison gold"))
    for layer in layers:
        if layer.isValid():
            project.addMapLayer(layer, False)  # False: into our group, not on top of the tree
            group.addLayer(layer)
    return [layer.name() for layer in layers if not layer.isValid()]


def resources_folder():
    """Give the folder of icons and sample data: inside the installed plugin, or the repository."""
    here = Path(__file__).resolve().parent
    installed = here / "resources"
    return installed if installed.is_dir() else here.parent / "resources"


def _tr(text):
    return QCoreApplication.translate("GeoCFM", text)
