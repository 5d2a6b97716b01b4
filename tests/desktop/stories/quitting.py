"""Quitting while the engine trains: the driver leaves at once after the story."""

import a_short_run
from qgis.PyQt.QtWidgets import QAbstractButton, QLabel

STARTED_S = 90
FOR_LONG = 1_000_000  # iterations


def tell(driver):
    driver.load_sample()
    driver.open_panel()
    a_short_run.fill_in(driver, iterations=FOR_LONG)
    driver.click(driver.part("runButton", QAbstractButton))
    stage = driver.part("stageLabel", QLabel)
    driver.wait_until(lambda: "Training" in stage.text(), STARTED_S, "the engine trains")
    driver.picture("training")
