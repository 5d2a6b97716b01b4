"""From the sample data to finished layers, through the panel: train briefly, map, draw points."""

from pathlib import Path

import processing
from qgis.core import QgsProject
from qgis.PyQt.QtWidgets import QAbstractButton, QDialogButtonBox, QLabel, QScrollArea

CHECK_S, RUN_S = 60, 180
SAMPLE_RASTERS = ("dist_fault", "dist_greenstone_signed", "fault_density", "greenstone")
IN_A_FOLDER = 0  # the place among the choices of where results go
SMALL = "network.width=8, network.depth=2, network.features=16, training.batch=4, sampling.steps=4"


def tell(driver):
    driver.load_sample()
    driver.open_panel()
    fill_in(driver, iterations=40)
    driver.answer["scrolled"] = scroll(driver, "presetCombo")
    driver.click(driver.part("runButton", QAbstractButton))
    ended = driver.part("endSentence", QLabel)
    driver.wait_until(ended.isVisible, RUN_S, "the run has ended")
    driver.answer["sentence"] = ended.text()
    driver.answer["results"] = topmost_group()
    driver.settle()
    driver.picture("finished")
    driver.answer["toolbox"] = map_in_the_toolbox(driver)


def scroll(driver, name):
    """Turn the wheel over a box that is not in use: how it and the panel stood before and after."""
    driver.click(driver.part("nameEdit"))
    box = driver.part(name)
    bar = driver.part("stepsArea", QScrollArea).verticalScrollBar()
    bar.setValue(0)
    driver.part(name)
    before = box.currentText(), bar.value()
    driver.turn_wheel(box, 3)
    return before, (box.currentText(), bar.value())


def map_in_the_toolbox(driver):
    """Apply the model by the dialog of the toolbox; what comes of it in the project."""
    there = set(QgsProject.instance().mapLayers())
    named = QgsProject.instance().mapLayersByName
    rasters = [layer.id() for name in SAMPLE_RASTERS for layer in named(name)]
    model = str(Path(driver.choices["folder"]) / "short run" / "model.safetensors")
    dialog = processing.createAlgorithmDialog(
        "geocfm:map", {"RASTERS": rasters, "CHECKPOINT": model}
    )
    ended = []
    dialog.algorithmFinished.connect(lambda ok, _: ended.append(ok))
    dialog.show()
    driver.settle()
    driver.click(dialog.buttonBox().button(QDialogButtonBox.StandardButton.Ok))
    driver.wait_until(lambda: ended, RUN_S, "the algorithm has ended")
    driver.settle()
    driver.picture("toolbox")
    dialog.close()
    layers = QgsProject.instance().mapLayers()
    return [
        {"name": layers[each].name(), "kind": layers[each].customProperty("geocfm/kind")}
        for each in set(layers) - there
    ]


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
