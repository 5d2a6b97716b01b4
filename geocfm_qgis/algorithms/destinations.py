"""What the algorithms write: the parameter OUTPUT of each."""

from __future__ import annotations

from qgis.core import (
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterVectorDestination,
)

from ..compat import SOURCE_POINT
from ..translation import tr
from .parameters import MODEL_FILTER


def report_output():
    """Where the report is written."""
    return QgsProcessingParameterFileDestination(
        "OUTPUT", tr("Report"), "HTML (*.html)", optional=True, createByDefault=True
    )


def model_output():
    """Where the model is written."""
    return QgsProcessingParameterFileDestination("OUTPUT", tr("Model"), MODEL_FILTER)


def map_output():
    """Where the map is written."""
    return QgsProcessingParameterRasterDestination("OUTPUT", tr("Prospectivity"))


def points_output():
    """Where the sampled points are written."""
    return QgsProcessingParameterVectorDestination("OUTPUT", tr("Sampled points"), SOURCE_POINT)


def folder_output():
    """The folder for figures and pictures."""
    return QgsProcessingParameterFolderDestination("OUTPUT", tr("Evaluation folder"))
