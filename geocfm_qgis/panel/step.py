"""What the four steps of the panel share: each tells its choices and its state at a glance."""

from dataclasses import dataclass

from qgis.PyQt.QtCore import pyqtSignal
from qgis.PyQt.QtWidgets import QWidget

READY, TO_DO, WRONG = "ready", "to do", "wrong"


@dataclass(frozen=True)
class StepState:
    """Ready, still to do, or wrong; and in a few words what is chosen or missing."""

    level: str
    text: str


class Step(QWidget):
    """A step: choices go in and out as plain data, and every change is told."""

    changed = pyqtSignal()

    def choices(self):
        """Give what is chosen, as one of the classes in choices.py."""
        raise NotImplementedError

    def set_choices(self, choices):
        """Show these choices, as far as the project still has what they name."""
        raise NotImplementedError

    def state(self):
        """Give the StepState to show beside the step's title."""
        raise NotImplementedError

    def problems(self):
        """Give a sentence with its remedy for all that keeps the run from working."""
        raise NotImplementedError
