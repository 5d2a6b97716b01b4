"""What a run can make of a model. A new product is one more entry here; the panel follows."""

from __future__ import annotations

from dataclasses import dataclass

from ..translation import tr

PROSPECTIVITY, UNCERTAINTY, TARGETS = "prospectivity", "uncertainty", "targets"
EVALUATION = "evaluation"
WITH_NEW_MODEL, WITH_LOADED_MODEL = "new", "loaded"


@dataclass(frozen=True)
class Option:
    """A number that the user may choose for a product."""

    key: str
    label: str
    parameter: str  # of the algorithm
    default: float
    least: float
    most: float
    decimals: int = 0  # 0: a whole number
    unit: str = ""
    nothing: str = ""  # what the least value is called where it means nothing
    tip: str = ""


@dataclass(frozen=True)
class Product:
    """A file or folder that an algorithm makes from a model, or from another product."""

    key: str
    title: str
    explanation: str
    summary: str  # within the line on the whole run; {region} and options are filled in
    algorithm: str
    file_name: str  # without the suffix
    suffix: str  # empty: a folder
    options: tuple[Option, ...] = ()
    needs_occurrences: bool = False
    knows_occurrences: bool = False  # it tells more where there are some
    takes_area: bool = True
    needs: str = ""  # the key of the product that it is made from, or along with
    part_of: bool = False  # along with it: its file is a parameter of that product's algorithm
    default_for: tuple[str, ...] = (WITH_NEW_MODEL, WITH_LOADED_MODEL)


def all_products():
    """Give the products in the order they are offered and made."""
    return (
        Product(
            key=PROSPECTIVITY,
            title=tr("Prospectivity raster"),
            explanation=tr(
                "How dense occurrences are expected to be, relative to the regional mean."
            ),
            summary=tr("map {region}"),
            algorithm="map",
            file_name="prospectivity",
            suffix=".tif",
        ),
        Product(
            key=UNCERTAINTY,
            title=tr("Uncertainty"),
            explanation=tr(
                "Where the model's networks disagree (choose 3 or more in the Model step), and "
                "where the layers lie outside what it has seen."
            ),
            summary=tr("tell how uncertain it is"),
            algorithm="map",
            file_name="uncertainty",
            suffix=".tif",
            needs=PROSPECTIVITY,
            part_of=True,
            default_for=(WITH_NEW_MODEL,),  # has several networks, unless the user says otherwise
        ),
        Product(
            key=TARGETS,
            title=tr("Targets"),
            explanation=tr(
                "The best ground as ranked polygons, each with what speaks for it and against it."
            ),
            summary=tr("rank up to {number} targets"),
            algorithm="targets",
            file_name="targets",
            suffix=".gpkg",
            options=_target_options(),
            knows_occurrences=True,
            takes_area=False,
            needs=PROSPECTIVITY,
        ),
        Product(
            key="samples",
            title=tr("Sampled points"),
            explanation=tr("Points drawn from the model, which together follow the density."),
            summary=tr("draw {draws} x {points} points"),
            algorithm="sample",
            file_name="samples",
            suffix=".gpkg",
            options=(
                Option("draws", tr("Draws"), "DRAWS", 4, 1, 10_000),
                Option("points", tr("Points in each"), "POINTS", 500, 1, 1_000_000),
            ),
        ),
        Product(
            key=EVALUATION,
            title=tr("Evaluation"),
            explanation=tr(
                "How many known occurrences the best ground holds, on tiles kept apart, and which "
                "layers matter: with a report to read."
            ),
            summary=tr("evaluate the model"),
            algorithm="evaluate",
            file_name="evaluation",
            suffix="",
            needs_occurrences=True,
            takes_area=False,
            default_for=(WITH_NEW_MODEL,),
        ),
    )


def _target_options():
    return (
        Option("number", tr("At most"), "NUMBER", 20, 1, 100_000),
        Option(
            "area_share",
            tr("in the best"),
            "AREA_SHARE",
            5.0,
            0.1,
            99.0,
            decimals=1,
            unit=tr("% of area"),
            tip=tr("Targets are the connected parts of so much of the mapped area."),
        ),
        Option(
            "exclude",
            tr("Away from known ones"),
            "EXCLUDE",
            0.0,
            0.0,
            20_000.0,
            decimals=1,
            unit="km",
            nothing=tr("any distance"),
            tip=tr("For greenfield targets: ground this close to a known occurrence is left out."),
        ),
    )


def product(key):
    """Give the product of that key, or None if this version of the plugin has no such thing."""
    return next((each for each in all_products() if each.key == key), None)
