"""What the algorithms write: the parameter OUTPUT of each."""

from __future__ import annotations

from qgis.core import (
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterRasterDestination,
    QgsProcessingParameterVectorDestination,
)

from ..compat import SOURCE_POINT, SOURCE_POLYGON
from ..labels import label
from ..translation import tr
from .parameters import MODEL_FILTER, advanced, helped


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


def uncertainty_output():
    """Where the map's uncertainty is written, if it is."""
    return helped(
        QgsProcessingParameterRasterDestination(
            "UNCERTAINTY", label("uncertainty"), optional=True, createByDefault=False
        ),
        tr(
            "How the networks of a model disagree, if it has several, and where the layers lie "
            "outside what the model has seen."
        ),
    )


def monte_carlo_output():
    """Where the error that comes of the number of draws is written, if it is."""
    destination = QgsProcessingParameterRasterDestination(
        "MONTE_CARLO_ERROR", label("monte_carlo_error"), optional=True, createByDefault=False
    )
    return advanced(
        helped(
            destination,
            tr(
                "Only models of the paper's presets (paper-synthetic, paper-earthmri) are mapped "
                "by draws, and only such a map has this error: more draws would make it smaller. "
                "It says nothing of geology."
            ),
        )
    )


def targets_output():
    """Where the targets are written."""
    return QgsProcessingParameterVectorDestination("OUTPUT", tr("Targets"), SOURCE_POLYGON)


def points_output():
    """Where the sampled points are written."""
    return QgsProcessingParameterVectorDestination("OUTPUT", tr("Sampled points"), SOURCE_POINT)


def folder_output():
    """The folder for figures and pictures."""
    return QgsProcessingParameterFolderDestination("OUTPUT", tr("Evaluation folder"))
