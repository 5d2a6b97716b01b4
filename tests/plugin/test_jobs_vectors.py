"""Occurrences and areas of interest as the engine gets them."""

import os
import shutil

import pytest
from osgeo import gdal, ogr, osr
from qgis.core import (
    QgsCoordinateReferenceSystem,
    QgsFeature,
    QgsGeometry,
    QgsPointXY,
    QgsProcessingContext,
    QgsProcessingException,
    QgsProcessingFeatureSourceDefinition,
    QgsProcessingFeedback,
    QgsProject,
    QgsProperty,
    QgsRectangle,
    QgsVectorLayer,
    QgsVectorLayerJoinInfo,
)

from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.jobs.area import area_of_interest
from geocfm_qgis.jobs.occurrences import occurrence_input, parse_where

SAMPLE = str(resources_folder() / "sample" / "occurrences.gpkg")
DEPOSITS = 255
UTM = QgsCoordinateReferenceSystem("EPSG:20350")
DEGREES = QgsCoordinateReferenceSystem("EPSG:4326")
NO_EXTENT = QgsRectangle()


@pytest.fixture
def context(qgis_new_project):
    context = QgsProcessingContext()
    context.setProject(QgsProject.instance())
    return context


@pytest.fixture
def deposits(context, tmp_path):
    path = tmp_path / "gold deposits.gpkg"
    shutil.copyfile(SAMPLE, path)
    layer = QgsVectorLayer(f"{path}|layername=occurrences", "deposits", "ogr")
    QgsProject.instance().addMapLayer(layer)
    return layer


def memory_points(fields="", count=3, crs="EPSG:20350", kind="Point"):
    layer = QgsVectorLayer(f"{kind}?crs={crs}{fields}", "points", "memory")
    for number in range(count):
        feature = QgsFeature(layer.fields())
        feature.setGeometry(QgsGeometry.fromPointXY(QgsPointXY(500000 + number, 7000000)))
        feature.setAttributes([number] * len(layer.fields()))
        layer.dataProvider().addFeatures([feature])
    QgsProject.instance().addMapLayer(layer)
    return layer


def polygons(context, *rectangles, crs=UTM):
    layer = QgsVectorLayer("Polygon", "area", "memory")
    layer.setCrs(crs)
    for rectangle in rectangles:
        feature = QgsFeature()
        feature.setGeometry(QgsGeometry.fromRect(rectangle))
        layer.dataProvider().addFeatures([feature])
    QgsProject.instance().addMapLayer(layer)
    return layer


def written(found):
    """Run the export of an input; open what it has written."""
    (export,) = found.exports
    assert found.temporary == (export.path,)
    assert not os.path.exists(export.path)
    export.run(QgsProcessingFeedback())
    layer = QgsVectorLayer(export.path, "written", "ogr")
    assert layer.isValid()
    return layer


def test_a_plain_file_is_itself(deposits, context, tmp_path):
    found = occurrence_input(deposits.id(), context)
    path = str(tmp_path / "gold deposits.gpkg")
    assert found.values == {"occurrences": path, "layer": "occurrences"}
    assert (found.exports, found.temporary) == ((), ())
    assert occurrence_input(path, context).values["occurrences"] == path


def test_a_crs_set_in_qgis_is_said(deposits, context):
    deposits.setCrs(QgsCoordinateReferenceSystem("EPSG:28350"))
    assert occurrence_input(deposits, context).values["occurrences_crs"] == "EPSG:28350"


def test_only_selected_features_are_written(deposits, context):
    deposits.selectByIds([3, 5, 8])
    chosen = QgsProcessingFeatureSourceDefinition(deposits.id(), True)
    found = occurrence_input(chosen, context)
    deposits.removeSelection()  # what was selected when the job was made counts
    layer = written(found)
    assert layer.featureCount() == 3
    assert found.values["layer"] == "features"
    assert layer.crs() == deposits.crs()
    assert set(deposits.fields().names()) <= set(layer.fields().names())
    original = {feature.id(): feature for feature in deposits.getFeatures([3, 5, 8])}
    expected = sorted(feature.geometry().asWkt() for feature in original.values())
    assert sorted(feature.geometry().asWkt() for feature in layer.getFeatures()) == expected


def test_nothing_selected_is_said(deposits, context):
    with pytest.raises(QgsProcessingException, match="No feature of 'deposits' is selected"):
        occurrence_input(QgsProcessingFeatureSourceDefinition(deposits.id(), True), context)


def test_filtered_layers_are_written(deposits, context):
    deposits.setSubsetString("fid <= 10")
    assert written(occurrence_input(deposits.id(), context)).featureCount() == 10


def test_edits_that_are_not_saved_count(deposits, context):
    deposits.startEditing()
    deposits.deleteFeature(1)
    assert written(occurrence_input(deposits.id(), context)).featureCount() == DEPOSITS - 1
    deposits.rollBack()
    assert not occurrence_input(deposits.id(), context).exports


def test_joined_fields_are_written(deposits, context):
    table = QgsVectorLayer("NoGeometry?field=id:integer&field=grade:double", "grades", "memory")
    row = QgsFeature(table.fields())
    row.setAttributes([1, 7.5])
    table.dataProvider().addFeatures([row])
    QgsProject.instance().addMapLayer(table)
    join = QgsVectorLayerJoinInfo()
    join.setJoinLayer(table)
    join.setJoinFieldName("id")
    join.setTargetFieldName("fid")
    join.setPrefix("j_")
    deposits.addJoin(join)
    layer = written(occurrence_input(deposits.id(), context))
    assert [f["j_grade"] for f in layer.getFeatures() if f["fid"] == 1] == [7.5]


def test_memory_layers_with_awkward_fields_are_written(context):
    fields = "&field=fid:string&field=geom:integer&field=Name:string&field=name:integer"
    layer = memory_points(fields)
    copy = written(occurrence_input(layer.id(), context))
    assert copy.featureCount() == 3
    assert [f["fid"] for f in copy.getFeatures()] == ["0", "1", "2"]
    assert [f["geom"] for f in copy.getFeatures()] == [0, 1, 2]
    assert [f["Name"] for f in copy.getFeatures()] == ["0", "1", "2"]
    assert [f["name_2"] for f in copy.getFeatures()] == [0, 1, 2]


def test_a_layer_of_delimited_text_is_written_by_qgis(context, tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("e,n\n500000,7000000\n500010,7000000\n", encoding="utf-8")
    layer = QgsVectorLayer(
        f"file://{path}?xField=e&yField=n&crs=EPSG:20350", "text", "delimitedtext"
    )
    QgsProject.instance().addMapLayer(layer)
    assert written(occurrence_input(layer.id(), context)).featureCount() == 2


def test_a_limit_and_a_property_are_heeded(deposits, context):
    chosen = QgsProcessingFeatureSourceDefinition(QgsProperty.fromValue(deposits.id()), False, 4)
    assert written(occurrence_input(chosen, context)).featureCount() == 4


def test_the_layer_may_be_gone_when_it_is_written(context):
    found = occurrence_input(memory_points("&field=a:integer").id(), context)
    QgsProject.instance().removeAllMapLayers()
    assert written(found).featureCount() == 3


def test_multipoints_and_missing_geometries_are_written(context):
    layer = QgsVectorLayer("MultiPoint?crs=EPSG:20350", "multi", "memory")
    for wkt in ("MULTIPOINT((500000 7000000),(500010 7000000))", ""):
        feature = QgsFeature()
        if wkt:
            feature.setGeometry(QgsGeometry.fromWkt(wkt))
        layer.dataProvider().addFeatures([feature])
    copy = written(occurrence_input(layer, context))
    assert sorted(each.geometry().isEmpty() for each in copy.getFeatures()) == [False, True]


def test_a_layer_known_by_its_number_gets_its_name(context, tmp_path):
    path = tmp_path / "two.gpkg"
    for name in ("first", "second"):
        mode = {} if name == "first" else {"accessMode": "update"}
        gdal.VectorTranslate(str(path), SAMPLE, format="GPKG", layerName=name, **mode)
    for number, name in enumerate(("first", "second")):
        found = occurrence_input(f"{path}|layerid={number}", context)
        assert found.values == {"occurrences": str(path), "layer": name}


def shapefile(path, text, encoding):
    """One point with a name, in an encoding that the file itself does not declare."""
    source = ogr.GetDriverByName("ESRI Shapefile").CreateDataSource(str(path))
    system = osr.SpatialReference()
    system.ImportFromEPSG(20350)
    layer = source.CreateLayer(path.stem, system, ogr.wkbPoint, options=["ENCODING=UTF-8"])
    layer.CreateField(ogr.FieldDefn("name", ogr.OFTString))
    feature = ogr.Feature(layer.GetLayerDefn())
    feature.SetField("name", "X" * len(text))
    feature.SetGeometry(ogr.CreateGeometryFromWkt("POINT (500000 7000000)"))
    layer.CreateFeature(feature)
    del feature, layer, source  # writes the file
    table = path.with_suffix(".dbf")
    content = bytearray(table.read_bytes().replace(b"X" * len(text), text.encode(encoding)))
    content[29] = 0  # the number of the encoding
    table.write_bytes(content)
    path.with_suffix(".cpg").unlink()
    return QgsVectorLayer(str(path), path.stem, "ogr")


def test_an_encoding_set_in_qgis_is_kept(context, tmp_path):
    layer = shapefile(tmp_path / "cyrillic.shp", "золото", "windows-1251")
    layer.setProviderEncoding("windows-1251")
    copy = written(occurrence_input(layer, context))
    assert [feature["name"] for feature in copy.getFeatures()] == ["золото"]


def test_a_shapefile_that_says_its_encoding_is_itself(context, tmp_path):
    shapefile(tmp_path / "said.shp", "золото", "windows-1251")
    (tmp_path / "said.cpg").write_text("1251")
    layer = QgsVectorLayer(str(tmp_path / "said.shp"), "said", "ogr")
    assert [feature["name"] for feature in layer.getFeatures()] == ["золото"]
    assert not occurrence_input(layer, context).exports
    layer.setProviderEncoding("UTF-8")
    assert occurrence_input(layer, context).exports


def test_a_file_that_vanished_after_it_was_opened_is_said(deposits, context):
    os.remove(deposits.source().partition("|")[0])
    assert deposits.isValid()  # QGIS still thinks so
    with pytest.raises(QgsProcessingException, match="The file of the layer 'deposits' is gone"):
        occurrence_input(deposits.id(), context)
    broken = QgsVectorLayer("/nowhere/a.gpkg|layername=a", "broken", "ogr")
    QgsProject.instance().addMapLayer(broken)
    with pytest.raises(QgsProcessingException, match=r"'broken' is gone: /nowhere/a\.gpkg"):
        occurrence_input(broken.id(), context)


def test_tables_without_locations_are_said(context, tmp_path):
    path = tmp_path / "points.csv"
    path.write_text("e,n\n500000,7000000\n", encoding="utf-8")
    for choose in (occurrence_input, lambda *given: area_of_interest(NO_EXTENT, UTM, *given)):
        with pytest.raises(QgsProcessingException, match="Add Delimited Text Layer"):
            choose(str(path), context)


def test_no_features_and_no_layer_are_said(context):
    with pytest.raises(QgsProcessingException, match="'points' has no features"):
        occurrence_input(memory_points(count=0).id(), context)
    with pytest.raises(QgsProcessingException, match="'/nowhere/points' is no vector layer"):
        occurrence_input("/nowhere/points", context)


def test_a_file_that_cannot_be_written_is_said(context, tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("no folder")
    monkeypatch.setattr(
        "geocfm_qgis.jobs.vector_source.path_by_content",
        lambda name, content: str(tmp_path / "blocked" / name),
    )
    found = occurrence_input(memory_points().id(), context)
    with pytest.raises(QgsProcessingException, match="'points' cannot be written"):
        found.exports[0].run()


def test_the_same_features_are_written_once_so_that_a_job_can_go_on(deposits, context):
    deposits.setSubsetString("fid <= 7")
    found = occurrence_input(deposits.id(), context)
    path = written(found).source()
    stamp = os.stat(path).st_mtime_ns
    again = occurrence_input(deposits.id(), context)
    assert again.values == found.values
    again.exports[0].run()
    assert os.stat(path).st_mtime_ns == stamp
    assert os.listdir(os.path.dirname(path)) == ["occurrences.gpkg"]

    deposits.startEditing()
    feature = next(deposits.getFeatures())
    deposits.changeAttributeValue(feature.id(), deposits.fields().indexOf("commodity"), "tin")
    changed = occurrence_input(deposits.id(), context)
    deposits.rollBack()
    assert changed.values["occurrences"] != path
    deposits.setSubsetString("fid <= 8")
    assert occurrence_input(deposits.id(), context).values["occurrences"] != path


def test_very_many_features_are_not_compared(context, monkeypatch):
    monkeypatch.setattr("geocfm_qgis.jobs.vector_source.MOST_COMPARED", 2)
    layer = memory_points()
    paths = [occurrence_input(layer, context).values["occurrences"] for _ in range(2)]
    assert paths[0] != paths[1]


def test_conditions_stand_on_lines_of_their_own():
    assert parse_where(" commod1|commod2 ~ gold, copper \n\n size = large\n") == [
        "commod1|commod2 ~ gold, copper",
        "size = large",
    ]
    assert parse_where("") == parse_where(None) == []


def test_an_extent_is_a_polygon_in_its_own_crs(context):
    extent = QgsRectangle(117, -28, 118, -27)
    area = area_of_interest(extent, DEGREES, None, context)
    layer = written(area.input)
    assert area.input.values == {"aoi": layer.source(), "aoi_layer": "features"}
    assert layer.crs().authid() == "EPSG:4326"
    (feature,) = layer.getFeatures()
    assert feature.geometry().boundingBox() == extent
    assert area.rectangle_in(UTM, context).width() == pytest.approx(99_000, rel=0.02)


def test_no_extent_and_no_polygons_are_no_area(context):
    assert area_of_interest(NO_EXTENT, UTM, None, context) is None


def test_polygons_of_a_file_are_that_file(context, tmp_path):
    path = tmp_path / "area.geojson"
    path.write_text(
        '{"type":"FeatureCollection","features":[{"type":"Feature","properties":{},"geometry":'
        '{"type":"Polygon","coordinates":[[[117,-28],[118,-28],[118,-27],[117,-28]]]}}]}',
        encoding="utf-8",
    )
    area = area_of_interest(NO_EXTENT, UTM, str(path), context)
    assert area.input.values["aoi"] == str(path)
    assert not area.input.exports
    layer = QgsVectorLayer(str(path), "a", "ogr")
    layer.setCrs(QgsCoordinateReferenceSystem("EPSG:4283"))
    assert written(area_of_interest(NO_EXTENT, UTM, layer, context).input).crs().authid() == (
        "EPSG:4283"
    )


def test_extent_and_polygons_give_what_they_share(context):
    layer = polygons(context, QgsRectangle(0, 0, 10, 10), QgsRectangle(100, 0, 110, 10))
    area = area_of_interest(QgsRectangle(5, 5, 50, 50), UTM, layer.id(), context)
    copy = written(area.input)
    (feature,) = copy.getFeatures()
    assert feature.geometry().area() == pytest.approx(25)
    assert area.rectangle_in(UTM, context) == QgsRectangle(5, 5, 50, 10)


def test_extent_in_another_crs_is_bent(context):
    layer = polygons(context, QgsRectangle(400_000, 6_900_000, 600_000, 7_000_000))
    copy = written(
        area_of_interest(QgsRectangle(117, -28, 117.5, -27.5), DEGREES, layer, context).input
    )
    (feature,) = copy.getFeatures()
    assert copy.crs() == UTM
    assert 1e9 < feature.geometry().area() < 3e9


def test_extent_beside_the_polygons_is_said(context):
    layer = polygons(context, QgsRectangle(0, 0, 10, 10))
    with pytest.raises(QgsProcessingException, match="do not overlap"):
        area_of_interest(QgsRectangle(50, 50, 60, 60), UTM, layer, context)
    corners = polygons(context, QgsRectangle(0, 0, 10, 10), QgsRectangle(50, 50, 60, 60))
    area = area_of_interest(QgsRectangle(20, 20, 30, 30), UTM, corners, context)
    with pytest.raises(QgsProcessingException, match="none lies inside the extent"):
        area.input.exports[0].run()
    assert not os.path.exists(area.input.values["aoi"])


def test_polygons_without_crs_are_said(context):
    layer = polygons(context, QgsRectangle(0, 0, 10, 10), crs=QgsCoordinateReferenceSystem())
    with pytest.raises(QgsProcessingException, match="has no coordinate reference system"):
        area_of_interest(NO_EXTENT, UTM, layer, context)


def test_a_cancelled_export_leaves_no_file(context):
    found = occurrence_input(memory_points(), context)
    feedback = QgsProcessingFeedback()
    feedback.cancel()
    found.exports[0].run(feedback)
    assert not os.path.exists(found.values["occurrences"])
