"""Maps as pictures: what is drawn where."""

from io import BytesIO
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import rasterio
import shapely
from geocfm.data.split import TEST, TRAIN, Split
from geocfm.evaluation import map_pictures
from geocfm.evaluation.map_pictures import band_picture, plot_map
from geocfm.geo.grid import Grid
from matplotlib.figure import Figure
from rasterio.crs import CRS
from rasterio.transform import Affine

HEIGHT, WIDTH = 80, 60
GRID = Grid(CRS.from_epsg(20350), Affine(500, 0, 355_000, 0, -500, 7_100_000), HEIGHT, WIDTH)
TILES = Split(
    np.array([0, 40, 80]),
    np.array([0, 20, 40, 60]),
    np.array([[TEST, TEST, TRAIN], [TRAIN, TRAIN, TEST]]),
)


@pytest.fixture
def raster(tmp_path: Path) -> Path:
    """Band 1: 2 in the upper half and 0.0001 in the lower; band 2: 1 everywhere."""
    path = tmp_path / "map.tif"
    values = np.ones((2, HEIGHT, WIDTH), dtype=np.float32)
    values[0, : HEIGHT // 2], values[0, HEIGHT // 2 :] = 2, 1e-4
    profile = {"driver": "GTiff", "dtype": "float32", "count": 2, "nodata": np.nan}
    place = {"height": HEIGHT, "width": WIDTH, "crs": GRID.crs, "transform": GRID.transform}
    with rasterio.open(path, "w", **profile, **place) as target:
        target.write(values)
    return path


def test_an_edge_between_two_held_out_tiles_is_not_drawn() -> None:
    edges = set(map_pictures._outer_edges(TILES))
    assert ((20, 0), (20, 40)) not in edges
    assert ((0, 0), (20, 0)) in edges
    assert ((40, 0), (40, 40)) in edges  # beside a training tile
    assert len(edges) == 6 + 4


def test_ticks_are_as_far_apart_both_ways() -> None:
    axes = Figure().add_subplot()
    map_pictures._world_ticks(axes, GRID)
    x, y = ([float(label.get_text()) for label in axis.get_ticklabels()] for axis in _axes(axes))
    assert set(np.diff(x)) == set(np.diff(y)) == {10.0}
    assert x == [360, 370, 380]
    place = dict(zip(y, axes.get_yticks(), strict=True))
    assert place[7070] == pytest.approx(60)  # 30 km from the top, in cells of 500 m
    assert "EPSG:20350" in axes.get_xlabel()


def test_the_name_of_a_crs_is_no_formula() -> None:
    figure = Figure()
    axes = figure.add_subplot()
    named = CRS.from_wkt(
        'PROJCS["$_{ grid $",GEOGCS["own",DATUM["own",SPHEROID["own",6378000,298]],'
        'PRIMEM["Greenwich",0],UNIT["degree",0.0174532925199433]],'
        'PROJECTION["Transverse_Mercator"],PARAMETER["central_meridian",117],UNIT["metre",1]]'
    )
    map_pictures._world_ticks(axes, Grid(named, GRID.transform, HEIGHT, WIDTH))
    figure.canvas.draw()
    assert axes.xaxis.label._preprocess_math(axes.get_xlabel()) == ("x [km], $_{ grid $", False)


def _axes(axes):
    return axes.xaxis, axes.yaxis


def test_targets_are_outlined_on_the_map(raster: Path, tmp_path: Path) -> None:
    points = np.array([[5.0, 5.0], [30.0, 60.0]])
    square = shapely.box(10, 45, 50, 75)
    found = {}
    for name, targets in (("without", None), ("with", {1: square})):
        path = tmp_path / f"{name}.png"
        plot_map(path, raster, 0.5, GRID, points, TILES, "a map", "provenance", targets)
        found[name] = matplotlib.image.imread(path)
    assert _cyan(found["with"]) > 200  # pixels, of the outline
    assert _cyan(found["without"]) == 0


def _cyan(picture: np.ndarray) -> int:
    colour = np.array([0x00, 0xE5, 0xFF]) / 255
    return int((np.abs(picture[..., :3] - colour).max(axis=-1) < 0.02).sum())


@pytest.mark.parametrize("mean", [1.0, None], ids=["fading", "everywhere"])
def test_disagreement_fades_where_there_is_next_to_no_density(
    raster: Path, mean: float | None
) -> None:
    picture = matplotlib.image.imread(BytesIO(band_picture(raster, 2, GRID, "variation", mean)))
    middle = picture[:, int(picture.shape[1] * 0.35), :3]
    upper, lower = middle[int(len(middle) * 0.25)], middle[int(len(middle) * 0.7)]
    assert np.ptp(upper) > 0.1  # a colour
    if mean is None:
        assert lower == pytest.approx(upper)
    else:
        assert lower == pytest.approx([0.93] * 3, abs=0.01)  # the ground of the picture
