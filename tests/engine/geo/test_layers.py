import numpy as np
import pytest
import rasterio
from geocfm.errors import UserError
from geocfm.geo.layers import Layer, find_layers

ONE = np.ones((6, 8), dtype="float32")


def names(layers: list[Layer]) -> list[str]:
    return [layer.name for layer in layers]


def test_a_layer_is_named_by_its_file_or_by_its_user(make_raster, utm):
    path = make_raster("mag tmi.tif", ONE, utm, units=("nT",))
    assert find_layers([path]) == [Layer("mag tmi", path, 1, units="nT")]
    assert find_layers([f"tmi={path}"])[0].name == "tmi"
    assert find_layers([f"tmi={path}:1"]) == [Layer("tmi", path, 1, units="nT")]


def test_bands_become_layers(make_raster, utm):
    path = make_raster("rad.tif", np.stack([ONE] * 3), utm, descriptions=("K", "Th"))
    assert names(find_layers([path])) == ["rad_K", "rad_Th", "rad_3"]
    assert names(find_layers([f"r={path}"])) == ["r_K", "r_Th", "r_3"]
    assert find_layers([f"th={path}:2"]) == [Layer("th", path, 2)]
    assert find_layers([f"{path}:3"]) == [Layer("rad", path, 3)]


def test_alpha_is_a_mask_and_no_layer(make_raster, utm):
    bands = np.stack([ONE, ONE * 255]).astype("uint8")
    path = make_raster("photo.tif", bands, utm, photometric="minisblack", alpha="yes")
    assert find_layers([path]) == [Layer("photo", path, 1)]


def test_patterns_are_sorted_and_pass_over_sidecars(make_raster, utm, tmp_path):
    for name in ("b.tif", "a.tif", "c.tif"):
        make_raster(f"grids/{name}", ONE, utm)
    (tmp_path / "grids" / "a.tif.aux.xml").write_text("<PAMDataset/>")
    assert names(find_layers([str(tmp_path / "grids" / "*.tif*")])) == ["a", "b", "c"]
    assert names(find_layers([f"g={tmp_path}/grids/*.tif"])) == ["g_a", "g_b", "g_c"]


def test_paths_may_contain_the_signs_of_the_syntax(make_raster, utm, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_raster("k=2.tif", ONE, utm)
    make_raster("run:3", ONE, utm)
    make_raster("[old].tif", ONE, utm)
    assert find_layers(["k=2.tif"]) == [Layer("k=2", "k=2.tif", 1)]
    assert find_layers(["run:3"]) == [Layer("run:3", "run:3", 1)]
    assert find_layers(["x=run:3:1"]) == [Layer("x", "run:3", 1)]
    assert find_layers(["o=[old].tif"]) == [Layer("o", "[old].tif", 1)]


def test_a_drive_letter_is_no_band(tmp_path):
    with pytest.raises(UserError, match=r"The raster 'C:\\grids\\mag.tif' does not exist"):
        find_layers([r"mag=C:\grids\mag.tif:2"])


def test_gdal_dataset_names(make_raster, utm):
    path = make_raster("plain.tif", ONE, utm)
    assert find_layers([f"g=GTIFF_DIR:1:{path}"]) == [Layer("g", f"GTIFF_DIR:1:{path}", 1)]
    assert names(find_layers([f"/vsisubfile/0,{path}"])) == ["plain"]


def test_what_a_file_says_of_its_numbers(make_raster, utm):
    paths = [make_raster(f"{t}.tif", ONE.astype(t), utm) for t in ("uint8", "int32", "float32")]
    assert [layer.whole for layer in find_layers(paths)] == [True, True, False]
    with rasterio.open(paths[0], "r+") as raster:
        raster.write_colormap(1, {1: (10, 20, 30, 255)})
    assert [layer.coloured for layer in find_layers(paths)] == [True, False, False]


def test_classes(make_raster, utm):
    lithology, mag = make_raster("lith.tif", ONE, utm), make_raster("mag.tif", ONE, utm)
    assert [layer.categorical for layer in find_layers([lithology, mag], ["lith"])] == [True, False]
    with pytest.raises(UserError, match=r"no layer 'lit' .*Did you mean 'lith'"):
        find_layers([lithology, mag], ["lit"])


def test_mistakes_are_explained(make_raster, utm, tmp_path):
    path = make_raster("mag.tif", ONE, utm)
    table = tmp_path / "notes.csv"
    table.write_text("a,b\n1,2\n")
    empty, model = tmp_path / "empty.tif", tmp_path / "model.safetensors"
    empty.touch()
    model.write_bytes(b"weights")
    bandless = tmp_path / "bandless.vrt"
    bandless.write_text('<VRTDataset rasterXSize="3" rasterYSize="3"></VRTDataset>')
    for specs, words in [
        ([], "No raster is given"),
        ([path, path], "Two layers have the name 'mag'"),
        ([str(tmp_path / "gone.tif")], "does not exist"),
        ([f"m={tmp_path}/*.asc"], "No raster matches"),
        ([str(table)], "not a raster"),
        ([str(tmp_path)], "is a folder.*/\\*.tif"),
        ([str(empty)], "is empty"),
        ([str(model)], "is a model, not a raster.*--checkpoint"),
        ([str(bandless)], "not a raster"),
        ([make_raster("sar.tif", ONE.astype("complex64"), utm)], "complex numbers"),
        ([f"{path}:2"], "has no band 2"),
        ([f"{path}:0"], "has no band 0"),
    ]:
        with pytest.raises(UserError, match=words):
            find_layers(specs)
