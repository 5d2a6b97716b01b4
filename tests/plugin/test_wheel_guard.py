"""Scrolling over the panel and the options changes nothing in them."""

import pytest
from fake_engine_fixture import fake_python
from panel_support import OpenPanel, wait_until
from qgis.gui import QgsMapLayerComboBox, QgsProjectionSelectionWidget, QgsSpinBox
from qgis.PyQt.QtCore import QCoreApplication, QPoint, QPointF, Qt
from qgis.PyQt.QtGui import QWheelEvent
from qgis.PyQt.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDateEdit,
    QLineEdit,
    QScrollArea,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from geocfm_qgis.options_page import GeoCFMOptionsPage
from geocfm_qgis.wheel_guard import WheelGuard

BOXES = (QComboBox, QAbstractSpinBox, QSlider)
NOTCH = 120


def boxes(widget):
    """The boxes that can be turned now: of spin boxes and combo boxes also QGIS's own."""
    found = [each for kind in BOXES for each in widget.findChildren(kind)]
    return [each for each in found if each.isVisible() and each.isEnabled()]


def value(box):
    if isinstance(box, QComboBox):
        return box.currentIndex()
    return box.text() if isinstance(box, QAbstractSpinBox) else box.value()


def turn(widget, notches=-1):
    """Turn the wheel over a widget; as Qt does it, who ignores it passes it to what it lies on."""
    somewhere = QPointF(widget.mapToGlobal(widget.rect().center()))
    while widget is not None:
        event = QWheelEvent(
            QPointF(widget.mapFromGlobal(somewhere.toPoint())),
            somewhere,
            QPoint(),
            QPoint(0, notches * NOTCH),
            Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier,
            Qt.ScrollPhase.NoScrollPhase,
            False,
        )
        event.ignore()
        if QCoreApplication.sendEvent(widget, event) and event.isAccepted():
            return
        widget = None if widget.isWindow() else widget.parentWidget()


@pytest.fixture
def panel(sample_project, tmp_path):
    opened = OpenPanel(fake_python(tmp_path / "succeed", "succeed"), tmp_path / "results")
    opened.panel.resize(420, 500)
    opened.tick_all()
    opened.find("advancedBox").setCollapsed(False)
    opened.find("nameEdit").setFocus()
    wait_until(lambda: False, 0.1)
    yield opened
    opened.close()


def test_scrolling_over_the_panel_changes_nothing_and_scrolls(panel):
    area = panel.panel.findChild(QScrollArea, "stepsArea")
    before = panel.panel.choices()
    found = boxes(panel.panel)
    assert len(found) > 15
    assert any(isinstance(each, QgsMapLayerComboBox) for each in found)
    for box in found:
        shown, bar = value(box), area.verticalScrollBar()
        bar.setValue((bar.minimum() + bar.maximum()) // 2)
        place = bar.value()
        for notches in (-1, 1, 1, -1, -1):
            turn(box, notches)
        assert value(box) == shown, box.objectName()
        assert not box.hasFocus(), box.objectName()
        assert box.focusPolicy() != Qt.FocusPolicy.WheelFocus
        if area.isAncestorOf(box):
            assert bar.value() > place, box.objectName()
    assert panel.panel.choices() == before


def test_the_steps_of_a_loaded_model_are_safe_too(panel):
    """Their boxes come when a model is read."""
    from test_preflight import EXAMPLE

    panel.find("loadRadio").setChecked(True)
    panel.panel.model.use_checkpoint(EXAMPLE)
    wait_until(lambda: panel.panel.findChild(QComboBox, "matchCombo0"))
    wait_until(lambda: False, 0.1)
    combo = panel.find("matchCombo0")
    chosen = combo.currentIndex()
    for notches in (1, -1, -1):
        turn(combo, notches)
        assert combo.currentIndex() == chosen


def test_a_box_in_use_is_turned_as_usual(panel):
    panel.panel.activateWindow()
    QApplication.setActiveWindow(panel.panel)
    for name in ("minutesSpin", "presetCombo"):
        box = panel.find(name)
        box.setFocus()
        assert box.hasFocus()
        shown = value(box)
        turn(box, -1)
        assert value(box) != shown, name


def test_the_options_are_safe(qgis_app, own_settings):
    page = GeoCFMOptionsPage()
    page.resize(500, 400)
    page.show()
    page.resultsFile.lineEdit().setFocus()
    page.environmentPage.createForm.baseCombo.addItems(["a", "b", "c"])
    page.deviceCombo.addItems(["a", "b", "c"])
    wait_until(lambda: False, 0.1)
    found = boxes(page)
    assert page.deviceCombo in found
    assert page.environmentPage.createForm.buildCombo in found
    for box in found:
        shown = value(box)
        for notches in (-1, -1, 1):
            turn(box, notches)
            assert value(box) == shown, box.objectName()
    page.close()
    page.deleteLater()


def test_widgets_that_come_later_are_watched(qgis_app):
    window = QWidget()
    WheelGuard(window)
    line = QLineEdit(window)
    window.show()
    line.setFocus()
    row = QWidget()
    layout = QVBoxLayout(row)
    later = [QgsSpinBox(), QDateEdit(), QSlider(), QComboBox(), QgsProjectionSelectionWidget()]
    later[0].sizeHint()  # it is polished before it has a place
    later[3].addItems(["a", "b", "c"])
    for each in later:
        layout.addWidget(each)
    row.setParent(window)
    row.show()
    QCoreApplication.processEvents()
    QCoreApplication.processEvents()
    found = boxes(window)
    assert len(found) == 5
    for box in found:
        shown = value(box)
        for notches in (-1, 1, 1):
            turn(box, notches)
            assert value(box) == shown, type(box)
        assert box.focusPolicy() == Qt.FocusPolicy.StrongFocus
    window.deleteLater()
