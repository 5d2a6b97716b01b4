"""How a model's windows become a map: inputs for experts."""

from __future__ import annotations

from qgis.core import QgsProcessingParameterEnum, QgsProcessingParameterNumber

from ..compat import REAL_NUMBER
from ..labels import label
from ..translation import tr
from .parameters import advanced, helped

COMBINATIONS = ("average", "consistent", "head", "count")
DENSITIES = ("kde", "exact", "head")


def combine():
    """How windows compare."""
    return advanced(
        helped(
            _choice("COMBINE", label("combine"), COMBINATIONS),
            tr(
                "average: all windows alike; consistent: as their overlaps say; head: as the "
                "density head says, and overlaps; count: by the expected number of occurrences. "
                "Empty: what suits the model."
            ),
        )
    )


def density():
    """How the density in a window is found."""
    return advanced(
        helped(
            _choice("DENSITY", label("density"), DENSITIES),
            tr(
                "kde: from draws; exact: by integrating backwards, slow; head: by the density "
                "head, in one pass. Empty: what suits the model."
            ),
        )
    )


def temperature():
    """How pointed the map is."""
    number = QgsProcessingParameterNumber(
        "TEMPERATURE",
        label("temperature"),
        REAL_NUMBER,
        None,
        True,
        minValue=0.01,
        maxValue=10.0,
    )
    return advanced(
        helped(number, tr("An exponent of the density: below 1 the map is flatter. Empty: 1."))
    )


def _choice(name, title, options):
    return QgsProcessingParameterEnum(name, title, options, optional=True, usesStaticStrings=True)
