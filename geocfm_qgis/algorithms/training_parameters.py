"""How a model is trained: inputs of 'Train model' and of the check of its data."""

from __future__ import annotations

from qgis.core import (
    QgsProcessingParameterBoolean,
    QgsProcessingParameterEnum,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)

from ..compat import REAL_NUMBER
from ..labels import label, label_with_unit
from ..translation import tr
from .parameters import advanced, helped, whole

PRESETS = ("auto", "quick", "full", "paper-synthetic", "paper-earthmri")
GROUNDS = AUTO, WINDOW, REGION = "auto", "window", "region"
LARGEST_WINDOW, LARGEST_SIDE = 4096, 1_000_000  # cells


def preset():
    """The kind of model."""
    return helped(
        QgsProcessingParameterEnum(
            "PRESET", label("preset"), PRESETS, defaultValue="auto", usesStaticStrings=True
        ),
        tr("auto is quick without a graphics card and full with one; the others are the paper's."),
    )


def minutes():
    """The time for training."""
    number = QgsProcessingParameterNumber(
        "MINUTES",
        label_with_unit("minutes", tr("minutes")),
        REAL_NUMBER,
        None,
        True,
        minValue=0.0,
        maxValue=100_000.0,
    )
    return helped(
        number, tr("Empty: as long as the preset says, 5 minutes for quick and 60 for full.")
    )


def ensemble():
    """How many networks a model consists of."""
    number = whole("ENSEMBLE", label_with_unit("ensemble", tr("number")), 1, 20, 3, optional=False)
    return helped(
        number,
        tr(
            "Each is trained from its own seed and its own choice of occurrences, and all share "
            "the minutes. How good a single one becomes is a matter of chance; where several "
            "disagree a map is uncertain."
        ),
    )


def folds():
    """How many groups of tiles take turns at being held out."""
    number = whole("FOLDS", label_with_unit("folds", tr("folds")), 2, 20)
    return advanced(
        helped(
            number,
            tr(
                "Each fold of tiles is mapped by a model that never saw it, which judges the "
                "method on the whole region; the last model learns from all tiles. Empty: no "
                "cross-validation."
            ),
        )
    )


def effort():
    """A raster of how much was looked where."""
    return advanced(
        helped(
            QgsProcessingParameterRasterLayer("EFFORT", label("effort"), optional=True),
            tr(
                "A raster of how much was looked where, such as the density of drill holes: "
                "occurrences count for 1 / effort, so that well-known ground does not seem the "
                "richer for it."
            ),
        )
    )


def ground():
    """The ground that counts as evenly searched."""
    return advanced(
        helped(
            QgsProcessingParameterEnum(
                "GROUND", label("ground"), GROUNDS, defaultValue=AUTO, usesStaticStrings=True
            ),
            tr(
                "The ground that counts as evenly searched. window: the surroundings of known "
                "occurrences; districts without any say nothing. region: all training tiles, so "
                "districts without any count as poor; not with the paper's presets. auto: the "
                "preset's choice."
            ),
        )
    )


def positive_only():
    """Whether nothing but the surroundings of known occurrences is learned from."""
    return advanced(
        helped(
            QgsProcessingParameterBoolean(
                "POSITIVE_ONLY", label("positive_only"), defaultValue=False
            ),
            tr(
                "Only the surroundings of known occurrences are learned from, so ground where "
                "nobody has looked does not count as poor: as for a greenfield beside a mining "
                "district. The searched ground is then window, and the comparison with all cells, "
                "from which training else starts, is left out."
            ),
        )
    )


def skip_report():
    """Whether a training writes no report."""
    return advanced(
        helped(
            QgsProcessingParameterBoolean("SKIP_REPORT", label("skip_report"), defaultValue=False),
            tr("Training ends without mapping the region and without a report."),
        )
    )


def iterations():
    """The number of training steps."""
    number = whole("ITERATIONS", label("iterations"), 1, 100_000_000)
    return advanced(
        helped(number, tr("Ends the training after so many steps; repeats to the last digit."))
    )


def window():
    """The size of the windows a model learns from."""
    number = whole("WINDOW", label_with_unit("window", tr("cells")), 16, LARGEST_WINDOW)
    return advanced(helped(number, tr("Empty: chosen from the data.")))


def tile():
    """The size of tiles that are held out."""
    number = whole("TILE", label_with_unit("tile", tr("cells")), 16, LARGEST_SIDE)
    return advanced(helped(number, tr("Empty: chosen from the data.")))


def settings():
    """Any other setting."""
    return advanced(
        helped(
            QgsProcessingParameterString("SETTINGS", label("settings"), optional=True),
            tr("Like network.width=32, training.batch=4."),
        )
    )
