"""What a run can make of a model. A new product is one more entry here; the panel follows."""

from __future__ import annotations

from dataclasses import dataclass

from ..translation import tr

WITH_NEW_MODEL, WITH_LOADED_MODEL = "new", "loaded"


@dataclass(frozen=True)
class Option:
    """A whole number that the user may choose for a product."""

    key: str
    label: str
    parameter: str  # of the algorithm
    default: int
    least: int
    most: int


@dataclass(frozen=True)
class Product:
    """A file or folder that an algorithm makes from a model."""

    key: str
    title: str
    explanation: str
    summary: str  # within the line on the whole run; {region} and options are filled in
    algorithm: str
    file_name: str  # without the suffix
    suffix: str  # empty: a folder
    options: tuple[Option, ...] = ()
    needs_occurrences: bool = False
    takes_area: bool = True
    default_for: tuple[str, ...] = (WITH_NEW_MODEL, WITH_LOADED_MODEL)


def all_products():
    """Give the products in the order they are offered and made."""
    return (
        Product(
            key="prospectivity",
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
            key="samples",
            title=tr("Sampled points"),
            explanation=tr("Plausible occurrences drawn from the model, each draw for itself."),
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
            key="evaluation",
            title=tr("Evaluation"),
            explanation=tr(
                "How many known occurrences the best ground holds, on tiles kept apart."
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


def product(key):
    """Give the product of that key, or None if this version of the plugin has no such thing."""
    return next((each for each in all_products() if each.key == key), None)
