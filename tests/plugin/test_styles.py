"""How results look: colours laid over their own values, and readable legends."""

import math
import os
import random
import time
from itertools import pairwise

import pytest
from osgeo import gdal
from qgis.core import (
    Qgis,
    QgsLayerTreeModel,
    QgsMapRendererParallelJob,
    QgsMapSettings,
    QgsProject,
    QgsRasterLayer,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor
from small_results import NO_DATA, write_map, write_points, write_samples

from geocfm_qgis.results import save_style_beside, style_result
from geocfm_qgis.results.percentiles import MOST_CELLS, sorted_values
from geocfm_qgis.results.prospectivity_style import AREA_ABOVE, MEAN, readable

WIDTH = 200


@pytest.fixture(scope="module")
def tailed():
    """Values with a mean of 1 and a long upper tail, as relative densities are."""
    source = random.Random(1)
    values = [math.exp(source.gauss(0, 1.5)) for _ in range(WIDTH * 100)]
    mean = sum(values) / len(values)
    return [value / mean for value in values]


def stops(layer):
    return layer.renderer().shader().rasterShaderFunction().colorRampItemList()


def _light(colour):
    return 0.2126 * colour.redF() + 0.7152 * colour.greenF() + 0.0722 * colour.blueF()


def map_layer(path, values, width=WIDTH):
    layer = QgsRasterLayer(write_map(path, values, width), "map")
    assert layer.isValid()
    return layer


def picture(layer, background="#808080", pixels=200):
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(layer.crs())
    settings.setExtent(layer.extent())
    settings.setBackgroundColor(QColor(background))
    settings.setOutputSize(QSize(pixels, pixels))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    return job.renderedImage()


def legend(layer):
    QgsProject.instance().addMapLayer(layer)
    root = QgsProject.instance().layerTreeRoot()
    model = QgsLayerTreeModel(root)
    return [node.data(0) for node in model.layerLegendNodes(root.findLayer(layer.id()))]


def test_each_stop_has_its_share_of_the_area_above_it(tmp_path, tailed):
    layer = map_layer(tmp_path / "map.tif", tailed)
    assert style_result(layer, "prospectivity")
    clear, *seen = stops(layer)
    assert clear.value == MEAN  # a third of the area is above less than that
    for stop, percent in zip(seen, AREA_ABOVE[1:], strict=True):
        above = sum(value >= stop.value for value in tailed) / len(tailed)
        assert 100 * above == pytest.approx(percent, abs=0.02)


def test_low_ground_is_transparent_and_opacity_rises(tmp_path, tailed):
    layer = map_layer(tmp_path / "map.tif", tailed)
    style_result(layer, "prospectivity")
    alphas = [stop.color.alpha() for stop in stops(layer)]
    assert alphas[0] == 0
    assert alphas[-1] == 255
    assert alphas == sorted(alphas)


def test_the_opaque_part_of_the_ramp_rises_in_lightness(tmp_path, tailed):
    """What makes it readable without seeing hues."""
    layer = map_layer(tmp_path / "map.tif", tailed)
    style_result(layer, "prospectivity")
    seen = [stop.color for stop in stops(layer) if stop.color.alpha() > 0]
    lightness = [_light(colour) for colour in seen]
    assert lightness == sorted(lightness)
    assert lightness[-1] - lightness[0] > 0.6


def test_the_base_map_shows_through_and_the_best_ground_does_not(tmp_path):
    values = [0.1] * WIDTH * 100 + [20.0 + x for x in range(WIDTH)] * 2 + [0.5] * WIDTH * 98
    layer = map_layer(tmp_path / "map.tif", values)
    style_result(layer, "prospectivity")
    image = picture(layer)
    assert image.pixelColor(100, 10).name() == "#808080"
    best = image.pixelColor(198, 100)
    assert best.red() > 200
    assert best.blue() < 120


def test_the_legend_says_what_the_numbers_are(tmp_path, tailed, qgis_new_project):
    layer = map_layer(tmp_path / "map.tif", tailed)
    style_result(layer, "prospectivity")
    texts = legend(layer)
    assert "relative density" in texts[0]
    assert texts[1].startswith("up to ")
    assert texts[-1].startswith("≥ ")
    assert texts[-1].endswith("(top 0.5 % of the area)")
    assert all(len(text) < 40 for text in texts)


@pytest.mark.parametrize("value", [0.0, 1.0, 7.25])
def test_a_constant_map_is_seen(tmp_path, value, qgis_new_project):
    layer = map_layer(tmp_path / "map.tif", [value] * 400, 20)
    assert style_result(layer, "prospectivity")
    assert picture(layer).pixelColor(100, 100).name() != "#808080"
    assert legend(layer)[1] == f"{readable(value)} everywhere"


def test_a_map_without_values_is_styled_and_shows_nothing(tmp_path):
    layer = map_layer(tmp_path / "map.tif", [NO_DATA] * 400, 20)
    assert style_result(layer, "prospectivity")
    assert picture(layer).pixelColor(100, 100).name() == "#808080"


def test_a_single_cell_is_enough(tmp_path):
    layer = map_layer(tmp_path / "map.tif", [3.0], 1)
    assert style_result(layer, "prospectivity")


def test_no_data_does_not_count(tmp_path):
    layer = map_layer(tmp_path / "map.tif", [NO_DATA] * 300 + [float(x) for x in range(100)], 20)
    style_result(layer, "prospectivity")
    assert stops(layer)[0].value == 70


def test_a_few_cells_that_differ_stand_out(tmp_path):
    layer = map_layer(tmp_path / "map.tif", [0.0] * 39_999 + [900.0], WIDTH)
    style_result(layer, "prospectivity")
    first, last = stops(layer)[0], stops(layer)[-1]
    assert (first.value, first.color.alpha()) == (MEAN, 0)
    assert (last.value, last.color.alpha()) == (900, 255)


@pytest.mark.parametrize("power", [1.5, 2, 3, 4])
def test_of_a_peaked_map_only_ground_above_the_mean_is_coloured(tmp_path, tailed, power):
    """Nearly all density on a few percent of the area: the next best is still next to nothing."""
    powers = [value**power for value in tailed]
    mean = sum(powers) / len(powers)
    values = [value / mean for value in powers]
    layer = map_layer(tmp_path / "map.tif", values)
    style_result(layer, "prospectivity")
    clear, *seen = stops(layer)
    assert clear.color.alpha() == 0
    assert clear.value == MEAN
    assert clear.label == "up to 1 (transparent)"
    shares = [share for share in AREA_ABOVE if stop_at(values, share) > MEAN]
    assert 1 <= len(shares) < len(AREA_ABOVE) - 1
    assert [stop.label.partition("(top ")[2] for stop in seen] == [
        f"{share} % of the area)" for share in shares
    ]
    assert all(stop.value > MEAN for stop in seen)


def stop_at(values, percent):
    return sorted(values)[int(len(values) * (1 - percent / 100))]


@pytest.mark.parametrize("count", range(2, len(AREA_ABOVE)))
def test_fewer_stops_use_the_whole_ramp(tmp_path, count):
    """From a quiet colour to the brightest, each lighter than the one before."""
    shares = [100, *AREA_ABOVE[-count:], 0]
    values = []
    for number, (above, next_above) in enumerate(pairwise(shares)):
        values += [5.0 * number] * round(200 * (above - next_above))
    layer = map_layer(tmp_path / "map.tif", values, 100)
    style_result(layer, "prospectivity")
    clear, *seen = stops(layer)
    assert (clear.value, clear.color.alpha()) == (MEAN, 0)
    assert [stop.value for stop in seen] == [5.0 * number for number in range(1, count + 1)]
    lights = [_light(stop.color) for stop in seen]
    assert lights == sorted(set(lights))
    assert seen[0].color.red() < 160  # no red or orange yet
    assert seen[0].color.alpha() <= 150
    assert (seen[-1].color.name(), seen[-1].color.alpha()) == ("#f6e04b", 255)


def test_poor_ground_stays_clear_where_hardly_any_is_better(tmp_path):
    """Not even half a percent is above the mean: what is poorer gets no colour for that."""
    values = [0.36] * 8000 + [0.2] * 31_900 + [160.0] * 100
    layer = map_layer(tmp_path / "map.tif", values, WIDTH)
    style_result(layer, "prospectivity")
    assert [stop.value for stop in stops(layer)] == [MEAN, 160]
    assert picture(layer).pixelColor(100, 10).name() == "#808080"


def test_a_map_that_lies_below_the_mean_keeps_its_colours(tmp_path):
    """A part that was cut out of a map: with nothing above the mean it would be empty."""
    layer = map_layer(tmp_path / "map.tif", [x / 500 for x in range(400)], 20)
    style_result(layer, "prospectivity")
    assert stops(layer)[0].value == pytest.approx(0.56)
    assert len(stops(layer)) == len(AREA_ABOVE)


def test_equal_percentiles_become_one_stop(tmp_path):
    """Half of the best ground is capped at one value: stops must rise all the same."""
    values = [0.0] * 380 + [1.0, 2.0] + [5.0] * 18
    layer = map_layer(tmp_path / "map.tif", values, 20)
    style_result(layer, "prospectivity")
    found = [stop.value for stop in stops(layer)]
    assert found == sorted(set(found))
    assert stops(layer)[0].color.alpha() == 0
    assert stops(layer)[-1].color.alpha() == 255
    assert picture(layer).pixelColor(195, 195).red() > 200


def test_huge_maps_are_read_through_their_overviews(tmp_path, tailed):
    """20,000 x 20,000 cells; blocks that were never written take no disk."""
    path = str(tmp_path / "huge.tif")
    options = ["TILED=YES", "SPARSE_OK=TRUE", "COMPRESS=DEFLATE"]
    driver = gdal.GetDriverByName("GTiff")
    huge = driver.Create(path, 20000, 20000, 1, gdal.GDT_Float32, options)
    huge.SetGeoTransform((500000, 10, 0, 7000000, 0, -10))
    huge.GetRasterBand(1).SetNoDataValue(NO_DATA)
    del huge
    write_map(f"{path}.ovr", (tailed * 20)[: 625 * 625], 625)  # an overview of every 32nd cell
    layer = QgsRasterLayer(path, "huge")
    started = time.monotonic()
    assert style_result(layer, "prospectivity")
    assert time.monotonic() - started < 1
    assert len(sorted_values(layer)) <= MOST_CELLS
    best = sorted(tailed)[int(0.995 * len(tailed))]
    assert stops(layer)[-1].value == pytest.approx(best, rel=0.1)


def test_a_map_is_resampled_by_its_values(tmp_path, tailed):
    layer = map_layer(tmp_path / "map.tif", tailed)
    style_result(layer, "prospectivity")
    assert layer.resamplingStage() == Qgis.RasterResamplingStage.Provider
    assert layer.dataProvider().isProviderResamplingEnabled()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12.03, "12"),
        (2.9565, "3"),
        (0.7178, "0.72"),
        (0.0051, "0.0051"),
        (1234.5, "1,235"),
    ],
)
def test_numbers_have_two_digits_that_count(value, text):
    assert readable(value) == text


def test_samples_are_coloured_by_log_density_densest_on_top(tmp_path, qgis_new_project):
    rows = [(500000 + 1000 * n, 7000000, 1, math.log(m)) for n, m in enumerate((0.5, 3, 40))]
    layer = QgsVectorLayer(write_points(tmp_path / "s.gpkg", rows), "samples")
    assert style_result(layer, "samples")
    renderer = layer.renderer()
    assert renderer.classAttribute() == "log_relative_density"
    assert renderer.orderByEnabled()
    classes = [renderer.rangeForValue(math.log(m)).label() for m in (0.01, 0.5, 1.5, 3, 40, 1e6)]
    assert classes == [
        "below the mean density",
        "below the mean density",
        "1 to 2 × mean density",
        "2 to 4 × mean density",
        "more than 16 × mean density",
        "more than 16 × mean density",
    ]
    colours = {each.symbol().color().name() for each in renderer.ranges()}
    assert len(colours) == len(renderer.ranges())
    assert legend(layer)[1] == "1 to 2 × mean density"


def test_occurrences_are_hollow(tmp_path):
    rows = [(500000, 7000000), (510000, 7010000)]
    layer = QgsVectorLayer(write_points(tmp_path / "o.gpkg", rows, fields=()), "occurrences")
    assert style_result(layer, "occurrences")
    assert all(part.fillColor().alpha() == 0 for part in layer.renderer().symbol().symbolLayers())


def test_points_leave_the_map_to_be_seen(tmp_path):
    """Millimetres: hundreds of points of a draw lie among the targets."""
    known = QgsVectorLayer(write_points(tmp_path / "o.gpkg", [(500000, 7000000)], fields=()), "o")
    style_result(known, "occurrences")
    assert all(_breadth(part) <= 2.2 for part in known.renderer().symbol().symbolLayers())
    drawn = QgsVectorLayer(write_samples(tmp_path / "s.gpkg"), "samples")
    style_result(drawn, "samples")
    ranges = drawn.renderer().ranges()  # which own their symbols
    symbols = [each.symbol() for each in ranges]
    assert all(_breadth(part) <= 1.6 for symbol in symbols for part in symbol.symbolLayers())
    sizes = [symbol.symbolLayer(1).size() for symbol in symbols]
    assert sizes == sorted(set(sizes))  # the denser the larger


def _breadth(part):
    return part.size() + part.strokeWidth()


def test_a_style_that_does_not_fit_is_refused(tmp_path):
    layer = QgsVectorLayer(write_samples(tmp_path / "s.gpkg"), "samples")
    assert not style_result(layer, "prospectivity")


def test_the_style_travels_with_the_file(tmp_path, tailed):
    """A layer opened later, by hand, looks the same."""
    path = write_map(tmp_path / "map.tif", tailed, WIDTH)
    assert save_style_beside(path, "prospectivity")
    opened = QgsRasterLayer(path, "opened by hand")
    assert [stop.label for stop in stops(opened)][-1].startswith("≥ ")
    samples = write_samples(tmp_path / "samples.gpkg")
    assert save_style_beside(samples, "samples")
    opened = QgsVectorLayer(samples, "opened by hand")
    assert opened.renderer().type() == "graduatedSymbol"
    assert opened.renderer().ranges()[0].label() == "below the mean density"


def test_a_style_of_another_file_is_never_touched(tmp_path, tailed):
    """gold.shp has a gold.qml of its own when gold.tif comes."""
    foreign = tmp_path / "gold.qml"
    foreign.write_text("<qgis>mine</qgis>", encoding="utf-8")
    path = write_map(tmp_path / "gold.tif", tailed, WIDTH)
    assert not save_style_beside(path, "prospectivity")
    assert foreign.read_text(encoding="utf-8") == "<qgis>mine</qgis>"
    samples = write_samples(tmp_path / "twin.gpkg")
    assert save_style_beside(samples, "samples")
    before = (tmp_path / "twin.qml").read_bytes()
    assert not save_style_beside(write_map(tmp_path / "twin.tif", tailed, WIDTH), "prospectivity")
    assert (tmp_path / "twin.qml").read_bytes() == before


def test_a_style_that_the_user_changed_stays_until_its_result_is_replaced(tmp_path, tailed):
    path = write_map(tmp_path / "map.tif", tailed, WIDTH)
    save_style_beside(path, "prospectivity")
    layer = QgsRasterLayer(path, "map")
    layer.renderer().setOpacity(0.25)
    layer.saveDefaultStyle()
    os.utime(path)  # QGIS changes the time of a GeoPackage by looking at it
    assert save_style_beside(path, "prospectivity")
    assert QgsRasterLayer(path, "again").renderer().opacity() == 0.25
    write_map(tmp_path / "map.tif", [10 * value for value in tailed], WIDTH, seed=2)
    assert save_style_beside(path, "prospectivity")
    replaced = QgsRasterLayer(path, "again")
    assert replaced.renderer().opacity() == 1
    assert stops(replaced)[-1].value > 50


def test_what_cannot_be_opened_or_written_is_only_told(tmp_path):
    broken = tmp_path / "broken.tif"
    broken.write_bytes(b"not a raster")
    assert save_style_beside(str(broken), "prospectivity") is False
    assert not (tmp_path / "broken.qml").exists()
