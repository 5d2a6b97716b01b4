"""How targets and uncertainty look: ranks, labels, a form with units, a veil over new ground."""

import pytest
from qgis.core import (
    QgsExpression,
    QgsExpressionContext,
    QgsExpressionContextUtils,
    QgsRasterLayer,
    QgsRenderContext,
    QgsVectorLayer,
)
from qgis.gui import QgsAttributeForm
from qgis.PyQt.QtWidgets import QApplication, QGroupBox
from small_results import TARGET_FIELDS, write_map, write_targets, write_uncertainty
from test_styles import legend, picture, stops

from geocfm_qgis.results import save_style_beside, style_result
from geocfm_qgis.results.styling import OUTSIDE
from geocfm_qgis.results.uncertainty_style import VARIATION, band_called


@pytest.fixture
def targets(tmp_path):
    layer = QgsVectorLayer(write_targets(tmp_path / "targets.gpkg"), "targets")
    assert style_result(layer, "targets")
    return layer


def tip(layer, rank):
    feature = next(each for each in layer.getFeatures() if each["rank"] == rank)
    context = QgsExpressionContext(QgsExpressionContextUtils.globalProjectLayerScopes(layer))
    context.setFeature(feature)
    return QgsExpression.replaceExpressionText(layer.mapTipTemplate(), context)


def test_classes_of_ranks_are_told(targets, qgis_new_project):
    assert legend(targets) == ["rank 1", "ranks 2 to 5", "ranks 6 to 10", "rank 11 and below"]
    labels = [
        next(each.label() for each in targets.renderer().ranges() if _holds(each, rank))
        for rank in (1, 2, 5, 6, 10, 11, 500)
    ]
    assert labels == [
        *("rank 1", "ranks 2 to 5", "ranks 2 to 5", "ranks 6 to 10", "ranks 6 to 10"),
        *("rank 11 and below", "rank 11 and below"),
    ]


def _holds(each, rank):
    return each.lowerValue() <= rank <= each.upperValue()


def test_the_map_shows_through_and_the_line_is_seen(targets):
    image = picture(targets, "#ff8800", 600)
    colours = {image.pixelColor(column, 300).name() for column in range(image.width())}
    assert "#ff8800" in colours
    blues = [name for name in colours if int(name[5:], 16) > 150 and int(name[1:3], 16) < 130]
    assert blues
    inside = targets.renderer().symbols(QgsRenderContext())[0].symbolLayer(1)
    assert 0 < inside.fillColor().alpha() < 80


def test_ranks_are_written_on_the_map(targets):
    assert targets.labelsEnabled()
    assert targets.labeling().settings().fieldName == "rank"
    assert targets.labeling().settings().format().buffer().size() < 0.8  # mm: outlines are seen
    with_labels = picture(targets, "#ffffff", 800)
    targets.setLabelsEnabled(False)
    assert picture(targets, "#ffffff", 800) != with_labels


def test_every_field_has_a_name_people_read_and_a_place_in_the_form(targets, qgis_app):
    names = [name for name, _ in TARGET_FIELDS]
    fields = targets.fields()
    assert all(fields[fields.indexOf(name)].alias() for name in names)
    form = QgsAttributeForm(targets, next(targets.getFeatures()))
    form.show()
    QApplication.processEvents()
    titles = [box.title() for box in form.findChildren(QGroupBox) if box.title()]
    assert titles == ["Target", "Expected occurrences", "How far to trust it", "Known occurrences"]
    shown = _placed(targets.editFormConfig().invisibleRootContainer())
    assert sorted(shown) == sorted(names)


def _placed(container):
    for child in container.children():
        if hasattr(child, "children"):
            yield from _placed(child)
        else:
            yield child.name()


def test_numbers_have_units_and_few_digits(targets):
    index = targets.fields().indexOf("nearest_known_km")
    setup = targets.editorWidgetSetup(index)
    assert setup.type() == "Range"
    assert setup.config()["Suffix"] == " km"
    assert setup.config()["Precision"] == 1


def test_the_tip_leaves_out_what_is_not_known(targets):
    first, second = tip(targets, 1), tip(targets, 2)
    assert "Target 1" in first
    assert "20.0 × the mean density of the region" in first
    assert "10.0 % of all expected occurrences" in first
    assert "mag, gravity" in first
    assert "disagree" not in first
    assert "networks disagree by 25 %" in second
    assert "Layers" not in second + tip(targets, 3)


def test_targets_of_fewer_fields_are_styled_too(tmp_path):
    path = write_targets(tmp_path / "t.gpkg", missing=("layers", "uncertainty", "known_inside"))
    layer = QgsVectorLayer(path, "t")
    assert style_result(layer, "targets")
    assert "Target 3" in tip(layer, 3)


def test_form_and_labels_lie_beside_the_file(tmp_path):
    path = write_targets(tmp_path / "targets.gpkg")
    assert save_style_beside(path, "targets")
    layer = QgsVectorLayer(path, "opened elsewhere")
    assert layer.labelsEnabled()
    assert layer.fields()[layer.fields().indexOf("lift")].alias() == "Mean density"
    assert "Target 1" in tip(layer, 1)
    assert len(layer.editFormConfig().invisibleRootContainer().children()) == 4


def test_points_are_no_targets(tmp_path):
    layer = QgsRasterLayer(write_map(tmp_path / "map.tif", [1.0] * 4, 2), "map")
    assert not style_result(layer, "targets")


def test_disagreement_is_shown_where_there_is_some(tmp_path, qgis_new_project):
    layer = QgsRasterLayer(write_uncertainty(tmp_path / "u.tif"), "u")
    assert style_result(layer, "uncertainty")
    assert [stop.value for stop in stops(layer)] == [0.25, 0.5, 0.8, 1.1, 1.4]
    assert all(stop.color.alpha() <= 100 for stop in stops(layer))  # the map shows through
    image = picture(layer)
    assert image.pixelColor(15, 100).name() == "#808080"
    assert image.pixelColor(190, 100).blue() > image.pixelColor(190, 100).red() + 25
    assert legend(layer)[1:] == [
        *("up to ± 25 % (transparent)", "± 50 %", "± 80 %", "± 110 %", "≥ ± 140 %"),
    ]


def test_new_ground_is_veiled(tmp_path, qgis_new_project):
    layer = QgsRasterLayer(write_uncertainty(tmp_path / "u.tif"), "u")
    assert style_result(layer, OUTSIDE)
    image = picture(layer)
    assert image.pixelColor(100, 20).name() == "#808080"
    assert image.pixelColor(100, 190).lightness() < 100
    assert legend(layer)[1:] == ["like what the model has seen", "outside what the model has seen"]


def test_of_one_network_only_new_ground_is_shown(tmp_path):
    layer = QgsRasterLayer(write_uncertainty(tmp_path / "u.tif", variation=False), "u")
    assert not band_called(layer, VARIATION)
    assert style_result(layer, "uncertainty")
    image = picture(layer)
    assert image.pixelColor(100, 20).name() == "#808080"
    assert image.pixelColor(100, 190).lightness() < 100
