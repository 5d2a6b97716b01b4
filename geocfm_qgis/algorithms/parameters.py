"""Inputs that several algorithms share, so that names and texts are the same in all.

Those of one subject are in training_ and target_parameters.py.
"""

from __future__ import annotations

from qgis.core import (
    QgsProcessingParameterBoolean,
    QgsProcessingParameterCrs,
    QgsProcessingParameterEnum,
    QgsProcessingParameterExtent,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterFile,
    QgsProcessingParameterMultipleLayers,
    QgsProcessingParameterNumber,
    QgsProcessingParameterRasterLayer,
    QgsProcessingParameterString,
)

from ..compat import (
    ADVANCED,
    REAL_NUMBER,
    SOURCE_POINT,
    SOURCE_POLYGON,
    SOURCE_RASTER,
    WHOLE_NUMBER,
)
from ..labels import label
from ..translation import tr

BASELINES = {  # names in job files, and what the methods are called in figures and sentences
    "uniform": "Uniform",
    "global-kde": "Global KDE",
    "poisson-lr": "Poisson-LR",
    "rf": "Random Forest",
    "rf-paper": "Random Forest (paper)",
    "gbdt": "GBDT",
    "gbdt-paper": "GBDT (paper)",
    "unet-seg": "UNet-Seg",
    "ocsvm": "OCSVM",
    "retrieval-kde": "Retrieval-KDE",
    "unet-density": "UNet density",
    "ipp": "Poisson process",
}
USUAL_BASELINES = ("rf", "ipp")  # of a report for which nobody chose any
SOLVERS = ("euler", "midpoint", "heun")
LARGEST_WHOLE = 2_147_483_647  # of a number of Processing
MODEL_FILTER = "GeoCFM model (*.safetensors)"


def advanced(parameter):
    """Give the parameter as one for experts."""
    parameter.setFlags(parameter.flags() | ADVANCED)
    return parameter


def helped(parameter, text):
    """Give the parameter with a sentence of help."""
    parameter.setHelp(text)
    return parameter


def whole(name, label, least, most, default=None, optional=True):
    """Give the parameter of a whole number."""
    return QgsProcessingParameterNumber(
        name, label, WHOLE_NUMBER, default, optional, minValue=least, maxValue=most
    )


def rasters():
    """Rasters to learn from, or to apply a model to."""
    return helped(
        QgsProcessingParameterMultipleLayers("RASTERS", label("raster"), SOURCE_RASTER),
        tr(
            "Rasters of any size, cell size and coordinate system; they are brought onto one grid. "
            "A model knows its layers by their names."
        ),
    )


def channels():
    """Which bands are used, and how they are called."""
    text = QgsProcessingParameterString("CHANNELS", tr("Bands and their names"), optional=True)
    return advanced(
        helped(
            text,
            tr(
                "Like mag=1:1, k=3:2 for band 1 of the first raster as 'mag' and band 2 of the "
                "third as 'k'. Empty: all bands of all rasters, named by their layers."
            ),
        )
    )


def classes():
    """Layers that hold codes of classes."""
    return helped(
        QgsProcessingParameterString("CLASSES", label("classes"), optional=True),
        tr("Names of layers whose numbers are codes, such as rock units, separated by commas."),
    )


def reference():
    """The raster whose grid is used."""
    return helped(
        QgsProcessingParameterRasterLayer("REFERENCE", label("like"), optional=True),
        tr("A raster whose cells are used. Empty: those of the first raster, or of the model."),
    )


def extent():
    """A rectangle to stay in."""
    return helped(
        QgsProcessingParameterExtent("EXTENT", label("extent"), optional=True),
        tr("Only inside this rectangle."),
    )


def area():
    """Polygons to stay in."""
    return helped(
        QgsProcessingParameterFeatureSource("AREA", label("aoi"), [SOURCE_POLYGON], optional=True),
        tr("Only inside these polygons; with an extent, only inside both."),
    )


def resolution():
    """The cell size of the grid."""
    number = QgsProcessingParameterNumber(
        "RESOLUTION", label("resolution"), REAL_NUMBER, None, True, minValue=0.0
    )
    return advanced(helped(number, tr("In the unit of the grid's coordinate system.")))


def crs():
    """The CRS of the grid."""
    return advanced(
        helped(
            QgsProcessingParameterCrs("CRS", label("crs"), optional=True),
            tr("Empty: that of the reference grid."),
        )
    )


def occurrences():
    """Known occurrences."""
    return helped(
        QgsProcessingParameterFeatureSource(
            "OCCURRENCES", label("occurrences"), [SOURCE_POINT, SOURCE_POLYGON]
        ),
        tr("Points of known deposits or showings. Polygons count by their centres."),
    )


def where():
    """A filter of occurrences."""
    return helped(
        QgsProcessingParameterString("WHERE", label("where"), multiLine=True, optional=True),
        tr(
            "Like commod1|commod2 ~ gold, copper: any of the fields holds one of the words. Also "
            "=, !=, <, >, <= and >=. Each line is a condition, and all must hold."
        ),
    )


def deduplicate():
    """One occurrence per cell."""
    return helped(
        QgsProcessingParameterBoolean("DEDUPLICATE", label("deduplicate"), defaultValue=False),
        tr("Of several occurrences in one cell of the grid only the first is kept."),
    )


def seed():
    """The seed of all that is random."""
    number = whole("SEED", label("seed"), 0, LARGEST_WHOLE, default=1, optional=False)
    return advanced(helped(number, tr("The same seed gives the same result.")))


def device():
    """The device that computes."""
    return advanced(
        helped(
            QgsProcessingParameterString("DEVICE", label("device"), optional=True),
            tr("auto, cpu, cuda, cuda:1 or mps. Empty: as set in QGIS's options."),
        )
    )


def checkpoint():
    """A trained model."""
    return helped(
        QgsProcessingParameterFile("CHECKPOINT", label("checkpoint"), fileFilter=MODEL_FILTER),
        tr("A .safetensors file that 'Train model' has written."),
    )


def points():
    """How many points a draw has."""
    number = whole("POINTS", label("points"), 1, 1_000_000)
    return helped(number, tr("Empty: as many as the model's own settings say."))


def draws():
    """How many draws are made."""
    number = whole("DRAWS", label("draws"), 1, 10_000, default=4, optional=False)
    return helped(number, tr("Each is a set of points that together follow the density."))


def solver():
    """How noise becomes points."""
    return advanced(
        helped(
            QgsProcessingParameterEnum(
                "SOLVER", label("solver"), SOLVERS, optional=True, usesStaticStrings=True
            ),
            tr("Empty: the model's own."),
        )
    )


def steps():
    """Steps of the solver."""
    number = whole("STEPS", label("steps"), 1, 1000)
    return advanced(helped(number, tr("Empty: the model's own.")))


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


def baselines():
    """Other methods that a model is compared with."""
    return advanced(
        helped(
            QgsProcessingParameterEnum(
                "BASELINES",
                label("baselines"),
                list(BASELINES.values()),
                allowMultiple=True,
                defaultValue=[list(BASELINES).index(name) for name in USUAL_BASELINES],
                optional=True,
            ),
            tr(
                "Each learns from the model's own training tiles and is measured beside it. The "
                "two UNets take as long as the model's training did, the others seconds to "
                "minutes. Random Forest and Poisson process alone are left out where the region "
                "is too large for them. None: the report is of the model alone."
            ),
        )
    )


def skip_importance():
    """Whether layers are not put to the test."""
    return advanced(
        helped(
            QgsProcessingParameterBoolean(
                "SKIP_IMPORTANCE", label("skip_importance"), defaultValue=False
            ),
            tr("Which layers matter is not measured, which saves time."),
        )
    )


def overwrite(default=True):
    """Whether results may be replaced; for a file just chosen QGIS has asked that already."""
    return helped(
        QgsProcessingParameterBoolean("OVERWRITE", label("overwrite"), defaultValue=default),
        tr("If not, a result that is there stays as it is."),
    )


def job_file():
    """A file of jobs."""
    return helped(
        QgsProcessingParameterFile(
            "JOB_FILE", tr("Job file"), fileFilter="GeoCFM jobs (*.toml *.json)"
        ),
        tr("Jobs in the order they are done, as the panel and 'geocfm job' write them."),
    )
