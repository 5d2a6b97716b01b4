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
    }
    return known.get(name, name) + comma + further
