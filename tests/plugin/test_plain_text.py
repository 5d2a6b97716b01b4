"""Names that look like HTML are names: nowhere do they become pictures, links or bold letters."""

import shutil
from pathlib import Path

import pytest
from fake_engine_fixture import fake_python
from osgeo import ogr
from panel_support import OpenPanel, wait_until
from qgis.core import (
    QgsExpression,
    QgsExpressionContext,
    QgsExpressionContextUtils,
    QgsMapLayerProxyModel,
    QgsProject,
    QgsRasterLayer,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QCoreApplication, QEvent, Qt
from qgis.PyQt.QtGui import QHelpEvent
from qgis.PyQt.QtWidgets import QAbstractItemView, QLabel, QTextBrowser, QToolTip, QWidget
from small_results import write_map, write_points, write_targets
from test_algorithms import problem

from geocfm_qgis.algorithms.check_report import check_report
from geocfm_qgis.engine_client import DONE, Note, Outcome
from geocfm_qgis.panel.history_view import HistoryView
from geocfm_qgis.panel.layer_choice import LayerChoice
from geocfm_qgis.plain_text import as_tip
from geocfm_qgis.results.provenance import describe
from geocfm_qgis.results.styling import style_result

NAME = '<img src="x.png"> <a href="file:///tmp/x">gold</a>'


def looks_rich(text):
    """What Qt does to find out, as far as our names go."""
    return text.startswith("<qt>") or any(each in text.split("\n")[0] for each in ("<img", "<a"))


def as_markup(widget):
    """The texts of a widget, and of all in it, in which the name is read as HTML."""
    found = []
    for each in [widget, *widget.findChildren(QWidget)]:
        tips = [each.toolTip()]
        is_list = isinstance(each, QAbstractItemView) and each.model() is not None
        if is_list and not _is_of_layer_choice(each):  # its tips have a test of their own
            tips += _tips(each.model())
        found += [tip for tip in tips if looks_rich(tip) and "<img" in tip]
        if isinstance(each, QLabel) and "<img" in each.text():
            form = each.textFormat()
            rich = form == Qt.TextFormat.AutoText and looks_rich(each.text())
            if rich or form == Qt.TextFormat.RichText:
                found.append(f"{each.objectName()}: {each.text()}")
        if isinstance(each, QTextBrowser) and "<img" in each.toHtml():
            found.append(each.toHtml())
    return found


def _is_of_layer_choice(view):
    return isinstance(view.parentWidget().parentWidget(), LayerChoice)


def _tips(model):
    rows = [model.index(row, column) for row in range(model.rowCount()) for column in range(3)]
    return [str(index.data(Qt.ItemDataRole.ToolTipRole) or "") for index in rows]


@pytest.fixture
def named(qgis_new_project, tmp_path):
    """A project whose layers are called so."""
    project = QgsProject.instance()
    raster = write_map(tmp_path / "mag.tif", [float(n) for n in range(400)], 20)
    points = write_points(
        tmp_path / "gold.gpkg", [(500100 + n, 6999000) for n in range(9)], "p", ()
    )
    project.addMapLayer(QgsRasterLayer(raster, NAME))
    project.addMapLayer(QgsVectorLayer(points, NAME))
    return project


@pytest.fixture
def open_panel(named, tmp_path):
    opened = []

    def make(behaviour):
        opened.append(OpenPanel(fake_python(tmp_path / behaviour, behaviour), tmp_path / "results"))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.mark.parametrize("behaviour", ["succeed", "fail"])
def test_the_panel_shows_names_as_text(open_panel, named, tmp_path, behaviour):
    opened = open_panel("succeed")
    opened.tick_all()
    opened.find("nameEdit").setText(NAME)
    opened.wait_until_checked()
    fake_python(tmp_path / "succeed", behaviour)  # the same program behaves otherwise now
    opened.run()
    opened.wait_until_ended()
    message = opened.iface.bar
    assert wait_until(lambda: message.currentItem() is not None)
    history = HistoryView(named)
    for widget in (opened.panel, message, history):
        assert as_markup(widget) == []
    assert "<img" in opened.find("titleLabel").text()
    assert "<img" in message.currentItem().findChild(QTextBrowser).toPlainText()
    group = named.layerTreeRoot().children()[0]
    assert group.name() == NAME


def test_a_broken_layer_and_a_model_are_shown_as_text(open_panel, named, tmp_path):
    opened = open_panel("succeed")
    folder = tmp_path / "<img src=x> models"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"nonsense")
    opened.find("loadRadio").setChecked(True)
    opened.panel.model.use_checkpoint(str(folder / "model.safetensors"))
    wait_until(lambda: False, 0.3)
    assert as_markup(opened.panel) == []
    shutil.rmtree(folder)
    Path(named.mapLayersByName(NAME)[0].source()).unlink()
    opened.find("trainRadio").setChecked(True)
    opened.panel.refresh()
    wait_until(lambda: False, 0.3)
    assert as_markup(opened.panel) == []


def test_the_tip_of_a_layer_in_a_list_is_text(named):
    choice = LayerChoice()
    choice.prepare(named, QgsMapLayerProxyModel.Filter.RasterLayer, "none")
    choice.show()
    choice.showPopup()
    view = choice.view()
    place = view.visualRect(view.model().index(choice.findText(NAME), 0)).center()
    event = QHelpEvent(QEvent.Type.ToolTip, place, view.viewport().mapToGlobal(place))
    QCoreApplication.sendEvent(view.viewport(), event)
    assert QToolTip.text() == as_tip(NAME)
    QToolTip.hideText()
    choice.hidePopup()


def test_metadata_of_a_result_are_text(qgis_app, tmp_path):
    path = write_map(tmp_path / "<b>p.tif", [0.5, 1, 2, 3], 2)
    layer = QgsRasterLayer(path, NAME)
    assert describe(layer, path)
    metadata = layer.metadata()
    links = [text for link in metadata.links() for text in (link.name, link.url)]
    told = [metadata.title(), metadata.identifier(), *metadata.history(), *links]
    assert [text for text in told if "<" in text] == []
    assert any("p.tif" in text for text in links)


def test_a_tip_on_the_map_is_text(qgis_app, tmp_path):
    path = write_targets(tmp_path / "targets.gpkg", count=2)
    package = ogr.Open(path, update=1)
    table = package.GetLayer(0)
    feature = table.GetNextFeature()
    feature["layers"] = f"{NAME} & more"
    table.SetFeature(feature)
    del feature, table, package
    layer = QgsVectorLayer(path, "targets")
    assert style_result(layer, "targets")
    context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
    tips = []
    for feature in layer.getFeatures():
        context.setFeature(feature)
        tips.append(QgsExpression.replaceExpressionText(layer.mapTipTemplate(), context))
    assert "<img" not in tips[0]
    assert "&lt;img" in tips[0]
    assert "&amp; more" in tips[0]
    assert tips[0].startswith("<b>Target 1</b>")
    assert "Layers that matter" not in tips[1]


def test_sentences_for_windows_of_qgis_hold_no_tags(provider, context, engine, tmp_path):
    layer = QgsVectorLayer("Point", NAME, "memory")
    QgsProject.instance().addMapLayer(layer)
    raster = str(next(iter(QgsProject.instance().mapLayersByName("magnetics")), layer).source())
    said = problem(provider, "train", {"RASTERS": [raster], "OCCURRENCES": layer}, context)
    assert said
    assert "<" not in said


def test_the_report_of_a_check_is_text():
    outcome = Outcome(DONE, events=(Note(f"The layer {NAME} covers all."),))
    page = check_report({"occurrences": {"used": NAME}}, outcome, str)
    assert "<img" not in page
    assert page.count("&lt;img") == 2


def test_a_tip_without_tags_stays_as_it_is():
    assert as_tip("two\nlines") == "two\nlines"
    assert as_tip("a < b\nc") == "<qt>a &lt; b<br>c</qt>"
