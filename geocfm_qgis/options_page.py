"""GeoCFM's page in QGIS's options: the engine, the default device, the folder for results."""

from qgis.gui import QgsFileWidget, QgsOptionsPageWidget, QgsOptionsWidgetFactory

from . import settings
from .bundle import icon, load_form
from .environment.page import EnvironmentPage
from .translation import tr
from .wheel_guard import WheelGuard

OPTIONS_PAGE = "mOptionsPageGeoCFM"  # for iface.showOptionsDialog(currentPage=OPTIONS_PAGE)
AUTOMATIC = "auto"


class GeoCFMOptionsFactory(QgsOptionsWidgetFactory):
    """Gives QGIS the page when its options are opened."""

    def __init__(self):
        super().__init__("GeoCFM", icon())

    def createWidget(self, parent=None):
        """Make the page (the name of this function is QGIS's)."""
        return GeoCFMOptionsPage(parent)


class GeoCFMOptionsPage(QgsOptionsPageWidget):
    """The page; device and folder are remembered with OK, the engine when it was checked."""

    def __init__(self, parent=None):
        super().__init__(parent)
        load_form("options", self)
        self.setObjectName(OPTIONS_PAGE)
        self.environmentPage = EnvironmentPage(self)
        self.engineLayout.addWidget(self.environmentPage)
        WheelGuard(self)
        self.environmentPage.engine_changed.connect(self._show_devices)
        self.resultsFile.setStorageMode(QgsFileWidget.StorageMode.GetDirectory)
        self.resultsFile.setDialogTitle(tr("A folder for results"))
        self.resultsFile.setFilePath(settings.results_folder())
        self.resultsFile.lineEdit().setPlaceholderText(tr("beside the project"))
        self._show_devices()

    def apply(self):
        """Remember what is chosen (the name of this function is QGIS's)."""
        settings.set_default_device(self.deviceCombo.currentData())
        settings.set_results_folder(self.resultsFile.filePath().strip())

    def _show_devices(self):
        """Offer the devices that the engine has; keep the one chosen even if it is away."""
        chosen = self.deviceCombo.currentData() or settings.default_device()
        self.deviceCombo.clear()
        self.deviceCombo.addItem(tr("The fastest there is"), AUTOMATIC)
        for name, description in settings.known_devices() or [("cpu", tr("CPU"))]:
            self.deviceCombo.addItem(description or name, name)
        if self.deviceCombo.findData(chosen) < 0:
            self.deviceCombo.addItem(tr("{device}, not found now").format(device=chosen), chosen)
        self.deviceCombo.setCurrentIndex(self.deviceCombo.findData(chosen))
