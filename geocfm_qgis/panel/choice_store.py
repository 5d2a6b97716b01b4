"""The panel's choices in the project file, so that a project opens as it was saved.

It may be a stranger's: what would be replaced, or written to another computer, is asked anew.
"""

import json
from dataclasses import replace

from ..runs.own_files import is_far
from .choices import STANDARD_FOLDER, Choices

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
        choices = Choices.from_dict(json.loads(text))
        results = replace(choices.results, overwrite=False)
        if is_far(results.folder, project):
            results = replace(results, folder=STANDARD_FOLDER)
        if is_far(choices.model.checkpoint, project):
            choices = replace(choices, model=replace(choices.model, checkpoint=""))
        return replace(choices, results=results)
    except (ValueError, TypeError, AttributeError):
        return None
