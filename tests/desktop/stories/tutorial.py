"""docs/tutorial.md, step by step, with a picture of each."""

import time

import driving
from qgis.core import QgsProject
from qgis.PyQt.QtCore import Qt, QTimer
from qgis.PyQt.QtTest import QTest
from qgis.PyQt.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDialog,
    QDockWidget,
    QLabel,
    QLineEdit,
    QTreeView,
    QWidget,
)
from qgis.utils import iface

STARTING_S, CHECK_S, MAPPING_S = 60, 180, 1800
SHOWN_SHARE = 0.8  # of the training: when its picture is taken
SHOWN_S = 40.0  # at most: so few occurrences are soon learned, and training then ends early
LAYERS_WIDTH, TOOLBOX_HEIGHT = 340, 260
A_MOMENT_MS, OPENING_MS = 500, 3000


def tell(driver):
    options(driver)
    driver.load_sample()
    panel = driver.open_panel()
    driver.action("mActionZoomFullExtent").trigger()
    driver.picture("tutorial_sample")
    choose(driver, panel)
    run(driver)
    look_at_results(driver)
    panel.close()
    toolbox(driver)


def options(driver):
    """Set up the engine in QGIS's options; they are modal, so a timer works on them."""
    from geocfm_qgis.options_page import OPTIONS_PAGE

    QTimer.singleShot(OPENING_MS, lambda: _set_up_engine(driver))
    iface.showOptionsDialog(iface.mainWindow(), OPTIONS_PAGE)
    assert driver.answer.get("engine"), "the engine was not set up"


def _set_up_engine(driver):
    dialog = QApplication.activeModalWidget()
    try:
        bases = driver.widget("baseCombo", QComboBox, dialog)
        driver.wait_until(lambda: bases.count() > 0, STARTING_S, "a Python is found")
        driver.picture("tutorial_options", of=dialog)
        driver.click(driver.widget("useWay", QAbstractButton, dialog))
        driver.type_into(driver.widget("pythonFile", QWidget, dialog), driver.choices["python"])
        driver.click(driver.widget("checkButton", QAbstractButton, dialog))
        status = driver.widget("statusText", QLabel, dialog)
        driver.wait_until(lambda: "PyTorch" in status.text(), STARTING_S, "the engine answers")
        driver.answer["engine"] = status.text()
        dialog.accept()
    finally:
        if isinstance(dialog, QDialog) and dialog.isVisible():
            dialog.reject()


def choose(driver, panel):
    """Go through the four steps; only the one at hand is unfolded."""
    driver.fold(1)
    driver.click(driver.part("allButton", QAbstractButton))
    _picture_of_step(driver, panel, "tutorial_layers")
    driver.fold(2)
    driver.tick("filterCheck")
    driver.wait_until(lambda: driver.part("valueList").count() > 0, CHECK_S, "values are listed")
    _picture_of_step(driver, panel, "tutorial_occurrences")
    driver.tick("filterCheck", False)
    driver.fold(3)
    driver.type_into("minutesSpin", str(driver.choices["minutes"]))
    driver.unfold("advancedBox")
    _picture_of_step(driver, panel, "tutorial_model")
    driver.fold(4)
    driver.type_into("nameEdit", "Murchison gold")
    driver.type_into("folderFile", driver.choices["folder"])
    _wait_until_possible(driver)
    _picture_of_step(driver, panel, "tutorial_results")


def _picture_of_step(driver, panel, name):
    _wait_until_possible(driver)
    driver.picture(name, of=panel)


def _wait_until_possible(driver):
    start = driver.part("runButton", QAbstractButton)
    QTest.qWait(A_MOMENT_MS)  # the check of the data begins a moment after the last change
    driver.wait_until(start.isEnabled, CHECK_S, "the run is possible")


def run(driver):
    """Start, and watch until the layers are there."""
    driver.click(driver.part("runButton", QAbstractButton))
    driver.fold()
    stage = driver.part("stageLabel", QLabel)
    driver.wait_until(lambda: "Training" in stage.text(), CHECK_S, "the engine trains")
    seconds = 60 * driver.choices["minutes"]
    until = time.monotonic() + min(SHOWN_SHARE * seconds, SHOWN_S)
    driver.wait_until(lambda: time.monotonic() > until, seconds, "some of the training is done")
    iface.messageBar().clearWidgets()
    driver.picture("tutorial_training")
    ended = driver.part("endSentence", QLabel)
    driver.wait_until(ended.isVisible, MAPPING_S, "the run has ended")
    driver.answer["sentence"] = ended.text()


def look_at_results(driver):
    """Show the map with its legend; the sample's layers are folded, and one raster is left."""
    result, sample = QgsProject.instance().layerTreeRoot().children()[:2]
    iface.layerTreeView().collapseAllNodes()
    result.setExpanded(True)
    for node in result.findLayers():
        node.setExpanded(node.layer().name() == "Prospectivity")
    for node in sample.findLayers():
        node.setItemVisibilityChecked(node.layer().name() == "greenstone")
    QTest.qWait(OPENING_MS)  # QGIS says that the task is complete, the plugin that the run is
    iface.messageBar().clearWidgets()
    driver.settle()
    docks = [driver.widget("Layers", QDockWidget), driver.widget("geocfmPanel", QDockWidget)]
    widths = [LAYERS_WIDTH, driving.PANEL_WIDTH]
    iface.mainWindow().resizeDocks(docks, widths, Qt.Orientation.Horizontal)
    QTest.qWait(A_MOMENT_MS)
    driver.click(driver.part("zoomButton", QAbstractButton))
    driver.picture("tutorial_finished")


def toolbox(driver):
    """Find GeoCFM's algorithms in the Processing toolbox by typing its name."""
    driver.action("toolboxAction").trigger()
    dock = driver.widget("ProcessingToolbox", QDockWidget)
    QTest.keyClicks(driver.widget("searchBox", QLineEdit, dock), "geocfm")
    QTest.qWait(A_MOMENT_MS)
    driver.widget("algorithmTree", QTreeView, dock).expandAll()
    driver.picture("tutorial_toolbox", of=dock, height=TOOLBOX_HEIGHT)
