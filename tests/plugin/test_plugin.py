"""The plugin as QGIS starts and ends it."""

import re

import pytest
from qgis.core import Qgis, QgsApplication, QgsProject
from qgis.PyQt.QtCore import QUrl
from qgis.PyQt.QtGui import QTextDocument
from qgis.PyQt.QtWidgets import QDockWidget

import geocfm_qgis
from geocfm_qgis.help_window import WIDEST_PICTURE, HelpWindow


class Iface:
    """pytest-qgis's stand-in for the desktop knows neither menus nor options: these lists do."""

    def __init__(self, iface):
        self._iface = iface
        self.menu, self.toolbar, self.factories, self.docks = [], [], [], []

    def __getattr__(self, name):
        return getattr(self._iface, name)

    def addPluginToRasterMenu(self, name, action):
        self.menu.append((name, action))

    def removePluginRasterMenu(self, name, action):
        if (name, action) in self.menu:
            self.menu.remove((name, action))

    def addToolBarIcon(self, action):
        self.toolbar.append(action)

    def removeToolBarIcon(self, action):
        if action in self.toolbar:
            self.toolbar.remove(action)

    def registerOptionsWidgetFactory(self, factory):
        self.factories.append(factory)

    def unregisterOptionsWidgetFactory(self, factory):
        self.factories.remove(factory)

    def addDockWidget(self, area, dock):
        self.docks.append(dock)

    def removeDockWidget(self, dock):
        self.docks.remove(dock)


@pytest.fixture
def iface(qgis_iface, qgis_new_project):
    return Iface(qgis_iface)


def provider():
    return QgsApplication.processingRegistry().providerById("geocfm")


def test_all_that_was_added_is_taken_away_again(iface, qgis_processing):
    plugin = geocfm_qgis.classFactory(iface)
    assert iface.menu == []
    assert provider() is None
    plugin.initGui()
    names = [action.objectName() for _, action in iface.menu]
    assert names == ["geocfmPanelAction", "geocfmSampleAction", "geocfmHelpAction"]
    assert [action.objectName() for action in iface.toolbar] == ["geocfmPanelAction"]
    assert not iface.toolbar[0].icon().isNull()
    assert len(iface.factories) == 1
    assert {algorithm.name() for algorithm in provider().algorithms()} == {
        *("checkdata", "train", "sample", "map", "targets", "evaluate", "runjobfile")
    }
    iface.toolbar[0].trigger()
    (panel,) = iface.docks
    assert isinstance(panel, QDockWidget)
    assert panel.objectName() == "geocfmPanel"
    iface.toolbar[0].trigger()  # again: the same one
    assert iface.docks == [panel]
    plugin.show_help()
    assert "GeoCFM" in plugin.help.browser.toPlainText()
    plugin.unload()
    assert (iface.menu, iface.toolbar, iface.factories, iface.docks) == ([], [], [], [])
    assert provider() is None


def test_it_can_be_loaded_again(iface, qgis_processing):
    for _ in range(2):
        plugin = geocfm_qgis.classFactory(iface)
        plugin.initGui()
        plugin.show_panel()
        plugin.unload()
    assert provider() is None


def test_qgis_process_needs_no_desktop(qgis_processing):
    plugin = geocfm_qgis.classFactory(None)
    plugin.initProcessing()
    assert provider() is not None
    plugin.unload()
    assert provider() is None


def test_the_sample_data(iface, qgis_processing):
    plugin = geocfm_qgis.classFactory(iface)
    plugin.initGui()
    plugin.load_sample()
    layers = QgsProject.instance().mapLayers().values()
    assert sorted(layer.name() for layer in layers) == [
        *("dist_fault", "dist_greenstone_signed", "fault_density", "gold deposits", "greenstone")
    ]
    said = str(iface.messageBar().get_messages(Qgis.MessageLevel.Info))
    assert "four rasters" in said
    plugin.unload()


def test_the_tutorial_shows_its_pictures_within_the_window(iface, qgis_processing):
    window = HelpWindow()
    window.show()
    QgsApplication.processEvents()
    document = window.browser.document()
    pictures = re.findall(r'<img src="([^"]+)"', document.toHtml())
    assert len(pictures) == 9
    for name in pictures:
        shown = document.resource(QTextDocument.ResourceType.ImageResource, QUrl(name))
        assert 0 < shown.width() <= WIDEST_PICTURE, name
    assert window.browser.horizontalScrollBar().maximum() == 0
    window.close()
