"""The sample in the project: what is seen of it at first."""

from qgis.core import QgsMapRendererParallelJob, QgsMapSettings, QgsRasterLayer
from qgis.PyQt.QtCore import QSize
from qgis.PyQt.QtGui import QColor

from geocfm_qgis.jobs.raster_facts import bands

GREENSTONE = "#cfe3c4"


def nodes(project):
    return project.layerTreeRoot().findGroups()[0].findLayers()


def test_only_deposits_and_greenstone_are_ticked(sample_project):
    ticked = [node.name() for node in nodes(sample_project) if node.isVisible()]
    assert ticked == ["gold deposits", "greenstone"]


def test_legends_of_rasters_are_folded(sample_project):
    rasters = [node for node in nodes(sample_project) if isinstance(node.layer(), QgsRasterLayer)]
    assert len(rasters) == 4
    assert not any(node.isExpanded() for node in rasters)


def test_greenstone_is_pale_and_the_rest_is_left_as_it_is(sample_project):
    layer = sample_project.mapLayersByName("greenstone")[0]
    settings = QgsMapSettings()
    settings.setLayers([layer])
    settings.setDestinationCrs(layer.crs())
    settings.setExtent(layer.extent())
    settings.setBackgroundColor(QColor("#ffffff"))
    settings.setOutputSize(QSize(layer.width(), layer.height()))
    job = QgsMapRendererParallelJob(settings)
    job.start()
    job.waitForFinished()
    image = job.renderedImage()
    places = [(x, y) for x in range(0, layer.width(), 3) for y in range(0, layer.height(), 3)]
    drawn = [image.pixelColor(x, y).name() for x, y in places]
    assert set(drawn) == {"#ffffff", GREENSTONE}
    assert 0.05 < drawn.count(GREENSTONE) / len(drawn) < 0.15  # it is 9.2 % of the cells
    items = layer.renderer().shader().rasterShaderFunction().colorRampItemList()
    assert [item.label for item in items] == ["other rocks", "greenstone"]


def test_no_raster_is_taken_for_classes(sample_project):
    """The panel takes paletted ones for that, and would train another model than the tutorial's."""
    for node in nodes(sample_project):
        if isinstance(node.layer(), QgsRasterLayer):
            assert not any(band.has_codes for band in bands(node.layer()))
