"""Names of layers: the text of CHANNELS, the card of a model, and matching one with the other."""

import json
import struct

import pytest
from osgeo import gdal
from qgis.core import QgsProcessingException, QgsRasterLayer

from geocfm_qgis.bundle import resources_folder
from geocfm_qgis.jobs.channels import (
    NamedBand,
    check_channels,
    default_channels,
    format_channels,
    parse_channels,
)
from geocfm_qgis.jobs.checkpoint_card import CheckpointError, layer_names, read_card
from geocfm_qgis.jobs.layer_matching import match
from geocfm_qgis.panel.choices import Channel

MODEL = resources_folder() / "checkpoints" / "murchison_gold.safetensors"
LAYERS = ["dist_fault", "dist_greenstone_signed", "fault_density", "greenstone"]


@pytest.fixture
def three_bands(tmp_path):
    path = str(tmp_path / "rad.tif")
    dataset = gdal.GetDriverByName("GTiff").Create(path, 4, 4, 3, gdal.GDT_Float32)
    dataset.SetGeoTransform((0, 1, 0, 4, 0, -1))
    dataset.GetRasterBand(1).SetDescription("K / Th")
    del dataset
    return QgsRasterLayer(path, "rad")


def channel(name):
    return Channel("id of " + name, 1, name)


def test_channels_are_read_as_they_are_written():
    text = "mag=1:1, Bouguer: residual = 3 : 2 ,k=2"
    bands = parse_channels(text)
    assert bands == [
        NamedBand("mag", 1, 1),
        NamedBand("Bouguer: residual", 3, 2),
        NamedBand("k", 2, 1),
    ]
    assert parse_channels(format_channels(bands)) == bands


@pytest.mark.parametrize("text", ["mag", "mag=", "=1:1", "mag=a", "mag=1:1,", "a/b=1", "mag=1:1:1"])
def test_other_texts_are_refused(text):
    with pytest.raises(QgsProcessingException, match="does not say which band is meant"):
        parse_channels(text)


def test_bands_are_named_by_their_layers(three_bands, qgis_app):
    single = QgsRasterLayer(str(resources_folder() / "sample/rasters/dist_fault.tif"), "a=b,c")
    names = [each.name for each in default_channels([single, three_bands])]
    assert names == ["a_b_c", "rad_K _ Th", "rad_2", "rad_3"]


def test_bands_that_are_not_there_and_names_given_twice_are_refused(three_bands):
    for text, said in (
        ("a=2:1", "'a' shall be raster number 2, but the list has 1"),
        ("a=1:4", "'rad' has no band 4; it has 3"),
        ("a=1:1, a=1:2", "Two layers have the name 'a'"),
    ):
        with pytest.raises(QgsProcessingException, match=said):
            check_channels(parse_channels(text), [three_bands])


def test_layers_are_matched_by_name_whatever_its_spelling():
    channels = [channel("Fault-density"), channel("greenstone"), channel("DIST FAULT")]
    assert match(LAYERS, channels) == {
        "dist_fault": channels[2],
        "dist_greenstone_signed": None,
        "fault_density": channels[0],
        "greenstone": channels[1],
    }


def test_the_same_letters_go_first_and_no_band_is_used_twice():
    channels = [channel("MAG"), channel("mag")]
    assert match(["mag", "Mag"], channels) == {"mag": channels[1], "Mag": channels[0]}
    assert match(["mag", "Mag"], channels[:1]) == {"mag": channels[0], "Mag": None}
    assert match(["Magnetit-Größe"], [channel("magnetit größe")])["Magnetit-Größe"]


def test_the_card_of_a_model_is_read():
    card = read_card(MODEL)
    assert layer_names(card) == LAYERS
    assert card["occurrences"]["counts"]["used"] > 0


def safetensors(path, header, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text)
    return path


@pytest.mark.parametrize(
    ("header", "length"),
    [
        ({"__metadata__": {"format": "pt"}}, None),
        ({"__metadata__": {"geocfm": "no json"}}, None),
        ({"__metadata__": {"geocfm": json.dumps({"layers": []})}}, None),
        ({"__metadata__": {"geocfm": json.dumps({"layers": [{"name": 1}]})}}, None),
        ({"__metadata__": {"geocfm": "[]"}}, None),
        ([], None),
        (b"\xff\xfe", None),
        (b"[" * 100_000, None),
        ({}, 2**62),
        ({}, 0),
    ],
)
def test_other_files_are_no_models(tmp_path, header, length):
    path = safetensors(tmp_path / "x.safetensors", header, length)
    with pytest.raises(CheckpointError, match="is no model of GeoCFM, or it is damaged"):
        read_card(path)


def test_missing_and_empty_files_are_no_models(tmp_path):
    with pytest.raises(CheckpointError, match="There is no model at"):
        read_card(tmp_path / "none.safetensors")
    (tmp_path / "empty.safetensors").write_bytes(b"")
    with pytest.raises(CheckpointError, match="is no model of GeoCFM"):
        read_card(tmp_path / "empty.safetensors")
