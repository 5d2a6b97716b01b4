"""Reading layers onto the grid: no-data of every kind, and values against a known field."""

from pathlib import Path

import numpy as np
import pytest
import rasterio
import rasterio.shutil
from geocfm.errors import UserError
from geocfm.geo.grid import Grid, Window, reproject_points
from geocfm.geo.rasters import Layer, Stack, find_layers, raster_grid, reference_grid
from rasterio.crs import CRS
from rasterio.transform import Affine
from scipy.ndimage import binary_erosion

UTM = CRS.from_epsg(32750)
LONLAT = CRS.from_epsg(4326)
RAMP = np.arange(48, dtype="float32").reshape(6, 8) + 1
NAN = np.nan

# the three ways of reading a 100 m raster: as it is, averaged to 200 m, interpolated to 50 m
AS_IS = Grid(UTM, Affine(100, 0, 500_000, 0, -100, 7_000_000), 6, 8)
COARSE = Grid(UTM, Affine(200, 0, 500_000, 0, -200, 7_000_000), 3, 4)
FINE = Grid(UTM, Affine(50, 0, 500_000, 0, -50, 7_000_000), 12, 16)


def read(path: str, grid: Grid, categorical: bool = False) -> np.ndarray:
    with Stack([Layer("layer", path, 1, categorical)], grid) as stack:
        return stack.read(grid.window())[0]


def with_hole(hole: float, dtype: str = "float32") -> np.ndarray:
    values = RAMP.astype(dtype)
    values[0, 0] = hole
    return values


def check_hole(path: str) -> None:
    """The cell (0, 0) is no data and spoils no other."""
    expected = with_hole(NAN)
    np.testing.assert_array_equal(read(path, AS_IS), expected)
    coarse = read(path, COARSE)
    assert coarse[0, 0] == pytest.approx((2 + 9 + 10) / 3)
    assert coarse[1, 1] == pytest.approx(RAMP[2:4, 2:4].mean())
    fine = read(path, FINE)
    assert np.isnan(fine[:2, :2]).all()
    assert np.isfinite(fine).sum() == fine.size - 4
    assert fine[5, 5] == pytest.approx(
        RAMP[2, 2] * 0.75**2 + RAMP[3, 3] * 0.25**2 + (RAMP[2, 3] + RAMP[3, 2]) * 0.75 * 0.25
    )


@pytest.mark.parametrize(
    ("dtype", "nodata"),
    [
        ("float32", -9999),
        ("float64", -1.7976931348623157e308),
        ("float32", -3.4028234663852886e38),
        ("int16", -9999),
        ("uint8", 0),
        ("int32", -2147483648),
        ("float32", NAN),
    ],
)
def test_declared_nodata(make_raster, dtype, nodata):
    check_hole(make_raster("a.tif", with_hole(nodata, dtype), AS_IS, nodata=nodata))


def test_nan_that_nobody_declared(make_raster):
    check_hole(make_raster("a.tif", with_hole(NAN), AS_IS))


def test_nan_beside_a_declared_number(make_raster):
    path = make_raster("a.tif", with_hole(NAN), AS_IS, nodata=-9999)
    check_hole(path)


@pytest.mark.parametrize("internal", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_mask_band(make_raster, tmp_path, internal, dtype):
    mask = np.full(RAMP.shape, 255, dtype="uint8")
    mask[0, 0] = 0
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=internal):
        path = make_raster("a.tif", RAMP.astype(dtype), AS_IS, mask=mask)
    assert (tmp_path / "a.tif.msk").exists() != internal
    check_hole(path)


def test_alpha_band(make_raster):
    alpha = np.full(RAMP.shape, 255, dtype="uint8")
    alpha[0, 0] = 0
    bands = np.stack([RAMP.astype("uint8"), alpha])
    check_hole(make_raster("a.tif", bands, AS_IS, photometric="minisblack", alpha="yes"))


def test_integers_without_nodata_are_all_valid(make_raster):
    values = with_hole(0, "int16")
    assert read(make_raster("a.tif", values, AS_IS), AS_IS)[0, 0] == 0


def test_bands_do_not_share_their_holes(make_raster):
    bands = np.stack([with_hole(-9999), RAMP])
    bands[1, 5, 5] = -9999
    path = make_raster("a.tif", bands, AS_IS, nodata=-9999)
    with Stack(find_layers([path]), AS_IS) as stack:
        first, second = np.isnan(stack.read(AS_IS.window()))
    assert first.sum() == second.sum() == 1
    assert first[0, 0]
    assert second[5, 5]


def test_infinity_is_left_to_the_caller(make_raster):
    values = read(make_raster("a.tif", with_hole(np.inf), AS_IS), AS_IS)
    assert values[0, 0] == np.inf


def test_beyond_the_grid_and_beyond_the_raster_is_no_data(make_raster):
    path = make_raster("a.tif", RAMP, AS_IS)
    larger = AS_IS.subgrid(Window(-2, -3, 12, 14))
    with Stack(find_layers([path]), larger) as stack:
        values = stack.read(Window(-1, -1, 20, 20))
        assert np.isnan(stack.read(Window(50, 0, 4, 4))).all()
        assert np.isnan(stack.read(Window(0, 0, 2, 3))).all()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values[0, 3:9, 4:12], RAMP)
    assert np.isfinite(values).sum() == RAMP.size
    with Stack(find_layers([path]), AS_IS.subgrid(Window(1, 1, 3, 3))) as stack:
        values = stack.read(Window(-1, -1, 6, 8))
    assert np.isfinite(values).sum() == 9  # the raster goes on, the grid does not


def test_classes_are_never_mixed(make_raster):
    classes = np.where(RAMP % 2 == 0, 1, 7).astype("uint8")
    path = make_raster("lith.tif", classes, AS_IS)
    for grid in (COARSE, FINE, FINE.subgrid(Window(1, 1, 7, 7))):
        assert set(np.unique(read(path, grid, categorical=True))) <= {1, 7}


# A smooth field of the world, wavelengths of about 30 km, defined in UTM metres.
def field(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 10 * np.sin((x - 5e5) / 5000) + 10 * np.cos((y - 7e6) / 4000) + (x - 5e5) / 1000


def sampled(grid: Grid) -> np.ndarray:
    rows, columns = np.mgrid[: grid.height, : grid.width] + 0.5
    world = grid.to_world(np.stack([columns.ravel(), rows.ravel()], axis=1))
    x, y = reproject_points(world, grid.crs, UTM).T
    return field(x, y).reshape(grid.height, grid.width).astype("float32")


def turned(cell: float, angle: float, height: int, width: int) -> Grid:
    place = Affine.translation(498_000, 7_003_000) @ Affine.rotation(angle)
    return Grid(UTM, place @ Affine.scale(cell, -cell), height, width)


def in_other_zone() -> Grid:
    zone = CRS.from_epsg(32751)
    (x, y), *_ = reproject_points(np.array([[506_000.0, 6_992_000.0]]), UTM, zone)
    return Grid(zone, Affine(250, 0, x - 15_000, 0, -250, y + 15_000), 120, 120)


SOURCES = {
    "fine_utm": Grid(UTM, Affine(60, 0, 495_013, 0, -60, 7_006_007), 500, 500),
    "coarse_degrees": Grid(LONLAT, Affine(0.004, 0, 116.9, 0, -0.004, -27.05), 80, 90),
    "fine_rotated": turned(70, 17, 400, 400),
    "other_zone": in_other_zone(),
}
GRIDS = {
    "utm": Grid(UTM, Affine(200, 0, 500_000, 0, -200, 7_000_000), 80, 60),
    "degrees": Grid(LONLAT, Affine(0.002, 0, 117.0, 0, -0.002, -27.13), 60, 80),
    "rotated": Grid(
        UTM,
        Affine.translation(503_000, 7_000_000) @ Affine.rotation(-30) @ Affine.scale(200, -200),
        50,
        60,
    ),
}
# The field's slope reaches 3 per km and its curvature 0.6 per km2: half a 200 m cell of
# misplacement would show as 0.3; averaging or interpolating over 400 m changes values by 0.03.
TOLERANCE = 0.04


@pytest.mark.parametrize("target", GRIDS)
def test_rasters_in_different_crs_agree_with_the_field(make_raster, target):
    grid = GRIDS[target]
    specs = [
        make_raster(f"{name}.tif", sampled(source), source) for name, source in SOURCES.items()
    ]
    expected = sampled(grid)
    with Stack(find_layers(specs), grid) as stack:
        values = stack.read(grid.window())
        ways = {alignment.layer.name: alignment.resampling for alignment in stack.alignments}
    assert ways == {
        "fine_utm": "average",
        "coarse_degrees": "bilinear",
        "fine_rotated": "average",
        "other_zone": "bilinear",
    }
    for name, layer in zip(SOURCES, values, strict=True):
        # cells at the rim of a raster are averages of the part that it covers
        inner = binary_erosion(np.isfinite(layer), np.ones((3, 3)))
        assert inner.mean() > 0.8, name
        assert np.abs(layer - expected)[inner].max() < TOLERANCE, name


@pytest.mark.parametrize("angle", [0, 30, 45, 90])
def test_averaging_uses_the_whole_cell_however_the_source_is_turned(make_raster, angle):
    source = turned(50, angle, 500, 500)
    noise = np.random.default_rng(0).normal(size=(500, 500)).astype("float32")
    middle = source.to_world([[250, 250]])[0]
    cells = Affine(500, 0, middle[0] - 5000, 0, -500, middle[1] + 5000)
    values = read(make_raster("noise.tif", noise, source), Grid(UTM, cells, 20, 20))
    # 100 source cells in each: a tenth of the spread; 45 degrees is 0.27 if left to GDAL
    assert values.std() == pytest.approx(0.1, rel=0.15)


def test_values_do_not_depend_on_the_window(make_raster):
    source, grid = SOURCES["other_zone"], GRIDS["degrees"]
    path = make_raster("a.tif", sampled(source), source)
    with Stack(find_layers([path]), grid) as stack:
        whole = stack.read(grid.window())
        part = stack.read(Window(21, 33, 16, 16))
    np.testing.assert_allclose(part, whole[:, 21:37, 33:49], atol=0.003)


def test_alignment_is_said_in_words(make_raster):
    a = make_raster("a.tif", RAMP, AS_IS)
    b = make_raster("b.tif", sampled(SOURCES["coarse_degrees"]), SOURCES["coarse_degrees"])
    with Stack(find_layers([a, b]), COARSE) as stack:
        first, second = stack.alignments
    assert first.sentence == "a: EPSG:32750, 100 m cells, averaged onto the grid"
    assert second.sentence == "b: EPSG:4326, 0.004 degree cells, interpolated onto the grid"
    assert second.source_cell == pytest.approx((0.004, 0.004))
    with Stack(find_layers([a]), AS_IS.subgrid(Window(2, 2, 9, 9))) as stack:
        assert stack.alignments[0].sentence.endswith("already on the grid")


def test_a_world_raster_meets_a_small_grid(make_raster):
    world = Grid(LONLAT, Affine(1, 0, -180, 0, -1, 90), 180, 360)
    longitude = np.broadcast_to(np.arange(360, dtype="float32") - 179.5, (180, 360))
    values = read(make_raster("world.tif", longitude, world), GRIDS["utm"])
    assert values[0, 0] == pytest.approx(117.0, abs=0.01)


def test_a_layer_elsewhere_is_named(make_raster):
    path = make_raster("far.tif", RAMP, AS_IS)
    elsewhere = AS_IS.subgrid(Window(100, 100, 10, 10))
    with pytest.raises(UserError, match=r"'far' \(.*far.tif\) does not overlap") as caught:
        Stack(find_layers([path]), elsewhere)
    assert AS_IS.place(UTM) in caught.value.message
    assert elsewhere.place(UTM) in caught.value.message


@pytest.mark.parametrize("resolution", [1e-9, 1e-4])
def test_cells_beyond_counting_are_refused(make_raster, resolution):
    layers = find_layers([make_raster("a.tif", RAMP, AS_IS)])
    with pytest.raises(UserError, match=r"The grid would have [0-9,]+ rows"):
        reference_grid(layers, resolution=resolution)


@pytest.mark.parametrize("resolution", [None, 350.0])
def test_a_raster_cut_off_in_its_data_is_named_when_it_is_read(make_raster, resolution):
    noise = np.random.default_rng(0).normal(size=RAMP.shape).astype(np.float32)
    path = make_raster("cut.tif", noise, AS_IS, compress="deflate")
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[: int(0.8 * len(whole))])
    layers = find_layers([path])
    grid = reference_grid(layers, resolution=resolution)
    with Stack(layers, grid) as stack, pytest.raises(UserError, match=r"cut.tif' cannot be read"):
        stack.read(grid.window())


def test_a_part_of_a_vrt_that_is_gone_is_named(tmp_path, make_raster):
    part = Path(make_raster("part.tif", RAMP, AS_IS))
    vrt = tmp_path / "whole.vrt"
    with rasterio.open(part) as source:
        rasterio.shutil.copy(source, vrt, driver="VRT")
    part.unlink()
    layers = find_layers([str(vrt)])
    with (
        Stack(layers, raster_grid(str(vrt))) as stack,
        pytest.raises(UserError, match=r"whole.vrt' cannot be read.*part.tif"),
    ):
        stack.read(Window(0, 0, 4, 4))


def test_rasters_without_a_place_are_refused(make_raster):
    with pytest.raises(UserError, match="no coordinate reference system"):
        raster_grid(make_raster("a.tif", RAMP, transform=AS_IS.transform))
    with pytest.raises(UserError, match="does not say where it lies"):
        raster_grid(make_raster("b.tif", RAMP, crs=UTM))


def test_reference_grid_is_the_first_raster_unless_told(make_raster):
    turn = turned(70, 17, 30, 40)
    layers = find_layers([make_raster("a.tif", sampled(turn), turn)])
    other = make_raster("b.tif", RAMP, AS_IS)
    assert reference_grid(layers).aligned_with(turn)
    assert reference_grid(layers, like=other).aligned_with(AS_IS)


def test_reference_grid_made_from_parts(make_raster):
    layers = find_layers([make_raster("a.tif", RAMP, AS_IS)])
    assert reference_grid(layers, resolution=200).aligned_with(COARSE)
    clipped = reference_grid(layers, extent=(500_150, 6_999_500, 500_400, 7_000_000))
    assert clipped.aligned_with(AS_IS.subgrid(Window(0, 1, 5, 3)))
    exact = reference_grid(layers, None, "EPSG:3857", 150, (0, 0, 1500, 3000))
    assert exact.transform == Affine(150, 0, 0, 0, -150, 3000)
    assert (exact.crs.to_epsg(), exact.height, exact.width) == (3857, 20, 10)
    moved = reference_grid(layers, crs="EPSG:4326")
    assert moved.cell_size[0] == pytest.approx(100 / 105_000, rel=0.1)  # between the two axes
    corners = reproject_points(AS_IS.outline(), UTM, LONLAT)
    pixel = moved.to_pixel(*corners.T)
    assert (pixel > -0.01).all()
    assert (pixel < np.array([moved.width, moved.height]) + 0.01).all()


def test_reference_grid_mistakes(make_raster):
    layers = find_layers([make_raster("a.tif", RAMP, AS_IS)])
    with pytest.raises(UserError, match="larger than the whole area"):
        reference_grid(layers, crs="EPSG:4326", resolution=500)
    with pytest.raises(UserError, match="not a length"):
        reference_grid(layers, resolution=-5)
    with pytest.raises(UserError, match="is empty"):
        reference_grid(layers, extent=(5, 5, 5, 9))
    with pytest.raises(UserError, match="not a coordinate reference system"):
        reference_grid(layers, crs="nonsense")


@pytest.mark.parametrize(
    ("dtype", "said", "declared"),
    [("float32", -9999, None), ("int16", -9999, 7), ("float64", 1e30, None), ("float32", NAN, 7)],
)
def test_a_value_that_the_user_calls_no_data(make_raster, dtype, said, declared):
    profile = {} if declared is None else {"nodata": declared}
    values = with_hole(said, dtype)
    if declared is not None:
        values[5, 7] = declared
    path = make_raster("a.tif", values, AS_IS, **profile)
    (layer,) = find_layers([f"mag={path}"], nodata=[f"mag={said!r}"])
    with Stack([layer], AS_IS) as stack:
        found = np.isnan(stack.read(AS_IS.window())[0])
    expected = values == declared
    expected[0, 0] = True
    np.testing.assert_array_equal(found, expected)


def test_a_crs_that_the_user_says(make_raster):
    path = make_raster("a.tif", RAMP, AS_IS)
    other = CRS.from_epsg(32751)
    (layer,) = find_layers([f"mag={path}"], crs=["mag=EPSG:32751"])
    grid = reference_grid([layer])
    assert grid.crs == other
    assert reference_grid([layer], like=path).crs == other  # the same file as reference
    assert raster_grid(path).crs == UTM
    with Stack([layer], grid) as stack:
        np.testing.assert_array_equal(stack.read(grid.window())[0], RAMP)


def test_a_crs_for_a_raster_without_one(make_raster, tmp_path):
    path = make_raster("a.tif", RAMP, AS_IS)
    bare = str(tmp_path / "bare.tif")
    with rasterio.open(path) as source:
        profile = {**source.profile, "crs": None}
        with rasterio.open(bare, "w", **profile) as copy:
            copy.write(source.read())
    with pytest.raises(UserError, match="--raster-crs"):
        reference_grid(find_layers([bare]))
    (layer,) = find_layers([bare], crs=["bare=EPSG:32750"])
    assert reference_grid([layer]) == AS_IS


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("crs", "mga=EPSG:32750", "Did you mean 'mag'"),
        ("crs", "EPSG:32750", "does not say of which layer"),
        ("crs", "mag=", "does not say of which layer"),
        ("crs", "mag=EPSG:nonsense", "is not a coordinate reference system"),
        ("nodata", "mag=none", "'none' is no number"),
        ("nodata", "-9999", "does not say of which layer"),
    ],
)
def test_what_is_said_of_a_layer_must_make_sense(make_raster, option, text, said):
    path = make_raster("mag.tif", RAMP, AS_IS)
    with pytest.raises(UserError, match=said):
        reference_grid(find_layers([path], **{option: [text]}))


def test_a_layer_is_not_described_twice(make_raster):
    path = make_raster("mag.tif", RAMP, AS_IS)
    with pytest.raises(UserError, match="twice"):
        find_layers([path], nodata=["mag=1", "mag=2"])
