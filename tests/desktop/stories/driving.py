"""Drives QGIS from within: finds widgets by name, clicks, types, waits, and takes pictures.

Runs in QGIS's Python, started by desktop.py through `qgis --code`.
"""

import importlib
import json
import subprocess
import sys
import time
import traceback
from pathlib import Path

from qgis.core import QgsProject
from qgis.PyQt.QtCore import QPoint, Qt, QTimer
from qgis.PyQt.QtTest import QTest
from qgis.PyQt.QtWidgets import (
    QAbstractButton,
    QAction,
    QApplication,
    QDockWidget,
    QLineEdit,
    QMessageBox,
    QScrollArea,
    QToolButton,
    QWidget,
)
from qgis.utils import iface

PANEL_WIDTH = 470
STARTING_S, DRAWING_S = 60, 60
BLINK_MS, SETTLING_MS, LEAVING_MS = 50, 400, 700
LEFT = Qt.MouseButton.LeftButton
PLAIN = Qt.KeyboardModifier.NoModifier
AT_WORK = []  # the driver: its timers end with it


class Driver:
    """What a story holds in its hands: eyes, a mouse, a keyboard and a camera."""

    def __init__(self, choices):
        self.choices = choices
        self.answer = {}
        self._timers = []

    # --- waiting -------------------------------------------------------------------------------

    def wait_until(self, condition, seconds, what):
        """Let QGIS go on until something is so."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, f"not within {seconds} s: {what}"
            QTest.qWait(BLINK_MS)

    def settle(self):
        """Let QGIS draw what it has to."""
        QTest.qWait(SETTLING_MS)
        self.wait_until(lambda: not iface.mapCanvas().isDrawing(), DRAWING_S, "the map is drawn")
        QTest.qWait(SETTLING_MS)

    # --- seeing --------------------------------------------------------------------------------

    def action(self, name):
        """Give an action of the main window by its object name."""
        found = iface.mainWindow().findChild(QAction, name)
        assert found is not None, f"there is no action {name}"
        return found

    def widget(self, name, kind=QWidget, within=None):
        """Give a widget by its object name, wherever it is."""
        for root in [within] if within is not None else QApplication.topLevelWidgets():
            found = root.findChild(kind, name)
            if found is not None:
                return found
        raise AssertionError(f"there is no widget {name}")

    def part(self, name, kind=QWidget):
        """Give a part of GeoCFM's panel, scrolled to where it can be seen."""
        found = self.widget(name, kind, self.widget("geocfmPanel", QDockWidget))
        area = found.parent()
        while area is not None:
            if isinstance(area, QScrollArea):
                area.ensureWidgetVisible(found)
            area = area.parent()
        QTest.qWait(BLINK_MS)
        return found

    def picture(self, name, of=None, height=None):
        """Save the screen, or what a widget takes of it (its upper part), if that is wanted."""
        folder = self.choices.get("pictures")
        if not folder:
            return
        self.settle()
        part = []
        if of is not None:
            corner = of.mapToGlobal(QPoint(0, 0))
            part = [
                "--autoselect",
                f"{corner.x()},{corner.y()},{of.width()},{height or of.height()}",
            ]
        command = ["scrot", "--overwrite", *part, str(Path(folder) / f"{name}.png")]
        subprocess.run(command, check=True)

    # --- doing ---------------------------------------------------------------------------------

    def click(self, widget, position=None):
        """Click as the mouse does: only what is seen and enabled can be clicked."""
        assert widget.isVisible(), f"{widget.objectName()} is not to be seen"
        assert widget.isEnabled(), f"{widget.objectName()} is not enabled"
        place = position or QPoint(min(widget.width() // 2, 12), widget.height() // 2)
        QTest.mouseClick(widget, LEFT, PLAIN, place)
        QTest.qWait(BLINK_MS)

    def turn_wheel(self, widget, notches):
        """Turn the wheel over a widget as the mouse does, down by so many notches."""
        place = widget.mapToGlobal(widget.rect().center())
        moving = ["mousemove", "--sync", str(place.x()), str(place.y())]
        turning = ["click", "--repeat", str(notches), "--delay", str(BLINK_MS), "5"]
        subprocess.run(["xdotool", *moving, *turning], check=True)
        QTest.qWait(SETTLING_MS)

    def tick(self, name, ticked=True):
        """Tick a box of the panel, or take the tick away."""
        box = self.part(name, QAbstractButton)
        if box.isChecked() != ticked:
            self.click(box)
        assert box.isChecked() == ticked, f"{name} cannot be ticked"

    def type_into(self, field, text):
        """Replace what stands in a field, given by its name if it is the panel's, by typing."""
        field = self.part(field) if isinstance(field, str) else field
        if not isinstance(field, QLineEdit):  # of a spin box or a file widget
            field = field.findChild(QLineEdit)
        self.click(field)
        QTest.keyClick(field, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
        QTest.keyClicks(field, text)
        QTest.keyClick(field, Qt.Key.Key_Tab)
        QTest.qWait(BLINK_MS)

    def choose(self, name, number):
        """Choose an entry of a list in the panel by the keyboard, counted from 0."""
        combo = self.part(name)
        combo.setFocus()
        QTest.keyClick(combo, Qt.Key.Key_Home)
        for _ in range(number):
            QTest.keyClick(combo, Qt.Key.Key_Down)
        QTest.qWait(BLINK_MS)
        assert combo.currentIndex() == number, f"{name} stands at {combo.currentText()}"

    def load_sample(self):
        """Load the sample data by the entry of the Raster menu."""
        self.action("geocfmSampleAction").trigger()
        layers = QgsProject.instance().mapLayers().values()
        assert len(layers) == 5, [layer.name() for layer in layers]
        assert all(layer.isValid() for layer in layers)
        self.settle()
        iface.messageBar().clearWidgets()  # which grids PROJ lacks on this system

    def open_panel(self):
        """Open the panel by its icon on the toolbar, and give it room."""
        action = self.action("geocfmPanelAction")
        buttons = iface.mainWindow().findChildren(QToolButton)
        self.click(next(button for button in buttons if button.defaultAction() is action))
        panel = self.widget("geocfmPanel", QDockWidget)
        assert panel.isVisible()
        window = iface.mainWindow()
        window.resizeDocks([panel], [PANEL_WIDTH], Qt.Orientation.Horizontal)
        return panel

    def unfold(self, name):
        """Open a folded group of the panel by its arrow."""
        box = self.part(name)
        if box.isCollapsed():
            self.click(self.widget("collapseButton", QToolButton, box))
        assert not box.isCollapsed()

    def fold(self, *open_steps):
        """Leave only these steps of the panel open."""
        for number in (1, 2, 3, 4):
            arrow = self.part(f"section{number}Button", QToolButton)
            wanted = Qt.ArrowType.DownArrow if number in open_steps else Qt.ArrowType.RightArrow
            if arrow.arrowType() != wanted:
                self.click(arrow)
            assert arrow.arrowType() == wanted, f"step {number} does not fold"

    def leave(self):
        """Quit by the menu; if QGIS asks because of tasks, let it cancel them and quit again."""
        QgsProject.instance().setDirty(False)
        for work in (self._agree, self._quit):  # two, since a timer does not run within itself
            timer = QTimer()
            timer.timeout.connect(work)
            timer.start(LEAVING_MS)
            self._timers.append(timer)

    def _quit(self):
        if QApplication.activeModalWidget() is None:
            iface.actionExit().trigger()

    def _agree(self):
        box = QApplication.activeModalWidget()
        if isinstance(box, QMessageBox):
            self.answer.setdefault("asked", []).append(box.text())
            self.write()
            self.click(box.button(QMessageBox.StandardButton.Yes))

    def write(self):
        """Leave the answer for the one who started QGIS."""
        Path(self.choices["answer"]).write_text(json.dumps(self.answer), encoding="utf-8")


def start(text):
    """Run the story once QGIS is up."""
    driver = Driver(json.loads(text))
    AT_WORK.append(driver)
    sys.excepthook = lambda *error: _note_error(driver, error)  # instead of QGIS's modal window
    QTimer.singleShot(SETTLING_MS, lambda: _run(driver))


def _note_error(driver, error):
    driver.answer.setdefault("errors", []).append("".join(traceback.format_exception(*error)))
    driver.write()


def _run(driver):
    try:
        iface.mainWindow().showMaximized()
        driver.wait_until(iface.mainWindow().isVisible, STARTING_S, "QGIS is there")
        driver.widget("Browser", QDockWidget).close()
        importlib.import_module(driver.choices["story"]).tell(driver)
    except BaseException:
        driver.answer["failure"] = traceback.format_exc()
        driver.picture("failure")
    driver.write()
    driver.leave()
