"""Export of a GeoTIFF as it is."""

import os

import pytest
from qgis.core import QgsRasterLayer, QgsVectorLayer
from small_results import write_map, write_samples

from geocfm_qgis.results import ExportRefused, export_geotiff, save_style_beside, style_result

VALUES = [float(x) for x in range(400)]


@pytest.fixture
def source(tmp_path):
    path = write_map(tmp_path / "map.tif", VALUES, 20)
    save_style_beside(path, "prospectivity")
    return path


def same_bytes(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        return first.read() == second.read()


def test_a_file_is_copied_byte_for_byte_with_its_style(tmp_path, source):
    copy = export_geotiff(source, str(tmp_path / "Größe 1.tif"))
    assert same_bytes(source, copy)
    assert same_bytes(tmp_path / "map.qml", tmp_path / "Größe 1.qml")
    assert QgsRasterLayer(copy, "copy").renderer().type() == "singlebandpseudocolor"
    assert not list(tmp_path.glob("*.part"))


def test_a_layer_is_exported_with_the_style_it_has_now(tmp_path, source):
    layer = QgsRasterLayer(source, "map")
    style_result(layer, "prospectivity")
    layer.renderer().setOpacity(0.5)
    copy = export_geotiff(layer, str(tmp_path / "copy"))
    assert copy == str(tmp_path / "copy.tif")
    assert same_bytes(source, copy)
    assert QgsRasterLayer(copy, "copy").renderer().opacity() == 0.5


def test_nothing_is_overwritten_silently(tmp_path, source):
    target = tmp_path / "there.tif"
    target.write_bytes(b"mine")
    with pytest.raises(ExportRefused, match="already"):
        export_geotiff(source, str(target))
    assert target.read_bytes() == b"mine"
    export_geotiff(source, str(target), overwrite=True)
    assert same_bytes(source, target)


def test_a_style_of_something_else_is_left_alone(tmp_path, source):
    style = tmp_path / "roads.qml"
    style.write_text("of roads.shp", encoding="utf-8")
    export_geotiff(source, str(tmp_path / "roads.tif"))
    assert style.read_text(encoding="utf-8") == "of roads.shp"


def test_what_cannot_be_copied_is_refused_with_a_sentence(tmp_path, source):
    with pytest.raises(ExportRefused, match="is the file that is to be exported"):
        export_geotiff(source, source, overwrite=True)
    with pytest.raises(ExportRefused, match="no GeoTIFF"):
        export_geotiff(QgsVectorLayer(write_samples(tmp_path / "s.gpkg"), "s"), "copy.tif")
    with pytest.raises(ExportRefused, match="no GeoTIFF"):
        export_geotiff(str(tmp_path / "missing.tif"), str(tmp_path / "copy.tif"))
    with pytest.raises(ExportRefused, match="could not be written"):
        export_geotiff(source, os.path.join(source, "copy.tif"))
