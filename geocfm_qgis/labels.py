"""What everything a user can set is called in QGIS: the same in panel, Processing and messages."""

from __future__ import annotations

from .translation import tr


def labels():
    """Give the label in QGIS of every option of the engine, by the option's name in job files."""
    return {
        "raster": tr("Layers"),
        "classes": tr("Classes"),
        "raster_crs": tr("Layer CRS"),
        "nodata": tr("No data"),
        "like": tr("Reference grid"),
        "crs": tr("CRS of the grid"),
        "resolution": tr("Cell size"),
        "extent": tr("Extent"),
        "aoi": tr("Area of interest"),
        "aoi_layer": tr("Area of interest"),
        "occurrences": tr("Occurrences"),
        "layer": tr("Occurrences"),
        "occurrences_crs": tr("Layer CRS"),
        "where": tr("Filter by field"),
        "x_column": tr("X field"),
        "y_column": tr("Y field"),
        "deduplicate": tr("One per cell"),
        "preset": tr("Preset"),
        "minutes": tr("Train for"),
        "iterations": tr("Iterations"),
        "seed": tr("Seed"),
        "device": tr("Compute on"),
        "window": tr("Window"),
        "tile": tr("Held-out tile"),
        "set": tr("Other settings"),
        "settings": tr("Other settings"),
        "checkpoint": tr("Trained model"),
        "points": tr("Points in each"),
        "draws": tr("Draws"),
        "solver": tr("Solver"),
        "steps": tr("Steps of the solver"),
        "baselines": tr("Methods to compare with"),
        "ensemble": tr("Networks"),
        "folds": tr("Cross-validation"),
        "effort": tr("Survey effort"),
        "ground": tr("Searched ground"),
        "positive_only": tr("Learn from known occurrences alone"),
        "skip_report": tr("Without a report"),
        "skip_importance": tr("Without the importance of layers"),
        "temperature": tr("Temperature"),
        "uncertainty": tr("Uncertainty"),
        "monte_carlo_error": tr("Monte-Carlo error"),
        "map": tr("Prospectivity"),
        "number": tr("Number of targets"),
        "area_share": tr("Best part of the area"),
        "threshold": tr("Least density"),
        "minimum_area": tr("Least area"),
        "exclude": tr("Away from known ones"),
        "smooth": tr("Smoothing"),
        "out": tr("Result"),
        "overwrite": tr("Replace results that are there"),
        "name": tr("Name"),
    }


def label(name):
    """Give the label of one option."""
    return labels()[name]


def label_with_unit(name, unit):
    """Give the label of a number that is written without its unit beside it."""
    return tr("{label} ({unit})").format(label=label(name), unit=unit)
