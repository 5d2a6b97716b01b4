"""Inputs of 'Rank targets': the rasters, and what counts as a target."""

from __future__ import annotations

from qgis.core import (
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterFile,
    QgsProcessingParameterMultipleLayers,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterLayer,
)

from ..compat import REAL_NUMBER, SOURCE_POINT, SOURCE_POLYGON, SOURCE_RASTER
from ..labels import label, label_with_unit
from ..translation import tr
from .parameters import MODEL_FILTER, advanced, helped, whole

LARGEST = 1e9  # of an area in km2, and of a density
AREA_PERCENT = 5.0


def density_map():
    """The raster that targets are found on."""
    return helped(
        QgsProcessingParameterRasterLayer("MAP", label("map")),
        tr("A map that 'Prospectivity map' has made, or another raster of density."),
    )


def uncertainty():
    """A raster that is averaged in each target."""
    return helped(
        QgsProcessingParameterRasterLayer("UNCERTAINTY", label("uncertainty"), optional=True),
        tr("The uncertainty of that map; each target tells how uncertain it is."),
    )


def known_occurrences():
    """Occurrences that targets are compared with."""
    return helped(
        QgsProcessingParameterFeatureSource(
            "OCCURRENCES",
            label("occurrences"),
            [SOURCE_POINT, SOURCE_POLYGON],
            optional=True,
        ),
        tr("Known occurrences: each target tells how many it holds, and how far the nearest is."),
    )


def model():
    """The model that the map is of."""
    return advanced(
        helped(
            QgsProcessingParameterFile(
                "CHECKPOINT", label("checkpoint"), fileFilter=MODEL_FILTER, optional=True
            ),
            tr("The map's model: with it and its layers each target tells which layers matter."),
        )
    )


def rasters():
    """The layers of that model."""
    return advanced(
        helped(
            QgsProcessingParameterMultipleLayers(
                "RASTERS", label("raster"), SOURCE_RASTER, optional=True
            ),
            tr("The layers that the map was made from."),
        )
    )


def number():
    """How many targets there are at most."""
    count = whole("NUMBER", label("number"), 1, 100_000, 20, optional=False)
    return helped(count, tr("At most: the best so many are kept."))


def area_share():
    """The part of the map that targets are cut from."""
    return helped(
        _real("AREA_SHARE", label_with_unit("area_share", "%"), 0.001, 99.9, AREA_PERCENT),
        tr("Targets are the connected parts of the densest so many percent of the mapped area."),
    )


def exclude():
    """How far targets are from what is known."""
    return helped(
        _real("EXCLUDE", label_with_unit("exclude", "km"), 0.0, 20_000.0),
        tr(
            "Greenfield targets: ground within so many kilometres of a known occurrence is left "
            "out. Empty or 0: nothing is."
        ),
    )


def threshold():
    """The least density of a target."""
    return advanced(
        helped(
            _real("THRESHOLD", label_with_unit("threshold", "×"), 0.0, LARGEST),
            tr(
                "Targets are where the map is at least this, in multiples of the regional mean; "
                "outweighs the part of the area."
            ),
        )
    )


def minimum_area():
    """The least area of a target."""
    return advanced(
        helped(
            _real("MINIMUM_AREA", label_with_unit("minimum_area", "km²"), 0.0, LARGEST),
            tr("Smaller ones are left out. Empty: those of fewer than four cells."),
        )
    )


def smooth():
    """How much the map is smoothed before it is cut."""
    return advanced(
        helped(
            _real("SMOOTH", label_with_unit("smooth", tr("cells")), 0.0, 100.0),
            tr("The map is smoothed by so many cells before it is cut. Empty: 1; 0: not at all."),
        )
    )


def _real(name, title, least, most, default=None):
    return QgsProcessingParameterNumber(
        name, title, REAL_NUMBER, default, True, minValue=least, maxValue=most
    )
