import json
import os
from pathlib import Path

import pytest
from osgeo import gdal
from panel_support import wait_until
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsGeometry,
    QgsProject,
    QgsRasterLayer,
    QgsRectangle,
    QgsSettings,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import Qt
from qgis.PyQt.QtWidgets import QApplication, QStyleOptionViewItem
from raster_making import make_points, make_polygons, make_raster

from geocfm_qgis.panel.channel_tree import CLASSES, GRID, NAME, ChannelTree
from geocfm_qgis.panel.choices import Channel, Choices, LayerChoices
from geocfm_qgis.panel.layers_step import LayersStep
from geocfm_qgis.panel.step import READY, TO_DO, WRONG

CHECKED, UNCHECKED = Qt.CheckState.Checked, Qt.CheckState.Unchecked
SAMPLE_NAMES = ["dist_fault", "dist_greenstone_signed", "fault_density", "greenstone"]
WEB_MAP = "type=xyz&url=https://maps.invalid/%7Bz%7D/%7Bx%7D/%7By%7D.png&zmax=19&zmin=0"


@pytest.fixture
def project(qgis_new_project):
    QgsSettings().remove("geocfm/layer_sets")
    yield QgsProject.instance()
    QgsSettings().remove("geocfm/layer_sets")


@pytest.fixture
def step(sample_project, qgis_iface):
    return LayersStep(sample_project)


def add(project, path, name=None):
    layer = QgsRasterLayer(str(path), name or Path(path).stem)
    return project.addMapLayer(layer)


def names(step):
    return [channel.name for channel in step.choices().channels]


def row(step, text):
    """The row of a raster or band by its name."""
    QApplication.processEvents()  # layers that were just added are listed
    tree = step.channelTree
    found = tree.findItems(text, Qt.MatchFlag.MatchExactly | Qt.MatchFlag.MatchRecursive, NAME)
    assert len(found) == 1, f"{len(found)} rows {text}"
    return found[0]


def test_rasters_of_the_project_are_listed_unticked(step):
    assert [channel.name for channel in step.all_channels()] == SAMPLE_NAMES
    assert step.choices() == LayerChoices()
    assert step.state().level == TO_DO
    assert step.problems() == ["No layer is ticked. Tick the rasters to learn from in step 1."]
    assert row(step, "greenstone").text(GRID) == "500 m, EPSG:20350"


def test_ticks_make_channels_in_the_order_shown(step):
    row(step, "greenstone").setCheckState(NAME, CHECKED)
    row(step, "dist_fault").setCheckState(NAME, CHECKED)
    assert names(step) == ["dist_fault", "greenstone"]
    assert step.state().level == READY
    assert step.state().text == "2 rasters, EPSG:20350, 500 m"
    assert step.problems() == []


def test_all_and_none(step):
    step.allButton.click()
    assert names(step) == SAMPLE_NAMES
    step.noneButton.click()
    assert names(step) == []


def test_rows_move_by_drop_and_button_and_stay_there(step, tmp_path):
    step.allButton.click()
    tree = step.channelTree
    position = tree.DropIndicatorPosition
    tree.drop(row(step, "greenstone"), row(step, "dist_fault"), position.AboveItem)
    assert names(step) == ["greenstone", *SAMPLE_NAMES[:3]]
    tree.drop(row(step, "greenstone"), row(step, "dist_fault"), position.BelowItem)
    assert names(step)[:2] == ["dist_fault", "greenstone"]
    step.upButton.click()
    assert names(step)[:2] == ["greenstone", "dist_fault"]
    tree.drop(row(step, "greenstone"), None, position.OnViewport)
    assert names(step) == SAMPLE_NAMES
    step.upButton.click()
    expected = [*SAMPLE_NAMES[:2], "greenstone", "fault_density"]
    assert names(step) == expected

    added = add(step.project, make_raster(tmp_path / "new.tif"))
    assert names(step) == expected  # unticked
    assert [channel.name for channel in step.all_channels()] == [*expected, "new"]
    step.project.removeMapLayer(added.id())
    assert names(step) == expected


def test_bands_have_a_parent_with_three_states(project, tmp_path):
    add(project, make_raster(tmp_path / "radio.tif", ("K", "", "U")))
    step = LayersStep(project)
    assert [c.name for c in step.all_channels()] == ["radio_K", "radio_2", "radio_U"]
    row(step, "radio_U").setCheckState(NAME, CHECKED)
    assert row(step, "radio").checkState(NAME) == Qt.CheckState.PartiallyChecked
    assert [(c.name, c.band) for c in step.choices().channels] == [("radio_U", 3)]
    assert step.state().text.startswith("1 raster,")
    row(step, "radio").setCheckState(NAME, CHECKED)
    assert names(step) == ["radio_K", "radio_2", "radio_U"]
    assert step.state().text.startswith("3 bands of 1 raster,")


def test_a_band_moves_only_among_those_of_its_raster(project, tmp_path):
    add(project, make_raster(tmp_path / "radio.tif", ("K", "Th", "U")))
    add(project, make_raster(tmp_path / "mag.tif"))
    step = LayersStep(project)
    step.allButton.click()
    tree = step.channelTree
    before = set(names(step))
    tree.drop(row(step, "radio_U"), row(step, "mag"), tree.DropIndicatorPosition.AboveItem)
    tree.drop(row(step, "radio_U"), row(step, "radio_K"), tree.DropIndicatorPosition.AboveItem)
    assert [name for name in names(step) if name != "mag"] == ["radio_U", "radio_K", "radio_Th"]
    tree.drop(row(step, "mag"), row(step, "radio_Th"), tree.DropIndicatorPosition.BelowItem)
    assert set(names(step)) == before
    assert row(step, "mag").parent() is None


def test_alpha_is_no_band(project, tmp_path):
    path = make_raster(tmp_path / "mag.tif", ("", ""))
    dataset = gdal.Open(path, gdal.GA_Update)
    dataset.GetRasterBand(2).SetColorInterpretation(gdal.GCI_AlphaBand)
    dataset = None
    add(project, path)
    assert [channel.name for channel in LayersStep(project).all_channels()] == ["mag"]


def test_names_can_be_changed_and_follow_the_layer_until_then(step):
    step.allButton.click()
    layer = step.project.mapLayersByName("greenstone")[0]
    layer.setName("green, stone")
    QApplication.processEvents()
    assert "green_ stone" in names(step)
    row(step, "green_ stone").setText(NAME, "ultramafic")
    assert "ultramafic" in names(step)
    layer.setName("other")
    QApplication.processEvents()
    assert "ultramafic" in names(step)
    row(step, "ultramafic").setText(NAME, " ")
    assert "other" in names(step)


def test_the_editor_takes_no_forbidden_character(step):
    tree = step.channelTree
    delegate, option = tree.itemDelegate(), QStyleOptionViewItem()
    item = row(step, "greenstone")
    editor = delegate.createEditor(tree, option, tree.indexFromItem(item, NAME))
    for letter in "a=/b\\,":
        editor.insert(letter)
    assert editor.text() == "ab"
    assert delegate.createEditor(tree, option, tree.indexFromItem(item, GRID)) is None


def test_equal_names_are_flagged(project, tmp_path):
    make_raster(tmp_path / "mag.tif")
    add(project, tmp_path / "mag.tif", "mag")
    other = add(project, make_raster(tmp_path / "mag2.tif"), "mag")
    step = LayersStep(project)
    step.allButton.click()
    assert step.state().level == WRONG
    assert step.problems() == [
        "2 of the ticked layers have the name 'mag'. Double-click one of the names and change it."
    ]
    colours = {item.foreground(NAME).color().name() for item in step.channelTree.top_items()}
    assert colours == {"#c0392b"}
    other.setName("mag reduced")
    QApplication.processEvents()
    assert step.problems() == []


def test_palettes_are_taken_for_classes_until_told_otherwise(project, tmp_path):
    path = make_raster(tmp_path / "geology.tif", kind=gdal.GDT_Byte, palette=True)
    add(project, path)
    add(project, make_raster(tmp_path / "mag.tif"))
    step = LayersStep(project)
    kinds = {channel.name: channel.categorical for channel in step.all_channels()}
    assert kinds == {"geology": True, "mag": False}
    row(step, "geology").setCheckState(CLASSES, UNCHECKED)
    row(step, "mag").setCheckState(CLASSES, CHECKED)
    kinds = {channel.name: channel.categorical for channel in step.all_channels()}
    assert kinds == {"geology": False, "mag": True}


def test_a_web_map_is_shown_with_its_reason_and_cannot_be_ticked(step):
    step.project.addMapLayer(QgsRasterLayer(WEB_MAP, "streets", "wms"))
    item = row(step, "streets")
    assert "pictures" in item.toolTip(NAME)
    assert item.data(NAME, Qt.ItemDataRole.CheckStateRole) is None
    step.allButton.click()
    assert names(step) == SAMPLE_NAMES
    assert "streets" not in [channel.name for channel in step.all_channels()]


def test_a_web_map_in_old_choices_is_a_problem(step):
    layer = step.project.addMapLayer(QgsRasterLayer(WEB_MAP, "streets", "wms"))
    step.set_choices(LayerChoices((Channel(layer.id(), 1, "streets"),)))
    assert len(step.problems()) == 1
    assert "web map gives pictures" in step.problems()[0]
    row(step, "streets").setCheckState(NAME, UNCHECKED)
    assert names(step) == []


def test_tick_all_leaves_out_our_own_results(step, tmp_path):
    layer = QgsRasterLayer(make_raster(tmp_path / "map.tif"), "map")
    layer.setCustomProperty("geocfm/provenance", "{}")
    step.project.addMapLayer(layer)
    step.allButton.click()
    assert names(step) == SAMPLE_NAMES
    row(step, "map").setCheckState(NAME, CHECKED)
    assert set(names(step)) == {*SAMPLE_NAMES, "map"}


def test_a_raster_without_crs_is_told_with_the_remedy(project, tmp_path):
    layer = add(project, make_raster(tmp_path / "mag.tif", epsg=None))
    layer.setCrs(QgsCoordinateReferenceSystem())
    step = LayersStep(project)
    step.allButton.click()
    assert step.problems()[0].startswith("'mag' has no coordinate system.")
    assert "Set Layer CRS" in step.problems()[0]
    layer.setCrs(QgsCoordinateReferenceSystem("EPSG:20350"))
    QApplication.processEvents()
    assert step.problems() == []
    assert row(step, "mag").text(GRID) == "100 m, EPSG:20350"


def test_a_file_that_is_gone_is_told(project, tmp_path):
    path = make_raster(tmp_path / "mag.tif")
    add(project, path)
    step = LayersStep(project)
    step.allButton.click()
    assert step.problems() == []
    os.remove(path)
    assert "The file of 'mag' is not found" in step.problems()[0]


def test_an_invalid_layer_can_be_unticked_and_keeps_its_tick_when_repaired(project, tmp_path):
    path = make_raster(tmp_path / "mag.tif")
    layer = add(project, path)
    step = LayersStep(project)
    step.allButton.click()
    layer.setDataSource(str(tmp_path / "gone.tif"), "mag", "gdal")
    QApplication.processEvents()
    assert "is not found" in step.problems()[0]
    assert step.all_channels() == []
    layer.setDataSource(path, "mag", "gdal")
    QApplication.processEvents()
    assert names(step) == ["mag"]
    assert step.problems() == []


def test_a_file_that_vanishes_makes_its_raster_unusable(project, tmp_path):
    add(project, make_raster(tmp_path / "mag.tif"))
    add(project, make_raster(tmp_path / "radio.tif"))
    step = LayersStep(project)
    assert row(step, "mag").text(GRID) == "100 m, EPSG:20350"
    os.remove(tmp_path / "mag.tif")
    step.state()  # the panel asks for it with every change
    assert row(step, "mag").text(GRID) == "not found"
    assert row(step, "mag").data(NAME, Qt.ItemDataRole.CheckStateRole) is None
    assert "moved, renamed or deleted" in row(step, "mag").toolTip(NAME)
    step.allButton.click()
    assert names(step) == ["radio"]
    assert [channel.name for channel in step.all_channels()] == ["radio"]
    make_raster(tmp_path / "mag.tif")
    step.state()
    assert row(step, "mag").text(GRID) == "100 m, EPSG:20350"


def test_a_web_map_out_of_reach_is_no_file_that_was_moved(project):
    uri = "crs=EPSG:4326&format=image/png&layers=x&styles&url=http://127.0.0.1:9/wms"
    layer = project.addMapLayer(QgsRasterLayer(uri, "far", "wms"))
    assert not layer.isValid()
    step = LayersStep(project)
    assert row(step, "far").text(GRID) == "cannot be used"
    assert "A web map gives pictures" in row(step, "far").toolTip(NAME)
    step.set_choices(LayerChoices((Channel(layer.id(), 1, "far"),)))
    (problem,) = step.problems()
    assert problem.startswith("'far' cannot be used. A web map gives pictures")


def test_columns_fit_until_the_user_drags_them(step):
    tree = step.channelTree
    step.resize(500, 400)
    step.show()
    QApplication.processEvents()
    header = tree.header()
    fitted = header.sectionSize(NAME)
    assert fitted < 0.6 * tree.viewport().width()
    header.resizeSection(NAME, fitted + 40)
    assert header.sectionSize(NAME) == fitted + 40
    tree.refresh()
    step.resize(520, 400)
    QApplication.processEvents()
    assert header.sectionSize(NAME) == fitted + 40
    assert header.length() == tree.viewport().width()


def test_many_files_renew_the_list_once(project, tmp_path):
    paths = [make_raster(tmp_path / f"r{number}.tif") for number in range(8)]
    step = LayersStep(project)
    told = []
    project.layersAdded.connect(lambda layers: told.append(len(layers)))
    step.add_files([*paths, tmp_path / "none.tif"])
    assert told == [8]
    assert len(names(step)) == 8
    assert "none.tif" in step.noteLabel.text()


def test_layers_added_one_by_one_renew_the_list_once(qgis_app, tmp_path):
    own = QgsProject()  # while layers come into that of QGIS, the test's QGIS draws them
    tree = ChannelTree()
    tree.watch(own)
    renewed = []
    tree.refreshed.connect(lambda: renewed.append(True))
    for number in range(8):
        add(own, make_raster(tmp_path / f"r{number}.tif"))
    QApplication.processEvents()
    assert len(renewed) == 1
    assert tree.topLevelItemCount() == 8


def test_mixed_grids_are_said_to_be_aligned(project, tmp_path):
    add(project, make_raster(tmp_path / "a.tif"))
    add(project, make_raster(tmp_path / "b.tif", epsg=28350))
    step = LayersStep(project)
    step.allButton.click()
    assert step.state().text == "2 rasters, 2 coordinate systems, aligned while reading"


def test_choices_make_the_round_trip(step, tmp_path):
    polygons = QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory")
    step.project.addMapLayer(polygons)
    rasters = {name: step.project.mapLayersByName(name)[0].id() for name in SAMPLE_NAMES}
    channels = (
        Channel(rasters["greenstone"], 1, "green", True),
        Channel(rasters["dist_fault"], 1, "dist_fault"),
    )
    for choices in (
        LayerChoices(
            channels, rasters["fault_density"], "400000,500000,6900000,7000000 [EPSG:20350]"
        ),
        LayerChoices(channels, "", "", polygons.id()),
        LayerChoices(channels[:1]),
        LayerChoices(),
    ):
        step.set_choices(choices)
        assert step.choices() == choices
        again = LayersStep(step.project)
        again.set_choices(step.choices())
        assert again.choices() == choices


def test_layers_that_old_choices_name_are_missed_until_they_come(project, tmp_path):
    layer = QgsRasterLayer(make_raster(tmp_path / "mag.tif"), "mag")
    there = add(project, make_raster(tmp_path / "grav.tif"))
    step = LayersStep(project)
    channels = (Channel(layer.id(), 1, "magnetics"), Channel(there.id(), 1, "grav"))
    step.set_choices(LayerChoices(channels))
    assert names(step) == ["grav"]
    assert "not in the project: magnetics" in step.problems()[0]
    project.addMapLayer(layer)
    assert names(step) == ["magnetics", "grav"]
    assert step.problems() == []

    step.set_choices(LayerChoices((Channel("nowhere", 1, "lost"), channels[1])))
    assert len(step.problems()) == 1
    row(step, "magnetics").setCheckState(NAME, CHECKED)
    assert step.problems() == []  # the user goes on without it


def _stored(choices):
    """Choices as they come back out of the history."""
    return Choices.from_dict(json.loads(json.dumps(Choices(layers=choices).to_dict()))).layers


def test_layers_added_again_are_known_by_their_source(project, tmp_path):
    mag = add(project, make_raster(tmp_path / "mag.tif"))
    radio = add(project, make_raster(tmp_path / "radio.tif", ("K", "Th")))
    area = make_polygons(tmp_path / "area.gpkg")
    project.addMapLayer(area)
    step = LayersStep(project)
    row(step, "radio_Th").setCheckState(NAME, CHECKED)
    row(step, "radio_Th").setText(NAME, "thorium")
    row(step, "thorium").setCheckState(CLASSES, CHECKED)
    row(step, "mag").setCheckState(NAME, CHECKED)
    step.channelTree.drop(
        row(step, "radio"), row(step, "mag"), step.channelTree.DropIndicatorPosition.AboveItem
    )
    step.referenceCombo.setLayer(mag)
    step.areaChoice.choose("", area.id())
    before = _stored(step.choices())

    project.removeMapLayers([mag.id(), radio.id(), area.id()])
    new_mag = add(project, tmp_path / "mag.tif", "another name")
    new_area = project.addMapLayer(make_polygons(tmp_path / "area.gpkg"))
    again = LayersStep(project)
    again.set_choices(before)
    (problem,) = again.problems()
    assert problem.startswith("These layers are not in the project: thorium.")
    new_radio = add(project, tmp_path / "radio.tif")
    wait_until(lambda: not again.problems(), seconds=1)
    assert again.problems() == []
    assert again.choices() == LayerChoices(
        (Channel(new_radio.id(), 2, "thorium", True), Channel(new_mag.id(), 1, "mag")),
        new_mag.id(),
        "",
        new_area.id(),
    )


def test_a_memory_layer_is_not_known_by_its_source(project):
    area = project.addMapLayer(QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory"))
    step = LayersStep(project)
    step.areaChoice.choose("", area.id())
    before = _stored(step.choices())
    project.removeMapLayer(area.id())
    project.addMapLayer(QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory"))
    step.set_choices(before)
    assert step.choices().area_layer == before.area_layer
    assert step.problems()[-1].startswith("No polygon layer is chosen")


def test_a_removed_reference_is_missed_and_not_replaced(step):
    reference = step.project.mapLayersByName("greenstone")[0]
    step.allButton.click()
    step.referenceCombo.setLayer(reference)
    assert step.choices().reference == reference.id()
    step.project.removeMapLayer(reference.id())
    assert "reference grid is not in the project" in step.problems()[0]
    assert "greenstone (not in the project)" in step.referenceCombo.currentText()
    step.referenceCombo.setCurrentIndex(0)
    assert step.choices().reference == ""
    assert step.problems() == []


def test_removed_layers_come_back_with_tick_name_and_place(step, tmp_path):
    step.allButton.click()
    row(step, "dist_fault").setText(NAME, "faults")
    layer = step.project.mapLayersByName("dist_fault")[0]
    kept = step.project.takeMapLayer(layer)
    assert names(step) == SAMPLE_NAMES[1:]
    step.project.addMapLayer(kept)
    assert names(step) == ["faults", *SAMPLE_NAMES[1:]]


def test_a_new_project_is_empty_and_nothing_is_missing(step):
    step.allButton.click()
    step.referenceCombo.setLayer(step.project.mapLayersByName("greenstone")[0])
    step.project.clear()
    assert step.choices() == LayerChoices()
    assert step.problems() == [
        "The project has no raster to learn from. Add some with 'Add from file…' in step 1."
    ]


def test_files_are_added_and_ticked(project, tmp_path):
    step = LayersStep(project)
    (tmp_path / "notes.tif").write_text("no raster")
    step.add_files([make_raster(tmp_path / "mag.tif"), str(tmp_path / "notes.tif")])
    assert names(step) == ["mag"]
    assert "notes.tif" in step.noteLabel.text()
    assert not step.noteLabel.isHidden()


def test_a_set_is_loaded_into_another_project(project, tmp_path):
    mag = make_raster(tmp_path / "mag.tif")
    lost = make_raster(tmp_path / "lost.tif")
    radio = make_raster(tmp_path / "radio.tif", ("K", "U"))
    for path in (mag, lost, radio):
        add(project, path)
    step = LayersStep(project)
    step.allButton.click()
    row(step, "radio_K").setCheckState(NAME, UNCHECKED)
    row(step, "mag").setText(NAME, "magnetics")
    row(step, "magnetics").setCheckState(CLASSES, CHECKED)
    saved = {(c.name, c.band, c.categorical) for c in step.choices().channels}
    step.save_set("murchison")

    project.clear()
    os.remove(lost)
    add(project, mag, "renamed")
    add(project, make_raster(tmp_path / "other.tif"))
    step.allButton.click()
    step.load_set("murchison")
    loaded = {(c.name, c.band, c.categorical) for c in step.choices().channels}
    assert loaded == saved - {("lost", 1, False)}
    assert "except for: lost" in step.noteLabel.text()

    step.delete_set("murchison")
    step._set_menu.fill()
    assert not any("murchison" in action.text() for action in step._set_menu.actions())


def test_a_set_travels_with_its_project(project, tmp_path):
    folder = tmp_path / "here"
    folder.mkdir()
    add(project, make_raster(folder / "mag.tif"))
    project.write(str(folder / "project.qgs"))
    step = LayersStep(project)
    step.allButton.click()
    step.save_set("all of it")
    stored = json.loads(project.readEntry("GeoCFM", "/layer_sets")[0])
    assert stored["all of it"][0]["source"] == "./mag.tif"
    project.write()
    QgsSettings().remove("geocfm/layer_sets")  # as on another computer
    folder.rename(tmp_path / "there")
    project.read(str(tmp_path / "there" / "project.qgs"))
    step.load_set("all of it")
    assert names(step) == ["mag"]


def test_what_is_not_ours_in_the_settings_is_passed_over(project):
    for text in ("no json", "[]", '{"a": 3}', '{"a": [{"source": "x"}]}'):
        QgsSettings().setValue("geocfm/layer_sets", text)
        step = LayersStep(project)
        step._set_menu.fill()
        assert len(step._set_menu.actions()) == 3  # separator, save, delete


def test_a_model_brings_its_own_layers(step):
    changes = []
    step.changed.connect(lambda: changes.append(True))
    step.set_needed(False)
    assert changes
    assert not step.channelTree.isEnabled()
    assert step.areaChoice.isEnabled()
    assert not step.notNeededLabel.isHidden()
    assert step.problems() == []
    assert step.state().level == READY
    step.set_needed(True)
    assert step.state().level == TO_DO


def test_an_area_must_be_given_in_full(step):
    step.allButton.click()
    step.areaChoice.kindCombo.setCurrentIndex(1)
    assert "extent of the area of interest is not set" in step.problems()[0]
    step.areaChoice.extentWidget.setOutputExtentFromUser(
        QgsRectangle(400_000, 6_900_000, 410_000, 6_950_000),
        QgsCoordinateReferenceSystem("EPSG:20350"),
    )
    assert step.problems() == []
    step.areaChoice.kindCombo.setCurrentIndex(2)
    assert "No polygon layer is chosen" in step.problems()[0]
    polygons = QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory")
    step.project.addMapLayer(polygons)
    step.areaChoice.polygonCombo.setLayer(polygons)
    assert "is empty" in step.problems()[0]
    assert step.choices().extent == ""


def test_what_is_done_to_the_polygons_of_the_area_is_told(step, qgis_app):
    area = QgsVectorLayer("Polygon", "area", "memory")
    area.setCrs(QgsCoordinateReferenceSystem())
    step.project.addMapLayer(area)
    step.areaChoice.kindCombo.setCurrentIndex(2)
    step.areaChoice.polygonCombo.setLayer(area)
    (problem,) = step.areaChoice.problems()
    assert problem.startswith("The polygon layer 'area' is empty.")
    told = []
    step.changed.connect(lambda: told.append(step.areaChoice.problems()))

    feature = QgsFeature()
    feature.setGeometry(QgsGeometry.fromRect(QgsRectangle(0, 0, 1, 1)))
    area.startEditing()
    area.addFeature(feature)
    assert wait_until(lambda: told)
    assert "has no coordinate system" in told[-1][0]

    told.clear()
    area.setCrs(QgsCoordinateReferenceSystem("EPSG:20350"))
    assert wait_until(lambda: told)
    assert told[-1] == []
    for change in (area.commitChanges, lambda: area.setSubsetString("1 = 1")):
        told.clear()
        change()
        assert wait_until(lambda: told)

    told.clear()
    step.areaChoice.kindCombo.setCurrentIndex(0)
    told.clear()
    area.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    assert not wait_until(lambda: told, seconds=0.4)  # it plays no part
    step.project.removeMapLayer(area.id())


def test_a_new_crs_or_source_of_a_raster_is_told(step, tmp_path):
    layer = add(step.project, make_raster(tmp_path / "mag.tif"))
    step.referenceCombo.setLayer(layer)
    QApplication.processEvents()
    told = []
    step.changed.connect(lambda: told.append(True))
    layer.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    assert wait_until(lambda: told)
    told.clear()
    other = make_raster(tmp_path / "other.tif")
    layer.setDataSource(other, "other", "gdal")
    assert wait_until(lambda: told)


def test_points_are_not_among_the_rasters(step):
    step.project.addMapLayer(make_points([(1, 1, "Au")]))
    assert [channel.name for channel in step.all_channels()] == SAMPLE_NAMES
