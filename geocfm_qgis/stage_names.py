"""The engine's stages in the user's language."""

from .translation import tr


def stage_name(stage):
    """Give a stage as the engine names it in the user's language; one not known here as it is."""
    name, comma, further = stage.partition(",")
    known = {
        "Reading layers": tr("Reading layers"),
        "Training": tr("Training"),
        "Mapping": tr("Mapping"),
        "Drawing points": tr("Drawing points"),
        "Densities of the points": tr("Densities of the points"),
        "Reading the map": tr("Reading the map"),
        "Finding targets": tr("Finding targets"),
        "Outlining targets": tr("Outlining targets"),
        "Which layers matter": tr("Which layers matter"),
        "Asking which layers matter": tr("Asking which layers matter"),
        "Looking for what is unlike all seen before": tr("Looking for new ground"),
        "Noting what is seen": tr("Noting what the model has seen"),
        "Making the report": tr("Making the report"),
    }
    return known.get(name, name) + comma + further
