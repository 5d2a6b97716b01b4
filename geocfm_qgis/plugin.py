"""What QGIS starts and ends with the plugin: actions, panel, Processing provider, options page."""

from qgis.core import Qgis, QgsApplication, QgsProject
from qgis.PyQt.QtCore import Qt
from qgis.PyQt.QtWidgets import QAction

from .bundle import icon
from .environment import installer
from .plain_text import as_html
from .sample_data import add_sample_layers
from .translation import install_translator, remove_translator, tr

MENU = "GeoCFM"
MESSAGE_SECONDS = 10
PANEL_WIDTH = 430  # pixels, when it is first shown


class GeoCFMPlugin:
    """The plugin; `iface` is None in qgis_process, which calls only initProcessing."""

    def __init__(self, iface):
        self.iface = iface
        self.translator = install_translator()
        self.provider = None
        self.options = None
        self.queue = None
        self.panel = None
        self.help = None
        self.actions = []

    def initProcessing(self):
        """Add our algorithms to Processing."""
        from .algorithms.provider import GeoCFMProvider

        self.provider = GeoCFMProvider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self):
        """Add actions, options page and algorithms; the panel is made when it is first opened."""
        from .options_page import GeoCFMOptionsFactory
        from .runs.run_queue import RunQueue

        self.initProcessing()
        self.queue = RunQueue()
        self.options = GeoCFMOptionsFactory()
        self.iface.registerOptionsWidgetFactory(self.options)
        opening = self._add_action("geocfmPanelAction", tr("GeoCFM panel"), self.show_panel)
        self.iface.addToolBarIcon(opening)
        self._add_action("geocfmSampleAction", tr("Load the sample data"), self.load_sample)
        self._add_action("geocfmHelpAction", tr("Tutorial"), self.show_help)

    def unload(self):
        """Take everything away again; a job or an installation that runs is ended."""
        if self.queue is not None:
            self.queue.shutdown()
            self.queue = None
            installer.shutdown()
        if self.panel is not None:
            self.iface.removeDockWidget(self.panel)
            self.panel.deleteLater()
            self.panel = None
        if self.help is not None:
            self.help.close()
            self.help = None
        for action in self.actions:
            self.iface.removePluginRasterMenu(MENU, action)
            self.iface.removeToolBarIcon(action)
            action.deleteLater()
        self.actions = []
        if self.options is not None:
            self.iface.unregisterOptionsWidgetFactory(self.options)
            self.options = None
        if self.provider is not None:
            QgsApplication.processingRegistry().removeProvider(self.provider)
            self.provider = None
        remove_translator(self.translator)
        self.translator = None

    def show_panel(self):
        """Show the panel; at first on the right, afterwards where the user left it."""
        if self.panel is None:
            from .panel.panel import GeoCFMPanel

            self.panel = GeoCFMPanel(self.iface, self.queue)
            self.panel.sample_asked.connect(self.load_sample)
            self.panel.help_asked.connect(self.show_help)
            self.iface.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.panel)
            self.iface.mainWindow().resizeDocks(
                [self.panel], [PANEL_WIDTH], Qt.Orientation.Horizontal
            )
        self.panel.show()
        self.panel.raise_()

    def load_sample(self):
        """Add the Murchison layers to the project and show them."""
        unreadable = add_sample_layers(QgsProject.instance())
        if unreadable:
            self._tell(
                tr("These sample layers could not be opened: {names}. Install the plugin anew."),
                Qgis.MessageLevel.Warning,
                names=", ".join(unreadable),
            )
            return
        self._tell(
            tr("The sample data are in the project: four rasters and the gold deposits."),
            Qgis.MessageLevel.Info,
        )

    def show_help(self):
        """Show the tutorial."""
        from .help_window import HelpWindow

        if self.help is None:
            self.help = HelpWindow(self.iface.mainWindow())
        self.help.show()
        self.help.raise_()

    def _add_action(self, name, title, work):
        action = QAction(icon(), title, self.iface.mainWindow())
        action.setObjectName(name)
        action.triggered.connect(work)
        self.iface.addPluginToRasterMenu(MENU, action)
        self.actions.append(action)
        return action

    def _tell(self, message, level, **values):
        self.iface.messageBar().pushMessage(
            "GeoCFM", as_html(message.format(**values)), level, MESSAGE_SECONDS
        )
