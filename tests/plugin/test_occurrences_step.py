import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsGeometry,
    QgsProject,
    QgsRasterLayer,
    QgsRectangle,
    QgsVectorFileWriter,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QEventLoop, Qt, QTimer
from qgis.PyQt.QtTest import QTest
from raster_making import CELL, CORNER, make_points, make_raster

from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.panel import area_polygons, occurrences_step, point_table
from geocfm_qgis.panel.choices import Channel, Choices, LayerChoices, OccurrenceChoices
from geocfm_qgis.panel.commodity_filter import where_text
from geocfm_qgis.panel.occurrences_step import OccurrencesStep
from geocfm_qgis.panel.step import READY, TO_DO, WRONG

ENGINE = Path(__file__).resolve().parents[2] / "engine"

# column, row, commodity, rank
MINES = [
    (5, 5, "Au; Cu", 1),
    (5, 5, "AU", 2),
    (10, 12, "gold, Au", 3),
    (20, 30, "Cu/Zn", 1),
    (40, 41, "cu", None),
    (41, 50, None, 2),
    (50, 51, "", 1),
    (52, 53, " Ni ;", 3),
    (None, None, "Au", 1),
    (90, 5, "Au", 1),  # outside the raster of 64 x 64 cells
    (-5, 5, "Cu", 2),
    (60, 60, "lead and zinc = rich", 3),
]


@pytest.fixture
def project(qgis_new_project):
    return QgsProject.instance()


@pytest.fixture
def mines(project):
    layer = make_points(MINES, "commodity:string,rank:integer")
    return project.addMapLayer(layer)


@pytest.fixture
def raster(project, tmp_path):
    layer = QgsRasterLayer(make_raster(tmp_path / "mag.tif"), "mag")
    return project.addMapLayer(layer)


@pytest.fixture
def sample_folder():
    return resources_folder() / "sample"


@pytest.fixture
def step(project, mines):
    return OccurrencesStep(project)


def wait_until(condition, milliseconds=5000):
    """Let QGIS go on until a condition holds."""
    loop = QEventLoop()
    timer = QTimer()
    timer.timeout.connect(lambda: condition() and loop.quit())
    timer.start(10)
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()
    assert condition()


def on_grid(raster, **others):
    return LayerChoices((Channel(raster.id(), 1, "mag"),), **others)


def listed(step):
    return [step.valueList.item(row).text() for row in range(step.valueList.count())]


def test_the_only_point_layer_is_chosen_and_counted(step, mines):
    assert step.choices() == OccurrenceChoices(layer=mines.id())
    assert step.countLabel.text() == "11 of 12 points will be used."
    assert step.detailLabel.text() == "Left out: 1 without a location."
    assert step.state().level == READY
    assert step.state().text == "11 of 12 points"


def test_values_are_offered_one_by_one_with_counts(step):
    step.filterCheck.setChecked(True)
    assert step.choices().field == "commodity"
    assert listed(step) == [
        "Au (5)",
        "Cu (4)",
        "gold (1)",
        "lead and zinc = rich (1)",
        "Ni (1)",
        "Zn (1)",
    ]


def test_ticked_values_filter_and_none_is_no_filter(step, raster):
    step.filterCheck.setChecked(True)
    assert step.state().text == "11 of 12 points"
    step.valueList.tick("Au")
    assert step.choices().values == ("Au",)
    assert step.state().text == "4 of 12 points"
    step.set_layer_choices(on_grid(raster))
    assert step.state().text == "3 of 12 points"
    assert step.detailLabel.text() == (
        "Left out: 1 without a location, 7 by the filter, 1 outside the grid or the area."
    )
    step.deduplicateCheck.setChecked(True)
    assert step.state().text == "2 of 12 points"


def test_search_hides_other_values(step):
    step.filterCheck.setChecked(True)
    step.searchEdit.setText("ZIN")
    shown = [
        step.valueList.item(row).text()
        for row in range(step.valueList.count())
        if not step.valueList.item(row).isHidden()
    ]
    assert shown == ["lead and zinc = rich (1)"]


def test_selection_counts_live(step, mines):
    assert not step.selectedCheck.isEnabled()
    mines.selectByIds([1, 2, 3, 4])
    assert step.selectedCheck.isEnabled()
    assert "(4)" in step.selectedCheck.text()
    step.selectedCheck.setChecked(True)
    assert step.state().text == "4 of 12 points"
    mines.removeSelection()
    assert step.state().level == WRONG
    assert step.problems()[0].startswith("No feature of 'mines' is selected.")
    mines.selectByIds([1, 2])
    assert step.problems() == [
        "Only 2 of the occurrences would be used, which is too few to learn from. "
        "Select more of them."
    ]


def test_edits_and_filters_of_the_layer_count_live(step, mines):
    assert mines.setSubsetString('"rank" = 1')
    wait_until(lambda: step.state().text == "4 of 5 points")
    assert mines.setSubsetString("")
    wait_until(lambda: step.state().text == "11 of 12 points")
    mines.startEditing()
    feature = QgsFeature(mines.fields())
    feature.setGeometry(QgsGeometry.fromWkt("Point(400000 6999000)"))
    mines.addFeature(feature)
    wait_until(lambda: step.state().text == "12 of 13 points")
    mines.rollBack()
    wait_until(lambda: step.state().text == "11 of 12 points")


def test_multipoints_count_by_their_points(project):
    layer = make_points([(1, 1, "Au")], kind="MultiPoint")
    feature = QgsFeature(layer.fields())
    feature.setGeometry(QgsGeometry.fromWkt("MultiPoint((1 1), (2 2), (3 3))"))
    layer.dataProvider().addFeatures([feature])
    project.addMapLayer(layer)
    assert OccurrencesStep(project).state().text == "4 of 4 points"


def test_a_layer_that_goes_is_missed_and_one_that_returns_is_counted(step, project, mines):
    step.filterCheck.setChecked(True)
    step.valueList.tick("Cu")
    kept = project.takeMapLayer(mines)
    assert "not in the project" in step.problems()[0]
    assert step.state().level == WRONG
    project.addMapLayer(kept)
    assert step.problems() == []
    assert step.choices().values == ("Cu",)
    project.removeMapLayer(kept.id())
    assert step.choices().layer
    project.clear()
    assert step.choices().layer == ""
    assert step.state().level == TO_DO
    assert step.problems()[0].startswith("The project has no point layer.")


def test_other_layers_do_not_matter(step, project, mines):
    project.addMapLayer(make_points([(1, 1, "Ag")]))
    assert step.choices().layer == mines.id()
    step.layerCombo.choose("")
    assert step.problems() == ["No occurrences are chosen. Choose their point layer in step 2."]


def test_choices_make_the_round_trip(step, project, mines):
    other = project.addMapLayer(make_points([(1, 1, "Ag")], "kind:string"))
    mines.selectByIds([1, 2, 3])
    for choices in (
        OccurrenceChoices(
            *(mines.id(), True, "commodity", ("Cu", "Au", "no longer there"), True),
            *((1, 2, 3), 3),
        ),
        OccurrenceChoices(mines.id(), field="rank", values=("3",)),
        OccurrenceChoices(mines.id(), field="lost", values=("3",)),
        OccurrenceChoices(other.id()),
        OccurrenceChoices(),
    ):
        step.set_choices(choices)
        assert step.choices() == choices
    step.set_choices(OccurrenceChoices(mines.id(), field="lost", values=("3",)))
    assert "has no field 'lost'" in step.problems()[0]
    step.set_choices(OccurrenceChoices(mines.id(), field="commodity", values=("Pt",)))
    assert "Pt (0)" in listed(step)
    assert step.problems() == [
        "None of the occurrences would be used. Tick more values of the filter in step 2."
    ]


def _stored(choices):
    """Choices as they come back out of the history."""
    content = Choices(occurrences=choices).to_dict()
    return Choices.from_dict(json.loads(json.dumps(content))).occurrences


def test_a_selection_can_be_repeated(step, mines):
    mines.selectByIds([2, 3, 5, 7])
    step.selectedCheck.setChecked(True)
    before = _stored(step.choices())
    mines.selectByIds([1])
    step.selectedCheck.setChecked(False)
    assert step.choices().selected == ()
    step.set_choices(before)
    assert sorted(mines.selectedFeatureIds()) == [2, 3, 5, 7]
    assert step.state().text == "4 of 12 points"
    assert step.problems() == []


def test_a_selection_too_large_to_remember_is_not_replaced_by_another(step, mines, monkeypatch):
    monkeypatch.setattr(occurrences_step, "MOST_REMEMBERED", 3)
    mines.selectByIds([2, 3, 5, 7])
    step.selectedCheck.setChecked(True)
    before = _stored(step.choices())
    assert before.selected == ()
    mines.selectByIds([1, 2, 3])
    step.set_choices(before)
    (problem,) = step.problems()
    assert problem.startswith("The 4 features of 'mines' that were selected for this run cannot")
    mines.selectByIds([2, 3, 5, 7])
    assert step.problems() == []


def test_points_added_again_are_known_by_their_source(project, tmp_path):
    path = _written(make_points(MINES, "commodity:string,rank:integer"), tmp_path / "mines.gpkg")
    layer = project.addMapLayer(QgsVectorLayer(path, "mines", "ogr"))
    step = OccurrencesStep(project)
    layer.selectByIds([2, 3, 5])
    step.selectedCheck.setChecked(True)
    before = _stored(step.choices())
    project.removeMapLayer(layer.id())
    project.addMapLayer(make_points(MINES, "commodity:string,rank:integer"))
    again = project.addMapLayer(QgsVectorLayer(path, "mines", "ogr"))
    assert step.choices().layer == again.id()
    other = OccurrencesStep(project)
    other.set_choices(before)
    assert other.choices().layer == again.id()
    assert sorted(again.selectedFeatureIds()) == [2, 3, 5]


def test_a_field_of_measurements_is_not_listed(project):
    layer = make_points([(n % 60, n % 50, n / 7) for n in range(150)], "grade:double")
    project.addMapLayer(layer)
    step = OccurrencesStep(project)
    step.filterCheck.setChecked(True)
    assert listed(step) == []
    assert "too many different numbers" in step.valuesLabel.text()


def test_the_number_of_a_feature_is_no_field(project, tmp_path):
    path = _written(make_points(MINES, "commodity:string,rank:integer"), tmp_path / "mines.gpkg")
    project.addMapLayer(QgsVectorLayer(path, "mines", "ogr"))
    step = OccurrencesStep(project)
    assert step.fieldCombo.fields().names() == ["commodity", "rank"]


def test_what_is_wrong_with_the_layer_is_said(project):
    step = OccurrencesStep(project)
    layer = project.addMapLayer(make_points([(1, 1, "Au")] * 3))
    assert step.problems() == []
    layer.setCrs(QgsCoordinateReferenceSystem())
    assert "has no coordinate system" in step.problems()[0]
    empty = project.addMapLayer(make_points([]))
    step.layerCombo.setLayer(empty)
    assert "has no features" in step.problems()[0]


def test_nothing_is_told_when_the_layers_are_the_same(step, raster):
    step.set_layer_choices(on_grid(raster))
    told = []
    step.changed.connect(lambda: told.append(True))
    step.set_layer_choices(on_grid(raster))
    assert not told  # else the panel would go round in circles
    raster.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    step.set_layer_choices(on_grid(raster))
    assert told


def test_a_user_chooses_a_layer_with_the_keyboard(step, project):
    other = project.addMapLayer(make_points([(1, 1, "Ag")] * 5))
    other.setName("zinc mines")
    step.layerCombo.setCurrentIndex(0)
    assert step.choices().layer == ""
    for _ in range(2):
        QTest.keyClick(step.layerCombo, Qt.Key.Key_Down)
    assert step.choices().layer == other.id()
    assert step.state().text == "5 of 5 points"


def test_points_elsewhere_are_a_matter_of_crs(step, raster, mines):
    mines.setCrs(QgsCoordinateReferenceSystem("EPSG:28355"))
    step.set_layer_choices(on_grid(raster))
    wait_until(lambda: step.state().text == "0 of 12 points")
    assert "check the coordinate system" in step.problems()[0]


def test_many_points_are_read_in_the_background(project, raster, monkeypatch):
    monkeypatch.setattr(point_table, "AT_ONCE", 10)
    monkeypatch.setattr(occurrences_step, "COUNTED_AT_ONCE", 10)
    rows = [(n % 60, n // 60, "Au" if n % 3 else "Cu") for n in range(600)]
    project.addMapLayer(make_points(rows))
    step = OccurrencesStep(project)
    assert step.state().text == "Counting…"
    wait_until(lambda: step.state().text == "600 of 600 points")
    step.set_layer_choices(on_grid(raster))
    step.filterCheck.setChecked(True)
    wait_until(lambda: step.valueList.count() == 2)
    step.valueList.tick("Cu")
    wait_until(lambda: step.state().text == "200 of 600 points")


def test_a_layer_removed_while_it_is_read_does_no_harm(project, monkeypatch):
    monkeypatch.setattr(point_table, "AT_ONCE", 10)
    layer = project.addMapLayer(make_points([(n % 60, n // 60, "Au") for n in range(3000)]))
    step = OccurrencesStep(project)
    project.removeMapLayer(layer.id())
    wait_until(lambda: not step._reader.is_reading())
    assert "not in the project" in step.problems()[0]


def test_reading_ends_at_the_bound(project, monkeypatch):
    monkeypatch.setattr(point_table, "MOST_FEATURES", 5)
    project.addMapLayer(make_points(MINES, "commodity:string,rank:integer"))
    step = OccurrencesStep(project)
    assert step.countLabel.text() == (
        "5 of the first 5 points will be used; the others were not counted."
    )


def test_larger_cells_hold_more_points(step, raster):
    step.deduplicateCheck.setChecked(True)
    step.set_layer_choices(on_grid(raster))
    assert step.state().text == "8 of 12 points"
    step.set_layer_choices(on_grid(raster), 3200.0)
    assert step.state().text == "2 of 12 points"


def test_polygons_are_read_again_only_when_they_change(step, project, raster, monkeypatch):
    area = QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory")
    left, top = CORNER
    west = QgsFeature()
    west.setGeometry(QgsGeometry.fromRect(QgsRectangle(left, top - 6400, left + 3000, top)))
    area.dataProvider().addFeatures([west])
    project.addMapLayer(area)
    readings = []
    read = area_polygons.read_polygons
    monkeypatch.setattr(
        area_polygons, "read_polygons", lambda layer: readings.append(layer) or read(layer)
    )
    chosen = on_grid(raster, area_layer=area.id())
    for _ in range(3):
        step.set_layer_choices(chosen)
    assert step.state().text == "4 of 12 points"
    assert len(readings) == 1
    area.startEditing()
    east = QgsFeature()
    east.setGeometry(QgsGeometry.fromRect(QgsRectangle(left + 3000, top - 6400, left + 6400, top)))
    area.addFeature(east)
    step.set_layer_choices(chosen)
    assert step.state().text == "9 of 12 points"
    area.rollBack()


def _written(layer, path):
    options = QgsVectorFileWriter.SaveVectorOptions()
    options.driverName = "GPKG"
    context = QgsProject.instance().transformContext()
    result = QgsVectorFileWriter.writeAsVectorFormatV3(layer, str(path), context, options)
    assert result[0] == QgsVectorFileWriter.WriterError.NoError, result
    return str(path)


def _engine_counts(python, folder, jobs):
    """What `geocfm check` says became of the occurrences, for each of several jobs."""
    file = folder / "jobs.json"
    file.write_text(json.dumps({"jobs": [{"command": "check", **job} for job in jobs]}))
    result = subprocess.run(
        [python, "-m", "geocfm", "run", str(file), "--json"],
        env={"PYTHONPATH": str(ENGINE), "OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    events = [json.loads(line) for line in result.stdout.splitlines()]
    found = [each["content"] for each in events if each.get("kind") == "check"]
    assert len(found) == len(jobs), result.stdout + result.stderr
    return [report["occurrences"] for report in found]


def _job(raster, occurrences, choices, **others):
    where = where_text(choices)
    return {
        "raster": [f"mag={raster}:1"],
        "occurrences": occurrences,
        "where": [where] if where else [],
        "deduplicate": choices.deduplicate,
        **others,
    }


def test_the_counts_are_the_engines(project, tmp_path, engine_python, sample_folder):
    raster = project.addMapLayer(QgsRasterLayer(make_raster(tmp_path / "mag.tif"), "mag"))
    path = _written(make_points(MINES, "commodity:string,rank:integer"), tmp_path / "mines.gpkg")
    mines = project.addMapLayer(QgsVectorLayer(path, "mines", "ogr"))
    area = QgsVectorLayer("Polygon?crs=EPSG:20350", "area", "memory")
    feature = QgsFeature()
    left, top = CORNER
    ring = [(0, 0), (50.6, 0), (45.3, 60.2), (0, 30), (0, 0)]
    corners = ", ".join(f"{left + x * CELL} {top - y * CELL}" for x, y in ring)
    feature.setGeometry(QgsGeometry.fromWkt(f"Polygon(({corners}))"))
    area.dataProvider().addFeatures([feature])
    area_file = _written(area, tmp_path / "area.gpkg")
    project.addMapLayer(area)
    gold = project.addMapLayer(
        QgsVectorLayer(str(sample_folder / "occurrences.gpkg"), "gold", "ogr")
    )
    greenstone = project.addMapLayer(
        QgsRasterLayer(str(sample_folder / "rasters" / "greenstone.tif"), "greenstone")
    )

    cases = [
        (mines, raster, "", (), True, False, 1300.0),
        (mines, raster, "", (), True, True, 1300.0),
        (gold, greenstone, "", (), True, False, 6000.0),
        (mines, raster, "commodity", ("Au",), False, False),
        (mines, raster, "commodity", ("au", "CU"), True, True),
        (mines, raster, "commodity", ("lead and zinc = rich", "Ni"), False, False),
        (mines, raster, "rank", ("1", "3"), False, False),  # whole numbers with a gap
        (mines, raster, "", (), True, True),
        (gold, greenstone, "commodity", ("gold",), True, False),
    ]
    step = OccurrencesStep(project)
    jobs, counts = [], []
    for layer, grid, field, values, deduplicate, with_area, *resolution in cases:
        choices = OccurrenceChoices(layer.id(), False, field, values, deduplicate)
        step.set_choices(choices)
        chosen = on_grid(grid, area_layer=area.id() if with_area else "")
        step.set_layer_choices(chosen, *resolution)
        counts.append(step._count)
        others = {"aoi": area_file} if with_area else {}
        if resolution:
            others["resolution"] = resolution[0]
        jobs.append(_job(grid.source(), layer.source().partition("|")[0], choices, **others))
    assert len({count.used for count in counts}) > 3  # the cases differ
    for count, found in zip(counts, _engine_counts(engine_python, tmp_path, jobs), strict=True):
        assert asdict(count) == {
            "read": found["read"],
            "not_selected": 0,
            "without_location": found["without_geometry"],
            "filtered_out": found["filtered_out"],
            "outside": found["outside"],
            "sharing_a_cell": found["duplicates"],
            "used": found["used"] + found["on_no_data"],
        }
