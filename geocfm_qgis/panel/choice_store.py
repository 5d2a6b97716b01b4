"""The panel's choices in the project file, so that a project opens as it was saved."""

import json

from .choices import Choices

SCOPE, KEY = "geocfm", "/panel"


def save_choices(project, choices):
    """Put the choices into the project; called while it is being written."""
    project.writeEntry(SCOPE, KEY, json.dumps(choices.to_dict()))


def load_choices(project):
    """Give the choices of the project, or None if there are none that can be read."""
    text, found = project.readEntry(SCOPE, KEY)
    if not found or not text:
        return None
    try:
        return Choices.from_dict(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        return None
