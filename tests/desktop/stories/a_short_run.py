"""From the sample data to finished layers, through the panel: train briefly, map, draw points."""

from qgis.core import QgsProject
from qgis.PyQt.QtWidgets import QAbstractButton, QLabel

CHECK_S, RUN_S = 60, 180
IN_A_FOLDER = 0  # the place among the choices of where results go
SMALL = "network.width=8, network.depth=2, network.features=16, training.batch=4, sampling.steps=4"


def tell(driver):
    driver.load_sample()
    driver.open_panel()
    fill_in(driver, iterations=40)
    driver.click(driver.part("runButton", QAbstractButton))
    ended = driver.part("endSentence", QLabel)
    driver.wait_until(ended.isVisible, RUN_S, "the run has ended")
    driver.answer["sentence"] = ended.text()
    driver.answer["results"] = topmost_group()
    driver.settle()
    driver.picture("finished")


def fill_in(driver, iterations):
    """Choose the rasters, the deposits, a tiny model and two results in a folder."""
    driver.click(driver.part("allButton", QAbstractButton))
    driver.unfold("advancedBox")
    driver.type_into("iterationsSpin", str(iterations))
    driver.type_into("ensembleSpin", "1")
    driver.type_into("windowSpin", "32")
    driver.type_into("tileSpin", "40")
    driver.type_into("resolutionSpin", "6000")
    driver.type_into("settingsEdit", SMALL)
    driver.tick("prospectivityCheck")
    driver.tick("uncertaintyCheck", False)
    driver.tick("samplesCheck")
    driver.tick("evaluationCheck", False)
    driver.type_into("drawsSpin", "2")
    driver.type_into("pointsSpin", "50")
    driver.type_into("nameEdit", "short run")
    driver.choose("placeCombo", IN_A_FOLDER)
    driver.type_into("folderFile", driver.choices["folder"])
    run = driver.part("runButton", QAbstractButton)
    driver.wait_until(run.isEnabled, CHECK_S, "the run is possible")


def topmost_group():
    """What stands in the topmost group of the layer tree."""
    group = QgsProject.instance().layerTreeRoot().children()[0]
    layers = [node.layer() for node in group.findLayers()]
    return {
        "group": group.name(),
        "layers": {
            layer.name(): {
                "valid": layer.isValid(),
                "path": layer.source().split("|")[0],
                "renderer": layer.renderer().type(),
                "history": layer.metadata().history(),
            }
            for layer in layers
        },
    }
